"""A cluster as it is, and again after every change: for views that go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from regauge.cli.view_reading import Asked, Seen, connect
from regauge.collect import Estate
from regauge.host import RealClock
from regauge.kube.http import HttpClient
from regauge.model import Kind
from regauge.observe.watching import Watched

TOGETHER_S = 0.1
"""Changes that come this close together are shown at once."""


async def followed(asked: Asked, kinds: tuple[Kind, ...]) -> AsyncGenerator[Seen, None]:
    """What is there, then what is there after each change, until the iterator is closed. Raises `ServerUnavailable`."""
    client, own = connect(asked)
    namespace = "" if asked.everywhere else asked.namespace or own
    try:
        version = (await client.version()).git_version
        async for seen in _watched(client, kinds, version, namespace):
            yield seen
    finally:
        await client.close()


async def _watched(
    client: HttpClient, kinds: tuple[Kind, ...], version: str, namespace: str
) -> AsyncGenerator[Seen, None]:
    watched = Watched(client, RealClock(), kinds)
    task = asyncio.create_task(watched.run())
    try:
        while not watched.ready:
            await _changed(task, watched, watched.revision)
        while True:
            revision = watched.revision
            estate = Estate(watched.snapshot(), "the current context", version, skipped=watched.skipped)
            yield Seen(estate, namespace, time.time(), live=True)
            await _changed(task, watched, revision)
            await asyncio.sleep(TOGETHER_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _changed(task: asyncio.Task[None], watched: Watched, revision: int) -> None:
    """Come back after a change; a watch that ended by an error raises it."""
    news = asyncio.create_task(watched.changed(revision))
    await asyncio.wait((task, news), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        news.cancel()
        await task
