"""A made cluster of devices that claims hold, as JSON documents: every node publishes eight of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from regauge.base import Where
from regauge.model import Document, Snapshot

PER_NODE = 8
DRIVER = "gpu.example.com"
STAMP = "2026-11-29T23:00:00Z"
NAMESPACES = 40
PODS_PER_JOB = 10
Object = dict[str, Any]


def document(object_: Object) -> Document:
    return Document(None, Where("made"), json.dumps(object_, separators=(",", ":")).encode())


def made_cluster(devices: int, claims: int, waiting: int = 100) -> Snapshot:
    """So many devices and claims; each claim but those that wait holds one device, and a pod of its own uses it."""
    return Snapshot.of(map(document, _objects(devices, claims, waiting)))


def _objects(devices: int, claims: int, waiting: int) -> Iterator[Object]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    yield _made("resource.k8s.io/v1", "DeviceClass", DRIVER, spec={"selectors": [selector]})
    for number in range(devices // PER_NODE):
        yield node(number)
        yield slice_of(number)
    for number in range(claims):
        yield claim(number, devices, waits=number < waiting)
        yield _pod(number, devices, waits=number < waiting)


def _made(version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", "creationTimestamp": STAMP, **more.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _namespace(number: int) -> str:
    return f"team-{number // PODS_PER_JOB % NAMESPACES}"


def node(number: int) -> Object:
    room = {"cpu": "128", "memory": "1Ti", "pods": "110"}
    metadata = {"labels": {"kubernetes.io/hostname": f"node-{number}"}}
    return _made("v1", "Node", f"node-{number}", metadata=metadata, status={"capacity": room, "allocatable": room})


def slice_of(number: int) -> Object:
    name = f"node-{number}"
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "uuid": {"string": f"GPU-{number:08x}-{index:04x}-4000-8000-000000000000"},
                "model": {"string": "H100"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{index:02x}:00.0"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(PER_NODE)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return _made(
        "resource.k8s.io/v1", "ResourceSlice", f"{name}-slice",
        spec={"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices},
    )  # fmt: skip


def claim(number: int, devices: int, *, waits: bool) -> Object:
    exactly: Object = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    if waits:
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "B200"'}}]
    status: Object = {}
    if not waits:
        place = number % (devices // PER_NODE)
        result = {
            "request": "gpu",
            "driver": DRIVER,
            "pool": f"node-{place}",
            "device": f"gpu-{number * PER_NODE // devices}",
        }
        status = {
            "allocation": {"devices": {"results": [result]}, "allocationTimestamp": STAMP},
            "reservedFor": [{"resource": "pods", "name": f"pod-{number}", "uid": f"uid-Pod-pod-{number}"}],
        }
    return _made(
        "resource.k8s.io/v1", "ResourceClaim", f"claim-{number}", _namespace(number),
        spec={"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}, status=status,
    )  # fmt: skip


def _pod(number: int, devices: int, *, waits: bool) -> Object:
    place = number % (devices // PER_NODE)
    job = f"job-{number // PODS_PER_JOB}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    spec: Object = {
        "containers": [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"claim-{number}"}],
    }
    if not waits:
        spec["nodeName"] = f"node-{place}"
    return _made(
        "v1", "Pod", f"pod-{number}", _namespace(number),
        metadata={"ownerReferences": [owner]}, spec=spec, status={"phase": "Pending" if waits else "Running"},
    )  # fmt: skip
