"""Background work of a kubelet: tasks that end with it, and whose errors are heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from regauge.pluginapi import RpcError

MOMENTS = 16
"""Much is written at one moment."""


class Work:
    """The tasks of one kubelet."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` until it ends or the kubelet stops."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    async def stop(self) -> None:
        """Cancel everything and wait until it has ended."""
        while tasks := [task for task in self._tasks if task is not asyncio.current_task()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._say(f"{task.get_name()} ended by an error: {error!r}")
            task.get_loop().call_exception_handler(
                {"message": f"{task.get_name()} failed", "exception": error, "task": task}
            )


@asynccontextmanager
async def deadline(limit_s: float) -> AsyncIterator[None]:
    """Raises `RpcError` `DeadlineExceeded` in the kubelet's words when the body takes longer."""
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError:
        raise RpcError("DeadlineExceeded", "context deadline exceeded") from None


def timestamp(now_s: float) -> str:
    """A wall time as the API writes it: RFC 3339, UTC, whole seconds."""
    return _whole(int(now_s))


@lru_cache(MOMENTS)
def _whole(now_s: int) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(now_s: float) -> str:
    """The same with microseconds, as leases have it."""
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
