"""Gangs: 64 pods of 8 devices each over 500 nodes, told as a whole: where all can go, or that they cannot.

The time of the processor counts, from objects in memory to the answer: on a busy machine the clock says more of the machine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from bench import Options, Row
from bench._cases import DRIVER, Object, device, slice_of
from regauge.base import Where
from regauge.features import rules
from regauge.model import Document, Snapshot
from regauge.scheduler import check_gangs

PODS, DEVICES, NODES = 64, 8, 500
LIMIT_S = 2.0
IN_ORDER, NOWHERE = "can be placed", "cannot be placed"


def _object(api: str, kind: str, name: str, **more: Object) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "team"}, **more}


def estate(nodes: int, free: int) -> list[Object]:
    """Nodes of eight devices; on all but `free` of them one device is in use."""
    chance = random.Random(nodes)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    found = [_object("resource.k8s.io/v1", "DeviceClass", "gpu", spec={"selectors": [selector]})]
    room = {"cpu": "192", "memory": "2Ti", "pods": "110"}
    for number in range(nodes):
        name = f"node-{number:05d}"
        found.append(_object("v1", "Node", name, status={"allocatable": room, "capacity": room}))
        devices = [device(index, name, chance) for index in range(DEVICES)]
        found.append(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
            | slice_of(name, devices, name, 1, {"nodeName": name})
        )
    for number in chance.sample(range(nodes), nodes - free):
        name = f"node-{number:05d}"
        result = {"request": "r", "driver": DRIVER, "pool": name, "device": "gpu-3"}
        user = {"resource": "pods", "name": f"used-{number}", "uid": f"uid-{number}"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
        spec = {"devices": {"requests": [request]}}
        found.append(_object("resource.k8s.io/v1", "ResourceClaim", f"used-{number}", spec=spec, status=status))
    return found


def gang(pods: int, launcher: bool = False) -> list[Object]:
    """A JobSet of that many pods with eight devices each; one of them may be a launcher without any."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": DEVICES}}
    template = _object("resource.k8s.io/v1", "ResourceClaimTemplate", "eight")
    template["spec"] = {"spec": {"devices": {"requests": [request]}}}
    claims = [{"name": "gpus", "resourceClaimTemplateName": "eight"}]
    pod = {"containers": [{"name": "main", "image": "x"}], "resourceClaims": claims}
    jobs = [_job("workers", pods - launcher, pod)]
    if launcher:
        jobs.insert(0, _job("launcher", 1, {"containers": pod["containers"]}))
    return [template, _object("jobset.x-k8s.io/v1alpha2", "JobSet", "train", spec={"replicatedJobs": jobs})]


def _job(name: str, pods: int, pod: Object) -> Object:
    return {"name": name, "replicas": 1, "template": {"spec": {"parallelism": pods, "template": {"spec": pod}}}}


def measured(objects: list[Object]) -> tuple[float, str]:
    """The time and the answer."""
    snapshot = Snapshot.of(Document(one, Where("bench", line)) for line, one in enumerate(objects))
    ruling = rules("1.36")
    begun = time.process_time()
    (found,) = check_gangs(snapshot, ruling, random.Random(0)).gangs
    return time.process_time() - begun, found.state


def run(options: Options) -> Iterator[Row]:
    """Rows for a gang that fits everywhere, one that just fits, and one that lacks a node."""
    for what, free, launcher, answer in (
        ("all nodes free", NODES, False, IN_ORDER),
        ("as many nodes free as pods", PODS, False, IN_ORDER),
        ("one node too few", PODS - 1, False, NOWHERE),
        ("one of them a launcher", PODS - 1, True, IN_ORDER),
    ):
        objects = [*estate(NODES, free), *gang(PODS, launcher)]
        times = []
        for _ in range(options.rounds):
            took_s, said = measured(objects)
            times.append(took_s)
        best = min(times)
        wrong = said != answer or best > LIMIT_S
        note = f"{said}; {'limit missed: ' if best > LIMIT_S else 'limit '}{LIMIT_S:g} s"
        yield Row(f"gang of {PODS} pods of {DEVICES}, {NODES} nodes: {what}", best, None, note, wrong)
