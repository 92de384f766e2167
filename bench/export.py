"""The exporter at 40,000 devices and 10,000 claims: scrapes over HTTP, and what keeping the answer ready costs.

A scrape is measured from the request to its last byte, by a client in the same process, half of them while the answer is
being worked out anew because claims change. The rest is what happens in the background.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import httpx

from bench import Row
from bench._devices import claim, document, made_cluster
from regauge.base import MemoryFiles
from regauge.collect import Skipped
from regauge.features import rules
from regauge.host import RealClock
from regauge.model import Document, Rules, Snapshot
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.observe.dashboard.serving import Site, serving
from regauge.observe.exporter import Exporter, Options, World
from regauge.observe.scraping import Guard, make_app

DEVICES, CLAIMS = 40_000, 10_000
SCRAPES = 6
LIMIT_S = 1.0
MODERN = {"Accept": "application/openmetrics-text;version=1.0.0"}


@dataclass
class Made:
    """A made cluster that is followed: `change` lets one claim go, and another take its device."""

    now: Snapshot
    revision: int = 0
    ready: bool = True
    resources: tuple[str, ...] = ("pods",)
    skipped: tuple[Skipped, ...] = ()
    lost: dict[str, float] = field(default_factory=dict)
    held_bytes: int = 1
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def snapshot(self) -> Snapshot:
        return self.now

    async def changed(self, since: int) -> None:
        while self.revision == since:
            await self.news.wait()

    async def run(self) -> None:
        """Whoever measures changes it."""

    def change(self) -> None:
        groups: dict[tuple[str, str], tuple[Document, ...]] = {
            kind: self.now.documents(kind) for kind in self.now.kinds()
        }
        key = (RESOURCE_CLAIM.group, RESOURCE_CLAIM.kind)
        fresh = document(claim(CLAIMS + self.revision, DEVICES, waits=True))
        groups[key] = (*groups[key][:-1], fresh)
        self.now = self.now.replaced(groups)
        self.revision += 1
        self.news.set()
        self.news = asyncio.Event()


def run() -> Iterator[Row]:
    """What was measured."""
    yield from asyncio.run(_measure())


async def _measure() -> list[Row]:
    made = Made(made_cluster(DEVICES, CLAIMS))
    exporter = Exporter(made, World(RealClock(), MemoryFiles(), _rules, print), Options())
    rows: list[Row] = []
    working = asyncio.create_task(exporter.run())
    try:
        async with (
            serving(make_app(exporter, Guard()), Site()) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client,
        ):
            begun = time.perf_counter()
            await _until(lambda: exporter.answer is not None)
            took_s = time.perf_counter() - begun
            rows.append(Row("from the objects to the first answer", took_s, None, f"{_series(exporter)} series"))
            rows += await _scrapes(client, made)
            rows.append(await _refreshed(exporter, made))
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return rows


async def _rules() -> Rules:
    return rules("1.36", {})


async def _until(probe: Callable[[], bool]) -> None:
    while not probe():  # noqa: ASYNC110 - it is measured, not told
        await asyncio.sleep(0.01)


def _is_newer(exporter: Exporter, than_s: float) -> bool:
    return exporter.answer is not None and exporter.answer.now_s > than_s


def _series(exporter: Exporter) -> int:
    answer = exporter.answer
    return sum(not line.startswith(b"#") for line in answer.body.splitlines()) if answer else 0


async def _scrapes(client: httpx.AsyncClient, made: Made) -> list[Row]:
    """The slowest of some scrapes of each form, every second one while the answer is made anew."""
    rows = []
    for what, packing in (
        ("a scrape, packed, as Prometheus asks for it", "gzip"),
        ("a scrape, not packed", "identity"),
    ):
        took_s, size = await _slowest(client, made, {**MODERN, "Accept-Encoding": packing})
        rows.append(
            Row(what, took_s, None, f"slowest of {SCRAPES}, {size / 1e6:.1f} MB; limit {LIMIT_S:g} s", took_s > LIMIT_S)
        )
    return rows


async def _slowest(client: httpx.AsyncClient, made: Made, headers: dict[str, str]) -> tuple[float, int]:
    slowest, size = 0.0, 0
    for number in range(SCRAPES):
        if number % 2:
            made.change()
            await asyncio.sleep(0.3)
        begun = time.perf_counter()
        async with client.stream("GET", "/metrics", headers=headers) as response:
            size = sum([len(chunk) async for chunk in response.aiter_raw()])
        slowest = max(slowest, time.perf_counter() - begun)
        assert response.status_code == 200
        await asyncio.sleep(1.0)
    return slowest, size


async def _refreshed(exporter: Exporter, made: Made) -> Row:
    """How long one change takes to be worked out, by the exporter's own word, and the peak of memory."""
    for _ in range(2):  # the first may have begun before the change
        before_s = exporter.answer.now_s if exporter.answer else 0.0
        made.change()
        await _until(partial(_is_newer, exporter, before_s))
    await asyncio.sleep(0.1)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(
        "working out a change, in the background", exporter.refresh_s, None, f"peak of memory {peak_mib:.0f} MiB"
    )
