"""Recorded stories of a real Kueue: what was in the cluster at each step, and what Kueue said and charged."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.support import ROOT, shared

from regauge.base import Where
from regauge.features import rules
from regauge.model import Document, Rules, Snapshot

RULES: Rules = rules(
    "1.36", {"DRAExtendedResource": True, "DRAPartitionableDevices": True, "DRAConsumableCapacity": True}
)


def _node(name: str, zone: str, **more: str) -> dict[str, Any]:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi", **more}
    metadata = {"name": name, "uid": f"Node-{name}", "labels": {"kubernetes.io/hostname": name, "zone": zone}}
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


# As the recording describes them.
NODES = [_node("n1", "a"), _node("n2", "b"), _node("dp1", "c", **{"nvidia.com/gpu": "4"})]


def names() -> list[str]:
    """The stories there are, or one that is missing."""
    place = Path(os.environ.get("REGAUGE_SHARED", ROOT.parent / "shared")) / "vectors/kueue"
    return sorted(one.parent.name for one in place.glob("*/story.json")) or ["stories"]


@cache
def _yaml(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def as_snapshot(objects: list[dict[str, Any]]) -> Snapshot:
    return Snapshot.of(Document(one, Where("story", line)) for line, one in enumerate(objects))


@dataclass
class Step:
    """One step: everything that is in the cluster after it, and the workloads as observed."""

    name: str
    objects: list[dict[str, Any]]
    observed: dict[str, Any]
    created: list[str] = field(default_factory=list)

    @property
    def snapshot(self) -> Snapshot:
        return as_snapshot(self.objects)


def _key(one: dict[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def play(name: str) -> Iterator[Step]:
    """The steps of a story with what was there then."""
    directory = shared(f"vectors/kueue/{name}")
    story = json.loads((directory / "story.json").read_text())
    folder = directory.parent
    world = {_key(one): one for one in copy.deepcopy(_yaml(folder / "cluster.yaml"))}
    config = copy.deepcopy(_yaml(folder / "config" / f"{story['kueueConfiguration']}.yaml")[0])
    coming = copy.deepcopy(_yaml(directory / "input.yaml"))
    first = _named_in(story["steps"])
    while coming and "/".join(_key(coming[0])) != first:
        one = coming.pop(0)
        world[_key(one)] = one
    for step in story["steps"]:
        created = []
        for call in step["api"]:
            name = call["object"]
            if coming and "/".join(_key(coming[0])) == name:
                one = coming.pop(0)
                world[_key(one)] = one
                created.append(name)
            elif name.startswith("ClusterQueue "):
                _patch(world, name)
        observed = step["observed"]
        seen = _observed_objects(world, observed)
        yield Step(step["step"], [config, *copy.deepcopy(seen)], observed, created)


def _named_in(steps: list[dict[str, Any]]) -> str:
    return next((call["object"] for step in steps for call in step["api"] if "/" in call["object"]), "")


def _patch(world: dict[tuple[str, str], Any], call: str) -> None:
    _, what, value = call.split(" ")
    for (kind, _), one in world.items():
        if kind == "ClusterQueue":
            if what == "stopPolicy":
                one["spec"]["stopPolicy"] = value
            else:
                for group in one["spec"]["resourceGroups"]:
                    for flavor in group["flavors"]:
                        for resource in flavor["resources"]:
                            resource["nominalQuota"] = value


def _observed_objects(world: dict[tuple[str, str], Any], observed: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that were given, and those that Kueue and the controllers made of them."""
    found = [one for one in world.values() if one["kind"] not in ("Job", "Pod", "ResourceClaim")]
    namespace = next(one["metadata"]["name"] for one in world.values() if one["kind"] == "Namespace")
    for one in found:
        usage = (
            observed.get("clusterQueues", {}).get(one["metadata"]["name"]) if one["kind"] == "ClusterQueue" else None
        )
        if usage:
            one["status"] = {"flavorsUsage": usage["flavorsUsage"]}
    found += copy.deepcopy(NODES)
    found += [_workload(one, world, namespace) for one in observed.get("workloads", ())]
    # Kueue adds the labels of the flavors to the job, and so to its pods.
    selectors = {one["name"]: one.get("nodeSelector") or {} for one in observed.get("jobs", ())}
    found += [_pod(one, world, namespace, selectors.get(one["owner"], {})) for one in observed.get("pods", ())]
    found += [_claim(one, observed, namespace, world) for one in observed.get("claims", ())]
    return found


