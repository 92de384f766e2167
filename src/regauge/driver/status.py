"""Whether the driver lives and is ready, for probes.

Alive: its loop of health went round a short while ago, so neither the driver nor the kind's own code hangs. Ready: each stack
that has devices is known to the kubelet, and the slices are published.
"""

from __future__ import annotations

from collections.abc import Iterator

from regauge.base import Clock
from regauge.driver.description import Stack
from regauge.driver.notices import Notice, Tell
from regauge.driver.process import HEALTH_PERIOD_S, Driver

SILENT_LIMIT_S = 60.0 + HEALTH_PERIOD_S


class Status:
    """What is known from the notices of one driver. `hear` makes the `Tell` that it listens on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._registered: set[str] = set()

    def hear(self, tell: Tell) -> Tell:
        """The same `Tell`, listened to."""

        def told(notice: Notice) -> None:
            if notice.code == "registered":
                self._registered.add(notice.about)
            elif notice.code == "register-failed":
                self._registered.discard(notice.about)
            tell(notice)

        return told

    def ailing(self, driver: Driver) -> tuple[str, ...]:
        """Why the driver does not live; nothing when it does. One that is starting lives."""
        if driver.beat_s is None:
            return ()
        silent_s = self._clock.monotonic_s() - driver.beat_s
        return () if silent_s <= SILENT_LIMIT_S else (f"health was not asked for {silent_s:.0f} s",)

    def unready(self, driver: Driver) -> tuple[str, ...]:
        """Why the driver is not ready; nothing when it is."""
        if driver.beat_s is None:
            return ("it is starting",)
        return (*self.ailing(driver), *self._missing(driver))

    def _missing(self, driver: Driver) -> Iterator[str]:
        description, leads = driver.fleet.description, driver.lead.mine
        for stack, name in ((Stack.DEVICE_PLUGIN, description.resource), (Stack.DRA, description.driver)):
            served = leads or stack is Stack.DRA  # the rest is the business of the instance that leads
            if served and driver.fleet.of(stack) and name not in self._registered:
                yield f"the kubelet has not registered {name}"
        if (
            leads
            and driver.fleet.of(Stack.DRA)
            and driver.publisher is not None
            and not driver.publisher.settled.version
        ):
            yield "slices are not published"
