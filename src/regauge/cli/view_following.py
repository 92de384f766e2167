"""A cluster as it is, and again after every change: for views that go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from regauge.cli.output import say
from regauge.cli.view_reading import MAY_BE_MISSING, Asked, Seen, connect
from regauge.collect import Estate, list_newest
from regauge.host import RealClock
from regauge.kube import Forbidden, NotFound
from regauge.kube.http import HttpClient
from regauge.model import Kind
from regauge.observe.watching import Watched

TOGETHER_S = 0.1
"""Changes that come this close together are shown at once; in a large cluster, those that come while one is worked out."""


async def followed(
    asked: Asked, kinds: tuple[Kind, ...], only: Mapping[Kind, str] | None = None
) -> AsyncGenerator[Seen, None]:
    """What is there, then what is there after each change, until the iterator is closed. Raises `ServerUnavailable`.

    `only`: field selectors of kinds of which not all objects are wanted.
    """
    client, own = connect(asked)
    namespace = "" if asked.everywhere else asked.namespace or own
    try:
        version = (await client.version()).git_version
        where = namespace if asked.within else await _readable(client, kinds, namespace)
        if where and not asked.within:
            say(f"only namespace {where} can be read: what pods and claims of others hold is not known")
        optional = [kind for kind in kinds if kind.kind in MAY_BE_MISSING]
        always = [kind for kind in kinds if kind.kind not in MAY_BE_MISSING]
        watched = Watched(client, RealClock(), always, optional=optional, namespace=where, only=only)
        async with aclosing(_estates(watched, version)) as estates:
            async for estate in estates:
                yield Seen(estate, namespace, time.time(), live=True)
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


async def _estates(watched: Watched, version: str) -> AsyncGenerator[Estate, None]:
    task = asyncio.create_task(watched.run())
    told: set[str] = set()
    try:
        while not watched.ready:
            await _changed(task, watched, watched.revision)
        while True:
            revision = watched.revision
            _tell_once(watched, told)
            began_s = time.monotonic()
            yield Estate(watched.snapshot(), "the current context", version, skipped=watched.skipped)
            took_s = time.monotonic() - began_s
            await _changed(task, watched, revision)
            await asyncio.sleep(max(TOGETHER_S, took_s))
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
