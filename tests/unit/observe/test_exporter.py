"""The exporter at work: it follows a cluster, keeps an answer ready, and takes up its counters again."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from regauge.base import MemoryFiles
from regauge.cluster.bootstrap import new_api_server
from regauge.features import rules
from regauge.host import RealClock
from regauge.kube import Forbidden, Gone, MemoryClient, NotFound, ServerUnavailable, WatchEvent
from regauge.model import Kind, Object, Rules
from regauge.model.core import Pod
from regauge.model.kinds import DEVICE_TAINT_RULE, NODE, POD, REPLICA_SET, RESOURCE_CLAIM
from regauge.observe import DeviceReading, Measure, Readings, watching
from regauge.observe.exporter import Exporter, Options, World, families_of, follow, list_once
from regauge.observe.families import Scope
from regauge.observe.history import from_bytes
from regauge.observe.registry import FAMILIES
from regauge.observe.scraping import Guard, make_app, wants_openmetrics
from regauge.observe.watching import Watched


class Hurried(RealClock):
    """The machine's clock, on which all waiting is twenty times as short."""

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s / 20)


class Client(MemoryClient):
    """A client that may fail: `refused` are kinds with the error that listing them ends in, `broken` ends all watches."""

    def __init__(self) -> None:
        self.api = new_api_server(RealClock(), random.Random(1))
        super().__init__(self.api.as_actor("test"))
        self.refused: dict[Kind, Exception] = {}
        self.broken: Exception | None = None
        self.deaf = False
        self.lists: list[str] = []

    async def list(self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "") -> Any:
        self.lists.append(kind.plural)
        if kind in self.refused:
            raise self.refused[kind]
        return await super().list(kind, namespace, label_selector=label_selector, field_selector=field_selector)

    async def watch(self, kind: Kind, namespace: str = "", **more: Any) -> AsyncIterator[WatchEvent]:
        async for event in super().watch(kind, namespace, **more):
            if self.deaf:
                await asyncio.Event().wait()
            if self.broken is not None:
                raise self.broken
            yield event


def pod(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }


def claim(name: str) -> Object:
    exactly = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


async def soon(probe: Callable[[], bool]) -> None:
    """Come back as soon as it holds; fail after a while."""
    async with asyncio.timeout(10.0):
        while not probe():  # noqa: ASYNC110 - any of several parts may bring it about
            await asyncio.sleep(0.005)


