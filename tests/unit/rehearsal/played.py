"""A test that plays the kubelets and plugins of a control plane without nodes: what its DaemonSets' pods stand for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from tests.unit.rehearsal.dumps import DRIVER, GPU
from tests.unit.rehearsal.plans import written_estate

from regauge.kube import AlreadyExists, ApiError, KubeClient
from regauge.migrate import expected_devices
from regauge.model import Object
from regauge.model.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_SLICE,
)
from regauge.rehearsal.plan_world import identity

PLUGIN_SET, DRIVER_SET = "nvidia-device-plugin", "nvidia-dra-driver"
DEVICES = 2
BEAT_S = 5.0
EVERY_S = 0.2
SETTLED_WITHIN_S = 60.0
CREATED = (NAMESPACE, DEVICE_CLASS, DAEMON_SET, DEPLOYMENT)


class Played:
    """Plays until cancelled. Nodes are those of the small estate."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._nodes: dict[str, Object] = {}
        self._devices: dict[str, list[Object]] = {}
        self._beat_s = 0.0

    async def set_up(self) -> None:
        """The estate without what controllers make."""
        snapshot = written_estate(devices=DEVICES)
        for node in snapshot.nodes:
            found = expected_devices(node, GPU, DRIVER, DEVICES, snapshot, identity)
            self._devices[node.metadata.name] = list(found)
        for document in snapshot.documents(RESOURCE_SLICE):
            self._devices[document.object["spec"]["nodeName"]] = document.object["spec"]["devices"]
        for document in snapshot.documents(NODE):
            labels = document.object["metadata"]["labels"]
            await self._kube.create(NODE, {"metadata": {"name": document.name, "labels": labels}})
            self._nodes[document.name] = document.object
        for kind in CREATED:
            for document in snapshot.documents(kind):
                metadata = {"name": document.name}
                body = {
                    "metadata": metadata,
                    **({"spec": document.object["spec"]} if "spec" in document.object else {}),
                }
                with contextlib.suppress(AlreadyExists):
                    await self._kube.create(kind, body, document.namespace)

    async def play(self) -> None:
        while True:
            with contextlib.suppress(ApiError):
                await self._round()
            await asyncio.sleep(EVERY_S)

    async def _round(self) -> None:
        running: dict[str, set[str]] = {name: set() for name in self._nodes}
        for pod in (await self._kube.list(POD)).items:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            node = pod["spec"].get("nodeName")
            if node not in running:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                await self._kube.delete(POD, name, namespace, grace_period_s=0)
                continue
            if pod["status"].get("phase") != "Running":
                await self._kube.patch(POD, name, {"status": _running()}, namespace, subresource="status")
            running[node] |= {owner["name"] for owner in pod["metadata"].get("ownerReferences") or ()}
        beats = time.monotonic() - self._beat_s > BEAT_S
        self._beat_s = time.monotonic() if beats else self._beat_s
        for node, sets in running.items():
            await self._node(node, DEVICES if PLUGIN_SET in sets else 0, beats)
            await self._slice(node, DRIVER_SET in sets)

    async def _node(self, name: str, devices: int, beats: bool) -> None:
        node = await self._kube.get(NODE, name)
        now = (node.get("status") or {}).get("allocatable") or {}
        if beats or now.get(GPU) != str(devices):
            amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(devices)}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played"}
            beat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            conditions = [{**ready, "lastHeartbeatTime": beat, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
            status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
            await self._kube.patch(NODE, name, {"status": status}, subresource="status")

    async def _slice(self, node: str, there: bool) -> None:
        name = f"{node}-gpu"
        found = {item["metadata"]["name"] for item in (await self._kube.list(RESOURCE_SLICE)).items}
        if there and name not in found:
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": self._devices[node]}
            await self._kube.create(RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})
        elif not there and name in found:
            await self._kube.delete(RESOURCE_SLICE, name)


def _running() -> Object:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {"phase": "Running", "conditions": [{"type": kind, "status": "True"} for kind in kinds]}


@contextlib.asynccontextmanager
async def played(kube: KubeClient) -> AsyncIterator[None]:
    """The small estate on a control plane, as long as the block lasts; it is cleared away afterwards."""
    act = Played(kube)
    await act.set_up()
    task = asyncio.create_task(act.play())
    try:
        await until_steady(kube)
        yield
    finally:
        await _clear(kube)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_steady(kube: KubeClient) -> None:
    """Every pod runs, and there are as many as the estate has."""
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while True:
            pods = (await kube.list(POD)).items
            nodes = (await kube.list(NODE)).items
            counted = sum(item.get("status", {}).get("allocatable", {}).get(GPU) == str(DEVICES) for item in nodes)
            if len(pods) == 4 and all(pod["status"].get("phase") == "Running" for pod in pods) and counted == 2:
                return
            await asyncio.sleep(EVERY_S)


async def _clear(kube: KubeClient) -> None:
    for kind in (DEPLOYMENT, DAEMON_SET):
        for item in (await kube.list(kind)).items:
            if item["metadata"]["namespace"] in ("team", "gpu-system"):
                await kube.delete(kind, item["metadata"]["name"], item["metadata"]["namespace"])
    await asyncio.sleep(3.0)  # their pods go while somebody still plays the kubelets
    for name in ("team", "gpu-system", "regauge"):
        with contextlib.suppress(ApiError):
            await kube.delete(NAMESPACE, name)
    for kind, names in ((NODE, ("g0", "g1", "d0")), (DEVICE_CLASS, (DRIVER,))):
        for name in names:
            with contextlib.suppress(ApiError):
                await kube.delete(kind, name)
    for item in (await kube.list(RESOURCE_SLICE)).items:
        await kube.delete(RESOURCE_SLICE, item["metadata"]["name"])
