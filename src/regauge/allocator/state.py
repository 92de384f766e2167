"""The devices chosen so far in one attempt, and whether one more may be.

Source: allocateDevice in structured/internal/*/allocator_*.go, in its order of checks.
"""

from __future__ import annotations

from typing import NamedTuple

from regauge.allocator.capacity import Demand, demand
from regauge.allocator.constraints import State, state_of
from regauge.allocator.counters import Counters, Groups
from regauge.allocator.problem import DISTINCT, Slot
from regauge.allocator.table import Table
from regauge.allocator.values import Value
from regauge.model import Quantity

_NODE_FEATURE = "DRAOptionalNodeOperations"
_NANO = -9


class Aborted(Exception):
    """The whole attempt ends with an error. It never leaves the room."""


class Pick(NamedTuple):
    """A chosen device with what is needed to take it back."""

    slot: Slot
    device: int
    shared: bool
    consumed: tuple[tuple[str, Quantity], ...]
    counters: bool
    groups: dict[str, Groups] | None
    chosen_before: dict[str, int] | None


class Attempt:
    """The mutable state of one search on one node."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.settings = table.settings
        view = table.view
        self.view = view
        self.devices = view.devices
        self.counters = Counters(view, table.usage, table.settings)
        self.taken = [0] * len(view.devices)
        self.chosen: dict[int, dict[str, int]] = {}
        self.states: list[list[State]] = [
            [state_of(one, table.settings) for one in claim.constraints] for claim in table.problem.claims
        ]
        self.sizes = [0] * len(table.problem.claims)
        self.picks: list[Pick] = []
        self._by_identity = table.settings.quirk("distinct-by-identity")
        self._wrong_device = table.settings.quirk("rechecks-wrong-device")
        self._grows = table.settings.quirk("wide-requests-grow")
        self.grown: dict[int, dict[str, Quantity]] = {}
        self.leaks = table.settings.quirk("leaks-on-reject")

    # -- questions

    def busy(self, slot: Slot, device: int) -> bool:
        """Whether the device is in use, as far as that matters for the slot."""
        if slot.admin:
            return bool(self.taken[device] >> slot.claim & 1)
        return self.taken[device] != 0 or self.table.in_use(device)

    def roomy(self, slot: Slot, device: int) -> bool:
        """Whether the device's capacities suffice, beside what is used and chosen. Raises `Aborted`."""
        chosen = self.chosen.get(device)
        if chosen is not None or slot.index in self.grown:
            return self._roomy_beside(slot, device, chosen or {})
        room = self.table.room(slot, device)
        if isinstance(room, str):
            raise Aborted(room)
        return room

    def _roomy_beside(self, slot: Slot, device: int, chosen: dict[str, int]) -> bool:
        wanted, used = self._demand(slot, device), self.table.used(device)
        if wanted.error:
            raise Aborted(self.table.capacity_error(slot, str(self.devices[device].id), wanted))
        if self._grows and wanted.lent and not wanted.refusal:
            return self._looked_at(slot, wanted, used, chosen)
        return wanted.fits(used, chosen)

    def _demand(self, slot: Slot, device: int) -> Demand:
        if slot.index not in self.grown:
            return self.table.demand(slot, device)
        return demand(self.devices[device].capacities, self.grown[slot.index], self.settings)

    def _looked_at(self, slot: Slot, wanted: Demand, used: dict[str, int], chosen: dict[str, int]) -> bool:
        """The look at a device as before 1.37: it adds what was chosen to the claim's own quantity, for good."""
        for name, amount, limit in wanted.amounts:
            if name in wanted.lent and name in chosen and name not in used:
                quantities = self.grown.setdefault(slot.index, dict(slot.capacity or {}))
                quantities[name] = quantities[name].add(Quantity(chosen[name], _NANO))
            if amount + used.get(name, 0) + chosen.get(name, 0) > limit:
                return False
        return True

    def settled(self, pick: Pick) -> tuple[tuple[str, Quantity], ...]:
        """What the pick consumes in the end."""
        lent = self.table.demand(pick.slot, pick.device).lent if pick.slot.index in self.grown else ()
        return tuple((name, self.grown[pick.slot.index][name] if name in lent else one) for name, one in pick.consumed)

    # -- changes

    def take(self, slot: Slot, device: int, done: int, must: bool) -> bool:
        """Choose a selectable device for the slot, which has `done` devices, if everything else allows it.

        `must`: it is this device or none. Raises `Aborted`.
        """
        entry = self.devices[device]
        multiple = self.settings.consumable_capacity and entry.multiple
        if ((slot.admin and not multiple) or not slot.admin) and self.busy(slot, device):
            return False
        if not self.ready(device):
            return False
        charged, groups = False, None
        if entry.consumes_any and not (multiple and self.shared_already(device)):
            if self.settings.compatibility_groups:
                groups = self.counters.join(device)
                if groups is None:
                    return False
            if not self.counters.take(device):
                if groups is not None:
                    self.counters.leave(device, groups)
                return False
            charged = True
        if self.table.tainted(slot, device) is None and self._constrain(slot, device, must):
            if self._roomy_still(slot, device, done):
                self._consume(slot, device, multiple, charged, groups)
                return True
            if self.leaks:
                self.taken[device] |= 0 if multiple else 1 << slot.claim
                return False
            self._relax(slot, len(slot.constraints))
        if charged and not self.leaks:
            self.counters.give_back(device)
        if groups is not None:
            self.counters.leave(device, groups)
        return False

    def take_back(self) -> None:
        """Undo the last `take`."""
        pick = self.picks.pop()
        slot, device = pick.slot, pick.device
        self.sizes[slot.claim] -= 1
        if pick.shared:
            if self.leaks or slot.index in self.grown:
                self._forget(pick)
            elif pick.chosen_before is None:
                del self.chosen[device]
            else:
                self.chosen[device] = pick.chosen_before
        else:
            self.taken[device] &= ~(1 << slot.claim)
        self._relax(slot, len(slot.constraints))
        if pick.groups is not None:
            self.counters.leave(device, pick.groups)
        if pick.counters and not (pick.shared and self.leaks):
            self.counters.give_back(device)

    def _forget(self, pick: Pick) -> None:
        """Take a share back as before 1.36: whoever consumed nothing stays, and when nothing is left, all are gone."""
        if self.leaks and not pick.consumed:
            return
        amounts = {name: amount for name, amount, _ in self._demand(pick.slot, pick.device).amounts}
        left = {name: value - amounts.get(name, 0) for name, value in self.chosen[pick.device].items()}
        if any(left.values()):
            self.chosen[pick.device] = left
        elif not self.leaks and pick.chosen_before is not None:
            self.chosen[pick.device] = {}
        else:
            del self.chosen[pick.device]

    def ready(self, device: int) -> bool:
        """Whether gates and node let the device be allocated at all."""
        if self.devices[device].consumes_any and not self.settings.partitionable:
            return False
        if not self.devices[device].slice.view.spec.skip_node_operations or self.settings.variant != "experimental":
            return True
        if self.settings.quirk("skip-operations-unknown"):
            return True
        features = self.view.node.status.declared_features
        return self.settings.optional_node_operations and _NODE_FEATURE in features

    def shared_already(self, device: int) -> bool:
        """Whether the device has a share already, so that a further one does not pay its counters again."""
        held, name = self.table.held[self.view.pool_of[device]], self.devices[device].name
        if self.settings.quirk("shares-always-pay"):
            return False
        if held.consumed(name) is not None or device in self.chosen:
            return True
        return held.shared(name) and not self.settings.quirk("plain-shares-pay-counters")

    def _constrain(self, slot: Slot, device: int, must: bool) -> bool:
        states, plan = self.states[slot.claim], self.table.problem.claims[slot.claim]
        for done, place in enumerate(slot.constraints):
            value = self.table.value(slot, device, plan.constraints[place].attribute)
            if isinstance(value, Value) and plan.constraints[place].kind == DISTINCT and self._by_identity:
                value = Value(value.kind, frozenset((device,)))
            if isinstance(value, Value) and states[place].add(value, slot.parent or slot.own_name):
                continue
            self._relax(slot, done)
            if isinstance(value, str):
                raise Aborted(value)
            if must:
                raise Aborted(
                    f"claim {plan.label}, request {slot.own_name}: cannot add device {self.devices[device].id} "
                    "because a claim constraint would not be satisfied"
                )
            return False
        return True

    def _relax(self, slot: Slot, count: int) -> None:
        states = self.states[slot.claim]
        for place in reversed(slot.constraints[:count]):
            states[place].remove(slot.parent or slot.own_name)

    def _roomy_still(self, slot: Slot, device: int, done: int) -> bool:
        """The second look at the capacities, which matters where the first one was not taken."""
        if not self.settings.consumable_capacity:
            return True
        if not self._wrong_device:
            return self.roomy(slot, device)
        siblings = self.devices[device].slice.devices
        if done >= len(siblings):
            text = f"index out of range [{done}] with length {len(siblings)}"
            raise Aborted(f"PANIC: runtime error: {text}")
        other = device - siblings.index(self.devices[device]) + done
        try:
            return self.roomy(slot, other)
        except Aborted:
            return False

    def _consume(
        self, slot: Slot, device: int, multiple: bool, charged: bool, groups: dict[str, Groups] | None
    ) -> None:
        before: dict[str, int] | None = None
        consumed: tuple[tuple[str, Quantity], ...] = ()
        if multiple:
            wanted, before = self._demand(slot, device), self.chosen.get(device)
            now = dict(before or {})
            for name, amount, _ in wanted.amounts:
                now[name] = now.get(name, 0) + amount
            self.chosen[device] = now
            consumed = wanted.quantities
        else:
            self.taken[device] |= 1 << slot.claim
        self.sizes[slot.claim] += 1
        self.picks.append(Pick(slot, device, multiple, consumed, charged, groups, before))
