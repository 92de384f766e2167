"""PCI functions as sysfs lists them: accelerators, FPGAs, virtual functions, whole devices for virtual machines.

One that is bound to vfio-pci brings its VFIO nodes; for others a rule says which nodes a container gets, by facts such as
`{render}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar

from regauge.cdi import ContainerEdits, DeviceNode
from regauge.driver.description import Description, Device, Identity
from regauge.driver.fields import Fields
from regauge.driver.kinds.found import FoundKind
from regauge.driver.kinds.interface import Condition, Fact, Surroundings
from regauge.driver.notices import Notice
from regauge.driver.rules import Found, label
from regauge.driver.sysfs import EXAMPLE, UNKNOWN, Function, Sysfs, root_of

_GROUP = re.compile(r"/dev/vfio/[0-9]+")


class PciKind(FoundKind):
    """`DeviceKind` of PCI functions. `discover.root` is where the host's sys directory is."""

    FACTS: ClassVar[Mapping[str, Fact]] = {**EXAMPLE.facts(), "render": "renderD128", "card": "card0"}

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._sysfs = Sysfs(surroundings.files)
        self._told: frozenset[str] = frozenset()

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only("root")
        return root_of(discover)

    async def discover(self, description: Description) -> tuple[Device, ...]:
        """One device for each VFIO group: who opens a group's node has all its functions."""
        taken: dict[str, str] = {}
        left: list[Device] = []
        told: dict[str, str] = {}
        for device in await super().discover(description):
            groups = [node.path for node in device.edits.device_nodes if _GROUP.fullmatch(node.path)]
            other = next((taken[path] for path in groups if path in taken), "")
            if other:
                told[device.name] = (
                    f"it is in the IOMMU group of {other}: only one of them can be served; skip one by a rule"
                )
                continue
            left.append(device)
            taken.update(dict.fromkeys(groups, device.name))
        for name in told.keys() - self._told:
            self.around.tell(Notice("not-served", told[name], "warning", name))
        self._told = frozenset(told)
        return tuple(left)

    def find(self, description: Description) -> Iterable[Found]:
        self._sysfs = Sysfs(self.around.files, str(description.settings))
        for function in self._sysfs.functions():
            drm = self._sysfs.names(f"{self._sysfs.path(function.address)}/drm")
            nodes = {kind: next((name for name in drm if name.startswith(kind)), "") for kind in ("render", "card")}
            yield Found(
                name=label("pci", function.address),
                facts={**function.facts(), **nodes},
                identity=Identity(pci=function.address),
                attributes=function.attributes(),
                numa_node=None if function.numa_node == UNKNOWN else function.numa_node,
                edits=edits(function),
            )

    def condition(self, device: Device) -> Condition:
        fault = self._sysfs.fault(device.identity.pci) if device.identity.pci else ""
        return Condition(False, fault) if fault else super().condition(device)


def edits(function: Function) -> ContainerEdits:
    """What a container needs to find and use the function, as far as the function itself tells."""
    name = function.address.upper().replace(":", "_").replace(".", "_")
    nodes: tuple[DeviceNode, ...] = ()
    if function.driver == "vfio-pci" and function.iommu_group != UNKNOWN:
        paths = ("/dev/vfio/vfio", f"/dev/vfio/{function.iommu_group}")
        nodes = tuple(DeviceNode(path=path, permissions="rw") for path in paths)
    return ContainerEdits(env=(f"PCI_{name}={function.address}",), device_nodes=nodes)
