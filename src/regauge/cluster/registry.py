"""What the API server knows of each kind: whether status is a part of its own, whether changes count up a generation.

Kinds that are not in the table (custom resources) count generations and keep their status as one part of the whole.
Source: pkg/registry strategies of each kind.
"""

from __future__ import annotations

from typing import Any

from regauge.model import Kind, Object
from regauge.model import kinds as k

_STATUS = frozenset(
    {
        k.POD,
        k.NODE,
        k.NAMESPACE,
        k.RESOURCE_QUOTA,
        k.PERSISTENT_VOLUME_CLAIM,
        k.PERSISTENT_VOLUME,
        k.SERVICE,
        k.REPLICATION_CONTROLLER,
        k.DEPLOYMENT,
        k.REPLICA_SET,
        k.STATEFUL_SET,
        k.DAEMON_SET,
        k.JOB,
        k.CRON_JOB,
        k.POD_DISRUPTION_BUDGET,
        k.RESOURCE_CLAIM,
        k.DEVICE_TAINT_RULE,
        k.RESOURCE_POOL_STATUS_REQUEST,
        k.POD_GROUP,
        k.CUSTOM_RESOURCE_DEFINITION,
    }
)
_GENERATION = frozenset(
    {
        k.POD,
        k.PRIORITY_CLASS,
        k.REPLICATION_CONTROLLER,
        k.DEPLOYMENT,
        k.REPLICA_SET,
        k.STATEFUL_SET,
        k.DAEMON_SET,
        k.JOB,
        k.CRON_JOB,
        k.POD_DISRUPTION_BUDGET,
        k.RESOURCE_SLICE,
        k.DEVICE_CLASS,
        k.DEVICE_TAINT_RULE,
        k.CUSTOM_RESOURCE_DEFINITION,
    }
)
_KNOWN = {(kind.group, kind.plural): kind for kind in k.KINDS}
_STATUS_NAMES = {(kind.group, kind.plural) for kind in _STATUS}
_GENERATION_NAMES = {(kind.group, kind.plural) for kind in _GENERATION}
_KEEPS_STATUS_AT_CREATION = {("", "nodes")}
_GENERATION_OF_EVERYTHING = {("resource.k8s.io", "deviceclasses")}
_STATUS_AT_CREATION: dict[tuple[str, str], dict[str, Any]] = {
    ("", "namespaces"): {"phase": "Active"},
    ("", "persistentvolumeclaims"): {"phase": "Pending"},
    ("", "persistentvolumes"): {"phase": "Pending"},
    ("", "services"): {"loadBalancer": {}},
    ("apps", "replicasets"): {"replicas": 0},
    ("apps", "statefulsets"): {"replicas": 0, "availableReplicas": 0},
    ("apps", "daemonsets"): {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
}


def known(kind: Kind) -> bool:
    return (kind.group, kind.plural) in _KNOWN


def has_status(kind: Kind) -> bool:
    """Whether status is written through a subresource only."""
    return (kind.group, kind.plural) in _STATUS_NAMES


def counts_generations(kind: Kind) -> bool:
    return (kind.group, kind.plural) in _GENERATION_NAMES or not known(kind)


def prepared_for_create(kind: Kind, object_: Object) -> Object:
    """A new object as its kind's strategy stores it: status reset, generation 1. Metadata is not otherwise touched."""
    name = (kind.group, kind.plural)
    new = dict(object_)
    if has_status(kind) and name not in _KEEPS_STATUS_AT_CREATION:
        new["status"] = dict(_STATUS_AT_CREATION.get(name, {}))
    if counts_generations(kind):
        new["metadata"] = {**new["metadata"], "generation": 1}
    if name == ("batch", "jobs"):
        new["spec"] = _selecting_job(new)
    if name == ("", "namespaces"):
        spec = dict(new.get("spec") or {})
        spec["finalizers"] = sorted({*(spec.get("finalizers") or []), "kubernetes"})
        new["spec"] = spec
        labels = {**(new["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": new["metadata"]["name"]}
        new["metadata"] = {**new["metadata"], "labels": labels}
    return new


def _selecting_job(job: Object) -> Object:
    """A Job without a selector of its own selects its pods by its uid."""
    spec = dict(job.get("spec") or {})
    template = spec.get("template") or {}
    if spec.get("manualSelector"):
        return spec
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    metadata = dict(template.get("metadata") or {})
    own = {"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid}
    named = {"job-name": name, "batch.kubernetes.io/job-name": name}
    metadata["labels"] = {**(metadata.get("labels") or {}), **own, **named}
    spec["template"] = {**template, "metadata": metadata}
    selector = spec.get("selector") or {}
    chosen = {**(selector.get("matchLabels") or {}), "batch.kubernetes.io/controller-uid": uid}
    spec["selector"] = {**selector, "matchLabels": chosen}
    return spec


def prepared_for_update(kind: Kind, old: Object, new: Object, subresource: str) -> Object:
    """The new state an update leads to: the parts that this path may not write come from the old state."""
    if subresource == "status":
        updated = _status_update(kind, old, new)
        return _without_freed_devices(old, updated) if kind.plural == "resourceclaims" else updated
    if subresource == "finalize":
        return {
            **old,
            "spec": {**(old.get("spec") or {}), "finalizers": (new.get("spec") or {}).get("finalizers") or []},
        }
    result = dict(new)
    if has_status(kind):
        result.pop("status", None)
        if "status" in old:
            result["status"] = old["status"]
    metadata = dict(result["metadata"])
    metadata.pop("generation", None)
    if counts_generations(kind):
        changed = _main_part(kind, old) != _main_part(kind, result)
        metadata["generation"] = old["metadata"].get("generation", 0) + (1 if changed else 0)
    elif "generation" in old["metadata"]:
        metadata["generation"] = old["metadata"]["generation"]
    result["metadata"] = metadata
    return result


def _main_part(kind: Kind, object_: Object) -> Any:
    if known(kind) and (kind.group, kind.plural) not in _GENERATION_OF_EVERYTHING:
        return object_.get("spec")
    return {key: value for key, value in object_.items() if key not in ("metadata", "status", "apiVersion", "kind")}


def _without_freed_devices(old: Object, new: Object) -> Object:
    """What drivers told of a device goes with its allocation."""
    status = new.get("status") or {}
    freed = _allocated(old) - _allocated(new)
    if not freed or not status.get("devices"):
        return new
    left = [item for item in status["devices"] if _device(item) not in freed]
    kept = {key: value for key, value in status.items() if key != "devices"}
    return {**new, "status": {**kept, **({"devices": left} if left else {})}}


def _allocated(claim: Object) -> set[tuple[Any, ...]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {_device(item) for item in (allocation.get("devices") or {}).get("results") or []}


def _device(item: Object) -> tuple[Any, ...]:
    return tuple(item.get(field) for field in ("driver", "pool", "device", "shareID"))


_STATUS_METADATA = ("labels", "annotations", "finalizers", "ownerReferences", "generation")
_STATUS_MAY_WRITE_METADATA = {("", "nodes"), ("", "pods")}


def _status_update(kind: Kind, old: Object, new: Object) -> Object:
    """Only the status is taken over; of pods and nodes labels and annotations too, as upstream does."""
    metadata = dict(new["metadata"])
    lenient = (kind.group, kind.plural) in _STATUS_MAY_WRITE_METADATA or (
        kind.group in ("apps", "batch") and kind.plural != "daemonsets"
    )
    for field in _STATUS_METADATA:
        if lenient and field in ("labels", "annotations", "finalizers"):
            continue
        metadata.pop(field, None)
        if field in old["metadata"]:
            metadata[field] = old["metadata"][field]
    result = {**old, "metadata": metadata}
    if "status" in new:
        result["status"] = new["status"]
    else:
        result.pop("status", None)
    return result
