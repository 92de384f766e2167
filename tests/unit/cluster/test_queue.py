"""The runner of controllers: no duplicates, growing delays, looking again, bugs that are not swallowed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from regauge.base import TransientError
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.port import Key
from regauge.cluster.queue import ControllerRunner, backoff_s
from regauge.kube import WatchEvent
from regauge.model import Kind
from regauge.model.kinds import CONFIG_MAP


class Notes:
    """A controller that notes when it was asked about what, and does as it is told."""

    name = "notes"
    watches = (CONFIG_MAP,)

    def __init__(self, clock: VirtualClock, do: Callable[[Key], float | None]) -> None:
        self.seen: list[tuple[float, str]] = []
        self._clock = clock
        self._do = do

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        return ((event.object["metadata"]["namespace"], event.object["metadata"]["name"]),)

    def reconcile(self, key: Key) -> float | None:
        self.seen.append((round(self._clock.monotonic_s(), 3), key[1]))
        return self._do(key)


def run(do: Callable[[Key], float | None], then: Callable[[Any], Any], seconds: float = 10) -> list[tuple[float, str]]:
    async def main(clock: VirtualClock) -> list[tuple[float, str]]:
        api = new_api_server(clock, random.Random(1))
        notes = Notes(clock, do)
        runner = ControllerRunner(api, notes)
        runner.start()
        task = asyncio.create_task(runner.run())
        then(api)
        await asyncio.sleep(seconds)
        if task.done():
            task.result()
        return notes.seen

    return run_virtual(main, epoch_s=0)


def create(*names: str) -> Callable[[Any], None]:
    def make(api: Any) -> None:
        for name in names:
            api.create(CONFIG_MAP, {"metadata": {"name": name}}, "default")

    return make


def test_many_events_before_a_look_are_one_look() -> None:
    def busy(api: Any) -> None:
        create("a", "b")(api)
        for number in range(5):
            api.patch(CONFIG_MAP, "a", {"data": {"n": str(number)}}, "default")

    assert run(lambda key: None, busy) == [(0.0, "a"), (0.0, "b")]


def test_errors_are_tried_again_with_a_growing_delay() -> None:
    def fail(key: Key) -> float | None:
        raise TransientError("not now")

    seen = run(fail, create("a"), seconds=0.2)
    assert [time for time, _ in seen] == [0.0, 0.005, 0.015, 0.035, 0.075, 0.155]


def test_the_delay_starts_anew_after_a_success() -> None:
    answers = iter([TransientError("x"), TransientError("x"), None, TransientError("x"), None, *[None] * 50])

    def sometimes(key: Key) -> float | None:
        answer = next(answers)
        if answer is not None:
            raise answer
        return 1.0

    times = [time for time, _ in run(sometimes, create("a"), seconds=1.5)]
    assert times == [0.0, 0.005, 0.015, 1.015, 1.02]


def test_looking_again_after_a_while() -> None:
    assert run(lambda key: 3.0, create("a")) == [(0.0, "a"), (3.0, "a"), (6.0, "a"), (9.0, "a")]


def test_a_bug_ends_the_controller_and_is_told() -> None:
    def broken(key: Key) -> float | None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        run(broken, create("a"))


def test_delays_are_those_of_the_upstream_limiter() -> None:
    assert [backoff_s(failures) for failures in (1, 2, 3, 18, 19, 1_000)] == [0.005, 0.01, 0.02, 655.36, 1000.0, 1000.0]
