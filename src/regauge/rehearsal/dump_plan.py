"""From a dump to what the rehearsal sets up: nodes with stand-in drivers, objects as they were, pods to place anew. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regauge import inventory
from regauge.inventory import is_extended_resource, newest_slices, whole
from regauge.model import Document, Kind, Object, Snapshot, to_v1, view, with_defaults
from regauge.model.core import ENDED_PHASES, Node, Pod
from regauge.model.kinds import (
    CONFIG_MAP,
    CORE_EVENT,
    EVENT,
    LEASE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    SECRET,
    SERVICE_ACCOUNT,
)
from regauge.model.resource import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from regauge.rehearsal.stand_ins import StandInPlugin

# What no decision of the rehearsal depends on, or what the rehearsal makes itself.
LEFT_OUT: tuple[Kind, ...] = (NODE, POD, RESOURCE_SLICE, CORE_EVENT, EVENT, LEASE, CONFIG_MAP, SECRET, SERVICE_ACCOUNT)
# Beyond this a resource counts units, such as MiB, and no devices: a kubelet that counts them by itself does as well.
MOST_DEVICES = 2048


@dataclass(frozen=True, slots=True)
class DumpNode:
    """One node of a dump: its object without what the kubelet reports, and what stands in for its drivers.

    `capacity` is what its kubelet is told to count; what plugins advertise comes on top.
    """

    name: str
    object: Object
    capacity: Mapping[str, str]
    plugins: tuple[StandInPlugin, ...]
    drivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpectedPod:
    """A pod as the dump has it. `devices` are those of its claims; `message` is why it waits, where it does."""

    namespace: str
    name: str
    uid: str
    node: str
    devices: frozenset[str]
    message: str


@dataclass(frozen=True, slots=True)
class DumpPlan:
    """What is set up: nodes, slices and other objects as they were, then pods in the order they were placed in.

    `generated` are the claims that were made for pods.
    """

    nodes: tuple[DumpNode, ...]
    slices: tuple[Object, ...]
    objects: tuple[tuple[Kind, Object], ...]
    generated: tuple[Object, ...]
    pods: tuple[Object, ...]
    expected: tuple[ExpectedPod, ...]
    notes: tuple[str, ...]


def plan_dump(snapshot: Snapshot) -> DumpPlan:
    """The plan for one dump. The snapshot is not changed."""
    pods = [document for document in snapshot.documents(POD) if _is_active(document)]
    finished = len(snapshot.documents(POD)) - len(pods)
    notes = [f"{finished} finished pods are left out"] if finished else []
    claims = {(item.metadata.namespace, item.metadata.name): item for item in snapshot.claims}
    return DumpPlan(
        nodes=tuple(
            _node(node, document, snapshot) for node, document in zip(snapshot.nodes, snapshot.documents(NODE))
        ),
        slices=tuple(_kept(document) for document in snapshot.documents(RESOURCE_SLICE)),
        objects=tuple(_objects(snapshot)),
        generated=tuple(_generated(snapshot)),
        pods=tuple(_pod(document) for document in _placing_order(snapshot, pods)),
        expected=tuple(_expected(view(document.object, Pod), claims) for document in pods),
        notes=tuple(notes),
    )


def _is_active(document: Document) -> bool:
    return (document.object.get("status") or {}).get("phase") not in ENDED_PHASES


def _kept(document: Document) -> Object:
    return with_defaults(to_v1(copy.deepcopy(document.object)))


def _node(node: Node, document: Document, snapshot: Snapshot) -> DumpNode:
    """Cpu and memory as they may be used; devices come from the stand-ins, as on a real node."""
    object_ = _kept(document)
    object_["status"] = {}
    usable = {**node.status.capacity, **node.status.allocatable}
    capacity = {name: str(usable[name]) for name in usable if not is_extended_resource(name)}
    plugins = []
    for name in sorted(filter(is_extended_resource, node.status.capacity)):
        healthy = whole(node.status.allocatable.get(name, 0))
        total = max(whole(node.status.capacity[name]), healthy)
        if total > MOST_DEVICES:
            capacity[name] = str(healthy)
        elif total:
            plugins.append(StandInPlugin(name, healthy, total - healthy))
    return DumpNode(
        node.metadata.name, object_, capacity, tuple(plugins), tuple(_drivers(node.metadata.name, snapshot))
    )


def _drivers(node: str, snapshot: Snapshot) -> Iterator[str]:
    """Drivers with devices that pods on the node can get: its own, and those of devices that no one node owns."""
    found = {
        slice_.spec.driver
        for slice_ in newest_slices(snapshot.slices)
        if slice_.spec.node_name in (node, None) or any(device.node_name == node for device in slice_.spec.devices)
    }
    yield from sorted(found)


def _objects(snapshot: Snapshot) -> Iterator[tuple[Kind, Object]]:
    """Everything else of known kinds. Claims that a user made come unallocated, generated ones are told apart."""
    for document in snapshot.all_documents():
        kind = document.known
        if kind is None or kind in LEFT_OUT:
            continue
        object_ = _kept(document)
        if kind is RESOURCE_CLAIM:
            if _pod_of(object_):
                continue
            object_ = _unallocated(object_)
        elif kind is RESOURCE_QUOTA:
            object_.pop("status", None)
        yield kind, object_


def _generated(snapshot: Snapshot) -> Iterator[Object]:
    """Claims made from templates, unallocated and under their old names, so that messages can be compared.

    Those made for extended resources are left out: the scheduler makes them anew.
    """
    for document in snapshot.documents(RESOURCE_CLAIM):
        object_ = _kept(document)
        if EXTENDED_RESOURCE_CLAIM_ANNOTATION not in (object_["metadata"].get("annotations") or {}) and _pod_of(
            object_
        ):
            yield _unallocated(object_)


def _pod_of(claim: Object) -> str:
    """The uid of the pod that owns a claim, or empty text."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("uid")) for owner in owners if owner.get("kind") == POD.kind), "")


