"""Faults as data: what goes wrong, where, and when. Nothing here does anything; `injector` decides when one hits.

When: so many seconds after it was planned, or at the n-th time that a named point is reached. Points are named at four
ports, and patterns (`*`, `?`, `[...]`) may stand for parts of a name:

    write ACTOR VERB KIND[/SUBRESOURCE] before|after     a write at the API server
    call NODE METHOD before|after                        a call of the kubelet to a driver
    file NODE PROCESS NAME before|after                  a file written or removed on a node
    timer NODE PROCESS                                   a wait that a process of a node begins

At a point whose name ends in `before` the thing has not happened yet, at `after` it has, and nobody has been told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache


class What(StrEnum):
    """Everything that can go wrong."""

    DRIVER_KILLED = "driver-killed"
    DRIVER_STOPPED = "driver-stopped"
    DRIVER_STARTED = "driver-started"
    DRIVER_HUNG = "driver-hung"
    DRIVER_SLOW = "driver-slow"
    DRIVER_FAILS = "driver-fails"
    KUBELET_KILLED = "kubelet-killed"
    NODE_DOWN = "node-down"
    NODE_UP = "node-up"
    NODE_REBOOTED = "node-rebooted"
    NODE_DELETED = "node-deleted"
    WRITES_FAIL = "writes-fail"
    WRITES_CONFLICT = "writes-conflict"
    WRITES_SLOW = "writes-slow"
    FILES_FAIL = "files-fail"
    TIMERS_LATE = "timers-late"
    WATCH_BROKEN = "watch-broken"
    CONTROLLERS_KILLED = "controllers-killed"
    SCHEDULER_KILLED = "scheduler-killed"
    DEVICE_UNHEALTHY = "device-unhealthy"
    DEVICE_VANISHED = "device-vanished"
    DEVICE_BACK = "device-back"
    SPEC_STALE = "spec-stale"
    SPEC_DELETED = "spec-deleted"
    SPEC_UNREADABLE = "spec-unreadable"
    STORE_COPIED = "store-copied"
    STORE_RESTORED = "store-restored"


LASTING: Mapping[What, str] = {
    What.DRIVER_HUNG: "call {node} *Resources before",
    What.DRIVER_SLOW: "call {node} *Resources before",
    What.DRIVER_FAILS: "call {node} *Resources before",
    What.WRITES_FAIL: "write {actor} * before",
    What.WRITES_CONFLICT: "write {actor} update * before",
    What.WRITES_SLOW: "write {actor} * after",
    What.FILES_FAIL: "file {node} * before",
    What.TIMERS_LATE: "timer {node} *",
    What.WATCH_BROKEN: "watch {node} *",
}
"""Faults that make what passes a point go wrong, and where they do so when nothing is said. All others happen once."""

MOST_REMEMBERED = 16_384
"""Points are passed far more often than there are points."""

OF_A_NODE = frozenset(
    what for what in What if what.partition("-")[0] in ("driver", "kubelet", "node", "device", "spec")
)
OF_A_DEVICE = frozenset({What.DEVICE_UNHEALTHY, What.DEVICE_VANISHED, What.DEVICE_BACK})


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    `node`, `device`, `actor` say where, as far as the kind needs it; `actor` is the writer as the story names it, `copy` the
    name of a copy of the store. `at` is a
    pattern of points and `occurrence` which time it is reached, counted from when the fault is planned; without `at` it is
    `after_s` seconds. `times`: how often a lasting fault hits, 0 for always. `lasts_s`: how long something is away (a killed
    process, by default a second; 0: it stays away), a call is slow, a timer late, or until when a lasting fault holds.
    """

    what: What
    node: str = "*"
    device: str = ""
    actor: str = "*"
    copy: str = ""
    at: str = ""
    occurrence: int = 1
    after_s: float = 0.0
    times: int = 1
    lasts_s: float = 1.0

    @property
    def lasting(self) -> bool:
        return self.what in LASTING

    @property
    def pattern(self) -> str:
        """The points that the fault waits for; empty for one that only waits for its time."""
        if self.at or not self.lasting:
            return self.at
        return LASTING[self.what].format(node=self.node, actor=self.actor)

    def matches(self, point: str) -> bool:
        return _matches(point, self.pattern)

    def __str__(self) -> str:
        where = " ".join(word for word in (self.node, self.device, self.actor, self.copy) if word and word != "*")
        when = f"at {self.at!r} #{self.occurrence}" if self.at else f"after {self.after_s:g} s"
        more = f" times {self.times}" if self.lasting else ""
        return f"{self.what} {where} {when}{more} for {self.lasts_s:g} s".replace("  ", " ")

    def at_once(self) -> Fault:
        """The same, now."""
        return replace(self, at="", after_s=0.0)


@lru_cache(MOST_REMEMBERED)
def _matches(point: str, pattern: str) -> bool:
    return fnmatchcase(point, pattern)
