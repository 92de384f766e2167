"""Sources read what is there, and say in words what is not: nothing from outside ends the exporter."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from regauge.base import InputError, MemoryFiles
from regauge.model import PluginDeviceHolder
from regauge.observe import Measure, Readings, Source
from regauge.observe.sources import (
    PodResourcesSource,
    ScrapedSource,
    Surroundings,
    Target,
    TextFileSource,
    known_mappings,
    make_source,
    make_sources,
    nvml_source,
)
from regauge.pluginapi import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    DynamicResource,
    PodResources,
    RpcError,
    Services,
)
from regauge.pluginapi.memory import MemoryNet
from regauge.pluginapi.wire import WireNet

POWER = b'accelerator_power_watts{uuid="u"} 3\n'


def read(source: Source, now_s: float = 1000.0) -> Readings:
    async def once() -> Readings:
        try:
            return await source.read(now_s)
        finally:
            await source.close()

    return asyncio.run(once())


@asynccontextmanager
async def answering(answer: bytes, wait_s: float = 0.0) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that gives one answer to everybody, and the requests that it saw."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        await asyncio.sleep(wait_s)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics", seen


def response(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body


async def scraped(answer: bytes, wait_s: float = 0.0, **target: Any) -> tuple[Readings, list[bytes]]:
    async with answering(answer, wait_s) as (url, seen):
        limit_s = wait_s / 2 or 20.0
        source = ScrapedSource("test", (Target(url, node="node-a", **target),), known_mappings(), timeout_s=limit_s)
        try:
            return await source.read(0.0), seen
        finally:
            await source.close()


def test_an_exporter_is_asked_with_the_token_of_now(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    readings, (request,) = asyncio.run(scraped(response(POWER), token_file=str(tmp_path / "token")))
    assert [(one.uuid, one.value, one.node) for one in readings.devices] == [("u", 3, "node-a")]
    assert readings.troubles == ()
    assert b"authorization: bearer secret\r\n" in request.lower()


@pytest.mark.parametrize(
    ("answer", "wait_s", "reason"),
    [
        (response(b"no", "503 Service Unavailable"), 0.0, "refused"),
        (response(b"", "302 Found", "location: http://127.0.0.1:1/\r\n"), 0.0, "refused"),
        (response(POWER), 0.6, "slow"),
        (b"", 0.0, "unreachable"),
        (b"garbage\r\n\r\n", 0.0, "unreachable"),
        (response(b"accelerator_power_watts{ 1\n"), 0.0, "not-understood"),
    ],
)
def test_an_exporter_in_trouble_is_told(answer: bytes, wait_s: float, reason: str) -> None:
    readings, seen = asyncio.run(scraped(answer, wait_s))
    assert (readings.devices, [one.reason for one in readings.troubles]) == ((), [reason])
    assert len(seen) == 1  # a redirect is not followed


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regauge.observe.sources.scraped.SIZE_LIMIT_BYTES", 1000)
    readings, _ = asyncio.run(scraped(response(POWER * 100)))
    assert [one.reason for one in readings.troubles] == ["too-large"]


def test_one_that_does_not_answer_keeps_nobody_from_being_read() -> None:
    async def scenario() -> Readings:
        async with answering(response(POWER)) as (url, _):
            targets = (Target("http://127.0.0.1:9/metrics"), Target("unix:/nowhere/at/all"), Target(url))
            source = ScrapedSource("test", targets, known_mappings())
            try:
                return await source.read(0.0)
            finally:
                await source.close()

    readings = asyncio.run(scenario())
    assert len(readings.devices) == 1
    assert [one.place for one in readings.troubles] == ["http://127.0.0.1:9/metrics", "unix:/nowhere/at/all"]


@pytest.mark.row(135)
def test_files_are_read_while_somebody_writes_them(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_bytes(POWER)
    (tmp_path / "b.prom").write_bytes(b"accelerator_power_watts{ 1\n")
    (tmp_path / "old.prom").write_bytes(POWER)
    (tmp_path / "c.txt").write_bytes(POWER)
    for name, written_s in (("a.prom", 990), ("b.prom", 990), ("old.prom", 100)):
        os.utime(tmp_path / name, (written_s, written_s))
    readings = read(TextFileSource("file", str(tmp_path), known_mappings(), "node-a"))
    assert [(one.uuid, one.node) for one in readings.devices] == [("u", "node-a")]
    assert [(Path(one.place).name, one.reason) for one in readings.troubles] == [
        ("b.prom", "not-understood"),
        ("old.prom", "stale"),
    ]


def test_a_file_that_is_not_there_is_trouble(tmp_path: Path) -> None:
    readings = read(TextFileSource("file", str(tmp_path / "none.prom"), known_mappings()))
    assert [one.reason for one in readings.troubles] == ["unreachable"]


class Library:
    """As much of pynvml as is called: two GPUs, the second in MIG mode with one device. `lost` fell off the bus."""

    NVMLError = pynvml.NVMLError
    NVML_ERROR_GPU_IS_LOST = pynvml.NVML_ERROR_GPU_IS_LOST
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU
    PART = 101

    def __init__(self, lost: frozenset[int] = frozenset()) -> None:
        self.lost = lost

    def __getattr__(self, name: str) -> Callable[..., Any]:
        assert hasattr(pynvml, name), f"pynvml has no {name}"
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Any) -> Any:
        handle = arguments[0] if arguments else None
        if handle in self.lost and name != "nvmlDeviceGetHandleByIndex":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": handle,
            "nvmlDeviceGetUUID": "MIG-x" if handle == self.PART else f"GPU-{handle}".encode(),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=f"00000000:{'3B' if handle == 0 else '5E'}:00.0"),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=5 if handle == self.PART else 50, total=100),
            "nvmlDeviceGetTemperature": 41,
            "nvmlDeviceGetMigMode": (1, 1) if handle == 1 else (0, 0),
            "nvmlDeviceGetMaxMigDeviceCount": 2,
        }
        if name == "nvmlDeviceGetUtilizationRates" and handle == 0:
            return SimpleNamespace(gpu=37, memory=12)
        if name == "nvmlDeviceGetMigDeviceHandleByIndex" and arguments[1] == 0:
            return self.PART
        if name in answers:
            return answers[name]
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.mark.row(135)
def test_nvml_tells_what_each_gpu_can_tell() -> None:
    readings = read(nvml_source("nvml", "node-a", Library()))
    told = {(one.uuid, one.measure): one.value for one in readings.devices}
    assert told == {
        ("GPU-0", Measure.UTILIZATION): 0.37,
        ("GPU-0", Measure.TEMPERATURE): 41,
        ("GPU-0", Measure.MEMORY_USED): 50,
        ("GPU-0", Measure.MEMORY_TOTAL): 100,
        ("GPU-1", Measure.TEMPERATURE): 41,
        ("GPU-1", Measure.MEMORY_USED): 50,
        ("GPU-1", Measure.MEMORY_TOTAL): 100,
        ("MIG-x", Measure.MEMORY_USED): 5,
        ("MIG-x", Measure.MEMORY_TOTAL): 100,
    }
    assert {one.pci for one in readings.devices if one.uuid == "GPU-0"} == {"0000:3b:00.0"}
    assert {one.node for one in readings.devices} == {"node-a"} and readings.troubles == ()


def test_a_gpu_that_is_lost_is_trouble_and_the_others_are_told() -> None:
    readings = read(nvml_source("nvml", "node-a", Library(frozenset({0}))))
    assert {one.uuid for one in readings.devices} == {"GPU-1", "MIG-x"}
    assert [one.place for one in readings.troubles] == ["libnvidia-ml GPU 0"]


def test_nvml_is_asked_by_one_thread_at_a_time_also_when_a_reading_was_given_up() -> None:
    class Slow(Library):
        def __init__(self) -> None:
            super().__init__()
            self.inside, self.most, self.go = 0, 0, threading.Event()

        def _answer(self, name: str, *arguments: Any) -> Any:
            if name == "nvmlDeviceGetCount":
                self.inside += 1
                self.most = max(self.most, self.inside)
                assert self.go.wait(20)
                self.inside -= 1
            return super()._answer(name, *arguments)

    async def scenario() -> Readings:
        library = Slow()
        source = nvml_source("nvml", "node-a", library)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await source.read(0.0)
        library.go.set()
        readings = await source.read(0.0)
        assert library.most == 1
        await source.close()
        return readings

    assert len(asyncio.run(scenario()).devices) == 9


def test_a_machine_without_gpus_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regauge.observe.sources.nvml.pynvml", None)
    with pytest.raises(InputError, match=r"nvidia-ml-py is not installed \(pip install 'regauge\[nvidia\]'\)"):
        nvml_source("nvml", "node-a")


class Kubelet:
    """A pod resources API with a pod of both stacks, told twice as upstream does."""

    async def list(self) -> tuple[PodResources, ...]:
        claimed = DynamicResource("claim", "ml", (ClaimResource("gpu.example.com", "node-a", "gpu-7"),))
        listed = (ContainerDevices("example.com/gpu", ("gpu-1",)), ContainerDevices("example.com/gpu", ("gpu-1",)))
        pod = PodResources("job", "ml", (ContainerResources("main", listed, (claimed,)), ContainerResources("side")))
        return (pod, pod)

    async def get(self, namespace: str, name: str) -> PodResources:
        raise RpcError("NotFound", name)

    async def get_allocatable_resources(self) -> tuple[ContainerDevices, ...]:
        return (ContainerDevices("example.com/gpu", ("gpu-0",), (0,)), ContainerDevices("example.com/gpu", ("gpu-1",)))


@pytest.mark.row(139)
def test_the_kubelet_tells_which_container_has_which_device() -> None:
    async def scenario() -> Readings:
        net = MemoryNet("node-a")
        served = await net.process("kubelet").serve("/k/pod-resources/kubelet.sock", Services(pod_resources=Kubelet()))
        try:
            return await PodResourcesSource("pod-resources", "node-a", net, MemoryFiles(), "/k").read(0.0)
        finally:
            await served.stop()

    (report,) = asyncio.run(scenario()).reports
    assert report.holders == (PluginDeviceHolder("ml", "job", "main", "example.com/gpu", ("gpu-1",)),)
    assert [one.device_id for one in report.plugin_devices] == ["gpu-0", "gpu-1"]


@pytest.mark.row(139)
def test_without_the_kubelets_socket_its_checkpoint_tells_the_pod_by_uid() -> None:
    entry = {"PodUID": "uid-1", "ContainerName": "main", "ResourceName": "r.io/x", "DeviceIDs": {"-1": ["x-1"]}}
    data = {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {"r.io/x": ["x-0", "x-1"]}}, "Checksum": 1}
    files = MemoryFiles()
    files.make_directory("/k/device-plugins")
    files.write("/k/device-plugins/kubelet_internal_checkpoint", json.dumps(data).encode())
    readings = read(PodResourcesSource("pod-resources", "node-a", MemoryNet("node-a"), files, "/k"))
    (report,) = readings.reports
    assert [(one.pod_uid, one.container, one.device_ids) for one in report.holders] == [("uid-1", "main", ("x-1",))]
    assert [one.reason for one in readings.troubles] == ["unreachable"]
    assert read(PodResourcesSource("p", "node-a", MemoryNet("node-a"), MemoryFiles(), "/k")).reports == ()


AROUND = Surroundings(WireNet(), MemoryFiles(), "node-a")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("exporter=http://127.0.0.1:9400", ScrapedSource),
        ("exporter=http://127.0.0.1:9400/metrics", ScrapedSource),
        ("driver", ScrapedSource),
        ("driver=gpu.nvidia.com@http://127.0.0.1:8080/metrics", ScrapedSource),
        ("kubelet", ScrapedSource),
        ("kubelet-insecure=https://10.0.0.1:10250/metrics", ScrapedSource),
        ("file=/var/lib/node-exporter", TextFileSource),
        ("pod-resources", PodResourcesSource),
        ("pod-resources=/var/lib/k0s/kubelet", PodResourcesSource),
    ],
)
def test_sources_by_name(text: str, kind: type[Source]) -> None:
    source = make_source(text, AROUND)
    assert isinstance(source, kind) and source.name == text


def targets(text: str) -> Sequence[Target]:
    source = make_source(text, AROUND)
    assert isinstance(source, ScrapedSource)
    return source.targets


def test_what_a_name_says_is_what_is_asked() -> None:
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert targets("exporter=http://h:1") == (Target("http://h:1/metrics", "node-a"),)
    assert targets("driver=a.b@unix:/x") == (Target("unix:/x", "node-a", "a.b"),)
    assert targets("driver") == (Target("unix:/run/regauge/driver.sock", "node-a"),)
    url = "https://127.0.0.1:10250/metrics"
    assert targets("kubelet") == (Target(url, "node-a", token_file=f"{account}/token", ca_file=f"{account}/ca.crt"),)
    (open_,) = targets("kubelet-insecure")
    assert (open_.insecure, open_.ca_file) == (True, "")
    (plain,) = targets("kubelet=http://127.0.0.1:10255/metrics")
    assert plain.token_file == ""  # a token is not sent where everybody can read it


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dcgm", "there is no source 'dcgm' .*exporter"),
        ("exporter", "where?"),
        ("exporter=ftp://x", "is no address"),
        ("exporter=127.0.0.1:9400", "is no address"),
        ("driver=unix:relative", "no path of a socket"),
    ],
)
def test_a_name_that_says_nothing_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_source(text, AROUND)


def test_a_source_of_one_node_needs_the_node() -> None:
    with pytest.raises(InputError, match="say --node NAME"):
        make_source("pod-resources", Surroundings(WireNet(), MemoryFiles()))


def test_a_mapping_of_ones_own_comes_before_what_is_shipped() -> None:
    files = MemoryFiles()
    files.make_directory("/etc")
    own = "devices: [{metric: DCGM_FI_DEV_GPU_UTIL, measure: utilization_ratio, device: gpu}]"
    files.write("/etc/own.yaml", own.encode())
    around = Surroundings(WireNet(), files, "node-a")
    (source,) = make_sources(["exporter=http://h:1", "mapping=/etc/own.yaml", "exporter=http://h:1"], around)
    assert isinstance(source, ScrapedSource)
    assert source.mappings.devices[0].device == "gpu" and len(source.mappings.devices) > 1
    for name, said in (("mapping", "which file"), ("mapping=/etc/none.yaml", "/etc/none.yaml: it cannot be read")):
        with pytest.raises(InputError, match=said):
            make_sources([name], around)
