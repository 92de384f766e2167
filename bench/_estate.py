"""A made estate as a bundle: nodes of several pools, workloads with their owners, and pods of 4 KiB each."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regauge.collect.bundle import BUNDLE_SCHEMA

POD_BYTES = 4096
PODS_PER_WORKLOAD = 50
DEVICES = 8
NAMESPACES = 40
MODELS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4")
CLASS = "gpu.nvidia.com"
POOLS = ("a100", "h100", "l4", "dra", "cpu-a", "cpu-b", "cpu-c", "cpu-d")
"""The first three count devices, the fourth publishes them, the others have none."""


def write_estate(path: Path, pods: int, nodes: int) -> None:
    """Write the bundle. The same numbers give the same bytes."""
    files: dict[str, Iterator[dict[str, Any]]] = {
        "pods": made_pods(pods, nodes),
        "nodes": map(_node, range(nodes)),
        "deployments": (_workload(number, "Deployment") for number in range(-(-pods // PODS_PER_WORKLOAD))),
        "replicasets": (_workload(number, "ReplicaSet") for number in range(-(-pods // PODS_PER_WORKLOAD))),
        "resourceslices": (_slice(number) for number in range(nodes) if _pool(number) == "dra"),
        "deviceclasses": iter([_device_class()]),
        "resourcequotas": map(_quota, range(NAMESPACES)),
        "resourceclaimtemplates": (_template(number) for number in range(NAMESPACES)),
        "daemonsets": iter([_daemon_set("nvidia-device-plugin", "/var/lib/kubelet/device-plugins"),
                            _daemon_set("nvidia-dra-driver", "/var/lib/kubelet/plugins")]),
    }  # fmt: skip
    manifest = {
        "schema": BUNDLE_SCHEMA, "created": "2026-11-29T00:00:00Z", "source": "made", "gitVersion": "v1.36.3",
        "gates": {}, "objects": {}, "nodes": [], "leftOut": [], "notRead": [],
    }  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, items in files.items():
            with archive.open(f"objects/{name}.json", "w", force_zip64=True) as out:
                out.write(b'{"apiVersion":"v1","kind":"List","items":[')
                for index, item in enumerate(items):
                    out.write((b",\n" if index else b"") + json.dumps(item, separators=(",", ":")).encode())
                out.write(b"]}")


def _pool(node: int) -> str:
    return POOLS[node % len(POOLS)]


def _metadata(name: str, namespace: str = "", owner: tuple[str, str] | None = None, **labels: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-11-01T00:00:00Z"}
    if namespace:
        found["namespace"] = namespace
    if owner:
        kind, of = owner
        version = "v1" if kind == "Job" else "apps/v1"
        found["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
        ]
    return {**found, "labels": labels} if labels else found


def _node(number: int) -> dict[str, Any]:
    pool = _pool(number)
    metadata = _metadata(f"node-{number}")
    metadata["labels"] = {"node-pool": pool, "kubernetes.io/hostname": f"node-{number}"}
    capacity = {"cpu": "96", "memory": "1Ti", "pods": "110"}
    if pool in ("a100", "h100", "l4"):
        model = MODELS[("a100", "h100", "l4").index(pool)]
        replicas = 4 if pool == "l4" else 1
        metadata["labels"] |= {"nvidia.com/gpu.product": model, "nvidia.com/gpu.replicas": str(replicas)}
        capacity["nvidia.com/gpu"] = str(DEVICES * replicas)
    info = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.4"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": capacity, "allocatable": capacity, "nodeInfo": info, "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def _asks(workload: int) -> str:
    """What the pods of a workload ask for: most of them nothing, some by claim; about as much as there is."""
    return {1: "a100", 3: "h100", 5: "l4", 7: "l4", 9: "l4", 11: "dra"}.get(workload % 32, "")


def _namespace(workload: int) -> str:
    return f"team-{workload % NAMESPACES}"


def _spec(workload: int, node: str = "") -> dict[str, Any]:
    asks = _asks(workload)
    container: dict[str, Any] = {
        "name": "main",
        "image": f"registry.example.com/team/app-{workload}:1.0",
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "16Gi"}},
    }
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Always"}
    if asks == "dra":
        container["resources"]["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    elif asks:
        container["resources"]["limits"]["nvidia.com/gpu"] = "1"
        spec["nodeSelector"] = {"node-pool": asks}
        if workload % 3 == 0:
            spec["nodeSelector"]["nvidia.com/gpu.product"] = MODELS[("a100", "h100", "l4").index(asks)]
    return {**spec, "nodeName": node} if node else spec


def _workload(number: int, kind: str) -> dict[str, Any]:
    name = f"app-{number}" if kind == "Deployment" else f"app-{number}-7d9f"
    owner = None if kind == "Deployment" else ("Deployment", f"app-{number}")
    template = {"metadata": {"labels": {"app": f"app-{number}"}}, "spec": _spec(number)}
    spec = {"replicas": PODS_PER_WORKLOAD, "selector": {"matchLabels": {"app": f"app-{number}"}}, "template": template}
    metadata = _metadata(name, _namespace(number), owner)
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def made_pods(pods: int, nodes: int) -> Iterator[dict[str, Any]]:
    by_pool: dict[str, list[int]] = {}
    for number in range(nodes):
        by_pool.setdefault(_pool(number), []).append(number)
    used = dict.fromkeys(by_pool, 0)
    for number in range(pods):
        workload = number // PODS_PER_WORKLOAD
        pool = _asks(workload) or f"cpu-{'abcd'[workload % 4]}"
        places = by_pool.get(pool) or list(range(nodes))
        node = places[used.setdefault(pool, 0) % len(places)]
        used[pool] += 1
        yield _pod(number, workload, f"node-{node}")


def _pod(number: int, workload: int, node: str) -> dict[str, Any]:
    """Like a pod of a cluster in use: status of its containers, volumes, tolerations, variables; 4 KiB of JSON."""
    name = f"app-{workload}-7d9f-{number}"
    metadata = _metadata(name, _namespace(workload), ("ReplicaSet", f"app-{workload}-7d9f"))
    metadata["labels"] = {"app": f"app-{workload}", "pod-template-hash": "7d9f"}
    spec = _spec(workload, node)
    spec["tolerations"] = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]
    spec["volumes"] = [{"name": "config", "configMap": {"name": f"app-{workload}"}}]
    started = {"running": {"startedAt": "2026-11-01T00:00:10Z"}}
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": what, "status": "True", "lastTransitionTime": "2026-11-01T00:00:10Z"}
            for what in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "state": started}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
    left = POD_BYTES - len(json.dumps(pod, separators=(",", ":")))
    variables = [
        {"name": f"SETTING_{index}", "value": f"value-{number}-{index}-".ljust(64, "x")} for index in range(40)
    ]
    each = len(json.dumps(variables[0], separators=(",", ":"))) + 1
    spec["containers"][0]["env"] = variables[: max(0, left // each)]
    return pod


def _slice(number: int) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "uuid": {"string": f"GPU-{number:08x}-0000-0000-0000-{index:012x}"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "type": {"string": "gpu"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(DEVICES)
    ]
    node = f"node-{number}"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": CLASS, "nodeName": node, "pool": pool, "devices": devices}
    metadata = _metadata(f"{node}-gpus")
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _device_class() -> dict[str, Any]:
    expression = f"device.driver == '{CLASS}' && device.attributes['{CLASS}'].type == 'gpu'"
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": _metadata(CLASS), "spec": spec}


def _template(number: int) -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
    metadata = _metadata("one-gpu", f"team-{number}")
    spec = {"spec": {"devices": {"requests": requests}}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def _quota(number: int) -> dict[str, Any]:
    metadata = _metadata("devices", f"team-{number}")
    spec = {"hard": {"requests.nvidia.com/gpu": "5000"}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": {}}


def _daemon_set(name: str, path: str) -> dict[str, Any]:
    image = f"nvcr.io/nvidia/{'k8s-device-plugin' if 'plugin' in name else 'k8s-dra-driver-gpu'}:v1"
    labels = {"app": name}
    volumes = [{"name": "kubelet", "hostPath": {"path": path}}]
    pod = {"containers": [{"name": "main", "image": image}], "volumes": volumes}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": _metadata(name, "gpu-system"), "spec": spec}
