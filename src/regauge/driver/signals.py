"""Waiting for changes and for time in one breath, on the clock that the driver was given."""

from __future__ import annotations

import asyncio

from regauge.base import Clock


class Signal:
    """Something that changes. Waiters wake at the next change after they looked; none is missed between two looks."""

    def __init__(self) -> None:
        self.version = 0
        self._waiters: dict[asyncio.Future[None], None] = {}

    def set(self) -> None:
        self.version += 1
        self.wake()

    def wake(self, _by: object = None) -> None:
        """All who wait look again, whether anything has changed or not."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def next(self) -> None:
        """Until the next change, or until somebody has all look again."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)

    async def wait(self, seen: int) -> int:
        """Come back with the present version once it is not `seen` any more."""
        while self.version == seen:
            await self.next()
        return self.version


async def wait_at_most(signal: Signal, seen: int, clock: Clock, duration_s: float) -> int:
    """The same, but come back after `duration_s` at the latest. Returns the present version."""
    if signal.version != seen:
        return signal.version
    timer = asyncio.ensure_future(clock.sleep(duration_s))
    timer.add_done_callback(signal.wake)
    try:
        while signal.version == seen and not timer.done():
            await signal.next()
    finally:
        timer.remove_done_callback(signal.wake)
        timer.cancel()
    return signal.version


class Rate:
    """A limit: `burst` times at once, then once every `period_s`."""

    def __init__(self, burst: int, period_s: float) -> None:
        self._period_s = period_s
        self._slack_s = (burst - 1) * period_s
        self._due_s = float("-inf")

    def pause_s(self, now_s: float) -> float:
        """Take the next turn: how long to wait for it, on the clock of `now_s`."""
        self._due_s = max(self._due_s, now_s - self._slack_s) + self._period_s
        return max(0.0, self._due_s - self._period_s - now_s)
