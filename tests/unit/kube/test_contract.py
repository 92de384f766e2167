"""One contract, every client: in memory, over a unix socket, and over TLS to a real API server when one is given.

`REGAUGE_KUBECONFIG` names the kubeconfig of a throw-away cluster; without it that half is skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.server import ApiSocket
from regauge.host import RealClock
from regauge.kube import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    KubeClient,
    MemoryClient,
    NotFound,
    WatchEvent,
    read_snapshot,
)
from regauge.kube.config import Connection, load_connection
from regauge.kube.http import HttpClient
from regauge.model.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, RESOURCE_CLAIM

SPACE = "regauge-contract"
Body = Callable[[KubeClient], Awaitable[None]]


@contextlib.asynccontextmanager
async def memory(_directory: Path) -> AsyncIterator[KubeClient]:
    yield MemoryClient(new_api_server(RealClock(), random.Random(1)).as_actor("test"))


@contextlib.asynccontextmanager
async def unix(directory: Path) -> AsyncIterator[KubeClient]:
    socket = ApiSocket(new_api_server(RealClock(), random.Random(1)), str(directory / "api.sock"))
    await socket.start()
    client = HttpClient(Connection(server=f"unix:{socket.path}"), {})
    try:
        yield client
    finally:
        await client.close()
        await socket.stop()


@contextlib.asynccontextmanager
async def real(_directory: Path) -> AsyncIterator[KubeClient]:
    client = HttpClient(load_connection(os.environ, kubeconfig=os.environ["REGAUGE_KUBECONFIG"]))
    try:
        yield client
    finally:
        await client.close()


CLIENTS = {"memory": memory, "unix": unix, "real": real}


@pytest.fixture(params=list(CLIENTS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Body], None]:
    """Runs a test's body with a client and an empty namespace."""
    name = request.param
    if name == "real" and not os.environ.get("REGAUGE_KUBECONFIG"):
        pytest.skip("REGAUGE_KUBECONFIG names no cluster")

    async def scenario(body: Body) -> None:
        async with CLIENTS[name](tmp_path) as client:
            with contextlib.suppress(AlreadyExists):
                await client.create(NAMESPACE, {"metadata": {"name": SPACE}})
            try:
                await body(client)
            finally:
                for kind in (CONFIG_MAP, RESOURCE_CLAIM, POD):
                    for item in (await client.list(kind, SPACE)).items:
                        if item["metadata"]["name"] != "kube-root-ca.crt":
                            await client.delete(kind, item["metadata"]["name"], SPACE, grace_period_s=0)

    return lambda body: asyncio.run(asyncio.wait_for(scenario(body), 60))


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": SPACE}, "data": data}


def claim(name: str) -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


