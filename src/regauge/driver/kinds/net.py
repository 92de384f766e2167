"""Network interfaces: whole ones and SR-IOV virtual functions, moved into the container, with their RDMA nodes.

An interface that was moved is not in the host's list until the container ends; its PCI function is, so the device stays.
An interface that the node itself needs (it has a default route, or belongs to a bridge or bond) is never served.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec

from regauge.cdi import ContainerEdits, DeviceNode, NetDevice, NoHostDevice
from regauge.driver.description import API_VERSION, Description, Device, Identity
from regauge.driver.fields import Fields
from regauge.driver.kinds.found import FoundKind
from regauge.driver.kinds.interface import ClaimUse, Condition, Configs, Fact, Surroundings
from regauge.driver.reports import Network, Report
from regauge.driver.rules import Found, label
from regauge.driver.sysfs import EXAMPLE, UNKNOWN, Function, Sysfs, root_of

_NETWORK_CLASS = "02"
_RDMA_MANAGER = "/dev/infiniband/rdma_cm"
_UP = 1
InterfaceName = Annotated[str, msgspec.Meta(pattern=r"^[^\s/:]{1,15}$")]


class NetConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Opaque parameters: how the interface is called in the container."""

    interface_name: InterfaceName


@dataclass(frozen=True, slots=True)
class _Settings:
    root: str = ""
    move: bool = True


