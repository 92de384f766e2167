"""Decides when a planned fault hits. One injector per world; the ports ask it at every point that they pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regauge.base import Clock
from regauge.cluster import Killed
from regauge.rehearsal.faults import Fault

LOG_LENGTH = 10_000

Act = Callable[[Fault, str], None]
"""Carries a fault out that happens once. Told where it was met, or "" at its time. May raise `Killed` at a point."""

Turn = Callable[[int], bool]
"""Told the number of a way whose first fault is due. Says whether this process goes that way."""


@dataclass(slots=True)
class _Planned:
    fault: Fault
    from_s: float
    way: int | None = None
    reached: int = 0
    hits: int = 0


class Injector:
    """Faults that are planned, and the note of what happened when. `act` carries out what happens once.

    Faults may belong to a way. Ways are the same until the first fault of one is due. Then `turn` is asked: where the
    answer is yes, the faults of all other ways are dropped, else those of this one.
    """

    def __init__(self, clock: Clock, act: Act) -> None:
        self._clock = clock
        self._act = act
        self._planned: list[_Planned] = []
        self._way: int | None = None
        self._others: set[int] = set()
        self.turn: Turn = lambda _: True
        self._dead: set[str] = set()
        self.log: list[tuple[float, str]] = []

    def plan(self, fault: Fault, way: int | None = None) -> None:
        """The fault counts from now."""
        if fault.lasting or fault.at:
            self._planned.append(_Planned(fault, self._clock.monotonic_s() + fault.after_s, way))
        elif self._goes(way):
            self._carry_out(fault, "")

    def _goes(self, way: int | None) -> bool:
        """Whether a fault that is due happens here."""
        if way is None or way == self._way:
            return True
        if self._way is not None or way in self._others:
            return False
        if self.turn(way):
            self._way = way
        else:
            self._others.add(way)
        self._planned = [one for one in self._planned if one.way is None or (one.way == way) == (self._way == way)]
        return self._way == way

    def clear(self) -> None:
        """Nothing more goes wrong."""
        self._planned.clear()

    @property
    def quiet(self) -> bool:
        return not self._planned

    def note(self, text: str) -> None:
        if len(self.log) < LOG_LENGTH:
            self.log.append((self._clock.monotonic_s(), text))

    def _carry_out(self, fault: Fault, point: str) -> None:
        self.note(f"{fault.what} {fault.node} {fault.device}".strip() + (f" at {point}" if point else ""))
        self._act(fault, point)

    # -- processes that are dead reach nothing any more

    def bury(self, process: str) -> None:
        self._dead.add(process)

    def raise_up(self, process: str) -> None:
        self._dead.discard(process)

    def check_alive(self, process: str) -> None:
        """Raises `Killed` in what is left of a process that was killed."""
        if process in self._dead:
            raise Killed(f"{process} was killed")

    # -- points

    def reach(self, point: str) -> Fault | None:
        """A point is passed. The lasting fault that makes it go wrong, if any; what happens once is carried out here.

        Raises `Killed` when that is the death of whoever passes.
        """
        if not self._planned:
            return None
        hit: Fault | None = None
        due: list[Fault] = []
        now_s = self._clock.monotonic_s()
        for planned in tuple(self._planned):
            if self._is_over(planned):
                self._drop(planned)
            elif now_s >= planned.from_s and self._hits(planned, point) and self._goes(planned.way):
                if planned.fault.lasting:
                    hit = hit or planned.fault
                else:
                    due.append(planned.fault)
                    self._drop(planned)
        if hit is not None:
            self.note(f"{hit.what} at {point}")
        for fault in due:
            self._carry_out(fault, point)
        return hit

    def _drop(self, planned: _Planned) -> None:
        self._planned = [one for one in self._planned if one is not planned]

    def _hits(self, planned: _Planned, point: str) -> bool:
        fault = planned.fault
        if not fault.matches(point):
            return False
        planned.reached += 1
        if planned.reached < fault.occurrence:
            return False
        planned.hits += 1
        return True

    def _is_over(self, planned: _Planned) -> bool:
        fault = planned.fault
        return fault.lasting and bool(fault.times) and planned.hits >= fault.times
