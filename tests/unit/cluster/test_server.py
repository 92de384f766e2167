"""The API server on its socket: who may use it, what it leaves behind, what it serves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from regauge.base import InputError
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.server import ApiSocket
from regauge.cluster.server_state import ApiCall
from regauge.host import RealClock
from regauge.kube import ServerUnavailable
from regauge.model.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION

Body = Callable[[httpx.AsyncClient, Api], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Api]]:
    api = new_api_server(RealClock(), random.Random(1))
    server = ApiSocket(api, str(path))
    await server.start()
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://api", trust_env=False) as client:
            yield client, api
    finally:
        await server.stop()


def run(path: Path, body: Body) -> None:
    async def main() -> None:
        async with serving(path) as (client, api):
            await body(client, api)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_servers_that_start_at_once_leave_the_mask_of_the_process_as_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        servers = [ApiSocket(new_api_server(RealClock(), random.Random(1)), str(tmp_path / name)) for name in "ab"]
        await asyncio.gather(*(server.start() for server in servers))
        (tmp_path / "made meanwhile").touch()
        await asyncio.gather(*(server.stop() for server in servers))

    before = os.umask(0o022)
    try:
        asyncio.run(asyncio.wait_for(main(), 30))
        left = os.umask(before)
    finally:
        os.umask(before)
    assert (left, stat.S_IMODE((tmp_path / "made meanwhile").stat().st_mode)) == (0o022, 0o644)


def test_only_the_owner_may_use_the_socket_and_it_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"

    async def body(client: httpx.AsyncClient, api: Api) -> None:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert (await client.get("/readyz")).text == "ok"

    run(path, body)
    assert not path.exists()


def test_a_leftover_socket_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as leftover:
        leftover.bind(str(path))

    async def body(client: httpx.AsyncClient, api: Api) -> None:
        with pytest.raises(InputError, match="another server listens on"):
            await ApiSocket(api, str(path)).start()
        assert (await client.get("/version")).status_code == 200

    run(path, body)


def test_a_path_that_is_too_long_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / ("d" * 120) / "api.sock"
    with pytest.raises(InputError, match="Linux allows 107"):
        run(path, lambda client, api: asyncio.sleep(0))


def test_a_directory_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises((InputError, OSError)):
        run(tmp_path / "none" / "api.sock", lambda client, api: asyncio.sleep(0))


def test_it_stops_while_somebody_watches(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"

    async def main() -> float:
        server = ApiSocket(new_api_server(RealClock(), random.Random(1)), str(path))
        await server.start()
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        client = httpx.AsyncClient(transport=transport, base_url="http://api", trust_env=False)
        async with client, client.stream("GET", "/api/v1/pods?watch=1&resourceVersion=1"):
            started = asyncio.get_running_loop().time()
            await server.stop()
            return asyncio.get_running_loop().time() - started

    assert asyncio.run(asyncio.wait_for(main(), 30)) < 5
    assert not path.exists()


def test_discovery_leads_to_every_kind(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        assert (await client.get("/api")).json()["versions"] == ["v1"]
        groups = (await client.get("/apis")).json()["groups"]
        names = {group["name"]: group["preferredVersion"]["groupVersion"] for group in groups}
        assert names["resource.k8s.io"] == "resource.k8s.io/v1" and names["apps"] == "apps/v1"
        listed = (await client.get("/apis/resource.k8s.io/v1")).json()["resources"]
        assert {"resourceclaims", "resourceclaims/status", "resourceslices"} <= {item["name"] for item in listed}
        core = {item["name"]: item for item in (await client.get("/api/v1")).json()["resources"]}
        assert core["pods"]["shortNames"] == ["po"] and "pods/eviction" in core
        assert (await client.get("/apis/nope")).status_code == 404

    run(tmp_path / "s", body)


def test_a_custom_resource_is_served_once_it_is_defined(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
        assert (await client.get(path)).status_code == 404
        names = {"kind": "ClusterQueue", "plural": "clusterqueues"}
        versions = [{"name": "v1beta2", "served": True, "storage": True}, {"name": "v1alpha1", "served": False}]
        spec = {"group": "kueue.x-k8s.io", "scope": "Cluster", "names": names, "versions": versions}
        api.create(CUSTOM_RESOURCE_DEFINITION, {"metadata": {"name": "clusterqueues.kueue.x-k8s.io"}, "spec": spec})
        made = await client.post(path, json={"metadata": {"name": "q"}, "spec": {"cohort": "all"}})
        assert made.status_code == 201 and made.json()["metadata"]["generation"] == 1
        items = (await client.get(path)).json()["items"]
        assert items[0]["kind"] == "ClusterQueue" and items[0]["spec"] == {"cohort": "all"}

    run(tmp_path / "s", body)


def test_the_field_manager_is_the_actor(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        path = "/api/v1/namespaces/default/configmaps"
        await client.post(path, json={"metadata": {"name": "a"}}, headers={"User-Agent": "driver/1.0 (linux)"})
        await client.post(path, json={"metadata": {"name": "b"}}, params={"fieldManager": "somebody"})
        actors = [write.actor for write in api.state.story if write.kind == CONFIG_MAP]
        assert actors == ["driver", "somebody"]

    run(tmp_path / "s", body)


@pytest.mark.parametrize(
    ("method", "path", "content", "code", "message"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps", b"{", 400, "couldn't get version/kind"),
        ("POST", "/api/v1/namespaces/default/configmaps", b"[1]", 400, "must be of type ConfigMap"),
        ("POST", "/api/v1/namespaces/default/configmaps", b'{"kind":"Pod"}', 400, "cannot be handled as a ConfigMap"),
        ("POST", "/api/v1/configmaps", b"{}", 405, "does not allow this method"),
        ("PATCH", "/api/v1/namespaces/default", b"{}", 415, "Unsupported Media Type"),
        ("GET", "/api/v1/nothing", b"", 404, "could not find the requested resource"),
        ("GET", "/apis/resource.k8s.io/v9/resourceclaims", b"", 404, "could not find the requested resource"),
        (
            "PUT",
            "/api/v1/namespaces/default",
            b'{"metadata":{"name":"other"}}',
            400,
            "does not match the name on the URL",
        ),
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=Some", b"{}", 422, 'supported values: "All"'),
        ("GET", "/api/v1/pods?fieldSelector=spec.bogus=1", b"", 400, "field label not supported"),
    ],
)
def test_what_it_cannot_do_it_says(
    tmp_path: Path, method: str, path: str, content: bytes, code: int, message: str
) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        answer = await client.request(method, path, content=content)
        assert answer.status_code == code
        assert message in answer.json()["message"]

    run(tmp_path / "s", body)


def test_a_server_that_cannot_now_is_trouble_that_may_pass(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        def fault(call: ApiCall) -> None:
            raise ServerUnavailable("the store is busy")

        api.state.fault = fault
        answer = await client.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "a"}})
        assert answer.status_code == 503 and answer.json()["message"] == "the store is busy"

    run(tmp_path / "s", body)


def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        big = b'{"data":{"x":"' + b"a" * (4 * 1024 * 1024) + b'"}}'
        assert (await client.post("/api/v1/namespaces/default/configmaps", content=big)).status_code == 413

    run(tmp_path / "s", body)


async def lines(client: httpx.AsyncClient, path: str, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with client.stream("GET", path) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            found.append(msgspec.json.decode(line))
            if len(found) == count:
                break
    return found


def test_a_watch_ends_in_time_and_tells_when_the_beginning_is_over(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
        options = "watch=true&timeoutSeconds=1&allowWatchBookmarks=true"
        options += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        found = await lines(client, f"/api/v1/namespaces/default/configmaps?{options}", 99)
        assert [item["type"] for item in found[:2]] == ["ADDED", "BOOKMARK"]
        assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    run(tmp_path / "s", body)


def test_a_watch_from_too_long_ago_is_one_error_event(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        api.state.store._log.clear()
        api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
        found = await lines(client, "/api/v1/configmaps?watch=1&resourceVersion=1", 9)
        assert [(item["type"], item["object"]["code"], item["object"]["reason"]) for item in found] == [
            ("ERROR", 410, "Expired")
        ]

    run(tmp_path / "s", body)


def test_a_watcher_that_went_away_is_forgotten(tmp_path: Path) -> None:
    async def body(client: httpx.AsyncClient, api: Api) -> None:
        before = len(api.state.store._listeners)
        async with client.stream("GET", "/api/v1/configmaps?watch=1&resourceVersion=1"):
            await asyncio.sleep(0.05)
            assert len(api.state.store._listeners) == before + 1
        api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
        for _ in range(100):
            if len(api.state.store._listeners) == before:
                break
            await asyncio.sleep(0.02)
        assert len(api.state.store._listeners) == before

    run(tmp_path / "s", body)
