"""The short way: what the search would do first, without being ready to take anything back.

For ordinary requests the first device that can be had is mostly the right one. If all can be served that way, this is the
search's own solution; if the first request finds too few devices, there is none; otherwise the search decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from regauge.allocator.bounds import CANDIDATES
from regauge.allocator.capacity import demand
from regauge.allocator.constraints import Match, MatchSets, State, state_of
from regauge.allocator.inventory import DeviceEntry
from regauge.allocator.outcome import Bound, NoFit
from regauge.allocator.pools import NodeView
from regauge.allocator.problem import EXACT_COUNT, ClaimPlan, Problem, Slot
from regauge.allocator.results import Chosen, Solution
from regauge.allocator.selecting import in_turn
from regauge.allocator.settings import Settings
from regauge.allocator.table import is_whole, keeping_away
from regauge.allocator.usage import PoolUsage
from regauge.allocator.values import UNKNOWN, Value, static_value
from regauge.model.resource import MAX_RESULTS_PER_CLAIM


def is_ordinary(problem: Problem) -> bool:
    """Whether the short way can be tried: numbers of devices only, no alternatives, nothing wrong with the claims."""
    if not _plain(problem.settings) or problem.fault:
        return False
    for claim in problem.claims:
        slots = [slot for request in claim.requests for slot in request.slots]
        if any(request.prioritized or not request.slots for request in claim.requests):
            return False
        if any(slot.mode != EXACT_COUNT or slot.admin or slot.count < 0 or slot.derived for slot in slots):
            return False
        if sum(slot.count for slot in slots) > MAX_RESULTS_PER_CLAIM:
            return False
    return True


def _plain(settings: Settings) -> bool:
    wrong = ("share-twice-in-request", "rechecks-wrong-device", "distinct-by-identity", "invalid-pools-end-search")
    return not settings.stable and not any(map(settings.quirk, wrong))


_Devices = Iterator[tuple[int, DeviceEntry | None]]


class Judge:
    """What a device is to one ordinary slot, by its own values: no matter what is in use or chosen."""

    def __init__(self, slot: Slot, settings: Settings) -> None:
        self._slot = slot
        self._settings = settings
        self._selector = in_turn([check.selector for check in slot.checks])
        self._multiple = not settings.basic

    def takes(self, entry: DeviceEntry) -> bool | None:
        """Whether the slot can take the device; None where an error is met."""
        slot, settings = self._slot, self._settings
        if entry.view.binding_conditions and not settings.binding_conditions:
            return False
        answer = self._selector.evaluate(entry, self._multiple)
        if answer is not True:
            return False if answer is False else None
        if settings.consumable_capacity and (slot.capacity is not None or not is_whole(entry)):
            wanted = demand(entry.capacities, slot.capacity, settings)
            if wanted.error or not wanted.fits({}, {}):
                return None if wanted.error else False
        return keeping_away(entry.view, slot, settings) is None


class Straight:
    """The short way for one ordinary problem, on any node whose view is plain and whose devices are not shared."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._judges = [Judge(slot, problem.settings) for slot in problem.slots]
        self._shortages: dict[tuple[int, int, int], NoFit] = {}

    def on(self, view: NodeView, held: tuple[PoolUsage, ...]) -> Solution | NoFit | None:
        """The answer the short way, None if the search has to decide. `held`: what is in use of each pool."""
        taken: set[int] = set()
        picks: list[Chosen] = []
        steps = 1
        for claim in self._problem.claims:
            states = [state_of(one, self._problem.settings) for one in claim.constraints]
            for request in claim.requests:
                slot = request.slots[0]
                free, equal = self._free(slot, view, held, taken), _all_equal(slot, states)
                found = self._equal(slot, claim, free) if equal else self._next(slot, claim, states, free)
                if found is None:
                    return None
                if len(found) < slot.count:
                    if taken or view.invalid or (slot.constraints and not equal):
                        return None
                    return self._short(slot, claim, len(found), steps)
                if equal and len(claim.requests) > 1:
                    self._settle(slot, claim, states, view.devices[found[0]])
                taken.update(found)
                picks += [Chosen(slot, device, False, ()) for device in found]
                steps += slot.count + 1
            steps += 1
        return Solution(tuple(picks), {}, steps)

    def _short(self, slot: Slot, claim: ClaimPlan, have: int, steps: int) -> NoFit:
        """The same object for nodes that lack as many devices."""
        key = (slot.index, have, steps)
        known = self._shortages.get(key)
        if known is None:
            bound = None if slot.constraints else Bound(claim.label, slot.name, CANDIDATES, slot.count, have)
            known = self._shortages[key] = NoFit(bound, steps)
        return known

    def _free(self, slot: Slot, view: NodeView, held: tuple[PoolUsage, ...], taken: set[int]) -> _Devices:
        """The devices that the slot can take by themselves; None in place of one where an error is met."""
        takes, place = self._judges[slot.index].takes, -1
        for pool, in_use in zip(view.pools, held, strict=True):
            whole = in_use.whole
            for entry in pool.slices:
                for number, device in enumerate(entry.view.spec.devices):
                    place += 1
                    if device.name in whole or place in taken:
                        continue
                    found = entry.device(number)
                    answer = takes(found)
                    if answer is not False:
                        yield place, found if answer else None

    def _next(self, slot: Slot, claim: ClaimPlan, states: list[State], free: _Devices) -> list[int] | None:
        """The first devices that fit to the ones before them, at most as many as wanted; None: an error is met."""
        found: list[int] = []
        if slot.count == 0:
            return found
        for place, entry in free:
            if entry is None:
                return None
            if not slot.constraints or self._held(slot, claim, states, entry):
                found.append(place)
                if len(found) == slot.count:
                    break
        return found

    def _equal(self, slot: Slot, claim: ClaimPlan, free: _Devices) -> list[int] | None:
        """The first devices that are equal in what has to match; fewer if there are not enough; None: an error is met.

        The search tries the combinations in the order of their first devices, so the earliest large enough group wins.
        """
        lists = self._problem.settings.list_attributes
        names = [claim.constraints[place].attribute for place in slot.constraints]
        groups: dict[tuple[Value | None, ...], list[int]] = {}
        first: list[int] | None = None
        for place, entry in free:
            if entry is None:
                return None
            values = tuple([static_value(entry, name, lists) for name in names])
            if None in values:
                continue
            if any(value is UNKNOWN or (value is not None and len(value.members) > 1) for value in values):
                return None
            group = groups.setdefault(values, [])
            group.append(place)
            first = first or group
            if len(first) == slot.count:
                return first
        enough = (group for group in groups.values() if len(group) >= slot.count)
        return next(enough, [])[: slot.count]

    def _held(self, slot: Slot, claim: ClaimPlan, states: list[State], entry: DeviceEntry) -> bool:
        """Whether the constraints take the device; then they know it."""
        name, lists = slot.parent or slot.own_name, self._problem.settings.list_attributes
        for done, place in enumerate(slot.constraints):
            value = static_value(entry, claim.constraints[place].attribute, lists)
            if value is None or not states[place].add(value, name):
                for earlier in reversed(slot.constraints[:done]):
                    states[earlier].remove(name)
                return False
        return True

    def _settle(self, slot: Slot, claim: ClaimPlan, states: list[State], entry: DeviceEntry) -> None:
        """Let the constraints know the devices of a slot, which are all equal to this one."""
        for _ in range(slot.count):
            self._held(slot, claim, states, entry)


def _all_equal(slot: Slot, states: list[State]) -> bool:
    """Whether the slot's devices have to be equal, and nothing else is asked of them together."""
    if slot.count == 0 or not slot.constraints:
        return False
    bound = [states[place] for place in slot.constraints]
    return all(isinstance(one, Match | MatchSets) and not one.stack for one in bound)
