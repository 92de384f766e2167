"""Reasons why nothing can fit that need no search: each compares what some requests need with what is there at most.

Requests are looked at in order, and only up to the first one in which an error could be met: what lies behind it is
never reached if the requests before it cannot all be served, and an error in it must surface otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from regauge.allocator.outcome import Bound
from regauge.allocator.problem import ALL, MATCH, Constraint, Slot
from regauge.allocator.state import Attempt
from regauge.allocator.table import Table
from regauge.allocator.values import UNKNOWN, Value

CANDIDATES = "devices"
ANY = "matching devices, as it asks for all of them"
TOGETHER = "devices for these requests together"
EQUAL = "devices with the same value"
DISTINCT_VALUES = "different values"
COUNTERS = "devices within the shared counters"


@dataclass(frozen=True, slots=True)
class _Need:
    """A slot that must be served whatever alternatives are chosen, with the devices it could take."""

    slot: Slot
    count: int
    devices: tuple[int, ...]


def first_bound(table: Table, attempt: Attempt, everything: dict[int, list[int]]) -> Bound | None:
    """The first reason found, None if there is none or if an error could be met before it."""
    needs: list[_Need] = []
    for claim in table.problem.claims:
        for plan in claim.requests:
            found = [_candidates(table, attempt, slot, everything) for slot in plan.slots]
            if any(one is None for one in found):
                return None
            if plan.prioritized:
                continue
            slot = plan.slots[0]
            count = len(everything[slot.index]) if slot.mode == ALL else slot.count
            needs.append(_Need(slot, count, found[0] or ()))
            bound = _bound(table, attempt, needs)
            if bound is not None:
                return bound
    return None


def _candidates(table: Table, attempt: Attempt, slot: Slot, everything: dict[int, list[int]]) -> tuple[int, ...] | None:
    """The devices that the slot could take if it were alone. None: an error is among them."""
    devices = []
    wanted = everything[slot.index] if slot.mode == ALL else range(len(table.view.devices))
    constraints = table.problem.claims[slot.claim].constraints
    for device in wanted:
        if not slot.admin and table.in_use(device):
            continue
        cell = table.cell(slot, device)
        if isinstance(cell, str):
            return None
        if not cell:
            continue
        if table.settings.consumable_capacity and table.demand(slot, device).error:
            return None
        values = [table.value(slot, device, constraints[place].attribute) for place in slot.constraints]
        if any(isinstance(value, str) for value in values) or (slot.mode == ALL and None in values):
            return None
        if None not in values and admissible(table, attempt, slot, device):
            devices.append(device)
    if slot.mode == ALL and slot.constraints:
        return None
    return tuple(devices)


def admissible(table: Table, attempt: Attempt, slot: Slot, device: int) -> bool:
    """Whether nothing but the choice of other devices keeps a selectable device from the slot."""
    if not attempt.ready(device) or table.tainted(slot, device) is not None:
        return False
    if table.view.devices[device].consumes_any and attempt.counters.short(device) is not None:
        multiple = table.settings.consumable_capacity and table.view.devices[device].multiple
        if not (multiple and attempt.shared_already(device)):
            return False
    if not table.settings.consumable_capacity:
        return True
    return table.demand(slot, device).fits(table.used(device), {})


def _bound(table: Table, attempt: Attempt, needs: list[_Need]) -> Bound | None:
    """A reason that the last of `needs` adds."""
    last = needs[-1]
    if last.slot.mode == ALL and last.count == 0:
        return _said(table, last, ANY, 1, 0)
    if len(last.devices) < last.count:
        return _said(table, last, CANDIDATES, last.count, len(last.devices))
    exclusive = [need for need in needs if not need.slot.admin and not _sharing(table, need.devices)]
    if last in exclusive and len(exclusive) > 1:
        have = _matched([(need.count, need.devices) for need in exclusive])
        wanted = sum(need.count for need in exclusive)
        if have < wanted:
            return _said(table, last, TOGETHER, wanted, have)
    for place in last.slot.constraints:
        constraint = table.problem.claims[last.slot.claim].constraints[place]
        under = [one for one in needs if one.slot.claim == last.slot.claim and place in one.slot.constraints]
        bound = _constrained(table, constraint, under)
        if bound is not None:
            return bound
    return _counted(table, attempt, exclusive, last) if last in exclusive else None


def _said(table: Table, need: _Need, kind: str, wanted: int, have: int, detail: str = "") -> Bound:
    return Bound(table.problem.claims[need.slot.claim].label, need.slot.name, kind, wanted, have, detail)


def _sharing(table: Table, devices: Iterable[int]) -> bool:
    return table.settings.consumable_capacity and any(table.view.devices[device].multiple for device in devices)


def _constrained(table: Table, constraint: Constraint, needs: list[_Need]) -> Bound | None:
    last, shared = needs[-1], any(_sharing(table, need.devices) for need in needs)
    values = [
        {device: table.value(need.slot, device, constraint.attribute) for device in need.devices} for need in needs
    ]
    present = [value for row in values for value in row.values() if isinstance(value, Value)]
    if any(value is UNKNOWN for value in present):
        return None
    members = {(value.kind, member) for value in present for member in value.members}
    if constraint.kind != MATCH:
        wanted = sum(need.count for need in needs)
        if len(members) >= wanted:
            return None
        return _said(table, last, DISTINCT_VALUES, wanted, len(members), constraint.attribute)
    if sum(need.count for need in needs) <= 1:
        return None
    best = 0
    for kind, member in members:
        within = [
            (need.count, tuple(device for device, value in row.items() if _has(value, kind, member)))
            for need, row in zip(needs, values, strict=True)
        ]
        if shared or any(need.slot.admin for need in needs):
            served = sum(min(count, len(devices)) for count, devices in within)
        else:
            served = _matched(within)
        best = max(best, served)
        if best == sum(need.count for need in needs):
            return None
    return _said(table, last, EQUAL, sum(need.count for need in needs), best, constraint.attribute)


def _has(value: Value | str | None, kind: str, member: Hashable) -> bool:
    return isinstance(value, Value) and value.kind == kind and member in value.members


def _counted(table: Table, attempt: Attempt, needs: list[_Need], last: _Need) -> Bound | None:
    """How many devices the shared counters allow at most: for each counter set, the cheapest devices first."""
    wanted = sum(need.count for need in needs)
    groups: dict[tuple[int, str], set[int]] = {}
    free = set()
    for device in {device for need in needs for device in need.devices}:
        entry = table.view.devices[device]
        if entry.consumes:
            groups.setdefault((table.view.pool_of[device], entry.consumes[0][0][0]), set()).add(device)
        else:
            free.add(device)
    if not groups:
        return None
    have = len(free) + sum(_within(table, attempt, place, devices) for (place, _), devices in groups.items())
    return _said(table, last, COUNTERS, wanted, have) if have < wanted else None


def _within(table: Table, attempt: Attempt, place: int, devices: set[int]) -> int:
    available = attempt.counters.pool(place).available
    amounts = [dict(table.view.devices[device].consumes) for device in devices]
    most = len(devices)
    for key in amounts[0]:
        if key not in available or any(one.get(key, 0) < 0 for one in amounts):
            continue
        left, number = available[key], 0
        for amount in sorted(one.get(key, 0) for one in amounts):
            left -= amount
            if left < 0:
                break
            number += 1
        most = min(most, number)
    return most


def _matched(needs: Sequence[tuple[int, tuple[int, ...]]]) -> int:
    """How many of the needed devices can be given at once, no device twice (augmenting paths)."""
    counts: dict[tuple[int, ...], int] = {}
    for count, devices in needs:
        counts[devices] = counts.get(devices, 0) + min(count, len(devices))
    sets = list(counts)
    holder: dict[int, int] = {}

    def give(need: int, seen: set[int]) -> bool:
        for device in sets[need]:
            if device not in holder:
                holder[device] = need
                return True
        for device in sets[need]:
            if device not in seen:
                seen.add(device)
                if give(holder[device], seen):
                    holder[device] = need
                    return True
        return False

    given = 0
    for need, devices in enumerate(sets):
        free = [device for device in devices if device not in holder][: counts[devices]]
        holder.update(dict.fromkeys(free, need))
        wanted = min(counts[devices], len(devices)) - len(free)
        given += len(free)
        while wanted > 0 and give(need, set()):
            given += 1
            wanted -= 1
    return given
