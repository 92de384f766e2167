"""The search: depth first, the first solution in upstream's order wins.

Source: allocateOne in structured/internal/*/allocator_*.go. Written as a loop over a stack of choices instead of a
recursion; `steps` counts what upstream counts as calls of allocateOne.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from regauge.allocator.capacity import wrap64
from regauge.allocator.guide import Guide, Key
from regauge.allocator.pools import COMPLETE, INCOMPLETE
from regauge.allocator.problem import ALL, Problem, RequestPlan, Slot, over_limit, over_total
from regauge.allocator.state import Aborted, Attempt
from regauge.allocator.table import Table
from regauge.model.resource import MAX_RESULTS_PER_CLAIM

Expired = Callable[[], bool]
"""Whether the time for an answer is over; once it is, it stays so. The one who asks has the clock."""
_BETWEEN_LOOKS = 64


def never() -> bool:
    """Time does not matter."""
    return False


class Verdict(Enum):
    """How a search ended: found, nothing there, or stopped by its budget or its time."""

    FOUND = "found"
    NOTHING = "nothing"
    STOPPED = "stopped"


class Failure(Enum):
    NONE = 0
    NO_DEVICE = 1
    OVER_LIMIT = 2  # more than 32 devices: goes back to the nearest choice of an alternative


@dataclass(slots=True)
class Picking:
    """The choice of one device of a slot; `next` is the first device not tried yet, `held` while one is chosen."""

    slot: Slot
    done: int
    next: int
    held: bool = False
    current: int = 0
    key: Key = None
    failed: set[tuple[int, int]] | None = None


@dataclass(slots=True)
class _Alternatives:
    """The choice of an alternative of a firstAvailable request."""

    plan: RequestPlan
    current: int = 0
    all_over_limit: bool = True


@dataclass(slots=True)
class _ClaimDone:
    """The end of a claim: exceeding the limit in a later claim is no reason to give this one's devices up."""


_Frame = Picking | _Alternatives | _ClaimDone


def admit(table: Table) -> dict[int, list[int]]:
    """What upstream checks before it searches; the devices of every slot that wants all. Raises `Aborted`."""
    everything: dict[int, list[int]] = {}
    whole = table.settings.quirk("counts-before-search")
    for claim in table.problem.claims:
        total = 0
        for request in claim.requests:
            if request.fault:
                raise Aborted(request.fault)
            least: int | None = None
            for slot in request.slots:
                if slot.fault:
                    raise Aborted(slot.fault)
                if slot.mode == ALL:
                    everything[slot.index] = _all_devices(table, slot, _judged_as(table, request, slot))
                size = len(everything[slot.index]) if slot.mode == ALL else slot.count
                least = size if least is None else min(least, size)
            text = "" if whole else over_limit(claim.label, request.name, least or 0, total)
            if text:
                raise Aborted(text)
            total += least or 0
        total = wrap64(total)
        if whole and (text := over_total(claim.label, total)):
            raise Aborted(text)
        if total < 0:
            raise Aborted("PANIC: runtime error: makeslice: cap out of range")
        if claim.fault:
            raise Aborted(claim.fault)
    return everything


def _judged_as(table: Table, request: RequestPlan, slot: Slot) -> Slot:
    """The slot whose selectors decide: its own, but for a mistake before 1.36."""
    first = request.slots[0]
    if slot.alternative == 1 and first.mode == ALL and table.settings.quirk("all-reuses-first-alternative"):
        return first
    return slot


def _all_devices(table: Table, slot: Slot, judged_as: Slot) -> list[int]:
    label = table.problem.claims[slot.claim].label
    devices: list[int] = []
    for place, pool in enumerate(table.view.pools):
        if pool.state != COMPLETE:
            trouble = "being updated" if pool.state == INCOMPLETE or pool.broken else "invalid"
            raise Aborted(
                f"claim {label}, request {slot.own_name}: asks for all devices, but resource pool {pool.id} is "
                f"currently {trouble}"
            )
        for device in table.in_pool(place):
            cell = table.cell(judged_as, device)
            if isinstance(cell, str):
                raise Aborted(cell)
            if cell and (not table.settings.consumable_capacity or _suffices(table, slot, device)):
                devices.append(device)
    return devices


def _suffices(table: Table, slot: Slot, device: int) -> bool:
    alone = table.alone(slot, device)
    if isinstance(alone, str):
        raise Aborted(alone)
    return alone


