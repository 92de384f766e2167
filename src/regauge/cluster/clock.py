"""Virtual time: an asyncio event loop whose clock jumps to the next due timer, so that a run is quick and repeatable.

Nothing outside the loop can wake it: no sockets, no threads, no signals. Callbacks run in the order in which they were
asked for, timers due at the same moment too. When nothing is ready and no timer is left, nothing can ever happen again,
and that is an error which names the tasks that wait.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from regauge.base import BugError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEPS_AT_ONE_MOMENT = 2_000_000


class NothingLeft(BugError):
    """The main task waits, and nothing is left that could wake it."""


class TimeStands(BugError):
    """So many steps ran without time moving on that the run would never end (a loop that retries without delay)."""


class TimeOver(BugError):
    """The run went on beyond the virtual time that it was given."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """An event loop in virtual time. `time()` starts at 0. What needs the outside is refused by the abstract loop."""

    def __init__(self, limit_s: float | None = None) -> None:
        self._now_s = 0.0
        self._limit_s = limit_s
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = itertools.count()
        self._stopping = False
        self._running = False
        self._closed = False
        self._steps = 0
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._task_factory: Any = None
        self._failures: list[dict[str, Any]] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}

    @property
    def tasks(self) -> tuple[asyncio.Task[Any], ...]:
        """The tasks that are not done, in the order in which they were made."""
        return tuple(self._tasks)

    @property
    def failures(self) -> tuple[dict[str, Any], ...]:
        """What was reported to the exception handler while none was set (exceptions of callbacks, lost tasks)."""
        return tuple(self._failures)

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + max(0.0, delay), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_open()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio tells of a cancelled timer; the heap drops it when it is due."""

    def run_forever(self) -> None:
        self._check_open()
        if self._running or events._get_running_loop() is not None:
            raise RuntimeError("a virtual loop cannot run inside a running loop")
        hooks = sys.get_asyncgen_hooks()
        self._running = True
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=self._generators.append, finalizer=self._close_generator)
        try:
            while not self._stopping:
                self._step()
        finally:
            self._stopping = self._running = False
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def carry_on_here(self) -> None:
        """In a copy of the process, forked while the loop ran: it runs here, too. asyncio takes it for the other's."""
        events._set_running_loop(self)

    def _step(self) -> None:
        if not self._ready:
            self._advance()
        ready, number = self._ready, len(self._ready)
        self._steps += number
        for _ in range(number):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        if self._steps > STEPS_AT_ONE_MOMENT:
            raise TimeStands(f"{self._steps} steps at {self._now_s:g} s without time moving on: {self._waiting()}")

    def _advance(self) -> None:
        """Jump to the next timer that still holds and make ready all that are due then."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise NothingLeft(f"nothing is left that could happen after {self._now_s:g} s: {self._waiting()}")
        due = self._timers[0][0]
        if self._limit_s is not None and due > self._limit_s:
            raise TimeOver(f"the run goes on after its {self._limit_s:g} s of virtual time: {self._waiting()}")
        if due > self._now_s:
            self._now_s, self._steps = due, 0
        while self._timers and self._timers[0][0] <= self._now_s:
            self._ready.append(heapq.heappop(self._timers)[2])

    def _waiting(self) -> str:
        tasks = [task.get_name() for task in self._tasks]
        return f"{len(tasks)} tasks wait ({', '.join(tasks[:20])})" if tasks else "no task waits"

    def run_until_complete(self, future: Any) -> Any:
        owned = not asyncio.isfuture(future)
        task: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._main_done)
        try:
            self.run_forever()
        except BaseException:
            if owned and task.done() and not task.cancelled():
                task.exception()
            raise
        finally:
            task.remove_done_callback(self._main_done)
        return task.result()

    def _main_done(self, _future: asyncio.Future[Any]) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("a running loop cannot be closed")
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        generators, self._generators = self._generators, []
        for generator in generators:
            await generator.aclose()

    async def shutdown_default_executor(self) -> None:
        """There is none."""

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        self._check_open()
        options = {key: value for key, value in options.items() if value is not None}
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def set_task_factory(self, factory: Any) -> None:
        if factory is not None:
            raise RuntimeError("a virtual loop makes its tasks itself")

    def get_task_factory(self) -> None:
        return None

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._failures.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Without effect: debugging measures the machine's time."""

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        raise RuntimeError("a virtual loop has no other threads: a run would not be repeatable")

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the virtual loop is closed")


class VirtualClock:
    """The `Clock` port on a virtual loop. `epoch_s`: the wall time (seconds since 1970, UTC) at which the run starts."""

    def __init__(self, loop: VirtualLoop, epoch_s: float) -> None:
        self._loop = loop
        self._epoch_s = epoch_s

    def now_s(self) -> float:
        return self._epoch_s + self._loop.time()

    def monotonic_s(self) -> float:
        return self._loop.time()

    async def sleep(self, duration_s: float) -> None:
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        over = self._loop.create_future()
        timer = self._loop.call_later(duration_s, _finish, over)
        try:
            await over
        finally:
            timer.cancel()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def run_virtual(
    main: Callable[[VirtualClock], Coroutine[Any, Any, T]], *, epoch_s: float, limit_s: float | None = None
) -> T:
    """Run `main(clock)` to its end in virtual time and return its result.

    Tasks that are left are cancelled. Raises what `main` raises, `NothingLeft` when it waits for what can never come,
    `TimeOver` beyond `limit_s` virtual seconds, and `BugError` when a task or callback failed without anybody looking.
    """
    loop = VirtualLoop(limit_s)  # type: ignore[abstract]  # what it lacks is refused, as documented
    try:
        result: T = loop.run_until_complete(main(VirtualClock(loop, epoch_s)))
    finally:
        _wind_up(loop)
    if loop.failures:
        first = loop.failures[0]
        raise BugError(f"{first.get('message')}: {first.get('exception')!r}") from first.get("exception")
    return result


def _wind_up(loop: VirtualLoop) -> None:
    loop._limit_s = None
    tasks = loop.tasks
    for task in tasks:
        task.cancel()
    try:
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
