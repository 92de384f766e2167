"""What sysfs says about PCI functions, read through the `Files` port below any root. Links are not followed by name: what
they would tell stands in `uevent` files and directories as well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regauge.base import Files
from regauge.driver.fields import Fields
from regauge.driver.parts import check_absolute

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PCIE_ROOT_ATTRIBUTE = "resource.kubernetes.io/pcieRoot"
UNKNOWN = -1
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_DEPTH_LIMIT = 32
_FUNCTIONS_LIMIT = 65_536


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function. `sriov` is "pf", "vf" or "none", `pf` a virtual function's parent; an unknown number is -1."""

    address: str
    vendor: str
    device: str
    subsystem_vendor: str
    subsystem_device: str
    class_: str
    driver: str
    numa_node: int
    iommu_group: int
    sriov: str
    pf: str
    vfs: int
    root: str

    def facts(self) -> dict[str, str | int | bool]:
        """By the names that rules use."""
        return {
            "pci": self.address,
            "vendor": self.vendor,
            "device": self.device,
            "subsystemVendor": self.subsystem_vendor,
            "subsystemDevice": self.subsystem_device,
            "class": self.class_,
            "driver": self.driver,
            "numaNode": self.numa_node,
            "iommuGroup": self.iommu_group,
            "sriov": self.sriov,
            "pf": self.pf,
            "vfs": self.vfs,
            "pcieRoot": self.root,
        }

    def attributes(self) -> dict[str, dict[str, str | int]]:
        """What is worth publishing; address and NUMA node are published with every device."""
        named: dict[str, dict[str, str | int]] = {
            "vendor": {"string": self.vendor},
            "device": {"string": self.device},
            "sriov": {"string": self.sriov},
        }
        if self.root:
            named[PCIE_ROOT_ATTRIBUTE] = {"string": self.root}
        if self.iommu_group != UNKNOWN:
            named["iommuGroup"] = {"int": self.iommu_group}
        return named


EXAMPLE = Function(
    "0000:3b:00.0", "10de", "2330", "10de", "16c1", "030200", "vfio-pci", 0, 17, "none", "", 0, "pci0000:3a"
)


def root_of(discover: Fields) -> str:
    """The directory below which sys, proc and dev are, from the field `root`; without a slash at its end."""
    root = discover.text("root", "/")
    check_absolute(discover, "root", root)
    return root.rstrip("/")


class Sysfs:
    """One look at the PCI functions of a machine."""

    def __init__(self, files: Files, root: str = "") -> None:
        self._files = files
        self._root = root
        self._bus = f"{root}/sys/bus/pci/devices"

    def functions(self) -> Iterator[Function]:
        """All functions in the order of their addresses. Raises `OSError` when sysfs cannot be listed at all."""
        groups, roots = self._iommu_groups(), self._roots()
        for address in self._files.names(self._bus)[:_FUNCTIONS_LIMIT]:
            if ADDRESS.fullmatch(address):
                yield self._function(address, groups, roots)

    def path(self, address: str) -> str:
        return f"{self._bus}/{address}"

    def text(self, path: str) -> str:
        """The content of a file without the blanks around it; empty when there is none."""
        try:
            return self._files.read(path).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def number(self, path: str) -> int:
        text = self.text(path)
        return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else UNKNOWN

    def names(self, path: str) -> list[str]:
        """The names in a directory; none when there is none."""
        try:
            return self._files.names(path)
        except OSError:
            return []

    def fault(self, address: str) -> str:
        """Why a function does not work, or empty text. One that fell off the bus answers every read with ones."""
        if not self._files.exists(self.path(address)):
            return f"{address} is gone from the bus"
        try:
            head = self._files.read(f"{self.path(address)}/config")[:4]
        except OSError:
            return ""
        return f"{address} does not answer on the bus" if head == b"\xff" * 4 else ""

    def _function(self, address: str, groups: Mapping[str, int], roots: Mapping[str, str]) -> Function:
        path = self.path(address)
        total = self.number(f"{path}/sriov_totalvfs")
        parent = self._uevent(f"{path}/physfn/uevent").get("PCI_SLOT_NAME", "")
        return Function(
            address=address,
            vendor=self._hex(f"{path}/vendor"),
            device=self._hex(f"{path}/device"),
            subsystem_vendor=self._hex(f"{path}/subsystem_vendor"),
            subsystem_device=self._hex(f"{path}/subsystem_device"),
            class_=self._hex(f"{path}/class"),
            driver=self._uevent(f"{path}/uevent").get("DRIVER", ""),
            numa_node=max(self.number(f"{path}/numa_node"), UNKNOWN),
            iommu_group=groups.get(address, UNKNOWN),
            sriov="vf" if parent else "pf" if total > 0 else "none",
            pf=parent,
            vfs=max(self.number(f"{path}/sriov_numvfs"), 0),
            root=roots.get(address, ""),
        )

    def _hex(self, path: str) -> str:
        return self.text(path).removeprefix("0x").lower()

    def _uevent(self, path: str) -> dict[str, str]:
        lines = (line.partition("=") for line in self.text(path).splitlines())
        return {name: value for name, _, value in lines}

    def _iommu_groups(self) -> dict[str, int]:
        base = f"{self._root}/sys/kernel/iommu_groups"
        return {
            address: int(group)
            for group in self.names(base)
            if group.isdecimal()
            for address in self.names(f"{base}/{group}/devices")
        }

    def _roots(self) -> dict[str, str]:
        """By address, the root complex below which a function is plugged in."""
        found: dict[str, str] = {}
        base = f"{self._root}/sys/devices"
        todo = [(f"{base}/{name}", name, 0) for name in self.names(base) if _ROOT.fullmatch(name)]
        while todo:
            path, root, depth = todo.pop()
            for name in self.names(path):
                if ADDRESS.fullmatch(name) and depth < _DEPTH_LIMIT and name not in found:
                    found[name] = root
                    todo.append((f"{path}/{name}", root, depth + 1))
        return found
