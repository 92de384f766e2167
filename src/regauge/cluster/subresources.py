"""Scale: one small object that stands for the number of replicas of a workload. Pure.

Source: pkg/registry/apps/deployment/storage and its siblings of 1.36.
"""

from __future__ import annotations

from typing import Any

from regauge.cluster import cells
from regauge.cluster.refusals import FieldError, invalid, invalid_object
from regauge.model import Kind, Object
from regauge.model.kinds import DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET

SCALED = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)
SCALE = Kind("autoscaling", "v1", "Scale", "scales")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Object) -> Object:
    """The Scale of a workload."""
    spec = workload["spec"]
    chosen = spec.get("selector") or {}
    if "matchLabels" not in chosen and "matchExpressions" not in chosen:
        chosen = {"matchLabels": chosen}
    text = cells.selector(chosen)
    status: dict[str, Any] = {"replicas": (workload.get("status") or {}).get("replicas", 0)}
    if text != cells.NONE:
        status["selector"] = text
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {key: workload["metadata"][key] for key in _METADATA if key in workload["metadata"]},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": status,
    }


def scaled(kind: Kind, workload: Object, scale: Object) -> Object:
    """The workload as the Scale wants it. Raises `Invalid` for a number that is none."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    name = workload["metadata"]["name"]
    errors: list[FieldError] = []
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        errors.append(invalid("spec.replicas", replicas, "must be greater than or equal to 0"))
    if errors:
        raise invalid_object(SCALE, name, errors)
    metadata = dict(workload["metadata"])
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        metadata["resourceVersion"] = version
    return {**workload, "metadata": metadata, "spec": {**workload["spec"], "replicas": replicas}}
