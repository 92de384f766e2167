"""Taints from health: a device that is broken for a while is tainted in its slice, and untainted once it works for a while.

The two waits keep a device that flaps from moving pods about: each begins anew when the condition changes. A device that is
broken when it is first seen is tainted at once, so that a restart of the driver gives nothing broken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from regauge.base import Clock
from regauge.driver.description import TaintPolicy
from regauge.driver.kinds import Condition
from regauge.model import Object

TAINT_NAME = "unhealthy"


@dataclass(slots=True)
class _Seen:
    healthy: bool
    since_s: float
    taint: Object | None = None


class HealthTaints:
    """The taints of one driver's devices, by name."""

    def __init__(self, driver: str, clock: Clock) -> None:
        self._key = f"{driver}/{TAINT_NAME}"
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def update(self, conditions: Mapping[str, Condition], policy: TaintPolicy) -> dict[str, Object]:
        """The taints as of now. Call it each time that health was asked, with the conditions of all devices."""
        now_s = self._clock.monotonic_s()
        self._seen = {name: self._next(name, one.healthy, policy, now_s) for name, one in conditions.items()}
        if not policy.effect:
            return {}
        return {name: seen.taint for name, seen in self._seen.items() if seen.taint is not None}

    def _next(self, name: str, healthy: bool, policy: TaintPolicy, now_s: float) -> _Seen:
        seen = self._seen.get(name)
        if seen is None:
            return _Seen(healthy, now_s, None if healthy else self._taint(policy))
        if seen.healthy is not healthy:
            seen = _Seen(healthy, now_s, seen.taint)
        if seen.taint is None and not healthy and now_s - seen.since_s >= policy.after_s:
            seen.taint = self._taint(policy)
        if seen.taint is not None:
            if healthy and now_s - seen.since_s >= policy.clear_s:
                seen.taint = None
            elif seen.taint["effect"] != policy.effect:
                seen.taint = self._taint(policy)
        return seen

    def _taint(self, policy: TaintPolicy) -> Object:
        added = datetime.fromtimestamp(int(self._clock.now_s()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"key": self._key, "effect": policy.effect, "timeAdded": added}