class Search:
    """One search on one node. `picks` of `attempt` and `selected` hold the solution when it is found."""

    def __init__(
        self, table: Table, attempt: Attempt, everything: dict[int, list[int]], guide: Guide | None = None
    ) -> None:
        self.problem: Problem = table.problem
        self.table = table
        self.attempt = attempt
        self.everything = everything
        self.steps = 0
        self.guide = guide
        self.count = len(table.view.devices)
        self.permutes = table.settings.stable or table.settings.quirk("share-twice-in-request")
        self.frames: list[_Frame] = []

    def need(self, slot: Slot) -> int:
        """How many devices the slot takes."""
        return len(self.everything.get(slot.index, ())) if slot.mode == ALL else slot.count

    def selected(self) -> dict[tuple[int, int], Slot]:
        """The alternative that was chosen for each firstAvailable request, by claim and request."""
        chosen = [one.plan.slots[one.current] for one in self.frames if isinstance(one, _Alternatives)]
        return {(slot.claim, slot.request): slot for slot in chosen}

    def run(self, budget: int, expired: Expired = never) -> Verdict:
        """Search until there is an answer, `budget` steps are done or the time is over. Raises `Aborted`."""
        claim, request, slot, done, start = 0, 0, None, 0, 0
        while True:
            self.steps += 1
            if self.steps > budget or (self.steps % _BETWEEN_LOOKS == 0 and expired()):
                return Verdict.STOPPED
            failure = Failure.NONE
            if claim >= len(self.problem.claims):
                return Verdict.FOUND
            plans = self.problem.claims[claim].requests
            if request >= len(plans):
                self.frames.append(_ClaimDone())
                claim, request, slot = claim + 1, 0, None
                continue
            if slot is None:
                slot, done, start = plans[request].slots[0], 0, 0
                if plans[request].prioritized:
                    self.frames.append(_Alternatives(plans[request]))
                    continue
            if slot.mode == ALL and not self.everything[slot.index]:
                failure = Failure.NO_DEVICE
            elif done >= self.need(slot):
                request, slot = request + 1, None
                continue
            elif self.need(slot) - done > MAX_RESULTS_PER_CLAIM - self.attempt.sizes[claim]:
                failure = Failure.OVER_LIMIT
            else:
                failure = self._open(slot, done, start)
            moved = self._go_on(failure)
            if moved is None:
                return Verdict.NOTHING
            claim, request, slot, done, start = moved

    def _go_on(self, failure: Failure) -> tuple[int, int, Slot, int, int] | None:
        """From the top of the stack to the next thing to try; None when everything was tried."""
        while self.frames:
            top = self.frames[-1]
            if isinstance(top, Picking):
                if top.held:
                    self._give_up(top)
                if failure is not Failure.OVER_LIMIT and self._pick(top):
                    slot = self._next_slot(top.slot)
                    return slot.claim, slot.request, slot, top.done + 1, 0 if self.permutes else top.next
                if failure is not Failure.OVER_LIMIT:
                    failure = Failure.NO_DEVICE
                self._close(top, over_limit=failure is Failure.OVER_LIMIT)
            elif isinstance(top, _Alternatives):
                slots = top.plan.slots
                top.all_over_limit = top.all_over_limit and failure is Failure.OVER_LIMIT
                top.current += 1
                if top.current < len(slots):
                    slot = slots[top.current]
                    return slot.claim, slot.request, slot, 0, 0
                failure = Failure.OVER_LIMIT if top.all_over_limit else Failure.NO_DEVICE
            else:
                failure = Failure.NO_DEVICE
            self.frames.pop()
        return None

    def _close(self, frame: Picking, *, over_limit: bool) -> None:
        """Everything that the frame could choose led nowhere."""
        if self.guide is not None and frame.key is not None:
            self.guide.dead[frame.key] = over_limit

    def _next_slot(self, slot: Slot) -> Slot:
        """The slot that the next device is for: the same one, but for a mistake before 1.36."""
        if slot.mode != ALL or not slot.alternative or not self.table.settings.quirk("all-forgets-alternative"):
            return slot
        return self.problem.claims[slot.claim].requests[slot.request].slots[0]

    def _open(self, slot: Slot, done: int, start: int) -> Failure:
        """Begin the choice of a device, unless it is known to lead nowhere."""
        guide = self.guide
        if guide is None or slot.mode == ALL:
            self.frames.append(Picking(slot, done, 0 if slot.mode == ALL else start))
            return Failure.NONE
        if guide.hopeless(slot, done, start):
            return Failure.NO_DEVICE
        key = guide.key(slot, done, start)
        over_limit = guide.dead.get(key)
        if over_limit is None:
            self.frames.append(Picking(slot, done, start, key=key, failed=set()))
            return Failure.NONE
        return Failure.OVER_LIMIT if over_limit else Failure.NO_DEVICE

    def _give_up(self, frame: Picking) -> None:
        self.attempt.take_back()
        frame.held = False
        if self.guide is not None and frame.failed is not None:
            frame.failed.add(self.guide.mark(frame.current))

    def _pick(self, frame: Picking) -> bool:
        """Choose the next possible device for the frame."""
        slot, attempt = frame.slot, self.attempt
        if slot.mode == ALL:
            tried, frame.next = frame.next, self.count
            if tried >= self.count:
                return False
            frame.held = attempt.take(slot, self.everything[slot.index][frame.done], frame.done, must=True)
            frame.next = self.count
            return frame.held
        cell, capacity = self.table.cell, self.table.settings.consumable_capacity
        barrier = self.table.view.barrier
        last = self.count if barrier is None else barrier[0]
        for device in range(frame.next, last):
            if attempt.busy(slot, device):
                continue
            answer = cell(slot, device)
            if answer is not True:
                if answer is False:
                    continue
                raise Aborted(str(answer))
            if frame.failed and self.guide is not None and self.guide.mark(device) in frame.failed:
                continue
            if capacity and not attempt.roomy(slot, device):
                continue
            if attempt.take(slot, device, frame.done, must=False):
                frame.next, frame.held, frame.current = device + 1, True, device
                return True
        if barrier is not None:
            raise Aborted(barrier[1])
        frame.next = self.count
        return False
