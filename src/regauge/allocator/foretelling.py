"""How long the scheduler's own search takes, which knows no short cuts: its steps are counted without making them all.

A state that led nowhere once leads nowhere again, after as many steps: so the count of the first time is added, and a
search of 10^18 steps is counted in thousands of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from regauge.allocator.guide import Guide, Key, can_guide
from regauge.allocator.problem import ALL, Slot
from regauge.allocator.search import Failure, Picking, Search, Verdict, admit
from regauge.allocator.state import Aborted, Attempt
from regauge.allocator.table import Table

YES, POSSIBLE, UNLIKELY = "yes", "possible", "unlikely"
TIMEOUT_S = 10
GATE = "DRASchedulerFilterTimeout"
# What the reference program was measured to do in a second, on the worst and the best of its long searches.
SLOWEST, FASTEST = 100_000, 600_000
_SOON = 2_000
_PATIENCE = 20_000
_NO_LIMIT = 1 << 1_000
_UNITS = ((86_400 * 365, "years"), (86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))


@dataclass(frozen=True, slots=True)
class Timeout:
    """Whether the scheduler runs into the time limit of its filter on a node: `answer` is one of the words above.

    `steps` of its search were counted; `complete` if those are all. `limited` False: it has no such limit.
    """

    answer: str
    steps: int
    complete: bool
    limited: bool = True

    @property
    def text(self) -> str:
        """The warning as a sentence; "" where none is due."""
        if self.answer == UNLIKELY:
            return ""
        least = "" if self.complete else "more than "
        will = "will hit" if self.answer == YES else "may hit"
        what = f"{will} its filter timeout ({TIMEOUT_S} s) and report that instead of this answer"
        if not self.limited:
            what = f"has no filter timeout, as {GATE} is off, and does nothing else until it is done"
        return (
            f"kube-scheduler {what}: its search takes {least}{_rounded(self.steps)} steps, "
            f"{least}{_span(self.steps / FASTEST)} at {FASTEST:,} a second, "
            f"{least}{_span(self.steps / SLOWEST)} at {SLOWEST:,}"
        )


def foretell(table: Table, patience: int = _PATIENCE, soon: int = _SOON) -> Timeout:
    """Count the steps of upstream's search, with at most `patience` of our own. The first `soon` are simply made."""
    search: Search | None = None
    try:
        search = Search(table, Attempt(table), admit(table))
        guided = can_guide(table)
        verdict = search.run(soon if guided else patience)
        if verdict is Verdict.STOPPED and guided:
            attempt = Attempt(table)
            search = _Counting(table, attempt, search.everything, _Plain(table, attempt), patience)
            verdict = search.run(_NO_LIMIT)
    except _OutOfPatience:
        verdict = Verdict.STOPPED
    except Aborted:
        return _judged(search.steps if search is not None else 0, complete=True)
    return _judged(search.steps if search is not None else 0, complete=verdict is not Verdict.STOPPED)


def _judged(steps: int, *, complete: bool) -> Timeout:
    if steps > TIMEOUT_S * FASTEST:
        return Timeout(YES, steps, complete)
    if steps > TIMEOUT_S * SLOWEST or not complete:
        return Timeout(POSSIBLE, steps, complete)
    return Timeout(UNLIKELY, steps, complete)


class _OutOfPatience(Exception):
    """So many steps were made that the count is given up. It never leaves the room."""


class _Plain(Guide):
    """A guide that tells states apart and cuts nothing short."""

    def hopeless(self, slot: Slot, done: int, start: int) -> bool:
        return False


class _Counting(Search):
    """A search that adds the steps of a known dead end instead of making them again."""

    def __init__(
        self, table: Table, attempt: Attempt, everything: dict[int, list[int]], guide: Guide, patience: int
    ) -> None:
        super().__init__(table, attempt, everything, guide)
        self._lengths: dict[Key, int] = {}
        self._begun: list[int] = []
        self._plain = guide
        self._patience = patience

    def _open(self, slot: Slot, done: int, start: int) -> Failure:
        self._patience -= 1
        if self._patience < 0:
            raise _OutOfPatience
        if slot.mode == ALL:
            return super()._open(slot, done, start)
        key = self._plain.key(slot, done, start)
        over_limit = self._plain.dead.get(key)
        if over_limit is None:
            self._begun.append(self.steps)
            self.frames.append(Picking(slot, done, start, key=key))
            return Failure.NONE
        self.steps += self._lengths[key]
        return Failure.OVER_LIMIT if over_limit else Failure.NO_DEVICE

    def _close(self, frame: Picking, *, over_limit: bool) -> None:
        super()._close(frame, over_limit=over_limit)
        if frame.key is not None:
            self._lengths[frame.key] = self.steps - self._begun.pop()


def _rounded(steps: int) -> str:
    return f"{steps:,}" if steps < 10**12 else f"{float(steps):.1e}"


def _span(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds / size < 10**6 else f"{seconds / size:.0e} {unit}"
    return f"{seconds:.1f} seconds"