def test_version(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        version = await client.version()
        assert version.git_version.startswith("v1.")
        assert version.git_version[1:].startswith(version.minor + ".")

    run(body)


def test_what_is_created_is_read_again(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(CONFIG_MAP, config_map("a", x="1"))
        assert made["kind"] == "ConfigMap" and made["apiVersion"] == "v1"
        assert made["metadata"]["uid"] and made["metadata"]["resourceVersion"] and made["metadata"]["creationTimestamp"]
        assert await client.get(CONFIG_MAP, "a", SPACE) == made
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAP, config_map("a"))
        with pytest.raises(NotFound) as refused:
            await client.get(CONFIG_MAP, "b", SPACE)
        assert refused.value.message == 'configmaps "b" not found'

    run(body)


def test_generated_names(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(CONFIG_MAP, {"metadata": {"generateName": "gen-", "namespace": SPACE}})
        assert made["metadata"]["name"].startswith("gen-") and len(made["metadata"]["name"]) == 9

    run(body)


def test_updates_are_locked_optimistically(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(CONFIG_MAP, config_map("a", x="1"))
        await client.update(CONFIG_MAP, {**made, "data": {"x": "2"}})
        with pytest.raises(Conflict) as refused:
            await client.update(CONFIG_MAP, {**made, "data": {"x": "3"}})
        assert "the object has been modified" in refused.value.message
        assert (await client.get(CONFIG_MAP, "a", SPACE))["data"] == {"x": "2"}

    run(body)


def test_an_update_without_a_change_keeps_the_version(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(CONFIG_MAP, config_map("a", x="1"))
        again = await client.update(CONFIG_MAP, made)
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    run(body)


def test_patches(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        await client.create(CONFIG_MAP, config_map("a", x="1", y="2"))
        merged = await client.patch(CONFIG_MAP, "a", {"data": {"x": None, "z": "3"}}, SPACE)
        assert merged["data"] == {"y": "2", "z": "3"}
        steps = [{"op": "test", "path": "/data/y", "value": "2"}, {"op": "replace", "path": "/data/y", "value": "9"}]
        assert (await client.patch(CONFIG_MAP, "a", steps, SPACE, patch_type="json"))["data"]["y"] == "9"
        with pytest.raises(Invalid):
            failing = [{"op": "remove", "path": "/data/none"}]
            await client.patch(CONFIG_MAP, "a", failing, SPACE, patch_type="json")
        strategic = await client.patch(CONFIG_MAP, "a", {"data": {"z": None}}, SPACE, patch_type="strategic")
        assert strategic["data"] == {"y": "9"}

    run(body)


def test_lists_and_selectors(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        for name, team in (("a", "red"), ("b", "blue"), ("c", "red")):
            labels = {"team": team}
            await client.create(CONFIG_MAP, {"metadata": {"name": name, "namespace": SPACE, "labels": labels}})
        red = await client.list(CONFIG_MAP, SPACE, label_selector="team in (red),team!=blue")
        assert [item["metadata"]["name"] for item in red.items] == ["a", "c"]
        assert all(item["kind"] == "ConfigMap" for item in red.items)
        one = await client.list(CONFIG_MAP, SPACE, field_selector="metadata.name=b")
        assert [item["metadata"]["name"] for item in one.items] == ["b"]
        with pytest.raises(ApiError) as refused:
            await client.list(CONFIG_MAP, SPACE, field_selector="data.x=1")
        assert refused.value.code == 400

    run(body)


async def events(watch: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async for event in watch:
        if event.type != "BOOKMARK":
            found.append((event.type, event.object["metadata"]["name"]))
        if len(found) == count:
            break
    return found


def test_a_watch_misses_nothing_after_a_list(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        listed = await client.list(CONFIG_MAP, SPACE)
        await client.create(CONFIG_MAP, config_map("a", x="1"))
        watch = client.watch(CONFIG_MAP, SPACE, resource_version=listed.resource_version)
        reading = asyncio.create_task(events(watch, 3))
        await asyncio.sleep(0.05)
        await client.patch(CONFIG_MAP, "a", {"data": {"x": "2"}}, SPACE)
        await client.delete(CONFIG_MAP, "a", SPACE)
        assert await reading == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    run(body)


def test_a_watch_through_a_selector_sees_things_leave(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        listed = await client.list(CONFIG_MAP, SPACE)
        watch = client.watch(CONFIG_MAP, SPACE, resource_version=listed.resource_version, label_selector="on=yes")
        reading = asyncio.create_task(events(watch, 2))
        await asyncio.sleep(0.05)
        await client.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": SPACE, "labels": {"on": "yes"}}})
        await client.patch(CONFIG_MAP, "a", {"metadata": {"labels": {"on": "no"}}}, SPACE)
        assert await reading == [("ADDED", "a"), ("DELETED", "a")]

    run(body)


def test_finalizers_hold_an_object(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await client.create(CONFIG_MAP, held)
        await client.delete(CONFIG_MAP, "a", SPACE)
        assert (await client.get(CONFIG_MAP, "a", SPACE))["metadata"]["deletionTimestamp"]
        await client.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, SPACE)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", SPACE)

    run(body)


def test_the_uid_is_a_precondition_of_deletion(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(CONFIG_MAP, config_map("a"))
        with pytest.raises(Conflict) as refused:
            await client.delete(CONFIG_MAP, "a", SPACE, uid="11111111-2222-3333-4444-555555555555")
        assert "does not match the UID in record" in refused.value.message
        await client.delete(CONFIG_MAP, "a", SPACE, uid=made["metadata"]["uid"])

    run(body)


def test_claims_have_defaults_an_immutable_spec_and_a_status_of_their_own(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        made = await client.create(RESOURCE_CLAIM, claim("c"), SPACE)
        exactly = made["spec"]["devices"]["requests"][0]["exactly"]
        assert exactly == {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
        with pytest.raises(Invalid) as refused:
            path = "/spec/devices/requests/0/exactly/count"
            change = [{"op": "replace", "path": path, "value": 2}]
            await client.patch(RESOURCE_CLAIM, "c", change, SPACE, patch_type="json")
        assert refused.value.message.endswith("field is immutable")
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        ignored = await client.patch(RESOURCE_CLAIM, "c", status, SPACE)
        assert not ignored.get("status")
        written = await client.patch(RESOURCE_CLAIM, "c", status, SPACE, subresource="status")
        assert written["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"

    run(body)


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.example.com/app:1"}]
    spec = {"containers": containers, "schedulerName": "nobody", "automountServiceAccountToken": False}
    return {"metadata": {"name": name}, "spec": spec}


async def make_pod(client: KubeClient, name: str) -> None:
    """A real API server wants the namespace's service account first."""
    for _ in range(100):
        with contextlib.suppress(ApiError):
            await client.create(POD, pod(name), SPACE)
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the pod could not be created")


def test_a_bound_pod_waits_for_its_kubelet(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        await make_pod(client, "p")
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "nowhere"}}
        await client.create(POD, binding, SPACE, subresource="binding")
        bound = await client.get(POD, "p", SPACE)
        assert bound["spec"]["nodeName"] == "nowhere"
        assert [item["type"] for item in bound["status"]["conditions"]] == ["PodScheduled"]
        with pytest.raises(Conflict) as refused:
            await client.create(POD, binding, SPACE, subresource="binding")
        assert 'pod p is already assigned to node "nowhere"' in refused.value.message
        await client.delete(POD, "p", SPACE)
        marked = await client.get(POD, "p", SPACE)
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
        await client.delete(POD, "p", SPACE, grace_period_s=0)
        with pytest.raises(NotFound):
            await client.get(POD, "p", SPACE)

    run(body)


def test_an_unbound_pod_goes_at_once(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        await make_pod(client, "p")
        await client.delete(POD, "p", SPACE)
        with pytest.raises(NotFound):
            await client.get(POD, "p", SPACE)

    run(body)


def test_eviction(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        await make_pod(client, "p")
        await client.create(POD, {"metadata": {"name": "p"}}, SPACE, subresource="eviction")
        with pytest.raises(NotFound):
            await client.get(POD, "p", SPACE)

    run(body)


def test_refusals_carry_the_whole_status(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        bad = claim("c")
        bad["spec"]["devices"]["requests"][0].pop("exactly")
        with pytest.raises(Invalid) as refused:
            await client.create(RESOURCE_CLAIM, bad, SPACE)
        causes = refused.value.status["details"]["causes"]
        assert causes[0]["field"] == "spec.devices.requests[0]"
        assert refused.value.code == 422 and refused.value.reason == "Invalid"
        with pytest.raises(NotFound):
            await client.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "no-such-namespace"}})

    run(body)


def test_cluster_scoped_kinds(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        with contextlib.suppress(NotFound):
            await client.delete(NODE, "regauge-contract-node")
        made = await client.create(NODE, {"metadata": {"name": "regauge-contract-node"}, "spec": {}})
        assert "namespace" not in made["metadata"]
        status = {"status": {"capacity": {"example.com/gpu": "4"}}}
        changed = await client.patch(NODE, "regauge-contract-node", status, subresource="status")
        assert changed["status"]["capacity"] == {"example.com/gpu": "4"}
        await client.delete(NODE, "regauge-contract-node")

    run(body)


@pytest.mark.parametrize("make", [memory, unix], ids=["memory", "unix"])
def test_a_watch_from_too_long_ago_is_gone(make: Any, tmp_path: Path) -> None:
    """A real server forgets by compaction, which a client cannot ask for, so this is for ours only."""
    from regauge.cluster import store

    async def scenario() -> None:
        async with make(tmp_path) as client:
            await client.create(NAMESPACE, {"metadata": {"name": SPACE}})
            await client.create(CONFIG_MAP, config_map("a", x="0"))
            for number in range(30):
                await client.patch(CONFIG_MAP, "a", {"data": {"x": str(number)}}, SPACE)
            with pytest.raises(Gone):
                async for _event in client.watch(CONFIG_MAP, SPACE, resource_version="2"):
                    break

    monkey = pytest.MonkeyPatch()
    monkey.setattr(store.Store.__init__, "__defaults__", (20,))
    try:
        asyncio.run(scenario())
    finally:
        monkey.undo()


def test_pages_are_followed_at_one_moment(run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regauge.kube.http.PAGE_SIZE", 2)

    async def body(client: KubeClient) -> None:
        for number in range(5):
            labels = {"page": "yes"}
            metadata = {"name": f"p{number}", "namespace": SPACE, "labels": labels}
            await client.create(CONFIG_MAP, {"metadata": metadata})
        found = await client.list(CONFIG_MAP, SPACE, label_selector="page=yes")
        assert [item["metadata"]["name"] for item in found.items] == [f"p{number}" for number in range(5)]

    run(body)


def test_a_snapshot_holds_what_the_lists_leave_out(run: Callable[[Body], None]) -> None:
    async def body(client: KubeClient) -> None:
        await client.create(CONFIG_MAP, config_map("one", a="1"))
        made = claim("c")
        made["metadata"]["namespace"] = SPACE
        await client.create(RESOURCE_CLAIM, made)
        found = await read_snapshot(client, (CONFIG_MAP, RESOURCE_CLAIM))
        (document,) = (one for one in found.documents(CONFIG_MAP) if one.name == "one")
        assert (document.object["apiVersion"], document.object["kind"]) == ("v1", "ConfigMap")
        assert document.where.object == "live configmaps"
        assert [one.metadata.name for one in found.claims] == ["c"]

    run(body)
