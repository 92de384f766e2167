"""A cluster is followed by reading alone; what changes in it changes on the page, and nothing else is told again."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from tests.support import ROOT
from tests.unit.observe.dashboard.estates import DRIVER, node, slice_of, snapshot_of
from tests.unit.observe.dashboard.followed import GPU_0, Reader, allocate, following, new_dashboard, play, until

from regauge.cluster.bootstrap import new_api_server
from regauge.collect import LIVE_KINDS, Estate, sample_estate
from regauge.host import RealClock
from regauge.kube import ServerUnavailable
from regauge.model import Snapshot, read_documents
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.observe.dashboard import followed_kinds, updating
from regauge.observe.watching import Watched


@pytest.mark.row(125)
@pytest.mark.row(126)
def test_a_claim_that_is_allocated_changes_one_row_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "SOONEST_S", 0.02)

    async def scene() -> None:
        async with following() as (api, _, dashboard):
            feed = dashboard.feed
            assert "state" not in feed.tables["devices"][GPU_0]
            await until(lambda: feed.tables["about"].get("deep", {}).get("state") == "known")
            place = feed.place
            allocate(api, [("a", "gpu-0")])
            await until(lambda: "holders" in feed.tables["devices"][GPU_0])
            row = feed.tables["devices"][GPU_0]
            assert (row["state"], row["holders"][0]["pod"]) == ("reserved", "team/p")
            changed = [event for event in feed.since(place) or () if b'"devices"' in event.data]
            assert len(changed) == 1 and b"gpu-1" not in changed[0].data
            assert (dashboard.details(GPU_0) or {})["slice"] == "a-gpu"
            told = feed.tables["unknown"].values()
            assert not [row for row in told if "holds no" in row["why"] or "is served" in row["why"]]

    play(scene)


@pytest.mark.row(222)
def test_with_no_device_free_it_shows_all_of_it_and_changes_no_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "SOONEST_S", 0.02)

    async def scene() -> None:
        async with following() as (api, _, dashboard):
            allocate(api, [("a", "gpu-0"), ("a", "gpu-1")])
            feed = dashboard.feed
            await until(lambda: all("holders" in row for row in feed.tables["devices"].values()))
            before = api.get(RESOURCE_CLAIM, "c", "team")
            await until(lambda: feed.tables["about"].get("deep", {}).get("state") == "known")
            assert {row["state"] for row in feed.tables["devices"].values()} == {"reserved"}
            assert api.get(RESOURCE_CLAIM, "c", "team") == before

    play(scene)


def test_a_server_that_does_not_answer_leaves_what_was_known_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "SOONEST_S", 0.02)
    monkeypatch.setattr(updating, "LOOK_AROUND_S", 0.05)

    async def scene() -> None:
        dashboard, client = new_dashboard(), Reader(new_api_server(RealClock(), random.Random(1)).as_actor("test"))
        client.broken = ServerUnavailable("it is away")
        watched = Watched(client, RealClock(), LIVE_KINDS)
        estate = Estate(Snapshot.of(()), "test", "v1.36.3")
        tasks = [asyncio.create_task(watched.run()), asyncio.create_task(dashboard.follow(watched, estate))]
        page = lambda: dashboard.feed.tables.get("about", {}).get("page", {})  # noqa: E731
        await until(lambda: page().get("lostS", 0) > 0)
        assert page()["state"] == "reading"
        client.broken = None
        await until(lambda: page().get("state") == "current" and page()["lostS"] == 0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(scene)


def test_an_estate_that_does_not_change_is_shown_as_it_is() -> None:
    async def scene() -> None:
        dashboard = new_dashboard()
        await dashboard.show(sample_estate())
        tables = dashboard.feed.tables
        assert tables["about"]["page"]["mode"] == "still"
        assert tables["about"]["deep"]["state"] == "known"
        assert len(tables["devices"]) > 100 and tables["waiting"] and tables["findings"]

    play(scene)


def test_objects_that_cannot_be_read_are_told_and_hide_nothing_else() -> None:
    async def scene() -> None:
        bad = slice_of("b", 1)
        bad["spec"]["pool"]["generation"] = "one"
        dashboard = new_dashboard()
        await dashboard.show(replace(sample_estate(), snapshot=snapshot_of(node("a"), slice_of("a", 2), bad)))
        assert set(dashboard.feed.tables["devices"]) == {GPU_0, f"{DRIVER}/a/gpu-1"}
        assert "generation" in dashboard.feed.tables["unknown"]["ResourceSlice b-gpu"]["why"]

    play(scene)


def test_a_mistake_in_a_rule_is_told_and_the_devices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> NoReturn:
        raise KeyError("RULE")

    monkeypatch.setattr(updating, "audit_ground", broken)

    async def scene() -> None:
        dashboard = new_dashboard()
        await dashboard.show(sample_estate())
        assert dashboard.feed.tables["about"]["deep"]["state"] == "failed"
        assert "RULE" in dashboard.feed.tables["about"]["deep"]["why"]
        assert dashboard.feed.tables["devices"]

    play(scene)


def test_the_rights_that_are_shipped_are_those_that_are_used() -> None:
    text = (ROOT / "deploy/dashboard/rbac.yaml").read_bytes()
    role = next(one.object for one in read_documents(text, "rbac.yaml") if one.kind == "ClusterRole")
    granted = {
        (group, resource): rule["verbs"]
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
    }
    wanted = {(kind.group, kind.plural) for kind in followed_kinds()}
    assert set(granted) == wanted and all(verbs == ["list", "watch"] for verbs in granted.values())
    assert [rule for rule in role["rules"] if "nonResourceURLs" in rule] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]
