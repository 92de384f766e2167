"""What a running event loop of this machine is told to leave unsaid."""

from __future__ import annotations

import asyncio
from typing import Any


def forgive_late_wakes(loop: asyncio.AbstractEventLoop) -> None:
    """Say nothing when a socket becomes ready in the very moment in which whoever waited for it was cancelled.

    anyio, below the HTTP client, wakes its readers of unix sockets by setting a result, whether they still wait or not; the
    loop would print a traceback for that, though nothing is lost. Everything else is said as before.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not (isinstance(context.get("exception"), asyncio.InvalidStateError) and _was_cancelled(context)):
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


def _was_cancelled(context: dict[str, Any]) -> bool:
    """Whether the call that failed was one of a future that had been cancelled."""
    callback = getattr(context.get("handle"), "_callback", None)
    future = getattr(callback, "__self__", None)
    return isinstance(future, asyncio.Future) and future.cancelled()
