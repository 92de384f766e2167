"""Virtual time: it jumps, it is fair, and it notices when nothing can happen any more."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from regauge.base import BugError, Clock
from regauge.cluster.clock import NothingLeft, TimeOver, TimeStands, VirtualClock, run_virtual


def test_a_day_passes_at_once() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        await clock.sleep(86_400)
        return clock.now_s(), clock.monotonic_s()

    assert run_virtual(main, epoch_s=1_000.0) == (87_400.0, 86_400.0)


def test_it_is_a_clock_of_the_base_port() -> None:
    async def main(clock: VirtualClock) -> bool:
        return isinstance(clock, Clock)

    assert run_virtual(main, epoch_s=0)


def test_what_is_due_together_runs_in_the_order_it_was_asked_for() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        order: list[int] = []

        async def note(number: int) -> None:
            await clock.sleep(5)
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(note(number))
        return order

    assert run_virtual(main, epoch_s=0) == list(range(50))


def test_timeouts_and_cancelled_timers() -> None:
    async def main(clock: VirtualClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await clock.sleep(1_000_000)
        return clock.monotonic_s()

    assert run_virtual(main, epoch_s=0, limit_s=10) == 3.0


def test_waiting_for_nothing_is_told_with_the_names_of_those_who_wait() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.create_task(asyncio.Event().wait(), name="the kubelet of n1")

    with pytest.raises(NothingLeft, match="the kubelet of n1"):
        run_virtual(main, epoch_s=0)


def test_a_run_ends_at_its_limit() -> None:
    async def main(clock: VirtualClock) -> None:
        while True:
            await clock.sleep(1)

    with pytest.raises(TimeOver):
        run_virtual(main, epoch_s=0, limit_s=100)


def test_a_loop_without_delay_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regauge.cluster.clock.STEPS_AT_ONE_MOMENT", 1_000)

    async def main(clock: VirtualClock) -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(TimeStands):
        run_virtual(main, epoch_s=0)


def test_tasks_that_are_left_are_cancelled_in_order_and_generators_closed() -> None:
    ended: list[str] = []

    async def main(clock: VirtualClock) -> None:
        async def stay(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        async def numbers() -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
            finally:
                ended.append("generator")

        tasks = [asyncio.create_task(stay(name)) for name in ("a", "b")]
        stream = numbers()
        await anext(stream)
        await asyncio.sleep(0)
        assert len(tasks) == 2

    run_virtual(main, epoch_s=0)
    assert ended[:2] == ["a", "b"] or ended == ["generator", "a", "b"]
    assert sorted(ended) == ["a", "b", "generator"]


def test_the_error_of_the_main_task_comes_out() -> None:
    async def main(clock: VirtualClock) -> None:
        raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        run_virtual(main, epoch_s=0)


def test_a_callback_that_fails_unseen_fails_the_run() -> None:
    async def main(clock: VirtualClock) -> None:
        def fail() -> None:
            raise ValueError("unseen")

        asyncio.get_running_loop().call_later(1, fail)
        await clock.sleep(2)

    with pytest.raises(BugError, match="unseen"):
        run_virtual(main, epoch_s=0)


def test_threads_and_sockets_have_no_place() -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(print)
        with pytest.raises(RuntimeError):
            await asyncio.open_unix_connection("/nowhere")

    run_virtual(main, epoch_s=0)
