"""Workloads and their pods: which pods are whose, and new pods from a workload's template. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from regauge.base import InputError, Where
from regauge.model import Document, Kind, Object, Snapshot
from regauge.model.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    TEMPLATE_PATHS,
)
from regauge.scheduler.nodes import TERMINAL

# The pods of a DaemonSet come with the nodes, not with copies.
_PATHS: Mapping[Kind, tuple[str, ...]] = {kind: path for kind, path in TEMPLATE_PATHS.items() if kind != DAEMON_SET}
COPIED = tuple(_PATHS)
SCALED = (DEPLOYMENT, STATEFUL_SET, REPLICA_SET, REPLICATION_CONTROLLER, JOB)
_BY_NODE = (DAEMON_SET.kind, "Node")
_MIRROR = "kubernetes.io/config.mirror"
# What a pod got when it was placed, and must not be taken over by a copy of it.
_PLACED_FIELDS = ("nodeName", "hostname", "subdomain")


def part(object_: Object, *path: str) -> Object:
    """A mapping inside a document; an empty one where it is missing."""
    for name in path:
        inner = object_.get(name)
        object_ = inner if isinstance(inner, dict) else {}
    return object_


def new_pod(workload: Document, number: int, owners: Iterable[Object] = ()) -> Object:
    """A pod from the template of a workload, or like a pod. Raises `InputError` for a kind without a template."""
    kind = workload.known
    if kind is None or kind not in _PATHS:
        known = ", ".join(one.kind for one in COPIED)
        raise InputError(
            "unsupported: pods of this kind", where=Where(object=workload.title), fix=f"give one of: {known}"
        )
    template = part(workload.object, *_PATHS[kind])
    metadata, spec = part(template, "metadata"), part(template, "spec")
    if not spec.get("containers"):
        raise InputError("its pod template has no containers", where=workload.where, fix="complete the template")
    name = f"{workload.name}-new-{number}"
    owned = list(owners) or ([] if kind == POD else [_owner(workload)])
    new: Object = {"name": name, "namespace": workload.namespace, "ownerReferences": owned}
    new |= {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    kept = {key: value for key, value in spec.items() if key not in _PLACED_FIELDS}
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": new, "spec": kept}


def _owner(workload: Document) -> Object:
    uid = str(part(workload.object, "metadata").get("uid") or workload.title)
    head = {"apiVersion": workload.api_version, "kind": workload.kind}
    return {**head, "name": workload.name, "uid": uid, "controller": True}


def controller(object_: Object) -> Object | None:
    """The reference to the owner that controls an object."""
    owners = part(object_, "metadata").get("ownerReferences")
    found = owners if isinstance(owners, list) else []
    return next((one for one in found if isinstance(one, dict) and one.get("controller")), None)


def is_tied_to_node(pod: Object) -> bool:
    """Whether a pod stays with its node when the node is drained: of a daemon set, or static."""
    owner = controller(pod)
    annotations = part(pod, "metadata", "annotations")
    return _MIRROR in annotations or (owner is not None and owner.get("kind") in _BY_NODE)


def pods_of(workload: Document, snapshot: Snapshot) -> list[Document]:
    """The pods of a workload that have not ended, in the order they were read."""
    owners = {(workload.kind, workload.name)}
    between = {DEPLOYMENT.kind: REPLICA_SET, CRON_JOB.kind: JOB}.get(workload.kind)
    for document in snapshot.documents(between) if between else ():
        if document.namespace == workload.namespace and _owned_by(document.object, owners):
            owners.add((document.kind, document.name))
    return [
        pod
        for pod in snapshot.documents(POD)
        if pod.namespace == workload.namespace
        and _owned_by(pod.object, owners)
        and part(pod.object, "status").get("phase") not in TERMINAL
    ]


def _owned_by(object_: Object, owners: set[tuple[str, str]]) -> bool:
    owner = controller(object_)
    return owner is not None and (str(owner.get("kind")), str(owner.get("name"))) in owners


def wanted_pods(workload: Document) -> int:
    """How many pods a workload asks for."""
    spec = part(workload.object, "spec")
    value = spec.get("parallelism" if workload.known == JOB else "replicas", 1)
    return value if isinstance(value, int) and value >= 0 else 1