def _unallocated(claim: Object) -> Object:
    metadata = {name: value for name, value in claim["metadata"].items() if name != "finalizers"}
    return {**claim, "metadata": metadata, "status": {}}


def _pod(document: Document) -> Object:
    """A pod as it was before it was placed. That it goes where it was is the wish that upstream calls nomination."""
    object_ = with_defaults(copy.deepcopy(document.object))
    spec, status = object_["spec"], object_.get("status") or {}
    node = spec.pop("nodeName", "")
    new: Object = {"phase": "Pending"}
    if node:
        new["nominatedNodeName"] = node
    if status.get("resourceClaimStatuses"):
        new["resourceClaimStatuses"] = status["resourceClaimStatuses"]
    object_["status"] = new
    object_["metadata"].pop("deletionTimestamp", None)
    return object_


def _placing_order(snapshot: Snapshot, pods: list[Document]) -> list[Document]:
    """Pods in the order in which they were placed; those that wait come last.

    The condition tells the second. Within it the scheduler's event tells more while there is one, else the write that
    allocated the pod's claims: that order decides which devices of a node each got.
    """
    told = {uid: when for document in snapshot.documents(CORE_EVENT) for uid, when in _scheduled(document.object)}
    told |= {uid: when for document in snapshot.documents(EVENT) for uid, when in _scheduled(document.object)}
    claims: dict[str, int] = {}
    for claim in snapshot.claims:
        for user in claim.status.reserved_for:
            claims[user.uid] = max(claims.get(user.uid, 0), _number(claim.metadata.resource_version))

    def key(document: Document) -> tuple[str, str, int, str, int]:
        metadata = document.object["metadata"]
        conditions = (document.object.get("status") or {}).get("conditions") or ()
        placed = [str(item.get("lastTransitionTime")) for item in conditions if item.get("type") == "PodScheduled"]
        waits = not (document.object.get("spec") or {}).get("nodeName")
        uid = str(metadata.get("uid", ""))
        when = "~" if waits else (placed or [""])[0]
        created = str(metadata.get("creationTimestamp", ""))
        return when, told.get(uid, ""), claims.get(uid, 0), created, _number(metadata.get("resourceVersion"))

    return sorted(pods, key=key)


def _scheduled(event: Object) -> Iterator[tuple[str, str]]:
    if event.get("reason") == "Scheduled" and event.get("eventTime"):
        about = event.get("involvedObject") or event.get("regarding") or {}
        yield str(about.get("uid", "")), str(event["eventTime"])


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else 0


def _expected(pod: Pod, claims: Mapping[tuple[str, str], ResourceClaim]) -> ExpectedPod:
    messages = [
        item.message for item in pod.status.conditions if item.type == "PodScheduled" and item.status == "False"
    ]
    return ExpectedPod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        node=pod.spec.node_name,
        devices=claimed_devices(pod, claims),
        message=(messages or [""])[0],
    )


def claimed_devices(pod: Pod, claims: Mapping[tuple[str, str], ResourceClaim]) -> frozenset[str]:
    """The devices that a pod's claims hold, as driver/pool/device."""
    return frozenset(map("/".join, inventory.claimed_devices(pod, claims)))
