"""Small objects for tests of views: nodes, slices, claims, pods, as the API server would have them."""

from __future__ import annotations

from typing import Any

from regauge.base import Where
from regauge.model import Document, Object, Snapshot

DRIVER = "gpu.example.com"
MADE = "2026-11-29T10:00:00Z"


def snapshot(*objects: Object) -> Snapshot:
    return Snapshot.of(Document(one, Where(object="made")) for one in objects)


def object_(version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    metadata: Object = {"name": name, "uid": f"uid-{name}", "creationTimestamp": MADE, **more.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def node(name: str, pool: str = "big", **counted: int) -> Object:
    amounts = {
        "cpu": "64",
        "memory": "64Gi",
        "pods": "110",
        **{k.replace("_", "/"): str(v) for k, v in counted.items()},
    }
    return object_(
        "v1",
        "Node",
        name,
        metadata={"labels": {"node-pool": pool}},
        status={"capacity": amounts, "allocatable": amounts},
    )


def slice_(on: str, *devices: Object, driver: str = DRIVER, **spec: Any) -> Object:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    whole = {"driver": driver, "nodeName": on, "pool": pool, "devices": list(devices), **spec}
    return object_("resource.k8s.io/v1", "ResourceSlice", f"{on}-{driver}", spec=whole)


def device(name: str, uuid: str = "", pci: str = "", **more: Any) -> Object:
    attributes = {
        **({"uuid": {"string": uuid}} if uuid else {}),
        **({"resource.kubernetes.io/pciBusID": {"string": pci}} if pci else {}),
    }
    return {"name": name, "attributes": attributes, **more}


def claim(
    name: str,
    *results: Object,
    users: tuple[str, ...] = (),
    request: Object | None = None,
    since: str = MADE,
    devices: tuple[Object, ...] = (),
    **metadata: Any,
) -> Object:
    """A claim of namespace `team`, allocated if there are results."""
    exactly = request or {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    status: Object = {}
    if results:
        status["allocation"] = {"devices": {"results": list(results)}, "allocationTimestamp": since}
    if users:
        status["reservedFor"] = [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users]
    if devices:
        status["devices"] = list(devices)
    spec = {"devices": {"requests": [{"name": "g", "exactly": exactly}]}}
    return object_("resource.k8s.io/v1", "ResourceClaim", name, "team", metadata=metadata, spec=spec, status=status)


def result(pool: str, name: str, **more: Any) -> Object:
    return {"request": "g", "driver": DRIVER, "pool": pool, "device": name, **more}


def pod(name: str, on: str = "", claim_name: str = "", phase: str = "Running", **more: Any) -> Object:
    """A pod of namespace `team`; `limits` are of its container."""
    limits = more.pop("limits", {})
    resources: Object = {**({"limits": limits} if limits else {})}
    spec: Object = {"schedulerName": "default-scheduler", **({"nodeName": on} if on else {})}
    if claim_name:
        resources["claims"] = [{"name": "mine"}]
        spec["resourceClaims"] = [{"name": "mine", "resourceClaimName": claim_name}]
    spec["containers"] = [{"name": "main", "image": "x", "resources": resources}]
    status = {"phase": phase if on else "Pending", **more.pop("status", {})}
    return object_("v1", "Pod", name, "team", metadata=more, spec=spec, status=status)
