"""Small clusters for tests."""

from __future__ import annotations

from typing import Any

from regauge.features import rules
from regauge.model import Object, pod_spec_with_defaults, view, with_defaults
from regauge.model.core import Node, Pod
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from regauge.model.rules import Rules
from regauge.scheduler import State

RULES = rules("1.36")
DRIVER = "gpu.example.com"
ROOM: dict[str, Any] = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "10"}


def node(name: str, *, labels: dict[str, str] | None = None, spec: Object | None = None, **room: Any) -> Node:
    """A node; `room` is added to what nodes have, "_" standing for "-"."""
    has = {**ROOM, **{key.replace("_", "-"): value for key, value in room.items()}}
    return view(
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": spec or {},
            "status": {"allocatable": has},
        },
        Node,
    )


def plugin_node(name: str, resource: str, count: int) -> Node:
    """A node with a device plugin's resource."""
    document = {"metadata": {"name": name}, "status": {"allocatable": {**ROOM, resource: str(count)}}}
    return view(document, Node)


def pod(
    name: str = "p",
    *,
    requests: Object | None = None,
    limits: Object | None = None,
    labels: dict[str, str] | None = None,
    status: Object | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Pod:
    """A pod of one container as the API server stores it. `spec` fields override."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    whole = {"containers": [{"name": "main", "image": "x", "resources": resources}], **spec}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}}
    return view({"metadata": metadata, "spec": pod_spec_with_defaults(whole), "status": status or {}}, Pod)


def device_class(name: str = DRIVER, *, extended: str = "", created: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    """A class of all devices of the driver."""
    spec: Object = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    if extended:
        spec["extendedResourceName"] = extended
    return view({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}, DeviceClass)


def slice_of(node_name: str, count: int) -> ResourceSlice:
    """The devices gpu-0, gpu-1, ... of a node."""
    devices = [{"name": f"gpu-{index}", "attributes": {"idx": {"int": index}}} for index in range(count)]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node_name, "pool": pool, "devices": devices}
    return view({"metadata": {"name": f"{node_name}-{DRIVER}"}, "spec": spec}, ResourceSlice)


def claim(name: str = "c", *, count: int = 1, owner: Pod | None = None, status: Object | None = None) -> ResourceClaim:
    """A claim for `count` devices of the class."""
    requests = [{"name": "g", "exactly": {"deviceClassName": DRIVER, "count": count}}]
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.metadata.name, "uid": owner.metadata.uid}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    document = with_defaults(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": {"devices": {"requests": requests}},
            "status": status or {},
        }
    )
    return view(document, ResourceClaim)


def user_of(claim_name: str, name: str = "p", **more: Any) -> Pod:
    """A pod with one named claim."""
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}], **more)


def state(*objects: Any, ruling: Rules = RULES) -> State:
    """A state of these objects."""
    made = State(ruling)
    for item in objects:
        put = {
            Node: made.put_node,
            Pod: made.put_pod,
            DeviceClass: made.put_class,
            ResourceSlice: made.put_slice,
            ResourceClaim: made.put_claim,
        }[type(item)]
        put(item)
    return made
