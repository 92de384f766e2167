"""The short way: what the search would do first, without being ready to take anything back.

For ordinary requests the first device that can be had is mostly the right one. If all can be served that way, this is the
search's own solution; if the first request finds too few devices, there is none; otherwise the search decides.
"""

from __future__ import annotations

from regauge.allocator.bounds import CANDIDATES
from regauge.allocator.constraints import State, state_of
from regauge.allocator.outcome import Bound, NoFit
from regauge.allocator.problem import EXACT_COUNT, ClaimPlan, Problem, Slot
from regauge.allocator.results import Chosen, Solution
from regauge.allocator.settings import Settings
from regauge.allocator.table import Table
from regauge.allocator.values import Value
from regauge.model.resource import MAX_RESULTS_PER_CLAIM


def is_ordinary(problem: Problem) -> bool:
    """Whether the short way can be tried: numbers of devices only, no alternatives, nothing wrong with the claims."""
    if not _plain(problem.settings) or problem.fault:
        return False
    for claim in problem.claims:
        slots = [slot for request in claim.requests for slot in request.slots]
        if any(request.prioritized or not request.slots for request in claim.requests):
            return False
        if any(slot.mode != EXACT_COUNT or slot.admin or slot.count < 0 for slot in slots):
            return False
        if sum(slot.count for slot in slots) > MAX_RESULTS_PER_CLAIM:
            return False
    return True


def _plain(settings: Settings) -> bool:
    wrong = ("share-twice-in-request", "rechecks-wrong-device", "distinct-by-identity", "invalid-pools-end-search")
    return not settings.stable and not any(map(settings.quirk, wrong))


def straight(table: Table) -> Solution | NoFit | None:
    """The answer the short way, None if the search has to decide. The problem must be ordinary, the view plain."""
    taken: set[int] = set()
    picks: list[Chosen] = []
    steps = 1
    for claim in table.problem.claims:
        states = [state_of(one, table.settings) for one in claim.constraints]
        for request in claim.requests:
            slot = request.slots[0]
            found = _first(table, slot, claim, states, taken)
            if found is None:
                return None
            if len(found) < slot.count:
                if taken or slot.constraints or table.view.invalid:
                    return None
                return NoFit(Bound(claim.label, slot.name, CANDIDATES, slot.count, len(found)), steps)
            taken.update(found)
            picks += [Chosen(slot, device, False, ()) for device in found]
            steps += slot.count + 1
        steps += 1
    return Solution(tuple(picks), {}, steps)


def _first(table: Table, slot: Slot, claim: ClaimPlan, states: list[State], taken: set[int]) -> list[int] | None:
    """The first devices that the slot can have, as many as it wants if there are; None where an error is met."""
    found: list[int] = []
    capacity = table.settings.consumable_capacity
    for device in range(len(table.view.devices)):
        if len(found) == slot.count:
            break
        if device in taken or table.in_use(device):
            continue
        cell = table.cell(slot, device)
        if cell is True and capacity:
            cell = table.room(slot, device)
        if cell is not True:
            if cell is False:
                continue
            return None
        if table.tainted(slot, device) is not None:
            continue
        if slot.constraints:
            held = _held(table, slot, device, claim, states)
            if held is None:
                return None
            if not held:
                continue
        found.append(device)
    return found


def _held(table: Table, slot: Slot, device: int, claim: ClaimPlan, states: list[State]) -> bool | None:
    """Whether the constraints take the device; None where an error is met."""
    name = slot.parent or slot.own_name
    for done, place in enumerate(slot.constraints):
        value = table.value(slot, device, claim.constraints[place].attribute)
        if isinstance(value, str):
            return None
        if not isinstance(value, Value) or not states[place].add(value, name):
            for earlier in reversed(slot.constraints[:done]):
                states[earlier].remove(name)
            return False
    return True
