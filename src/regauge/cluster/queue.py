"""Running controllers: a queue without duplicates per controller, growing delays after errors, and looking again later.

Runs on any asyncio loop. Deterministic: keys are handled in the order in which they came, delays have no jitter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from regauge.base import RegaugeError
from regauge.cluster.port import ClusterApi, Controller, Key
from regauge.kube import WatchEvent
from regauge.model import Kind

FIRST_DELAY_S = 0.005
LONGEST_DELAY_S = 1000.0

Report = Callable[[str, Key, RegaugeError], None]


def backoff_s(failures: int) -> float:
    """The delay after so many failures in a row: 5 ms, doubled each time, at most 1,000 s (client-go's limiter)."""
    return float(min(FIRST_DELAY_S * 2 ** min(failures - 1, 40), LONGEST_DELAY_S))


class ControllerRunner:
    """One controller on its queue. `start` subscribes, `run` works until cancelled, `stop` ends the subscription.

    Restart: a new runner learns everything again from the API. An error of `reconcile` that is a `RegaugeError` puts
    the key back; any other is a bug and ends `run`.
    """

    def __init__(self, api: ClusterApi, controller: Controller, report: Report | None = None) -> None:
        self.controller = controller
        self._api = api
        self._report = report
        self._queue: dict[Key, None] = {}
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Learn of every existing object and of every change from now on."""
        self._unsubscribe = self._api.subscribe(self.controller.watches, self._on_event)

    def _on_event(self, kind: Kind, event: WatchEvent) -> None:
        self.add(self.controller.keys(kind, event))

    def add(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._queue.setdefault(key)
        if self._queue:
            self._wake.set()

    @property
    def idle(self) -> bool:
        """Whether no key waits now (timers for later do not count)."""
        return not self._queue

    async def run(self) -> None:
        if self._unsubscribe is None:
            self.start()
        try:
            while True:
                await self._wake.wait()
                while self._queue:
                    self.step()
                    await asyncio.sleep(0)
                self._wake.clear()
        finally:
            self.stop()

    def step(self) -> None:
        """Bring the first key of the queue to its desired state."""
        key = next(iter(self._queue))
        del self._queue[key]
        try:
            again_s = self.controller.reconcile(key)
        except RegaugeError as error:
            self._failures[key] = self._failures.get(key, 0) + 1
            if self._report:
                self._report(self.controller.name, key, error)
            again_s = backoff_s(self._failures[key])
        else:
            self._failures.pop(key, None)
        if again_s is not None:
            self._later(key, again_s)

    def _later(self, key: Key, delay_s: float) -> None:
        """Look again after a delay; of two the earlier one holds."""
        loop = asyncio.get_running_loop()
        present = self._timers.get(key)
        if present is not None:
            if present.when() <= loop.time() + delay_s:
                return
            present.cancel()
        self._timers[key] = loop.call_later(delay_s, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add((key,))

    def stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
