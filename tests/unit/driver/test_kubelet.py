"""The driver as a process of its own, against the kubelet's own plugin code and an API server over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support import oracle
from tests.unit.driver.api import served
from tests.unit.driver.fakes import FakeKube

from regauge.cdi.directory import SpecDirectories
from regauge.host import RealFiles
from regauge.model.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE

DRIVER = "driver.example.com"
PATIENCE_S = 50.0  # of a busy machine; the kubelet asks ten times a second
DESCRIPTION = """apiVersion: regauge.dev/v1alpha1
kind: Devices
driver: driver.example.com
resource: example.com/widget
devicePlugin: {answer: both, preStart: true}
devices:
- {name: a, stack: device-plugin, deviceNodes: [{path: /dev/null}], env: {A: "1"}, numaNode: 0, healthFile: HEALTH-a}
- {name: b, stack: device-plugin, deviceNodes: [{path: /dev/zero}], env: {B: "1"}, numaNode: 0}
- {name: c, stack: device-plugin, deviceNodes: [{path: /dev/full}], env: {C: "1"}, numaNode: 1}
- {name: d, stack: dra, deviceNodes: [{path: /dev/null}], env: {D: "1"}, healthFile: HEALTH-d}
- {name: e, stack: dra, deviceNodes: [{path: /dev/zero}], env: {E: "1"}}
"""


@dataclass
class Place:
    """A kubelet's directory, the description, and the API."""

    root: Path
    kube: FakeKube = field(default_factory=FakeKube)

    @property
    def api(self) -> str:
        return f"{self.root}/api.sock"

    def prepare(self) -> None:
        (self.root / "k").mkdir()
        (self.root / "devices.yaml").write_text(DESCRIPTION.replace("HEALTH", f"{self.root}/health"))
        self.kube.put(NODE, "n1", metadata={"uid": "u1"})
        results = [{"request": "r/sub", "driver": DRIVER, "pool": "n1", "device": "d"}]
        status = {"allocation": {"devices": {"results": results}}}
        self.kube.put(RESOURCE_CLAIM, "c1", "ns", metadata={"uid": "uid-1"}, spec={}, status=status)

    def cdi_names(self) -> list[str]:
        return sorted(SpecDirectories(RealFiles(), (f"{self.root}/cdi",)).read().devices)


@pytest.fixture
def place() -> Iterator[Place]:
    root = Path(tempfile.mkdtemp(prefix="rg-", dir="/tmp"))
    place = Place(root)
    place.prepare()
    yield place
    shutil.rmtree(root)


async def start_driver(place: Place, pod_uid: str = "") -> asyncio.subprocess.Process:
    directory = [f"--config={place.root}/devices.yaml", f"--kubelet-dir={place.root}/k", f"--cdi-dir={place.root}/cdi"]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "regauge", "driver", *directory, f"--api=unix:{place.api}", "--node=n1", "--log=json"),
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "POD_UID": pod_uid},
    )


async def stop(process: asyncio.subprocess.Process, number: signal.Signals = signal.SIGTERM) -> int:
    if process.returncode is None:
        process.send_signal(number)
    return await process.wait()


@contextlib.asynccontextmanager
async def driver_running(place: Place) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await start_driver(place)
    try:
        yield process
    finally:
        await stop(process, signal.SIGKILL)


class Events(list[dict[str, Any]]):
    """What a kubelet says, as it says it."""

    kubelet: asyncio.subprocess.Process

    def call(self, what: str) -> None:
        """Have it call the driver once more."""
        assert self.kubelet.stdin is not None
        self.kubelet.stdin.write(what.encode() + b"\n")


@contextlib.asynccontextmanager
async def kubelet_running(place: Place, program: Path, *options: str) -> AsyncIterator[Events]:
    """The reference kubelet; what it says grows in the list."""
    process = await asyncio.create_subprocess_exec(
        str(program),
        *("-dir", f"{place.root}/k", "-driver", DRIVER, "-run", "100s", *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2**24,  # bytes of a line
    )
    events = Events()
    events.kubelet = process

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            events.append(json.loads(line))

    reading = asyncio.ensure_future(read())
    try:
        yield events
    finally:
        await stop(process, signal.SIGKILL)
        await reading


async def until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.05)


