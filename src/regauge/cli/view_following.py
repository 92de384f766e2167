"""A cluster as it is, and again after every change: for views that go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from regauge.cli.output import say
from regauge.cli.view_reading import MAY_BE_MISSING, Asked, Seen, connect
from regauge.collect import Estate, list_newest
from regauge.host import RealClock
from regauge.kube import Forbidden, NotFound
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
        where = await _readable(client, kinds, namespace)
        if where:
            say(f"only namespace {where} can be read: what pods and claims of others hold is not known")
        async for seen in _watched(client, kinds, version, namespace, where):
            yield seen
    finally:
        await client.close()


async def _readable(client: HttpClient, kinds: tuple[Kind, ...], namespace: str) -> str:
    """Where namespaced kinds can be read: "" for everywhere, else the namespace that is meant."""
    for kind in kinds if namespace else ():
        try:
            # No object has this name: the question is only whether it may be asked.
            await list_newest(client, kind, "", "metadata.name=-")
        except Forbidden:
            if kind.namespaced:
                return namespace
        except NotFound:
            continue
    return ""


async def _watched(
    client: HttpClient, kinds: tuple[Kind, ...], version: str, namespace: str, where: str
) -> AsyncGenerator[Seen, None]:
    optional = [kind for kind in kinds if kind.kind in MAY_BE_MISSING]
    always = [kind for kind in kinds if kind.kind not in MAY_BE_MISSING]
    watched = Watched(client, RealClock(), always, optional=optional, namespace=where)
    task = asyncio.create_task(watched.run())
    told: set[str] = set()
    try:
        while not watched.ready:
            await _changed(task, watched, watched.revision)
        while True:
            revision = watched.revision
            _tell_once(watched, told)
            estate = Estate(watched.snapshot(), "the current context", version, skipped=watched.skipped)
            yield Seen(estate, namespace, time.time(), live=True)
            await _changed(task, watched, revision)
            await asyncio.sleep(TOGETHER_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _tell_once(watched: Watched, told: set[str]) -> None:
    for one in watched.skipped:
        if one.what not in told:
            told.add(one.what)
            say(f"not read: {one.what}: {one.why}")


async def _changed(task: asyncio.Task[None], watched: Watched, revision: int) -> None:
    """Come back after a change; a watch that ended by an error raises it."""
    news = asyncio.create_task(watched.changed(revision))
    await asyncio.wait((task, news), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        news.cancel()
        await task
