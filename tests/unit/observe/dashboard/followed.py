"""A small cluster that a dashboard follows, with a client that may read and no more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from tests.unit.observe.dashboard.estates import DRIVER, claim, device_class, node, pod, slice_of

from regauge.base import BugError
from regauge.cluster.bootstrap import new_api_server
from regauge.collect import Estate
from regauge.features import rules
from regauge.host import RealClock
from regauge.kube import MemoryClient
from regauge.model import Kind, Snapshot
from regauge.model.kinds import DEVICE_CLASS, NAMESPACE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.observe.dashboard import Dashboard, Feed, World, followed_kinds
from regauge.observe.watching import Watched

GPU_0 = f"{DRIVER}/a/gpu-0"


class Reader(MemoryClient):
    """A client that may read, and no more. `broken` is what every call ends in, if anything."""

    broken: Exception | None = None

    async def list(self, kind: Kind, namespace: str = "", **more: Any) -> Any:
        if self.broken is not None:
            raise self.broken
        return await super().list(kind, namespace, **more)

    def _writes(self, *_: Any, **__: Any) -> NoReturn:
        raise BugError("a dashboard writes")

    create = try_create = update = patch = delete = _writes


def new_dashboard() -> Dashboard:
    world = World(RealClock(), random.Random(0), rules("1.36", {}))
    return Dashboard(Feed("run"), world)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await scene()

    asyncio.run(limited())


async def until(done: Callable[[], bool]) -> None:
    """Wait for it; whoever calls has the limit."""
    while True:
        if done():
            return
        await asyncio.sleep(0.01)


@asynccontextmanager
async def following() -> AsyncIterator[tuple[Any, Reader, Dashboard]]:
    """An API server with one node of two devices and a pod that has one of them, and a dashboard that follows it."""
    api = new_api_server(RealClock(), random.Random(1)).as_actor("test")
    client = Reader(api)
    dashboard = new_dashboard()
    for kind, object_ in (
        (NAMESPACE, {"metadata": {"name": "team"}}),
        (NODE, node("a")),
        (DEVICE_CLASS, device_class()),
        (RESOURCE_SLICE, slice_of("a", 2)),
        (RESOURCE_CLAIM, claim("c", [])),
        (POD, pod("p", "a", "c")),
    ):
        api.create(
            kind, {**object_, "metadata": {"name": object_["metadata"]["name"]}}, "team" if kind.namespaced else ""
        )
    watched = Watched(client, RealClock(), followed_kinds())
    estate = Estate(Snapshot.of(()), "test", "v1.36.3")
    tasks = [asyncio.create_task(watched.run()), asyncio.create_task(dashboard.follow(watched, estate))]
    try:
        await until(lambda: GPU_0 in dashboard.feed.tables.get("devices", {}) or any(one.done() for one in tasks))
        yield api, client, dashboard
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def allocate(api: Any, devices: list[tuple[str, str]]) -> None:
    found = api.get(RESOURCE_CLAIM, "c", "team")
    reserved = [{"resource": "pods", "name": "p", "uid": api.get(POD, "p", "team")["metadata"]["uid"]}]
    status = {**claim("c", devices)["status"], "reservedFor": reserved} if devices else {}
    api.update(RESOURCE_CLAIM, {**found, "status": status}, "team", subresource="status")
