"""The devices as they are now: described, present, healthy or not, and owned by one stack each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from regauge.driver.claims import Assigned
from regauge.driver.description import Description, Device, Stack
from regauge.driver.kinds import Condition
from regauge.driver.signals import Signal
from regauge.model import Object

_HEALTHY = Condition()


class Fleet:
    """One loop reads and writes it, so every step sees it whole. `changed` tells those who advertise."""

    def __init__(self, description: Description, node: str) -> None:
        self.description = description
        self.node = node
        self.pool = description.network.name if description.network else node
        self.owners: dict[str, Stack] = {}
        self.leaving: dict[str, Stack] = {}
        self.retired: frozenset[str] = frozenset()
        self.conditions: dict[str, Condition] = {}
        self.taints: dict[str, Object] = {}
        self.changed = Signal()

    def assigned(self) -> Assigned:
        return Assigned(self.description, {**self.leaving, **self.owners}, self.pool)

    def serves(self, name: str, stack: Stack) -> bool:
        """Whether the stack may still hand out a device. One that leaves it is not advertised any more, but who chose it
        just before is served: the handover looks for holders afterwards."""
        return self.owners.get(name, self.leaving.get(name)) is stack

    def of(self, stack: Stack) -> tuple[Device, ...]:
        """The devices that a stack may advertise now, in the order of the description."""
        mine = (device for device in self.description.devices if self.owners.get(device.name) is stack)
        return tuple(self._tainted(device) for device in mine)

    def _tainted(self, device: Device) -> Device:
        taint = self.taints.get(device.name)
        return device if taint is None else replace(device, taints=(*device.taints, taint))

    def condition(self, name: str) -> Condition:
        return self.conditions.get(name, _HEALTHY)

    def describe(self, description: Description, present: tuple[Device, ...], retired: tuple[Device, ...] = ()) -> None:
        """Another description, with what is really there. `retired` are devices that it left out and somebody holds:
        they are known still, and belong to nobody who could advertise them."""
        self.description = replace(description, devices=(*present, *retired))
        self.retired = frozenset(device.name for device in retired)
        names = {device.name for device in self.description.devices}
        self.conditions = {name: found for name, found in self.conditions.items() if name in names}
        self.owners = {name: owner for name, owner in self.owners.items() if name in names - self.retired}
        self.changed.set()

    def give(self, owners: Mapping[str, Stack], leaving: Mapping[str, Stack] | None = None) -> None:
        """Another assignment; a device that is not in it belongs to nobody. `leaving`: whose those on their way were."""
        self.leaving = dict(leaving or {})
        if dict(owners) != self.owners:
            self.owners = dict(owners)
            self.changed.set()

    def observe(self, conditions: Mapping[str, Condition]) -> tuple[str, ...]:
        """What health says now. Returns the devices whose condition changed."""
        names = [device.name for device in self.description.devices]
        changed = tuple(name for name in names if conditions.get(name, _HEALTHY) != self.condition(name))
        self.conditions = dict(conditions)
        if changed:
            self.changed.set()
        return changed

    def taint(self, taints: Mapping[str, Object]) -> None:
        """Which devices are tainted now, beside the taints of their own."""
        if dict(taints) != self.taints:
            self.taints = dict(taints)
            self.changed.set()
