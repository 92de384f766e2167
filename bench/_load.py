"""Pods with a claim each for a cluster whose nodes are objects only: how fast is its control plane?

    python -m bench._load NODES PODS [KUBECONFIG]

Without a kubeconfig the control plane is in this process and the load comes through its client in memory. Prints JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

from regauge.cluster import ControlPlane
from regauge.features import rules
from regauge.host import RealClock
from regauge.kube import AlreadyExists, KubeClient, MemoryClient
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.model.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE

Object = dict[str, Any]
DRIVER = "gpu.example.com"
NAMESPACE = "default"
AT_ONCE = 24
DEVICES = 8
GRACE_S = 3600.0
READY_S = 1.0
AMOUNTS = {"cpu": "64", "memory": "512Gi", "pods": "110"}


async def load(kube: KubeClient, nodes: int, pods: int) -> tuple[float, float]:
    """Make nodes and slices; then the time from the first pod to the last one bound, of the wall and of this process."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    device = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    await _create(kube, DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}, "")
    template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [device]}}}}
    await _create(kube, RESOURCE_CLAIM_TEMPLATE, template, NAMESPACE)
    await _at_once(_node(kube, f"node-{number:05d}") for number in range(nodes))
    await asyncio.sleep(READY_S)
    bound = asyncio.create_task(_bound(kube, pods))
    await asyncio.sleep(0)
    began_s, cpu_s = time.monotonic(), time.process_time()
    await _at_once(_create(kube, POD, _pod(number), NAMESPACE) for number in range(pods))
    await bound
    return time.monotonic() - began_s, time.process_time() - cpu_s


async def _at_once(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of it, some at a time."""
    left = iter(work)

    async def worker() -> None:
        for one in left:
            await one
            await asyncio.sleep(0)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def _create(kube: KubeClient, kind: Any, object_: Object, namespace: str) -> None:
    with contextlib.suppress(AlreadyExists):
        await kube.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **object_}, namespace)


async def _node(kube: KubeClient, name: str) -> None:
    await _create(kube, NODE, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}, "")
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}]
    status = {"capacity": AMOUNTS, "allocatable": AMOUNTS, "conditions": ready}
    await kube.patch(NODE, name, {"status": status}, subresource="status")
    devices = [
        {"name": f"gpu-{index}", "attributes": {"index": {"int": index}}, "capacity": {"memory": {"value": "80Gi"}}}
        for index in range(DEVICES)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    await _create(kube, RESOURCE_SLICE, {"metadata": {"name": f"{name}-gpu"}, "spec": spec}, "")


def _pod(number: int) -> Object:
    container = {"name": "main", "image": "registry.example.com/work:1", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"containers": [container], "resourceClaims": claims, "tolerations": [{"operator": "Exists"}]}
    return {"metadata": {"name": f"bench-{number:05d}"}, "spec": spec}


async def _bound(kube: KubeClient, pods: int) -> None:
    """Until so many of the pods have a node."""
    found: set[str] = set()
    async for event in kube.watch(POD, NAMESPACE):
        name = event.object["metadata"]["name"]
        if name.startswith("bench-") and event.object["spec"].get("nodeName"):
            found.add(name)
        if len(found) == pods:
            return


@contextlib.asynccontextmanager
async def _in_process() -> AsyncIterator[KubeClient]:
    """Nodes without kubelets are never missed here."""
    control = ControlPlane(RealClock(), random.Random(1), rules("1.36"), node_grace_s=GRACE_S)
    control.start()
    try:
        yield MemoryClient(control.api.as_actor("user"))
    finally:
        await control.stop()


async def main(nodes: int, pods: int, kubeconfig: str) -> Object:
    if kubeconfig:
        client = HttpClient(load_connection({}, kubeconfig=kubeconfig, home="/"))
        try:
            took_s, cpu_s = await load(client, nodes, pods)
        finally:
            await client.close()
    else:
        async with _in_process() as kube:
            took_s, cpu_s = await load(kube, nodes, pods)
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"took_s": took_s, "cpu_s": cpu_s, "rss_mib": rss_mib}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or [""])[0]))))
