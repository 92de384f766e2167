"""Live runs that end in order when the program is told to: SIGTERM as well as Ctrl-C leave nothing behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from regauge.base import RegaugeError
from regauge.host.loops import forgive_late_wakes

T = TypeVar("T")


class Terminated(RegaugeError):
    """The program was told to end by SIGTERM, and has ended what it had started."""

    exit_code = 128 + signal.SIGTERM


def run_live(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the machine's clock. Ctrl-C and SIGTERM cancel it, and it is waited for until it has cleaned up.

    Raises `KeyboardInterrupt` or `Terminated` then, and else what `work` raises.
    """
    return asyncio.run(_stoppable(work))


async def _stoppable(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    told: list[bool] = []

    def stop() -> None:
        told.append(True)
        task.cancel()

    loop = asyncio.get_running_loop()
    forgive_late_wakes(loop)
    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if told:
            raise Terminated("told to stop; everything that was started has been ended") from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
