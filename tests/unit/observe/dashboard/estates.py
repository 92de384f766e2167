"""Estates of any size for the tests of the dashboard."""

from __future__ import annotations

from typing import Any

import msgspec

from regauge.base import Where
from regauge.model import Document, Snapshot

DRIVER = "gpu.example.com"
GPU_CLASS = "gpu"


def document(object_: dict[str, Any]) -> Document:
    return Document(None, Where(object="test"), msgspec.json.encode(object_))


def node(name: str, pool: str = "train", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node-pool": pool, "kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            **status,
        },
    }


def gpu(name: str, number: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "uuid": {"string": f"GPU-{name}-{number}"},
            "productName": {"string": "H100"},
            "index": {"int": number},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def slice_of(name: str, devices: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-gpu"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [gpu(name, number) for number in range(devices)],
            **spec,
        },
    }


def device_class(name: str = GPU_CLASS) -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [selector]},
    }


def claim(name: str, devices: list[tuple[str, str]], pod: str = "", **status: Any) -> dict[str, Any]:
    """A claim that holds devices of nodes, reserved for a pod; without devices it waits."""
    asked = {"exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "ExactCount", "count": max(len(devices), 1)}}
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device, **status.get("result", {})}
        for pool, device in devices
    ]
    allocated: dict[str, Any] = {"allocation": {"devices": {"results": results}}} if devices else {}
    if pod:
        allocated["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "creationTimestamp": "2026-11-29T10:00:00Z",
        },
        "spec": {"devices": {"requests": [{"name": "gpu", **asked}]}},
        "status": allocated,
    }


def pod(name: str, node_name: str = "", claim_name: str = "", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    uses: dict[str, Any] = {"resources": {"claims": [{"name": "gpu"}]}} if claim_name else {}
    named: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}]} if claim_name else {}
    status: dict[str, Any] = {"phase": phase}
    if node_name:
        status["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-29T10:00:05Z"}
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-29T10:00:00Z",
        },
        "spec": {
            "containers": [{"name": "main", "image": "app", **uses}],
            **({"nodeName": node_name} if node_name else {}),
            **named,
            **spec,
        },
        "status": status,
    }


def snapshot_of(*objects: dict[str, Any]) -> Snapshot:
    return Snapshot.of(document(one) for one in objects)


def large(nodes: int = 5000, devices: int = 8, held_of_four: int = 2) -> Snapshot:
    """Nodes with devices of which pods hold a part: `held_of_four` of every four nodes one claim of two devices each."""
    objects: list[dict[str, Any]] = [device_class()]
    for number in range(nodes):
        name = f"node-{number:05d}"
        objects += [node(name, f"pool-{number % 7}"), slice_of(name, devices)]
        if number % 4 < held_of_four:
            for part in range(2):
                held = [(name, f"gpu-{2 * part}"), (name, f"gpu-{2 * part + 1}")]
                worker = f"work-{number:05d}-{part}"
                objects += [claim(worker, held, worker), pod(worker, name, worker)]
    return Snapshot.of(document(one) for one in objects)
