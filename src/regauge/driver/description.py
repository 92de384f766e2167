"""One description of devices, from which both stacks are served. Frozen values; `config` reads them from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from regauge.cdi import ContainerEdits

API_VERSION = "regauge.dev/v1alpha1"
KIND = "Devices"


class Stack(StrEnum):
    """Who gives a device to pods. Every device belongs to exactly one."""

    DEVICE_PLUGIN = "device-plugin"
    DRA = "dra"

    @property
    def other(self) -> Stack:
        return Stack.DRA if self is Stack.DEVICE_PLUGIN else Stack.DEVICE_PLUGIN


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes a device the same device whatever it is called. Empty parts are unknown."""

    uuid: str = ""
    pci: str = ""
    numbers: str = ""  # "major:minor" of its device node

    def parts(self) -> tuple[tuple[str, str], ...]:
        """The known parts as (name, value)."""
        named = (("uuid", self.uuid), ("pci", self.pci), ("device", self.numbers))
        return tuple((name, value) for name, value in named if value)

    def values(self) -> tuple[str, ...]:
        """The known parts as texts to keep and to compare."""
        return tuple(f"{name}={value}" for name, value in self.parts())


@dataclass(frozen=True, slots=True)
class Device:
    """One device: who serves it, what is known of it, what a container needs to use it.

    `attributes` and `capacity` are JSON as a ResourceSlice holds them. `health_file` is a file in which something else
    says that the device is broken: missing or empty is healthy, anything else is the reason why not.
    """

    name: str
    stack: Stack
    edits: ContainerEdits
    identity: Identity = Identity()
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    numa_node: int | None = None
    shared: bool = False
    health_file: str = ""
    line: int | None = field(default=None, compare=False)  # where the file says it


@dataclass(frozen=True, slots=True)
class Description:
    """What one driver process serves. `resource` is the extended resource of the device plugin stack, `driver` the DRA
    driver's name, `cdi_kind` the vendor/class of all its CDI devices."""

    driver: str
    resource: str
    cdi_kind: str
    devices: tuple[Device, ...]
    device_kind: str = "static"
    answer_cdi: bool = True
    answer_classic: bool = False
    pre_start: bool = False
    _by_name: Mapping[str, Device] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {device.name: device for device in self.devices})

    def device(self, name: str) -> Device | None:
        return self._by_name.get(name)
