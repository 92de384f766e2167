"""A small estate with everything that a contract promises, for the tests of contracts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.unit.audit.estates import NOW_S

from regauge.audit import AuditInput, ContractFacts, DaemonSetFacts, Ground
from regauge.audit.proofs import PoolVerdict, Rehearsed
from regauge.base import Where
from regauge.features import rules
from regauge.model import Document, Snapshot

OURS = 'device.driver == "gpu.example.com"'
REHEARSED = Rehearsed("the dump", True, {"plan": True, "gate": True, "rollback": True}, 2, "n1", "sha256:abc")
VERDICTS = (
    PoolVerdict("fast", "now", "V7", "it needs attributes"),
    PoolVerdict("slow", "stay", "V2", "a count is enough"),
)


def node(name: str, pool: str, capacity: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node-pool": pool}},
        "spec": spec,
        "status": {
            "capacity": capacity or {},
            "allocatable": capacity or {},
            "nodeInfo": {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.4"},
        },
    }


def resource_slice(name: str, models: Iterable[str]) -> dict[str, Any]:
    devices = [
        {"name": f"gpu-{at}", "attributes": {"model": {"string": one}, "driverVersion": {"version": "1.2.3"}}}
        for at, one in enumerate(models)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device_class(name: str, *expressions: str, **spec: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def template(name: str, *expressions: str, **exactly: Any) -> dict[str, Any]:
    asked = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": one}} for one in expressions], **exactly}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}
    metadata = {"name": name, "namespace": "team"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": spec},
    }


def flavor(*selectors: str, **request: Any) -> dict[str, Any]:
    asked = {"name": "gpu", "deviceClassName": "gpu", "selectors": list(selectors), **request}
    spec = {"description": "for people", "dra": {"requests": [asked]}}
    return {
        "apiVersion": "regauge.dev/v1alpha1",
        "kind": "AcceleratorFlavor",
        "metadata": {"name": "one"},
        "spec": spec,
    }


QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "q"},
    "spec": {"resourceGroups": [{"coveredResources": ["cpu", "example.com/gpu"]}]},
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}, "spec": {"containers": []}}
ESTATE = (
    node("n1", "fast"),
    node("n2", "slow", {"example.com/gpu": "4"}),
    resource_slice("n1", ["A", "B"]),
    device_class("gpu", OURS, extendedResourceName="example.com/any"),
    template("t", 'device.attributes["gpu.example.com"].model == "A"'),
    flavor('device.attributes["gpu.example.com"].model == "A"'),
    QUEUE,
    POD,
)
SOURCES = {("dra", "gpu.example.com"): DaemonSetFacts("gpu/driver", ("registry/driver:1",))}
FACTS = ContractFacts(SOURCES, VERDICTS, (REHEARSED,))


def ground(*objects: dict[str, Any], version: str = "v1.36.3", unread: frozenset[str] | None = frozenset()) -> Ground:
    documents = [Document(one, Where("estate.yaml", at)) for at, one in enumerate(objects, 1)]
    snapshot = Snapshot.of(documents)
    return Ground(AuditInput(snapshot, rules(version), "the estate", NOW_S, server_version=version, unread=unread))


def without(kind: str) -> tuple[dict[str, Any], ...]:
    return tuple(one for one in ESTATE if one["kind"] != kind)