def of(events: Events, kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ev"] == kind]


async def everything_called(events: Events) -> None:
    for kind in ("dp-prestart", "dra-unprepare", "health"):
        await until(lambda kind=kind: of(events, kind), kind)


@pytest.mark.row(1, how="oracle")
@pytest.mark.row(2, how="oracle")
@pytest.mark.row(10, how="oracle")
@pytest.mark.row(11, how="oracle")
@pytest.mark.row(49, how="oracle")
@pytest.mark.row(194, how="oracle")
@pytest.mark.row(195, how="oracle")
@pytest.mark.row(196, how="oracle")
@pytest.mark.row(197, how="oracle")
@pytest.mark.row(199, how="oracle")
def test_both_stacks_before_the_kubelets_own_code(place: Place) -> None:
    program = oracle("kubelet")

    async def scenario() -> None:
        async with served(place.kube, place.api), driver_running(place), kubelet_running(place, program) as events:
            await everything_called(events)
            (connected,) = of(events, "dp-connected")
            assert connected["resource"] == "example.com/widget"
            listed = of(events, "dp-list")[0]
            assert (listed["devices"], listed["first"]["ID"], listed["first"]["health"]) == (3, "a", "Healthy")
            assert of(events, "dp-options")[0]["resp"] == {
                "pre_start_required": True,
                "get_preferred_allocation_available": True,
            }
            preferred = of(events, "dp-preferred")[0]
            assert preferred["resp"] == {"container_responses": [{"deviceIDs": ["a", "b"]}]}
            (allocated,) = of(events, "dp-allocate")[0]["resp"]["container_responses"]
            assert [one["name"] for one in allocated["cdi_devices"]] == ["example.com/widget=a", "example.com/widget=b"]
            assert allocated["envs"] == {"A": "1", "B": "1"}
            assert [one["host_path"] for one in allocated["devices"]] == ["/dev/null", "/dev/zero"]
            assert of(events, "dp-prestart")[0]["err"] == ""
            prepared = of(events, "dra-prepare")[0]
            assert prepared["err"] == ""
            (device,) = prepared["resp"]["claims"]["uid-1"]["devices"]
            assert device["cdi_device_ids"] == ["example.com/widget=claim-uid-1-d"]
            assert (device["request_names"], device["pool_name"], device["device_name"]) == (["r"], "n1", "d")
            assert of(events, "dra-unprepare")[0]["err"] == ""
            names = {one["device"]["device_name"]: one["health"] for one in of(events, "health")[0]["devices"]}
            assert names == {"d": 1, "e": 1}
            assert [one["name"] for one in place.kube.slices()[0]["spec"]["devices"]] == ["d", "e"]
            assert place.cdi_names() == [f"example.com/widget={name}" for name in "abc"]

    asyncio.run(scenario())


@pytest.mark.row(11, how="oracle")
def test_unhealthy_and_back_before_the_kubelets_own_code(place: Place) -> None:
    program = oracle("kubelet")

    async def scenario() -> None:
        async with served(place.kube, place.api), driver_running(place), kubelet_running(place, program) as events:
            await everything_called(events)
            for name in ("a", "d"):
                (place.root / f"health-{name}").write_text("fell off the bus")
            await until(lambda: of(events, "dp-list")[-1]["first"]["health"] == "Unhealthy", "a unhealthy")
            await until(lambda: of(events, "health")[-1]["devices"][0]["health"] == 2, "d unhealthy")
            assert of(events, "health")[-1]["devices"][0]["message"] == "fell off the bus"
            for name in ("a", "d"):
                (place.root / f"health-{name}").unlink()
            await until(lambda: of(events, "dp-list")[-1]["first"]["health"] == "Healthy", "a healthy again")
            await until(lambda: of(events, "health")[-1]["devices"][0]["health"] == 1, "d healthy again")

    asyncio.run(scenario())


@pytest.mark.row(198, how="oracle")
def test_the_kubelet_restarts_and_the_driver_is_killed(place: Place) -> None:
    program = oracle("kubelet")

    async def scenario() -> None:
        async with served(place.kube, place.api):
            process = await start_driver(place)
            try:
                async with kubelet_running(place, program) as events:
                    await everything_called(events)
                for socket in (place.root / "k" / "device-plugins").glob("*.sock"):
                    socket.unlink()  # what a starting kubelet does
                async with kubelet_running(place, program) as events:
                    await everything_called(events)
                    assert of(events, "dra-prepare")[0]["resp"]["claims"]["uid-1"]["devices"]
                    await stop(process, signal.SIGKILL)
                    await until(lambda: of(events, "dp-disconnected"), "the kubelet notices")
                    process = await start_driver(place)
                    await until(lambda: len(of(events, "dp-connected")) == 2, "registered again")
                    await until(lambda: len(of(events, "dp-list")) == 2, "listed again")
                    await until(
                        lambda: of(events, "health")[-1]["ms"] > of(events, "health-end")[-1]["ms"], "health again"
                    )
                assert await stop(process) == 0
                left = sorted(path.name for path in (place.root / "k").rglob("*.sock"))
                assert left == ["kubelet.sock"]
            finally:
                await stop(process, signal.SIGKILL)

    asyncio.run(scenario())


@pytest.mark.row(249, how="oracle")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_newer_instance_replaces_an_older_one(place: Place, number: signal.Signals) -> None:
    program = oracle("kubelet")
    uids = [f"{number:08x}-0000-4000-8000-00000000000{index}" for index in (1, 2)]

    async def scenario() -> None:
        async with served(place.kube, place.api), kubelet_running(place, program) as events:
            instances = [await start_driver(place, uids[0])]
            try:
                await everything_called(events)
                await prepare(events, 2)
                slices = place.kube.slices()
                instances.append(await start_driver(place, uids[1]))
                registry = place.root / "k" / "plugins_registry"
                await until(lambda: len(list(registry.glob("*.sock"))) == 2, "both are there")
                await asyncio.sleep(2.0)  # the kubelet has seen the second one, and calls it from now on
                events.call("unprepare")
                await until(lambda: len(of(events, "dra-unprepare")) == 2, "released by the new one")
                assert of(events, "dra-unprepare")[1]["err"] == ""
                await prepare(events, 3)
                await stop(instances[0], number)
                await until(lambda: len(of(events, "dp-connected")) == 2, "the new one serves the device plugin")
                await prepare(events, 4)
                await until(
                    lambda: [path.name for path in registry.glob("*.sock")] == [f"{DRIVER}-{uids[1]}-reg.sock"], ""
                )
                assert place.kube.slices() == slices
            finally:
                for process in instances:
                    await stop(process, signal.SIGKILL)

    asyncio.run(scenario())


async def prepare(events: Events, count: int) -> None:
    events.call("prepare")
    await until(lambda: len(of(events, "dra-prepare")) == count, f"prepared {count} times")
    answer = of(events, "dra-prepare")[-1]
    assert answer["err"] == ""
    assert answer["resp"]["claims"]["uid-1"]["devices"][0]["device_name"] == "d"


def test_slices_that_are_deleted_come_back_over_http(place: Place) -> None:
    async def scenario() -> None:
        async with served(place.kube, place.api), driver_running(place):
            await until(place.kube.slices, "published")
            name = place.kube.slices()[0]["metadata"]["name"]
            await asyncio.sleep(0.5)
            await place.kube.delete(RESOURCE_SLICE, name)
            await until(place.kube.slices, "published again")
            assert place.kube.slices()[0]["spec"]["pool"]["generation"] == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("stack: dra", "stack: drs"),
        ("/dev/zero", "/dev/nonesuch"),
    ],
)
def test_a_bad_description_ends_the_process_in_words(place: Place, change: str, expected: str) -> None:
    path = place.root / "devices.yaml"
    path.write_text(path.read_text().replace(change, expected, 1))

    async def scenario() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "regauge", "driver", f"--config={path}", f"--kubelet-dir={place.root}/k"),
            *("--slices-file=s.json", "--node=n1", f"--cdi-dir={place.root}/cdi"),
            stderr=asyncio.subprocess.PIPE,
        )
        _, error = await process.communicate()
        return process.returncode, error.decode()

    code, error = asyncio.run(scenario())
    assert code == 2
    assert f"{path}:" in error
    assert "Traceback" not in error
