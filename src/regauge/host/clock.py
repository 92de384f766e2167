"""The machine's clock."""

from __future__ import annotations

import asyncio
import time


class RealClock:
    """The `Clock` port of `base` on the machine's own clock and the running asyncio loop."""

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s)