def template_of(world: dict[tuple[str, str], Any], kind: str, name: str) -> dict[str, Any]:
    given = world.get((kind, name)) or world.get(("Job", name)) or world.get(("Pod", name))
    assert given is not None, (kind, name)
    if given["kind"] == "Pod":
        spec = copy.deepcopy(given["spec"])
        for one in spec["containers"]:
            limits = one.get("resources", {}).get("limits", {})
            if limits:
                one["resources"]["requests"] = {**limits, **one["resources"].get("requests", {})}
        return {"spec": spec}
    return given["spec"]["template"]


def _workload(one: dict[str, Any], world: dict[tuple[str, str], Any], namespace: str) -> dict[str, Any]:
    kind, _, name = one["owner"].partition("/")
    made_for = one["name"].split("-")[1] if name == "None" else name
    owners = [] if name == "None" else [{"apiVersion": "v1", "kind": kind, "name": name, "uid": f"{kind}-{name}"}]
    template = template_of(world, kind, made_for)
    status = {name: one[name] for name in ("conditions", "reclaimablePods", "schedulingStats") if one.get(name)}
    if one.get("admission"):
        status["admission"] = one["admission"]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": one["name"], "namespace": namespace, "uid": one["name"], "ownerReferences": owners},
        "spec": {
            "active": one["active"],
            "queueName": "lq",
            "podSets": [{**item, "template": template} for item in one["podSets"]],
        },
        "status": status,
    }


def _pod(
    one: dict[str, Any], world: dict[tuple[str, str], Any], namespace: str, selector: dict[str, str]
) -> dict[str, Any]:
    owner = one["owner"]
    made_for = owner or (one["name"] if ("Pod", one["name"]) in world else one["name"].rpartition("-")[0])
    spec = copy.deepcopy(template_of(world, "Job", made_for)["spec"])
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        resources = container.get("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    spec["schedulerName"] = "default-scheduler"
    if selector:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **selector}
    if one["node"]:
        spec["nodeName"] = one["node"]
    status = {"phase": one["phase"]}
    for name in ("resourceClaimStatuses", "extendedResourceClaimStatus"):
        if one.get(name):
            status[name] = one[name]
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"Job-{owner}", "controller": True}]
    uid = f"Pod-{one['name']}"
    metadata = {"name": one["name"], "namespace": namespace, "uid": uid, "ownerReferences": owners if owner else []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _claim(
    one: dict[str, Any], observed: dict[str, Any], namespace: str, world: dict[tuple[str, str], Any]
) -> dict[str, Any]:
    status: dict[str, Any] = {}
    if one.get("allocation"):
        status["allocation"] = {"devices": {"results": one["allocation"]}}
    if one.get("reservedFor"):
        status["reservedFor"] = [
            {"resource": "pods", "name": name, "uid": f"Pod-{name}"} for name in one["reservedFor"]
        ]
    metadata: dict[str, Any] = {"name": one["name"], "namespace": namespace, "uid": f"Claim-{one['name']}"}
    for pod in observed.get("pods", ()):
        made = [item.get("resourceClaimName") for item in pod.get("resourceClaimStatuses") or ()]
        if one["name"] in made:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": f"Pod-{pod['name']}"}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
    spec = {"devices": {"requests": one["requests"]}}
    for (kind, _), template in world.items():
        devices = template["spec"]["spec"]["devices"] if kind == "ResourceClaimTemplate" else {}
        if "constraints" in devices and _counts(devices["requests"]) == _counts(one["requests"]):
            spec["devices"]["constraints"] = devices["constraints"]
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    return {**head, "metadata": metadata, "spec": spec, "status": status}


def _counts(requests: list[dict[str, Any]]) -> list[Any]:
    return [(one["name"], one.get("exactly", {}).get("count", 1)) for one in requests]
