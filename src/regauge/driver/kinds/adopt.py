"""Devices in CDI specs that somebody else wrote, such as a vendor's nvidia-ctk: served under the names that they have there.

A container gets the vendor's device by its own qualified name, and beside it one variable of ours, so that a claim has a spec
of its own to go by. What is written about the devices (identity, attributes) comes from rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from regauge.cdi import Catalog, ContainerEdits, Entry, Host, NoHostDevice, split_device
from regauge.cdi.directory import DEFAULT_DIRECTORIES, SpecDirectories
from regauge.driver.description import Description, Device, Identity
from regauge.driver.fields import Fields
from regauge.driver.kinds.found import FoundKind
from regauge.driver.kinds.interface import Condition, Fact, Surroundings
from regauge.driver.notices import Notice
from regauge.driver.parts import check_absolute
from regauge.driver.rules import Found, label
from regauge.driver.sysfs import ADDRESS

_UUID = re.compile(r"(?:[A-Za-z]{2,8}-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class _Settings:
    directories: tuple[str, ...] = DEFAULT_DIRECTORIES


class AdoptKind(FoundKind):
    """`DeviceKind` of other people's CDI devices. `discover.directories` are read, lowest priority first."""

    FACTS: ClassVar[Mapping[str, Fact]] = {
        "qualified": "nvidia.com/gpu=0",
        "vendor": "nvidia.com",
        "class": "gpu",
        "name": "0",
        "uuid": "GPU-3e4a6a70-0000-1111-2222-8b7a7a7a7a7a",
        "pci": "0000:3b:00.0",
        "node": "/dev/nvidia0",
        "file": "/etc/cdi/nvidia.yaml",
    }

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._specs = SpecDirectories(surroundings.files)
        self._told: frozenset[str] = frozenset()

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only("directories")
        directories = discover.texts("directories") or DEFAULT_DIRECTORIES
        for path in directories:
            check_absolute(discover, "directories", path)
        return _Settings(tuple(directories))

    async def discover(self, description: Description) -> tuple[Device, ...]:
        return self._once(await super().discover(description))

    def find(self, description: Description) -> Iterable[Found]:
        assert isinstance(description.settings, _Settings)
        if self._specs.paths != description.settings.directories:
            self._specs = SpecDirectories(self.around.files, description.settings.directories)
        for entry in self._specs.read().devices.values():
            vendor, class_, name = split_device(entry.name)
            if f"{vendor}/{class_}" != description.cdi_kind:  # our own specs stand there, too
                yield _found(entry, vendor, class_, name)

    async def health(self, devices: Iterable[Device]) -> Mapping[str, Condition]:
        catalog = self._specs.read()
        return {device.name: fault(device, catalog, self.around.host) or self.condition(device) for device in devices}

    def _once(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Each device under one name only: vendors list the same one by index, by UUID and in `all`."""
        catalog = self._specs.read()
        taken: list[tuple[str, frozenset[str]]] = []
        left: list[Device] = []
        told: dict[str, str] = {}
        for device in devices:
            nodes = _nodes(device, catalog)
            same = next((name for name, other in taken if nodes and (nodes <= other or nodes >= other)), "")
            if same:
                told[device.name] = f"{', '.join(device.cdi_names)} has the device nodes of {same}: write rules for one"
                continue
            left.append(device)
            if nodes:
                taken.append((device.name, nodes))
        for name in told.keys() - self._told:
            self.around.tell(Notice("not-served", told[name], "warning", name))
        self._told = frozenset(told)
        return tuple(left)


def fault(device: Device, catalog: Catalog, host: Host) -> Condition | None:
    """Why a container could not be started with the device's names in other people's specs, if so."""
    for name in device.cdi_names:
        why = catalog.why_not(name)
        if why is not None:
            return Condition(False, why)
        entry = catalog.devices[name]
        common = entry.file.spec.container_edits if entry.file.spec else ContainerEdits()
        for node in (*common.device_nodes, *entry.device.container_edits.device_nodes):
            seen = host.device(node.host_path or node.path)
            if isinstance(seen, NoHostDevice) and not node.type:
                return Condition(False, f"device node {node.host_path or node.path} of {name}: {seen.reason}")
    return None


def _nodes(device: Device, catalog: Catalog) -> frozenset[str]:
    entries = [catalog.devices[name] for name in device.cdi_names if name in catalog.devices]
    return frozenset(node.host_path or node.path for one in entries for node in one.device.container_edits.device_nodes)


def _found(entry: Entry, vendor: str, class_: str, name: str) -> Found:
    nodes = entry.device.container_edits.device_nodes
    uuid = name if _UUID.fullmatch(name) else ""
    pci = name.lower() if ADDRESS.fullmatch(name.lower()) else ""
    variable = re.sub(r"\W", "_", f"{class_}_{name}").upper()
    return Found(
        name=label(class_, name),
        facts={
            "qualified": entry.name,
            "vendor": vendor,
            "class": class_,
            "name": name,
            "uuid": uuid,
            "pci": pci,
            "node": (nodes[0].host_path or nodes[0].path) if nodes else "",
            "file": entry.file.path,
        },
        identity=Identity(uuid=uuid, pci=pci),
        edits=ContainerEdits(env=(f"CDI_{variable}={entry.name}",)),
        cdi_names=(entry.name,),
    )