def played(play: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        await play(Client())

    asyncio.run(main())


async def following(watched: Watched, work: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.create_task(watched.run())
    try:
        await soon(lambda: watched.ready)
        await work()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(watched: Watched) -> list[str]:
    return sorted(one.metadata.name for one in watched.snapshot().pods)


# -- following


def test_changes_are_followed_and_views_of_what_stays_are_kept() -> None:
    async def play(client: Client) -> None:
        await client.create(POD, pod("a"), "default")
        watched = Watched(client, Hurried(), (POD,))

        async def work() -> None:
            empty = watched.held_bytes
            (first,) = watched.snapshot().pods
            await client.create(POD, pod("b"), "default")
            await soon(lambda: names(watched) == ["a", "b"])
            assert watched.snapshot().pods[0] is first
            await client.patch(POD, "b", {"metadata": {"labels": {"x": "y"}}}, "default")
            await soon(lambda: watched.snapshot().pods[1].metadata.labels == {"x": "y"})
            await client.delete(POD, "b", "default", grace_period_s=0)
            await soon(lambda: names(watched) == ["a"])
            assert watched.held_bytes == empty > 0

        await following(watched, work)

    played(play)


@pytest.mark.parametrize("error", [Gone(410, "Expired", "too old"), ServerUnavailable("away")])
def test_a_watch_that_breaks_is_taken_up_again_and_nothing_is_missed(error: Exception) -> None:
    async def play(client: Client) -> None:
        watched = Watched(client, Hurried(), (POD,))

        async def work() -> None:
            client.broken = error
            await client.create(POD, pod("a"), "default")
            await soon(lambda: client.lists.count("pods") > 1)
            client.broken = None
            await client.create(POD, pod("b"), "default")
            await soon(lambda: names(watched) == ["a", "b"] and not watched.lost)

        await following(watched, work)

    played(play)


def test_a_watch_that_falls_silent_is_begun_anew_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a connection dies without a word."""
    monkeypatch.setattr(watching, "SILENT_S", 0.05)

    async def play(client: Client) -> None:
        watched = Watched(client, Hurried(), (POD,))

        async def work() -> None:
            client.deaf = True
            await client.create(POD, pod("a"), "default")
            await asyncio.sleep(0.1)
            assert names(watched) == []
            client.deaf = False
            await soon(lambda: names(watched) == ["a"])
            assert client.lists.count("pods") == 1

        await following(watched, work)

    played(play)


def test_what_may_not_be_read_is_told_and_what_many_do_not_serve_is_not() -> None:
    async def play(client: Client) -> None:
        client.refused = {
            NODE: Forbidden(403, "Forbidden", "nodes is forbidden"),
            RESOURCE_CLAIM: NotFound(404, "NotFound", "no"),
        }
        for kind in (RESOURCE_CLAIM, DEVICE_TAINT_RULE):
            for version in (kind.version, *kind.others):
                client.refused[replace(kind, version=version)] = NotFound(404, "NotFound", "no")
        watched = Watched(client, Hurried(), (POD, NODE, RESOURCE_CLAIM), optional=(DEVICE_TAINT_RULE,))

        async def work() -> None:
            told = {one.what: one.why for one in watched.skipped}
            assert set(told) == {"nodes", "resourceclaims.resource.k8s.io"}
            assert "list and watch on nodes are missing (nodes is forbidden)" in told["nodes"]

        await following(watched, work)

    played(play)


def test_while_the_server_is_away_what_was_known_stays_and_is_marked() -> None:
    async def play(client: Client) -> None:
        await client.create(POD, pod("a"), "default")
        watched = Watched(client, Hurried(), (POD,))

        async def work() -> None:
            client.broken = client.refused[POD] = ServerUnavailable("away")
            await client.create(POD, pod("b"), "default")
            await soon(lambda: "pods" in watched.lost)
            assert names(watched) == ["a"]

        await following(watched, work)

    played(play)


def test_memory_has_a_limit_and_reaching_it_is_told() -> None:
    async def play(client: Client) -> None:
        for number in range(20):
            await client.create(POD, pod(f"p{number}"), "default")
        watched = Watched(client, Hurried(), (POD,), most_bytes=3000)

        async def work() -> None:
            assert 0 < len(names(watched)) < 20 and watched.held_bytes <= 3000
            assert "more than 3000 bytes" in watched.skipped[0].why

        await following(watched, work)

    played(play)


def test_of_owners_only_names_are_kept_and_of_others_no_managed_fields() -> None:
    async def play(client: Client) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        metadata = {"name": "rs", "namespace": "default"}
        await client.create(
            REPLICA_SET, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}, "default"
        )
        watched = Watched(client, Hurried(), (), slim=(REPLICA_SET,))

        async def work() -> None:
            (document,) = watched.snapshot().documents(REPLICA_SET)
            assert set(document.object) == {"apiVersion", "kind", "metadata"}
            assert {"name", "namespace", "uid"} <= set(document.metadata)

        await following(watched, work)

    played(play)


# -- the exporter


class Told:
    """A source that says what it is made to say."""

    name = "told"

    def __init__(self, devices: Sequence[DeviceReading] = (), slow: bool = False) -> None:
        self.devices = tuple(devices)
        self.slow = slow
        self.closed = False

    async def read(self, now_s: float) -> Readings:
        if self.slow:
            await asyncio.Event().wait()
        return Readings(self.name, devices=self.devices)

    async def close(self) -> None:
        self.closed = True


class Running:
    """An exporter of a cluster, as it is scraped."""

    def __init__(
        self, client: Client, options: Options, files: MemoryFiles, *sources: Told, guard: Guard | None = None
    ) -> None:
        clock = Hurried()
        self.said: list[str] = []
        around = World(clock, files, _rules, self.said.append, sources)
        self.exporter = Exporter(follow(client, clock, options.node), around, options)
        transport = httpx.ASGITransport(make_app(self.exporter, guard or Guard()))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9836")
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Running:
        self._task = asyncio.create_task(self.exporter.run())
        await soon(lambda: self.exporter.answer is not None)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.http.aclose()

    def line(self, start: str) -> str:
        """The value of the series that begins so, "" where it is not there."""
        assert self.exporter.answer is not None
        lines = self.exporter.answer.body.decode().splitlines()
        return next((one.rpartition(" ")[2] for one in lines if one.startswith(start)), "")


async def _rules() -> Rules:
    return rules("1.36", {})


def test_a_scrape_tells_what_changed_a_moment_ago() -> None:
    async def play(client: Client) -> None:
        async with Running(client, Options(), MemoryFiles()) as running:
            series = 'regauge_resourceclaims{deviceclass="c",namespace="default",state="pending"}'
            assert running.line(series) == ""
            await client.create(RESOURCE_CLAIM, claim("one"), "default")
            await soon(lambda: running.line(series) == "1.0")
            assert running.line('regauge_resourceclaims_pending{namespace="default",reason="unused"}') == "1.0"
            assert running.line('regauge_export_resource_read{resource="pods"}') == "1.0"

    played(play)


def test_both_formats_are_served_packed_or_not() -> None:
    async def play(client: Client) -> None:
        async with Running(client, Options(), MemoryFiles()) as running:
            modern = {
                "accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3",
                "accept-encoding": "gzip",
            }
            new = await running.http.get("/metrics", headers=modern)
            assert new.headers["content-type"] == CONTENT_TYPE_LATEST and new.headers["content-encoding"] == "gzip"
            assert new.text.endswith("# EOF\n")
            old = await running.http.get("/metrics", headers={"accept-encoding": "identity"})
            assert old.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert "# EOF" not in old.text and "content-encoding" not in old.headers
            assert (await running.http.get("/readyz")).text == (await running.http.get("/healthz")).text == "ok\n"
            assert (await running.http.post("/metrics")).status_code == 405
            assert gzip.decompress(running.exporter.answer.compressed) == running.exporter.answer.body  # type: ignore[union-attr]  # it is there

    played(play)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text;version=1.0.0", True),
        ("application/openmetrics-text;version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x, text/plain", False),
    ],
)
def test_the_format_is_the_one_that_is_asked_for(accept: str, wanted: bool) -> None:
    assert wants_openmetrics(accept) is wanted


@pytest.mark.parametrize(
    ("guard", "headers", "code"),
    [
        (Guard(), {"host": "127.0.0.1:9836"}, 503),
        (Guard(), {"host": "[::1]:9836"}, 503),
        (Guard(), {"host": "localhost"}, 503),
        (Guard(), {"host": "evil.example:9836"}, 403),
        (Guard(), {"host": "127.0.0.1.evil.example"}, 403),
        (Guard(names=("gpus",)), {"host": "gpus:1"}, 503),
        (Guard("a-token-of-16-chars"), {}, 401),
        (Guard("a-token-of-16-chars"), {"authorization": "Bearer another"}, 401),
        (Guard("a-token-of-16-chars"), {"authorization": "Basic a-token-of-16-chars"}, 401),
        (Guard("a-token-of-16-chars"), {"authorization": "Bearer a-token-of-16-chars", "host": "10.0.0.1"}, 503),
    ],
)
def test_who_may_scrape(guard: Guard, headers: Mapping[str, str], code: int) -> None:
    """503: it may, and there is nothing to tell yet."""

    async def play(client: Client) -> None:
        running = Running(client, Options(), MemoryFiles(), guard=guard)
        assert (await running.http.get("/metrics", headers=headers)).status_code == code
        assert (await running.http.get("/readyz")).status_code == 503
        await running.http.aclose()

    played(play)


def test_counters_are_saved_at_the_end_and_taken_up_again() -> None:
    async def play(client: Client) -> None:
        files = MemoryFiles()
        files.make_directory("/state")
        options = Options(state="/state/export")
        async with Running(client, options, files):
            pass
        first = from_bytes(files.read("/state/export"), "state")
        async with Running(client, options, files) as running:
            assert not running.said
        second = from_bytes(files.read("/state/export"), "state")
        assert first.moment_s is not None and second.moment_s is not None and second.moment_s > first.moment_s

    played(play)


def test_a_state_that_cannot_be_read_is_put_aside_and_told() -> None:
    async def play(client: Client) -> None:
        files = MemoryFiles()
        files.make_directory("/state")
        files.write("/state/export", b"broken")
        files.write("/state/export.unreadable-1", b"earlier")
        async with Running(client, Options(state="/state/export"), files) as running:
            assert "it is kept as /state/export.unreadable-2" in running.said[0]
        assert files.read("/state/export.unreadable-2") == b"broken"
        assert files.read("/state/export.unreadable-1") == b"earlier"

    played(play)


def test_sources_are_read_joined_and_closed() -> None:
    async def play(client: Client) -> None:
        source = Told([DeviceReading("n", Measure.UTILIZATION, 0.5, "told", uuid="GPU-1")])
        async with Running(client, Options(), MemoryFiles(), source) as running:
            assert running.line("regauge_device_utilization_ratio{") == "0.5"
            assert running.line('regauge_source_up{source="told"}') == "1.0"
        assert source.closed

    played(play)


def test_a_source_that_does_not_answer_holds_nobody_up_for_long() -> None:
    async def play(client: Client) -> None:
        async with Running(client, Options(interval_s=0.2), MemoryFiles(), Told(slow=True)) as running:
            assert running.line('regauge_source_up{source="told"}') == "0.0"
            assert running.line('regauge_source_troubles{reason="slow",source="told"}') == "1.0"

    played(play)


def test_an_exporter_of_a_node_tells_what_only_the_node_knows() -> None:
    told = families_of("n1")
    assert {one.scope for one in told} == {Scope.STACK, Scope.NODE, Scope.OWN}
    assert families_of("") == FAMILIES

    async def play(client: Client) -> None:
        for name in ("n1", "n2"):
            await client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        watched = follow(client, Hurried(), "n1")

        async def work() -> None:
            assert [one.metadata.name for one in watched.snapshot().nodes] == ["n1"]

        await following(watched, work)

    played(play)


def test_views_are_made_of_documents_and_not_of_names() -> None:
    """A pod that is made anew under its name is another pod."""

    async def play(client: Client) -> None:
        await client.create(POD, pod("a"), "default")
        watched = Watched(client, Hurried(), (POD,))

        async def work() -> None:
            (first,) = watched.snapshot().views(POD, Pod)
            await client.delete(POD, "a", "default", grace_period_s=0)
            await client.create(POD, pod("a", x="y"), "default")
            await soon(lambda: [one.metadata.labels for one in watched.snapshot().pods] == [{"x": "y"}])
            assert watched.snapshot().pods[0].metadata.uid != first.metadata.uid

        await following(watched, work)

    played(play)


def test_one_list_of_each_kind_has_what_is_followed_and_says_what_is_missing() -> None:
    async def play(client: Client) -> None:
        await client.create(POD, pod("a"), "default")
        client.refused = {NODE: Forbidden(403, "Forbidden", "nodes is forbidden")}
        for kind in (RESOURCE_CLAIM, DEVICE_TAINT_RULE):
            for version in (kind.version, *kind.others):
                client.refused[replace(kind, version=version)] = NotFound(404, "NotFound", "no")
        found = await list_once(client)
        assert [one.metadata.name for one in found.snapshot.pods] == ["a"] and found.git_version
        assert {one.what for one in found.skipped} == {"nodes", "resourceclaims.resource.k8s.io"}
        assert "configmaps" not in client.lists and "secrets" not in client.lists

    played(play)
