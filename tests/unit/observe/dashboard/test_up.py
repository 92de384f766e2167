"""The dashboard beside a whole cluster, over HTTP: what it shows of a pod's devices is what the container really has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regauge.collect import Estate
from regauge.features import rules
from regauge.host import RealClock
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.model import Object, Snapshot
from regauge.model.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM
from regauge.observe.dashboard import Dashboard, Feed, World, followed_kinds, updating
from regauge.observe.watching import Watched
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.up import UpOptions, cluster_up

RULES = rules("1.36", {})
READER = "dashboard-under-test"
PATIENCE_S = 30.0


async def until(done: Callable[[], Any], world: NodeWorld) -> Any:
    for _ in range(int(PATIENCE_S / 0.05)):
        world.check()
        found = done()
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come")


def pod(name: str, claim: str) -> Object:
    container = {"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
    entry = {"name": "gpu", "resourceClaimName": claim}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "resourceClaims": [entry]}
    return {"metadata": {"name": name}, "spec": spec}


def wish(mode: str) -> Object:
    exactly = {"deviceClassName": "any", "allocationMode": mode, **({"count": 1} if mode == "ExactCount" else {})}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


@pytest.mark.row(126)
@pytest.mark.row(132)
@pytest.mark.row(222)
def test_devices_are_followed_and_with_none_free_it_shows_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "DEEP_SOONEST_S", 0.3)

    async def scene() -> None:
        async with cluster_up(UpOptions(tmp_path / "s", RULES)) as (started, world):
            client = HttpClient(load_connection({}, kubeconfig=str(started.kubeconfig)), {}, user_agent=READER)
            dashboard = Dashboard(Feed("run"), World(RealClock(), random.Random(0), RULES))
            watched = Watched(client, RealClock(), followed_kinds())
            estate = Estate(Snapshot.of(()), "test", "v1.36.3")
            tasks = [asyncio.ensure_future(watched.run()), asyncio.ensure_future(dashboard.follow(watched, estate))]
            try:
                await followed(world, dashboard)
                assert {write.actor for write in world.control.api.state.story}.isdisjoint({READER})
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await client.close()

    async def followed(world: NodeWorld, dashboard: Dashboard) -> None:
        api = world.control.api.as_actor("test")

        def devices() -> dict[str, Any]:
            table = dashboard.feed.tables.get("devices", {})
            return {name: row for name, row in table.items() if row.get("stack", "dra") == "dra"}

        def states() -> set[str]:
            return {row.get("state", "free") for row in devices().values()}

        await until(lambda: devices() and world.registered, world)
        driver = next(iter(devices().values()))["source"]
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        api.create(DEVICE_CLASS, {"metadata": {"name": "any"}, "spec": {"selectors": [selector]}})
        api.create(RESOURCE_CLAIM, {"metadata": {"name": "all"}, "spec": wish("All")}, "default")
        api.create(POD, pod("holder", "all"), "default")
        await until(lambda: states() == {"allocated"}, world)
        held = {name for name, row in devices().items() if row["holders"][0]["pod"] == "default/holder"}
        results = api.get(RESOURCE_CLAIM, "all", "default")["status"]["allocation"]["devices"]["results"]
        assert held == {f"{one['driver']}/{one['pool']}/{one['device']}" for one in results}
        assert all(row["holders"][0]["container"] == "main" for row in devices().values())
        api.create(RESOURCE_CLAIM, {"metadata": {"name": "one"}, "spec": wish("ExactCount")}, "default")
        api.create(POD, pod("waiter", "one"), "default")
        waits = await until(lambda: dashboard.feed.tables.get("waiting", {}).get("pod/default/waiter"), world)
        assert waits["state"] == "cannot be scheduled" and waits["layer"] == "scheduling"
        api.delete(POD, "holder", "default")
        await until(lambda: "free" in states() and "pod/default/waiter" not in dashboard.feed.tables["waiting"], world)
        mine = [row for row in devices().values() if "holders" in row]
        assert [row["holders"][0]["pod"] for row in mine] == ["default/waiter"]

    asyncio.run(scene())
