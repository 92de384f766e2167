"""One description of devices, from which both stacks are served. Frozen values; `config` reads them from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from regauge.base import Where
from regauge.cdi import ContainerEdits
from regauge.driver.fields import Fields

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
class CounterSet:
    """What several devices of one pool draw from, by name of the counter (KEP-4815)."""

    name: str
    counters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Draw:
    """What one device takes of a counter set while somebody has it."""

    set: CounterSet
    counters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Device:
    """One device: who serves it, what is known of it, what a container needs to use it.

    `attributes`, `capacity`, `policies` (of capacities that are given out in parts) and `taints` are JSON as a ResourceSlice
    holds them. `cdi_names` are qualified names in specs that somebody else wrote; they are given beside `edits`.
    `binding_conditions` are what must hold, as the claim's status says, before a Pod is bound, `binding_failures` what ends
    the wait for them; `binds_to_node` keeps the Pod to this node meanwhile.
    `link_group` is equal for devices with fast links between them.
    `part_of` names the described device of which this is a piece or a replica: who holds one of them holds that device.
    `health_file` is a file in which something else says that the device is broken: missing or empty is healthy, anything
    else is the reason why not.
    """

    name: str
    stack: Stack
    edits: ContainerEdits
    identity: Identity = Identity()
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    numa_node: int | None = None
    link_group: str = ""
    shared: bool = False
    health_file: str = ""
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    draws: tuple[Draw, ...] = ()
    cdi_names: tuple[str, ...] = ()
    taints: tuple[Mapping[str, Any], ...] = ()
    part_of: str = ""
    binding_conditions: tuple[str, ...] = ()
    binding_failures: tuple[str, ...] = ()
    binds_to_node: bool = False
    line: int | None = field(default=None, compare=False)  # where the file says it

    def marks(self) -> tuple[str, ...]:
        """What stays on record of the device, to know it again under another name or in other pieces."""
        values = self.identity.values()
        return (*values, part_mark(self.part_of)) if self.part_of else values

    def is_of(self, name: str, marks: Iterable[str]) -> bool:
        """Whether a device that was called so, with these marks on record, is this one, a part of it or its whole."""
        known = set(marks)
        return bool(known & {*self.marks(), part_mark(self.name)}) or name == self.part_of


def part_mark(name: str) -> str:
    """The mark of what is part of a device."""
    return f"part={name}"


@dataclass(frozen=True, slots=True)
class TaintPolicy:
    """When an unhealthy device is tainted in its slice, and when the taint goes. Without an effect it is not."""

    effect: str = "NoSchedule"
    after_s: float = 10.0
    clear_s: float = 30.0


@dataclass(frozen=True, slots=True)
class NetworkPool:
    """A pool of devices that several nodes reach over a network: its name, the labels that a node has that reaches it (none:
    all nodes), and the node whose driver publishes it."""

    name: str
    labels: tuple[tuple[str, str], ...]
    published_by: str


@dataclass(frozen=True, slots=True)
class Rule:
    """How what a kind finds becomes a device: `match` has patterns by fact, `fields` the rest as the file says it. One that
    is `constant` inserts no facts."""

    match: Mapping[str, tuple[str, ...]]
    fields: Fields
    skip: bool = False
    constant: bool = False


_NO_FIELDS = Fields({}, Where())


@dataclass(frozen=True, slots=True)
class Description:
    """What one driver process serves. `resource` is the extended resource of the device plugin stack, `driver` the DRA
    driver's name, `cdi_kind` the vendor/class of all its CDI devices, `metadata` whether containers get a file that tells
    what their devices are. `discover` and `rules` are for the kind: as the file says them, and as `settings` and `chosen`
    once the kind has read them. A `network` pool takes the place of the node's own."""

    driver: str
    resource: str
    cdi_kind: str
    devices: tuple[Device, ...]
    device_kind: str = "static"
    answer_cdi: bool = True
    answer_classic: bool = False
    pre_start: bool = False
    spread: bool = False
    health_taint: TaintPolicy = TaintPolicy()
    metadata: bool = False
    network: NetworkPool | None = None
    discover: Fields = field(default=_NO_FIELDS, compare=False)
    rules: tuple[Fields, ...] = field(default=(), compare=False)
    settings: object = None
    chosen: tuple[Rule, ...] = ()
    _by_name: Mapping[str, Device] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {device.name: device for device in self.devices})

    def device(self, name: str) -> Device | None:
        return self._by_name.get(name)
