"""What a probe and Prometheus see of a driver, over HTTP."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.unit.driver.fakes import FOUR, Node

from regauge.base import InputError
from regauge.driver.endpoint import Endpoint, address
from regauge.kube import ServerUnavailable


@asynccontextmanager
async def answering(node: Node, where: str) -> AsyncIterator[httpx.AsyncClient]:
    """A driver that runs, and a client of its endpoint."""
    node.describe(FOUR)
    await node.kubelet.start()
    endpoint = Endpoint(address(where), node.clock)
    node.watcher = endpoint
    await node.start()
    try:
        async with endpoint.served(node.driver):
            transport = httpx.AsyncHTTPTransport(uds=where.removeprefix("unix:"))
            async with httpx.AsyncClient(transport=transport, base_url="http://driver") as client:
                yield client
    finally:
        await node.stop()


def sample(text: str, name: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def test_ready_when_registered_and_published(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node()
        assert node.kube is not None
        node.kube.fail = {"list": ServerUnavailable("refused")}
        async with answering(node, f"unix:{tmp_path}/http.sock") as client:
            assert (await client.get("/healthz")).text == "ok\n"
            answer = await client.get("/readyz")
            assert answer.status_code == 503
            assert "the kubelet has not registered gpu.example.com\n" in answer.text
            assert "slices are not published\n" in answer.text
            await node.kubelet.info()
            failed = 'request_duration_seconds_count{code="unavailable",resource="resourceslices",verb="list"}'
            assert sample((await client.get("/metrics")).text, f"regauge_driver_{failed}") >= 1
            node.kube.fail = {}
            await node.clock.advance(40)
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.text) == (200, "ok\n")

    asyncio.run(scenario())


def test_a_kind_that_hangs_ends_the_life_of_the_driver(tmp_path: Path) -> None:
    class Hanging:
        def __init__(self, kind: object) -> None:
            self._kind = kind

        def __getattr__(self, name: str) -> object:
            return getattr(self._kind, name)

        async def health(self, devices: object) -> object:
            return await asyncio.Event().wait()

    async def scenario() -> None:
        node = Node()
        async with answering(node, f"unix:{tmp_path}/http.sock") as client:
            node.driver._kind = Hanging(node.driver._kind)  # type: ignore[assignment]
            await node.clock.advance(50)
            assert (await client.get("/healthz")).status_code == 200
            await node.clock.advance(30)
            answer = await client.get("/healthz")
            assert (answer.status_code, answer.text) == (503, "health was not asked for 80 s\n")

    asyncio.run(scenario())


def test_numbers_for_prometheus(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node()
        async with answering(node, f"unix:{tmp_path}/http.sock") as client:
            dra = await node.kubelet.dra()
            good, bad = node.claim("good", "gpu-2"), node.claim("bad", "gpu-0")
            await dra.node_prepare_resources([good])
            await dra.node_prepare_resources([bad])
            plugin = await node.kubelet.plugin()
            await plugin.allocate([["gpu-0"]])
            with pytest.raises(Exception, match="not on this node"):
                await plugin.allocate([["gpu-77"]])
            answer = await client.get("/metrics")
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            calls = "regauge_driver_call_duration_seconds_count"
            expected = {
                'regauge_driver_devices{health="healthy",stack="dra"}': 2,
                'regauge_driver_devices{health="healthy",stack="device-plugin"}': 2,
                "regauge_driver_prepared_claims": 1,
                "regauge_driver_prepared_devices": 1,
                "regauge_driver_published_devices": 2,
                "regauge_driver_published_slices": 1,
                "regauge_driver_slice_generation": 1,
                "regauge_driver_tainted_devices": 0,
                f'{calls}{{call="NodePrepareResources",code="OK"}}': 1,
                f'{calls}{{call="NodePrepareResources",code="ClaimError"}}': 1,
                f'{calls}{{call="Allocate",code="OK"}}': 1,
                f'{calls}{{call="Allocate",code="NotFound"}}': 1,
                'regauge_driver_notices_total{code="prepare-failed",level="error"}': 1,
            }
            assert {name: sample(answer.text, name) for name in expected} == expected
            assert f'{calls}{{call="Reconcile",code="OK"}}' in answer.text
            asked = "regauge_driver_request_duration_seconds_count"
            assert sample(answer.text, f'{asked}{{code="ok",resource="resourceclaims",verb="get"}}') == 2
            assert sample(answer.text, f'{asked}{{code="ok",resource="resourceslices",verb="create"}}') == 1
            assert 'regauge_driver_info{driver="gpu.example.com",node=' in answer.text
            names = {"device": "gpu-0", "stack": "device-plugin", "uuid": "GPU-gpu-0", "pci": "", "numbers": ""}
            labels = ",".join(f'{name}="{names[name]}"' for name in sorted(names))
            assert sample(answer.text, f"regauge_driver_device_healthy{{{labels}}}") == 1

    asyncio.run(scenario())


def test_the_socket_is_for_its_owner_and_goes_with_the_driver(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    path.write_text("left by a process that was killed")

    async def scenario() -> None:
        node = Node()
        async with answering(node, f"unix:{path}") as client:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert (await client.get("/nothing")).status_code == 404
            with pytest.raises(InputError, match="another process listens"):
                async with Endpoint(address(f"unix:{path}"), node.clock).served(node.driver):
                    raise AssertionError("it must not start")

    asyncio.run(scenario())
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0:9810", "is not a loopback address"),
        ("10.0.0.1:9810", "is not a loopback address"),
        ("[::]:9810", "is not a loopback address"),
        ("example.com:80", "is no address to listen on"),
        ("127.0.0.1", "is no address to listen on"),
        ("127.0.0.1:99999", "is no address to listen on"),
        ("999.0.0.1:80", "is no address to listen on"),
        ("unix:relative", "is no address to listen on"),
        ("unix:/" + "x" * 120, "Linux allows 107|too long"),
    ],
)
def test_only_loopback_and_sockets(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        address(text)


def test_loopback_in_its_spellings() -> None:
    assert [address(text).host for text in ("127.0.0.1:1", "[::1]:1", "localhost:1")] == [
        "127.0.0.1",
        "::1",
        "127.0.0.1",
    ]
    assert address("unix:/run/d.sock").socket == "/run/d.sock"
