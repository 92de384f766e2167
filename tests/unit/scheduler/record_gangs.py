"""Random small gangs with claims for a running kube-scheduler, and what it did with them, as a fixture.

`python -m tests.unit.scheduler.record_gangs KUBECONFIG OUT` against a control plane that may be emptied, with the gates
GenericWorkload, GangScheduling and TopologyAwareWorkloadScheduling on. Each gang is played several times: the scheduler
draws the order of like pods and the choice among like nodes.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from tests.unit.scheduler.live import Live

from regauge.kube import NotFound
from regauge.model import kinds as k

DRIVER = "gpu.example.com"
RACK = "example.com/rack"
NAMESPACE = "default"
GANGS, RUNS = 24, 4
SETTLE_S, WAIT_S = 1.2, 8.0
Object = dict[str, Any]


def gang(seed: int) -> list[Object]:
    """A cluster of one to three nodes, and a gang of two to four pods with one claim each. The group comes last."""
    chance = random.Random(seed)
    nodes = chance.randint(1, 3)
    racks = seed % 4 == 0
    made = [device_class()]
    for number in range(nodes):
        made += node(f"n{number}", chance.randint(1, 3), f"r{min(number, 1)}" if racks else "")
    pods = chance.randint(2, 4)
    for number in range(pods):
        made += _pod(f"p{number}", chance)
    policy = {"gang": {"minCount": chance.randint(max(pods - 1, 2), pods)}}
    spec: Object = {"schedulingPolicy": policy}
    if racks:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    metadata = {"name": "pg", "namespace": NAMESPACE}
    return [*made, {"apiVersion": k.POD_GROUP.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}]


def device_class() -> Object:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER}}
    return {**head, "spec": {"selectors": [selector]}}


def node(name: str, devices: int, rack: str) -> list[Object]:
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": name, **({RACK: rack} if rack else {})}
    time_ = "2026-11-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    conditions = [{**ready, "lastHeartbeatTime": time_, "lastTransitionTime": time_}]
    status = {"capacity": room, "allocatable": room, "conditions": conditions}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{n}", "attributes": {"idx": {"int": n}}} for n in range(devices)],
    }
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpus"}}
    return [{**node, "status": status}, {**head, "spec": spec}]


def _pod(name: str, chance: random.Random) -> list[Object]:
    """Mostly one device out of some; now and then two, or two if there are two and else one."""
    what = chance.random()
    request: Object = {"name": "g", "exactly": _asked(1, chance)}
    if what < 0.3:
        request = {"name": "g", "firstAvailable": [{"name": f"a{n}", **_asked(n, chance)} for n in (2, 1)]}
    elif what < 0.5:
        request = {"name": "g", "exactly": _asked(2, chance)}
    return pod_with(name, request)


def pod_with(name: str, request: Object) -> list[Object]:
    """A pod of the gang with a claim for one request."""
    metadata = {"name": name, "namespace": NAMESPACE}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    spec = {
        "containers": [{"name": "main", "image": "registry.example.com/app:1"}],
        "resourceClaims": [{"name": "g", "resourceClaimName": name}],
        "schedulingGroup": {"podGroupName": "pg"},
        "restartPolicy": "Never",
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return [{**head, "spec": {"devices": {"requests": [request]}}}, pod]


def _asked(count: int, chance: random.Random) -> Object:
    numbers = chance.choice([(0, 1, 2), (0, 1, 2), (0, 1), (0,), (1,)]) if count == 1 else (0, 1, 2)
    expression = " || ".join(f'device.attributes["{DRIVER}"].idx == {one}' for one in numbers)
    asked = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}
    return {**asked, "selectors": [{"cel": {"expression": expression}}]}


# -- playing


def play(live: Live, objects: list[Object]) -> Object:
    """What became of one gang: where its pods went with which devices, and what the group's condition says."""
    empty(live)
    for one in objects:
        live.create(one)
    least = objects[-1]["spec"]["schedulingPolicy"]["gang"]["minCount"]
    deadline, told_at = time.monotonic() + WAIT_S, None
    while time.monotonic() < deadline:
        found = seen(live)
        if len(found["placed"]) >= least or found["condition"].get("status") == "False":
            told_at = told_at or time.monotonic()
        if told_at is not None and time.monotonic() > told_at + SETTLE_S:
            break
        time.sleep(0.1)
    return seen(live)


def seen(live: Live) -> Object:
    placed = {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in live.list(k.POD)}
    devices = {}
    for claim in live.list(k.RESOURCE_CLAIM):
        results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", [])
        if results:
            devices[claim["metadata"]["name"]] = sorted(f"{one['pool']}/{one['device']}" for one in results)
    conditions = [
        one for group in live.list(k.POD_GROUP) for one in (group.get("status") or {}).get("conditions") or []
    ]
    told = next((one for one in conditions if one["type"] == "PodGroupScheduled"), {})
    condition = {key: told[key] for key in ("status", "reason", "message") if key in told}
    return {
        "placed": {name: node for name, node in sorted(placed.items()) if node},
        "devices": dict(sorted(devices.items())),
        "condition": condition,
    }


def empty(live: Live) -> None:
    """Nothing is left, the group first: pods of a group that is gone wait and are not tried."""
    for one in live.list(k.POD_GROUP):
        try:
            live.drop(one)
        except NotFound:
            continue
    live.empty()


def main(kubeconfig: str, out: str) -> None:
    live = Live(kubeconfig)
    told = []
    try:
        for seed in range(GANGS):
            objects = gang(seed)
            runs = [play(live, objects) for _ in range(RUNS)]
            told.append({"name": f"gang-{seed:02d}", "objects": objects, "runs": runs})
            print(told[-1]["name"], [len(one["placed"]) for one in runs], flush=True)
        empty(live)
        head = json.dumps({"kubernetes": live.version, "gates": live.gates}, sort_keys=True)[1:-1]
        lines = ",\n  ".join(json.dumps(one, sort_keys=True) for one in told)
        Path(out).write_text(f'{{{head}, "gangs": [\n  {lines}\n]}}\n')
    finally:
        live.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
