"""Small dumps for tests, object by object, and a big one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Thing = dict[str, Any]
GPU = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"
WHEN = "2026-01-01T00:00:00Z"


def thing(kind: str, name: str, namespace: str = "", api_version: str = "v1", **rest: Any) -> Thing:
    metadata: Thing = {"name": name, "uid": f"{kind}-{namespace}-{name}", "creationTimestamp": WHEN}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= rest.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def node(name: str, **counted: str) -> Thing:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **counted}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    return thing("Node", name, metadata={"labels": {"kubernetes.io/hostname": name}}, spec={}, status=status)


def gpu_node(name: str, count: str = "8") -> Thing:
    return node(name, **{GPU: count})


def namespace(name: str = "team") -> Thing:
    return thing("Namespace", name, status={"phase": "Active"})


def slice_(node_name: str, count: int = 8) -> Thing:
    spec = {
        "driver": DRIVER,
        "nodeName": node_name,
        "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(count)],
    }
    return thing("ResourceSlice", f"slice-{node_name}", "", "resource.k8s.io/v1", spec=spec)


def device_class() -> Thing:
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    return thing("DeviceClass", DRIVER, "", "resource.k8s.io/v1", spec=spec)


def pod_spec(count: int = 1, **rest: Any) -> Thing:
    asked = {GPU: str(count)} if count else {}
    container = {"name": "c", "image": "i", "resources": {"limits": asked, "requests": {"cpu": "100m", **asked}}}
    return {"containers": [container], **rest}


def pod(name: str, node_name: str = "", count: int = 1, second: int = 0, **metadata: Any) -> Thing:
    placed = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{second % 60:02}Z"}]
    spec = pod_spec(count, **({"nodeName": node_name} if node_name else {}))
    status = {"phase": "Running", "conditions": placed} if node_name else {"phase": "Pending"}
    return thing("Pod", name, "team", metadata=metadata, spec=spec, status=status)


def deployment(name: str, nodes: list[str], count: int = 1, replicas: int | None = None) -> list[Thing]:
    """A deployment with a replica set and a pod on each of `nodes`."""
    labels = {"app": name, "pod-template-hash": "rs"}
    many = {"replicas": len(nodes) if replicas is None else replicas}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(count)}
    top = thing("Deployment", name, "team", "apps/v1", status={})
    top["spec"] = {**many, "selector": {"matchLabels": {"app": name}}, "template": template}
    middle = thing("ReplicaSet", f"{name}-rs", "team", "apps/v1", status={})
    middle["metadata"] |= {"labels": labels, "ownerReferences": [_owner(top)]}
    of_set = {"metadata": {"labels": labels}, "spec": pod_spec(count)}
    middle["spec"] = {**many, "selector": {"matchLabels": labels}, "template": of_set}
    owned = {"labels": labels, "ownerReferences": [_owner(middle)]}
    pods = [pod(f"{name}-rs-{number}", node, count, number, **owned) for number, node in enumerate(nodes)]
    return [top, middle, *pods]


def _owner(owner: Thing) -> Thing:
    metadata = owner["metadata"]
    told = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**told, "controller": True}


def write(directory: Path, things: list[Thing]) -> str:
    (directory / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    return str(directory)


def sound() -> list[Thing]:
    """One node for each stack, and a workload that can move."""
    return [
        namespace(),
        gpu_node("counting"),
        node("publishing"),
        slice_("publishing"),
        device_class(),
        *deployment("app", ["counting", "counting"]),
    ]


def big(nodes: int, pods: int, publishing: int, of_deployment: int = 20) -> list[Thing]:
    """Nodes with eight devices each, some of them published, and pods that take all that are counted."""
    names = [f"node-{number:04}" for number in range(nodes)]
    found = [namespace(), device_class()]
    found += [node(name) for name in names[:publishing]] + [slice_(name) for name in names[:publishing]]
    found += [gpu_node(name) for name in names[publishing:]]
    places = [name for name in names[publishing:] for _ in range(8)]
    for first in range(0, pods, of_deployment):
        chosen = places[first : first + of_deployment]
        whole = len(chosen) == of_deployment
        spread = [names[(first + number) % nodes] for number in range(of_deployment)]
        found += deployment(f"app-{first}", chosen if whole else spread, 1 if whole else 0)
    return found
