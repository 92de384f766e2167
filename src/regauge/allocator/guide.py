"""What keeps a long search short without changing its answer.

A search that does not end soon is begun anew with a guide. The guide knows all cells of the node and puts devices that
nothing can tell apart into classes. It remembers states from which nothing was found, described only by what later
decisions can depend on: a state that looks the same has the same end. A state that ended without a solution was
searched to its end without meeting an error, so no error is lost either.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

from regauge.allocator.constraints import forgetful
from regauge.allocator.problem import ALL, Slot
from regauge.allocator.state import Attempt
from regauge.allocator.table import Table
from regauge.allocator.values import UNKNOWN
from regauge.model.resource import MAX_RESULTS_PER_CLAIM

Key = Hashable


def can_guide(table: Table) -> bool:
    """Whether the state of a search is all that decides its future: not where constraints forget or keep too much."""
    plans = table.problem.claims
    if table.settings.quirk("leaks-on-reject") and not table.view.plain:
        return False
    if table.settings.quirk("rechecks-wrong-device") or table.view.barrier is not None:
        return False
    wide = (one.wide for slot in table.problem.slots for one in (slot.capacity or {}).values())
    if table.settings.quirk("wide-requests-grow") and any(wide):
        return False
    return not any(forgetful(one, table.settings) for claim in plans for one in claim.constraints)


class Guide:
    """The classes of devices for one node and usage, and the states that are known to be dead ends."""

    def __init__(self, table: Table, attempt: Attempt) -> None:
        self.table = table
        self.attempt = attempt
        self.slots = table.problem.slots
        self.size = len(table.view.devices)
        self.dead: dict[Key, bool] = {}
        self._numbers: dict[Hashable, int] = {}
        self._later: dict[tuple[int, int], tuple[Slot, ...]] = {}
        self._reach: dict[tuple[int, int], list[bool]] = {}
        self._relevant: dict[tuple[int, int], tuple[int, ...]] = {}
        self._left: dict[int, list[int]] = {}
        self._counted: dict[tuple[int, int], frozenset[Hashable]] = {}
        described = [self._description(device) for device in range(self.size)]
        if self._order_matters:
            self.classes = list(range(self.size))
        else:
            self.classes = [self._number(one) for one in described]
        self._admin = any(slot.admin for slot in self.slots)
        self._counting = any(entry.consumes_any for entry in table.view.devices)

    def mark(self, device: int) -> tuple[int, int]:
        """The class of the device, and a number for what was chosen of it so far."""
        attempt = self.attempt
        chosen = attempt.chosen.get(device)
        if chosen is not None:
            return self.classes[device], self._number(tuple(sorted(chosen.items())))
        taken = attempt.taken[device]
        return self.classes[device], (-taken if self._admin else -min(taken, 1))

    def hopeless(self, slot: Slot, done: int, start: int) -> bool:
        """Whether there are too few devices from `start` on for the rest of the slot, and no error among them."""
        left = self._left.get(slot.index)
        if left is None:
            left = self._left[slot.index] = self._suffixes(slot)
        return 0 <= left[start] < slot.count - done

    def key(self, slot: Slot, done: int, start: int) -> Key:
        """What the search from here on depends on."""
        attempt, here = self.attempt, (slot.claim, slot.request)
        reach, usable = self._reachable(here), self._usable[slot.index]
        alike: list[tuple[int, int]] = []
        exact: list[tuple[int, tuple[int, int]]] = []
        for device in {pick.device for pick in attempt.picks}:
            if start and device >= start and usable[device]:
                exact.append((device, self.mark(device)))
            elif reach[device] or (not start and usable[device]):
                alike.append(self.mark(device))
        states = attempt.states[slot.claim]
        constraints = tuple(states[place].key() for place in self._constraints(slot))
        counters = self._counters(slot, start) if self._counting else ()
        return (
            slot.index,
            done,
            start,
            attempt.sizes[slot.claim],
            tuple(sorted(alike)),
            tuple(sorted(exact)),
            constraints,
            counters,
        )

    # -- devices

    def _description(self, device: int) -> Hashable:
        """All that the search can see of a device, for every slot."""
        entry, attempt, table = self.table.view.devices[device], self.attempt, self.table
        parts: list[Hashable] = [table.in_use(device), entry.multiple, attempt.ready(device)]
        for slot in self.slots:
            cell = table.cell(slot, device)
            parts.append(cell)
            if cell is not True:
                continue
            parts.append(table.tainted(slot, device) is None)
            if table.settings.consumable_capacity:
                wanted = table.demand(slot, device)
                parts.append((wanted.amounts, wanted.error, bool(wanted.refusal)))
            plan = table.problem.claims[slot.claim]
            parts.extend(table.value(slot, device, plan.constraints[place].attribute) for place in slot.constraints)
        if table.settings.consumable_capacity:
            parts.append(tuple(sorted(table.used(device).items())))
        if entry.consumes_any:
            groups = tuple((one.counter_set, one.compatibility_groups) for one in entry.view.consumes_counters)
            parts.append((table.view.pool_of[device], entry.consumes, groups, attempt.shared_already(device)))
        return tuple(parts)

    @cached_property
    def _order_matters(self) -> bool:
        """Whether swapping devices that look alike could change what is met first."""
        table, errors = self.table, False
        for slot in self.slots:
            constraints = table.problem.claims[slot.claim].constraints
            for device in range(self.size):
                cell = table.cell(slot, device)
                if cell is False:
                    continue
                wanted = table.settings.consumable_capacity and table.demand(slot, device).error
                errors = errors or isinstance(cell, str) or bool(wanted)
                for place in slot.constraints:
                    value = table.value(slot, device, constraints[place].attribute)
                    if value is UNKNOWN:
                        return True
                    errors = errors or isinstance(value, str)
        return errors and any(self._most(claim) > MAX_RESULTS_PER_CLAIM for claim in range(len(self.attempt.sizes)))

    def _most(self, claim: int) -> int:
        plans = self.table.problem.claims[claim].requests
        return sum(max((slot.count if slot.mode != ALL else self.size) for slot in plan.slots) for plan in plans)

    @cached_property
    def _usable(self) -> list[list[bool]]:
        """For each slot, the devices it might take."""
        cell, in_use = self.table.cell, self.table.in_use
        return [
            [cell(slot, device) is not False and (slot.admin or not in_use(device)) for device in range(self.size)]
            for slot in self.slots
        ]

    def _suffixes(self, slot: Slot) -> list[int]:
        """How many devices from each place on the slot might take; -1 where an error is among them."""
        left, usable = [0] * (self.size + 1), self._usable[slot.index]
        for device in range(self.size - 1, -1, -1):
            following = left[device + 1]
            if not usable[device]:
                left[device] = following
            elif following < 0 or self._errs(slot, device):
                left[device] = -1
            else:
                left[device] = following + self._possible(slot, device)
        return left

    def _errs(self, slot: Slot, device: int) -> bool:
        table, plan = self.table, self.table.problem.claims[slot.claim]
        if table.cell(slot, device) is not True:
            return True
        if table.settings.consumable_capacity and table.demand(slot, device).error:
            return True
        values = (table.value(slot, device, plan.constraints[place].attribute) for place in slot.constraints)
        return any(isinstance(value, str) for value in values)

    def _possible(self, slot: Slot, device: int) -> bool:
        table, plan = self.table, self.table.problem.claims[slot.claim]
        if table.tainted(slot, device) is not None or not self.attempt.ready(device):
            return False
        if table.settings.consumable_capacity and not table.demand(slot, device).fits(table.used(device), {}):
            return False
        values = (table.value(slot, device, plan.constraints[place].attribute) for place in slot.constraints)
        return all(value is not None for value in values)

    # -- what follows a place in the problem

    def _following(self, here: tuple[int, int]) -> tuple[Slot, ...]:
        found = self._later.get(here)
        if found is None:
            found = self._later[here] = tuple(slot for slot in self.slots if (slot.claim, slot.request) > here)
        return found

    def _reachable(self, here: tuple[int, int]) -> list[bool]:
        found = self._reach.get(here)
        if found is None:
            rows = [self._usable[slot.index] for slot in self._following(here)]
            found = [any(column) for column in zip(*rows, strict=True)] if rows else [False] * self.size
            self._reach[here] = found
        return found

    def _constraints(self, slot: Slot) -> tuple[int, ...]:
        """The claim's constraints that this slot or a later one of the claim is under."""
        key = (slot.index, 0)
        found = self._relevant.get(key)
        if found is None:
            later = (one for one in self._following((slot.claim, slot.request)) if one.claim == slot.claim)
            places = {*slot.constraints, *(place for one in later for place in one.constraints)}
            found = self._relevant[key] = tuple(sorted(places))
        return found

    def _counters(self, slot: Slot, start: int) -> Key:
        wanted = self._charged(slot, start)
        counters = self.attempt.counters
        return tuple(
            (place, *sorted((key, used) for key, used in pool.consumed.items() if used and (place, key) in wanted))
            for place, pool in sorted(counters.pools.items())
        ) + tuple((place, counters.groups_key(place)) for place in sorted(counters.grouped))

    def _charged(self, slot: Slot, start: int) -> frozenset[Hashable]:
        """The counters that devices charge which may still be taken."""
        key = (slot.index, start)
        found = self._counted.get(key)
        if found is None:
            reach, usable = self._reachable((slot.claim, slot.request)), self._usable[slot.index]
            found = self._counted[key] = frozenset(
                (self.table.view.pool_of[device], counter)
                for device, entry in enumerate(self.table.view.devices)
                if reach[device] or (device >= start and usable[device])
                for counter, _ in entry.consumes
            )
        return found

    def _number(self, thing: Hashable) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))
