"""A device that falls ill starts a diagnosis: one bundle of that moment, and none as long as nothing changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regauge.base import Where
from regauge.collect import Diagnosed, Diagnosis, Estate, ailments, read_bundle
from regauge.kube import ObjectList, ServerUnavailable
from regauge.model import Document, Kind, Snapshot

NOW_S = 1_800_000_000.0


def resource_slice(*taints: str, generation: int = 1, name: str = "a") -> dict[str, Any]:
    devices = [{"name": "gpu-0", "taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}]
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def node(allocatable: str, capacity: str = "2") -> dict[str, Any]:
    status = {
        "capacity": {"example.com/gpu": capacity, "cpu": "4"},
        "allocatable": {"example.com/gpu": allocatable, "cpu": "3"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}


def snapshot(*objects: dict[str, Any]) -> Snapshot:
    return Snapshot.of(Document(one, Where("x", at)) for at, one in enumerate(objects, 1))


class Server:
    """Lists what it is given; with `away` it does not answer."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = objects
        self.away = False
        self.lists: list[str] = []

    async def list(self, kind: Kind, namespace: str = "") -> ObjectList:
        if self.away:
            raise ServerUnavailable("no answer")
        self.lists.append(kind.kind)
        return ObjectList(tuple(one for one in self.objects if one["kind"] == kind.kind), "1")


class Clock:
    def now_s(self) -> float:
        return NOW_S

    def monotonic_s(self) -> float:
        return NOW_S

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(0)


def looking(server: Server) -> tuple[Diagnosis, list[Diagnosed]]:
    kept: list[Diagnosed] = []

    async def collect() -> Estate:
        return Estate(snapshot(*server.objects), "the cluster", "v1.36.3")

    return Diagnosis(server, Clock(), collect, kept.append), kept  # type: ignore[arg-type]  # it lists only


def test_what_is_ill() -> None:
    told = [str(one) for one in ailments(snapshot(node("1"), resource_slice("example.com/broken")))]
    assert told == [
        "gpu.example.com/n1/gpu-0 on n1 is tainted example.com/broken:NoSchedule",
        "example.com/gpu on n1 can be allocated 1 times of 2",
    ]
    assert ailments(snapshot(node("2"), resource_slice())) == ()


def test_an_old_generation_tells_nothing() -> None:
    assert ailments(snapshot(resource_slice("old", name="old"), resource_slice(generation=2))) == ()


@pytest.mark.row(165, how="unit")
def test_a_bundle_when_something_falls_ill_and_only_then() -> None:
    server = Server(node("2"), resource_slice())
    diagnosis, kept = looking(server)

    async def looks() -> None:
        await diagnosis.look()
        assert kept == [] and server.lists == ["Node", "ResourceSlice"]
        server.objects = (node("2"), resource_slice("example.com/broken"))
        await diagnosis.look()
        await diagnosis.look()
        assert len(kept) == 1
        server.objects = (node("2"), resource_slice())
        await diagnosis.look()
        server.objects = (node("2"), resource_slice("example.com/broken"))
        await diagnosis.look()

    asyncio.run(looks())
    assert len(kept) == 2
    assert kept[0].name == "diagnosis-20270115T080000Z-n1-gpu.example.com-n1-gpu-0.zip"
    (ailment,) = ailments(read_bundle("it", kept[0].data).snapshot)
    assert (ailment,) == kept[0].because


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    server = Server(node("1"))
    diagnosis, kept = looking(server)
    said: list[str] = []
    diagnosis._say = said.append

    async def run() -> None:
        server.away = True
        task = asyncio.create_task(diagnosis.run(1.0))
        for _ in range(20):
            await asyncio.sleep(0)
        server.away = False
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 10))
    assert said[0].startswith("no look now: ")
    assert len(kept) == 1