class NetKind(FoundKind):
    """`DeviceKind` of network interfaces. `discover.move: false` gives only the RDMA nodes and leaves the interface."""

    FACTS: ClassVar[Mapping[str, Fact]] = {
        **EXAMPLE.facts(),
        "interface": "eth1",
        "mac": "02:00:00:00:00:01",
        "mtu": 1500,
        "speed": 100_000,
        "state": "up",
        "rdma": "mlx5_1",
        "vf": 0,
    }
    CONFIGS: ClassVar[Configs] = {(API_VERSION, "NetConfig"): NetConfig}

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._settings = _Settings()
        self._sysfs = Sysfs(surroundings.files)
        self._seen: dict[str, tuple[Found, ...]] = {}

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only("root", "move")
        return _Settings(root_of(discover), discover.flag("move", True))

    def find(self, description: Description) -> Iterable[Found]:
        assert isinstance(description.settings, _Settings)
        if description.settings != self._settings:
            self._settings, self._seen = description.settings, {}
        self._sysfs = Sysfs(self.around.files, self._settings.root)
        needed = self._needed()
        seen: dict[str, tuple[Found, ...]] = {}
        physical: set[str] = set()
        for function in self._functions():
            names = self._interfaces(function)
            physical.update(names)
            free = tuple(self._found(name, function, len(names)) for name in names if name not in needed)
            now = free if names else self._seen.get(function.address, ())
            if now:
                seen[function.address] = now
            yield from now
        self._seen = seen
        for name in self._sysfs.names(self._class()):
            if name not in physical and name not in needed and name != "lo":
                yield self._found(name, None, 1)

    def condition(self, device: Device) -> Condition:
        fault = self._sysfs.fault(device.identity.pci) if device.identity.pci else ""
        names = [one.host_interface_name for one in device.edits.net_devices]
        for name in () if fault else names:
            path = f"{self._class()}/{name}"
            flags = self._sysfs.text(f"{path}/flags")
            if flags and int(flags, 16) & _UP and self._sysfs.text(f"{path}/carrier") == "0":
                fault = f"{name} has no carrier"
            elif not flags and not device.identity.pci:
                fault = f"there is no interface {name}"
        return Condition(False, fault) if fault else super().condition(device)

    async def prepare(self, device: Device, use: ClaimUse) -> ContainerEdits:
        """The interface under the name that the claim asks for, in place of the device's own."""
        wanted = next((one.interface_name for one in reversed(use.config) if isinstance(one, NetConfig)), "")
        if not wanted or not device.edits.net_devices:
            return ContainerEdits()
        host_name = device.edits.net_devices[0].host_interface_name
        return ContainerEdits(net_devices=(NetDevice(host_interface_name=host_name, name=wanted),))

    async def report(self, device: Device, use: ClaimUse) -> Report:
        """The interface as its container sees it, once it has moved there."""
        moved = device.edits.net_devices
        if not moved:
            return Report()
        wanted = next((one.interface_name for one in reversed(use.config) if isinstance(one, NetConfig)), "")
        mac = device.attributes.get("mac", {}).get("string", "")
        return Report(network=Network(wanted or moved[0].name, (), mac))

    def _functions(self) -> Iterator[Function]:
        return (one for one in self._sysfs.functions() if one.class_.startswith(_NETWORK_CLASS))

    def _interfaces(self, function: Function) -> list[str]:
        """Those of the function itself, and of a virtio device below it."""
        path = self._sysfs.path(function.address)
        below = [name for name in self._sysfs.names(path) if re.fullmatch(r"virtio[0-9]+", name)]
        places = [f"{path}/net", *(f"{path}/{name}/net" for name in below)]
        return [name for place in places for name in self._sysfs.names(place)]

    def _class(self) -> str:
        return f"{self._settings.root}/sys/class/net"

    def _needed(self) -> set[str]:
        """The interfaces that the node cannot do without."""
        routes = [line.split() for line in self._sysfs.text(f"{self._settings.root}/proc/net/route").splitlines()[1:]]
        needed = {route[0] for route in routes if len(route) > 7 and route[1] == route[7] == "00000000"}
        routes = [line.split() for line in self._sysfs.text(f"{self._settings.root}/proc/net/ipv6_route").splitlines()]
        needed |= {route[9] for route in routes if len(route) > 9 and route[0] == "0" * 32 and route[1] == "00"}
        enslaved = (name for name in self._sysfs.names(self._class()) if self._around(f"{name}/master"))
        return needed.union(enslaved)

    def _around(self, path: str) -> bool:
        return self.around.files.exists(f"{self._class()}/{path}")

    def _found(self, interface: str, function: Function | None, count: int) -> Found:
        path = f"{self._class()}/{interface}"
        rdma = self._sysfs.names(f"{self._sysfs.path(function.address)}/infiniband") if function else []
        facts: dict[str, Fact] = {name: "" if isinstance(value, str) else UNKNOWN for name, value in self.FACTS.items()}
        facts |= function.facts() if function else {}
        facts |= {
            "interface": interface,
            "mac": self._sysfs.text(f"{path}/address"),
            "mtu": self._sysfs.number(f"{path}/mtu"),
            "speed": self._sysfs.number(f"{path}/speed"),
            "state": self._sysfs.text(f"{path}/operstate"),
            "rdma": rdma[0] if rdma else "",
            "vf": self._index(function) if function else UNKNOWN,
        }
        alone = function is not None and count == 1
        return Found(
            name=label("net", function.address) if function and alone else label("net", interface),
            facts=facts,
            identity=Identity(pci=function.address) if function and alone else Identity(),
            attributes=_attributes(facts, function),
            numa_node=None if function is None or function.numa_node == UNKNOWN else function.numa_node,
            edits=self._edits(interface, function),
        )

    def _index(self, function: Function) -> int:
        """Which virtual function of its parent it is."""
        path = self._sysfs.path(function.pf)
        links = [name for name in self._sysfs.names(path) if name.startswith("virtfn")] if function.pf else []
        mine = f"PCI_SLOT_NAME={function.address}"
        found = [link[6:] for link in links if mine in self._sysfs.text(f"{path}/{link}/uevent").splitlines()]
        return int(found[0]) if found and found[0].isdecimal() else UNKNOWN

    def _edits(self, interface: str, function: Function | None) -> ContainerEdits:
        path = f"{self._sysfs.path(function.address)}/infiniband_verbs" if function else ""
        verbs = (
            [f"/dev/infiniband/{name}" for name in self._sysfs.names(path) if name.startswith("uverbs")] if path else []
        )
        if verbs and not isinstance(self.around.host.device(_RDMA_MANAGER), NoHostDevice):
            verbs.append(_RDMA_MANAGER)
        moved = (NetDevice(host_interface_name=interface, name=interface),) if self._settings.move else ()
        name = re.sub(r"\W", "_", interface).upper()
        return ContainerEdits(
            env=(f"NET_{name}={function.address if function else interface}",),
            device_nodes=tuple(DeviceNode(path=node, permissions="rw") for node in verbs),
            net_devices=moved,
        )


def _attributes(facts: Mapping[str, Fact], function: Function | None) -> dict[str, dict[str, Any]]:
    named: dict[str, dict[str, Any]] = {**function.attributes()} if function else {}
    named["interface"] = {"string": facts["interface"]}
    if facts["mac"]:
        named["mac"] = {"string": facts["mac"]}
    for name in ("mtu", "speed"):
        if facts[name] != UNKNOWN:
            named[name] = {"int": facts[name]}
    named["rdma"] = {"bool": bool(facts["rdma"])}
    return named
