"""Small clusters with gangs, as objects."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from regauge.base import Where
from regauge.features import rules
from regauge.model import Document, Rules, Snapshot
from regauge.scheduler import GangAnswer, GangCheck, check_gangs

DRIVER = "gpu.example.com"
Object = dict[str, Any]
RULES = rules("1.36")
GROUPS = rules("1.36", {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True})


def object_(version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def cluster(*devices: int, labels: Iterable[dict[str, str]] = ()) -> list[Object]:
    """Nodes n0, n1, ... with so many devices each, a class, and templates `one` and `two` for so many devices."""
    told = list(labels)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    found = [object_("resource.k8s.io/v1", "DeviceClass", DRIVER, spec={"selectors": [selector]})]
    for index, count in enumerate(devices):
        name = f"n{index}"
        room = {"cpu": "8", "memory": "64Gi", "pods": "110"}
        own = {"kubernetes.io/hostname": name, **(told[index] if told else {})}
        status = {"allocatable": room, "capacity": room}
        found.append(object_("v1", "Node", name, metadata={"labels": own}, status=status))
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(count)],
        }
        found.append(object_("resource.k8s.io/v1", "ResourceSlice", name, spec=spec))
    for number, word in ((1, "one"), (2, "two")):
        request = {"name": "g", "exactly": {"deviceClassName": DRIVER, "count": number}}
        template = {"spec": {"devices": {"requests": [request]}}}
        found.append(object_("resource.k8s.io/v1", "ResourceClaimTemplate", word, "team", spec=template))
    return found


def pod_spec(template: str = "two", **more: Any) -> Object:
    return {
        "containers": [{"name": "main", "image": "x"}],
        "resourceClaims": [{"name": "g", "resourceClaimTemplateName": template}],
        **more,
    }


def pod(name: str, *, node: str = "", devices: tuple[str, ...] = (), **more: Any) -> list[Object]:
    """A pod of the namespace team; with devices it is placed, and its claim has them."""
    metadata: Object = {"uid": f"uid-{name}", **more.pop("metadata", {})}
    status = more.pop("status", {})
    found = object_("v1", "Pod", name, "team", metadata=metadata, spec=pod_spec(**more), status=status)
    if not node:
        return [found]
    found["spec"]["nodeName"] = node
    told = [{"name": "g", "resourceClaimName": f"{name}-g"}]
    found["status"] = {
        "phase": "Running",
        "startTime": "2026-11-29T10:00:00Z",
        "resourceClaimStatuses": told,
        **status,
    }
    results = [{"request": "g", "driver": DRIVER, "pool": node, "device": one} for one in devices]
    request = {
        "name": "g",
        "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": len(devices)},
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    users = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    claim = object_(
        "resource.k8s.io/v1",
        "ResourceClaim",
        f"{name}-g",
        "team",
        metadata={"uid": f"uid-{name}-g", "ownerReferences": [owner]},
        spec={"devices": {"requests": [request]}},
        status={"allocation": {"devices": {"results": results}}, "reservedFor": users},
    )
    return [found, claim]


def job_set(name: str, pods: int, template: str = "two", **more: Any) -> Object:
    inner = {"spec": {"parallelism": pods, "template": {"metadata": more, "spec": pod_spec(template)}}}
    jobs = [{"name": "w", "replicas": 1, "template": inner}]
    return object_("jobset.x-k8s.io/v1alpha2", "JobSet", name, "team", spec={"replicatedJobs": jobs})


def set_labels(name: str, job: str = "w") -> Object:
    """The labels of pods of a JobSet."""
    return {"labels": {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": job}}


def snapshot(objects: Iterable[Object]) -> Snapshot:
    return Snapshot.of(Document(one, Where("test", line)) for line, one in enumerate(objects))


def checked(objects: Iterable[Object], ruling: Rules = RULES) -> GangCheck:
    return check_gangs(snapshot(objects), ruling, random.Random(0))


def only(objects: Iterable[Object], ruling: Rules = RULES) -> GangAnswer:
    (found,) = checked(objects, ruling).gangs
    return found
