"""What was published, and the last changes of it: readers follow at their own pace, and nobody waits for them.

Every reader has a place in one short history. Whoever falls behind its end, or comes from an earlier run of the server, is
told to read everything again; a reader costs no memory but its place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from regauge.observe.dashboard.tables import Delta, Table, Tables, delta_between

MOST_BYTES = 4 << 20
MOST_EVENTS = 1024


@dataclass(frozen=True, slots=True)
class Event:
    """One change as it goes over the wire: `id` says where a reader is who has it."""

    id: str
    data: bytes


class Feed:
    """The tables and their history. `run` names this run of the server: places of another run mean nothing here.

    Concurrency: belongs to one event loop; `publish` is called from it alone.
    """

    def __init__(self, run: str, most_bytes: int = MOST_BYTES) -> None:
        self._run = run
        self._most_bytes = most_bytes
        self._tables: dict[str, Table] = {}
        self._sequence = 0
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._whole: tuple[int, bytes] = (-1, b"")
        self._news = asyncio.Event()

    @property
    def tables(self) -> Tables:
        return self._tables

    @property
    def place(self) -> str:
        """Where a reader is who has everything."""
        return self._place(self._sequence)

    @property
    def held_bytes(self) -> int:
        """How much of the history is kept."""
        return self._bytes

    def _place(self, sequence: int) -> str:
        return f"{self._run}-{sequence}"

    def whole(self) -> bytes:
        """Everything as JSON, with its place."""
        if self._whole[0] != self._sequence:
            self._whole = self._sequence, msgspec.json.encode({"place": self.place, "tables": self._tables})
        return self._whole[1]

    def publish(self, tables: Mapping[str, Table]) -> Delta:
        """Put these tables in the place of their namesakes, and tell what became other."""
        delta = delta_between({name: self._tables.get(name, {}) for name in tables}, tables)
        self._tables.update(tables)
        if delta:
            self._sequence += 1
            self._keep(Event(self.place, msgspec.json.encode(delta)))
            self._news.set()
            self._news = asyncio.Event()
        return delta

    def _keep(self, event: Event) -> None:
        self._events.append(event)
        self._bytes += len(event.data)
        while self._events and (self._bytes > self._most_bytes or len(self._events) > MOST_EVENTS):
            self._bytes -= len(self._events.popleft().data)

    def since(self, place: str) -> tuple[Event, ...] | None:
        """What happened after `place`; None for a reader that must read everything again."""
        run, _, number = place.rpartition("-")
        if run != self._run or not number.isascii() or not number.isdigit():
            return None
        behind = self._sequence - int(number)
        if behind < 0 or behind > len(self._events):
            return None
        return tuple(self._events)[len(self._events) - behind :]

    async def news(self, within_s: float) -> None:
        """Come back when something was published, or after `within_s` seconds."""
        waiting = self._news
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await waiting.wait()
