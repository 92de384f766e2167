"""A cluster after a change that has not been made: nodes added or drained, devices tainted, objects applied or deleted.

What the controllers would do follows: claims of pods that go are given back, workloads get their pods. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from regauge.allocator import DeviceId
from regauge.base import InputError, Where
from regauge.model import KINDS, Document, Kind, Object, Snapshot, document_view
from regauge.model.core import Pod
from regauge.model.kinds import NODE, POD, POD_DISRUPTION_BUDGET, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.resource import EXTENDED_RESOURCE_CLAIM_ANNOTATION, DeviceTaint, DeviceToleration, ResourceClaim
from regauge.scheduler.finding import near
from regauge.scheduler.stored import as_stored
from regauge.scheduler.surroundings import Budget
from regauge.scheduler.templates import (
    SCALED,
    controller,
    is_tied_to_node,
    new_pod,
    part,
    pods_of,
    wanted_pods,
)

HOSTNAME = "kubernetes.io/hostname"
TAINT_KEY = "regauge.dev/what-if"
EFFECTS = ("NoSchedule", "NoExecute")
MAX_COPIES = 5_000
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_CHANGED = Where(file="a change")
Key = tuple[str, str, str, str]  # group, kind, namespace, name


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object as a user names it: KIND/NAME or KIND/NAMESPACE/NAME."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(one for one in (self.kind, self.namespace, self.name) if one)


@dataclass(frozen=True, slots=True)
class AddNodes:
    """`count` more nodes like `node`, with slices of their own."""

    node: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Drain:
    """No new pods on the node, and its pods go elsewhere."""

    node: str


@dataclass(frozen=True, slots=True)
class TaintDevice:
    """A taint on one device; with NoExecute the pods that use it and do not tolerate it have to go."""

    device: DeviceId
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Apply:
    """Objects that are new, or take the place of those of the same name."""

    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """An object goes, and what belongs to it."""

    target: ObjectName


@dataclass(frozen=True, slots=True)
class Replicas:
    """A workload gets this many pods."""

    target: ObjectName
    count: int


Change = AddNodes | Drain | TaintDevice | Apply | Delete | Replicas


@dataclass(frozen=True, slots=True)
class Changed:
    """The cluster afterwards, and what is worth knowing about the way there."""

    snapshot: Snapshot
    notes: tuple[str, ...] = ()


def changed(snapshot: Snapshot, changes: Iterable[Change]) -> Changed:
    """The snapshot (as stored) after the changes, in their order.

    Raises `InputError` for an object that is not there, with near names.
    """
    notes: list[str] = []
    for change in changes:
        objects = _objects(snapshot)
        match change:
            case AddNodes():
                _add_nodes(objects, change)
            case Drain():
                _drain(objects, change)
            case TaintDevice():
                _taint(objects, change)
            case Apply():
                _apply(objects, change)
            case Delete():
                _delete(objects, change)
            case Replicas():
                _scale(objects, _find(objects, change.target), change.count)
        snapshot = as_stored(Snapshot.of(objects.documents.values()))
        notes += objects.notes
    return Changed(snapshot, tuple(dict.fromkeys(notes)))


def object_name(text: str) -> ObjectName:
    """`KIND/NAME` or `KIND/NAMESPACE/NAME`, the kind as people write it: `deployment`, `pods`, `ResourceSlice`."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InputError(f"{text!r} names no object", fix="write KIND/NAME or KIND/NAMESPACE/NAME")
    kinds: dict[str, Kind] = {}
    for kind in KINDS:
        for word in (kind.kind, kind.plural, kind.kind + "s"):
            kinds.setdefault(word.lower(), kind)
    kind_ = kinds.get(parts[0].lower())
    if kind_ is None:
        raise InputError(f"unsupported kind {parts[0]}", fix=near(parts[0].lower(), sorted(kinds), "kinds"))
    return ObjectName(kind_.kind, parts[1] if len(parts) == 3 else "", parts[-1])


@dataclass(slots=True)
class _Objects:
    """The objects while they are changed. `snapshot` is the cluster before the change."""

    snapshot: Snapshot
    documents: dict[Key, Document]
    notes: list[str] = field(default_factory=list)

    def put(self, object_: Object) -> None:
        document = Document(object_, _CHANGED)
        self.documents[_key(document)] = document

    def drop(self, document: Document) -> None:
        self.documents.pop(_key(document), None)

    def of(self, kind: Kind) -> list[Document]:
        return [one for one in self.documents.values() if one.kind == kind.kind]


def _objects(snapshot: Snapshot) -> _Objects:
    return _Objects(snapshot, {_key(one): one for one in snapshot.all_documents()})


def _key(document: Document) -> Key:
    group = document.api_version.rpartition("/")[0]
    return group, document.kind, document.namespace, document.name or str(document.where)


def find_document(snapshot: Snapshot, target: ObjectName) -> Document:
    """The object that a user names. Raises `InputError` with near names where there is none, or several."""
    return _find(_objects(snapshot), target)


def _find(objects: _Objects, target: ObjectName) -> Document:
    same = [one for one in objects.documents.values() if one.kind == target.kind]
    found = [one for one in same if one.name == target.name and target.namespace in ("", one.namespace)]
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(sorted(f"{one.kind}/{one.namespace}/{one.name}" for one in found))
        raise InputError("is there more than once", where=Where(object=str(target)), fix=f"write one of: {places}")
    known = ["/".join(part_ for part_ in (one.namespace, one.name) if part_) for one in same]
    raise InputError("is not there", where=Where(object=str(target)), fix=near(target.name, known, f"{target.kind}s"))


# -- nodes


def _add_nodes(objects: _Objects, change: AddNodes) -> None:
    node = _find(objects, ObjectName(NODE.kind, "", change.node))
    if not 0 < change.count <= MAX_COPIES:
        raise InputError(f"{change.count} nodes are to be added", fix=f"add between 1 and {MAX_COPIES}")
    slices = [one for one in objects.of(RESOURCE_SLICE) if part(one.object, "spec").get("nodeName") == change.node]
    if not slices:
        objects.notes.append(
            f"node {change.node} has no ResourceSlice of its own, so nodes like it bring no devices for claims; a cluster "
            "autoscaler that starts from no nodes knows of none either, unless its node template has slices"
        )
    taken = {one.name for one in objects.of(NODE)}
    number = 0
    for _ in range(change.count):
        number += 1
        while f"{change.node}-like-{number}" in taken:
            number += 1
        name = f"{change.node}-like-{number}"
        objects.put(_node_like(node.object, name))
        for slice_ in slices:
            objects.put(_slice_like(slice_.object, change.node, name))


def _node_like(node: Object, name: str) -> Object:
    metadata, spec = part(node, "metadata"), dict(part(node, "spec"))
    labels = {**part(metadata, "labels"), HOSTNAME: name}
    spec.pop("unschedulable", None)
    spec.pop("providerID", None)
    spec["taints"] = [one for one in spec.get("taints") or [] if one.get("key") != _UNSCHEDULABLE]
    return {**node, "metadata": {"name": name, "uid": f"Node/{name}", "labels": labels}, "spec": spec}


def _slice_like(slice_: Object, node: str, name: str) -> Object:
    spec, metadata = part(slice_, "spec"), part(slice_, "metadata")
    pool = part(spec, "pool")
    renamed = name if pool.get("name") == node else f"{pool.get('name')}-{name}"
    own = f"{metadata.get('name')}-{name}"
    return {
        **slice_,
        "metadata": {"name": own, "uid": f"ResourceSlice/{own}"},
        "spec": {**spec, "nodeName": name, "pool": {**pool, "name": renamed}},
    }


def _drain(objects: _Objects, change: Drain) -> None:
    node = _find(objects, ObjectName(NODE.kind, "", change.node))
    objects.put({**node.object, "spec": {**part(node.object, "spec"), "unschedulable": True}})
    leaving = [pod for pod in _pods_on(objects, change.node) if not is_tied_to_node(pod.object)]
    objects.notes += _guarded(objects, leaving, change.node)
    for pod in leaving:
        _evict(objects, pod)


def _guarded(objects: _Objects, leaving: Sequence[Document], node: str) -> Iterable[str]:
    """What disruption budgets say to all of these pods being evicted."""
    pods = [document_view(one, Pod) for one in leaving]
    for document in objects.of(POD_DISRUPTION_BUDGET):
        budget = document_view(document, Budget)
        covered = [pod.metadata.name for pod in pods if budget.covers(pod)]
        allowed = max(budget.status.disruptions_allowed, 0)
        if len(covered) > allowed:
            title, names = f"{budget.metadata.namespace}/{budget.metadata.name}", ", ".join(covered)
            many = "none" if allowed == 0 else f"{allowed} at a time"
            yield (
                f"disruption budget {title} guards {len(covered)} pods on {node} ({names}) and lets {many} go now: draining "
                "waits until those that went are ready elsewhere"
                + (", and for ever if that does not change" if allowed == 0 else "")
            )


def _pods_on(objects: _Objects, node: str) -> list[Document]:
    return [one for one in objects.of(POD) if part(one.object, "spec").get("nodeName") == node]


# -- pods and their claims


def _evict(objects: _Objects, pod: Document) -> None:
    """The pod goes; its controller, if it has one, makes another that waits for a place."""
    _release(objects, pod, again=True)
    if controller(pod.object) is None:
        objects.notes.append(f"{pod.title} has no controller: nobody makes it again")
        _release(objects, pod, again=False)
        return
    status = {
        "resourceClaimStatuses": part(pod.object, "status").get("resourceClaimStatuses") or [],
        "phase": "Pending",
    }
    spec = {key: value for key, value in part(pod.object, "spec").items() if key != "nodeName"}
    objects.put({**pod.object, "spec": spec, "status": status})


def _release(objects: _Objects, pod: Document, *, again: bool) -> None:
    """Give back what the pod holds; `again`: the claims made for it stay, free, for the pod that follows."""
    uid = part(pod.object, "metadata").get("uid")
    for claim in objects.of(RESOURCE_CLAIM):
        if claim.namespace != pod.namespace:
            continue
        owner = controller(claim.object)
        if owner is not None and owner.get("uid") == uid:
            special = EXTENDED_RESOURCE_CLAIM_ANNOTATION in part(claim.object, "metadata", "annotations")
            objects.drop(claim)
            if again and not special:
                objects.put({**claim.object, "status": {}})
            continue
        users = part(claim.object, "status").get("reservedFor") or []
        left = [one for one in users if one.get("uid") != uid]
        if len(left) < len(users):
            status = {**part(claim.object, "status"), "reservedFor": left} if left else {}
            objects.put({**claim.object, "status": status})
    if not again:
        objects.drop(pod)


# -- devices


def _taint(objects: _Objects, change: TaintDevice) -> None:
    if change.effect not in EFFECTS:
        raise InputError(f"unsupported effect {change.effect}", fix=f"give one of: {', '.join(EFFECTS)}")
    found, known = False, []
    taint = {"key": TAINT_KEY, "value": "true", "effect": change.effect}
    for slice_ in objects.of(RESOURCE_SLICE):
        spec = part(slice_.object, "spec")
        pool = (spec.get("driver"), part(spec, "pool").get("name"))
        devices: list[Object] = list(spec.get("devices") or [])
        known += [f"{pool[0]}/{pool[1]}/{one.get('name')}" for one in devices]
        if pool != (change.device.driver, change.device.pool):
            continue
        for place, one in enumerate(devices):
            if one.get("name") == change.device.device:
                found = True
                devices[place] = {**one, "taints": [*(one.get("taints") or []), taint]}
        objects.put({**slice_.object, "spec": {**spec, "devices": devices}})
    if not found:
        raise InputError(
            "is not there",
            where=Where(object=f"device {change.device}"),
            fix=near(str(change.device), known, "devices"),
        )
    if change.effect == "NoExecute":
        _evict_users(objects, change.device, DeviceTaint(key=TAINT_KEY, value="true", effect=change.effect))


def _evict_users(objects: _Objects, device: DeviceId, taint: DeviceTaint) -> None:
    users: set[str] = set()
    for document in objects.of(RESOURCE_CLAIM):
        claim = document_view(document, ResourceClaim)
        allocation = claim.status.allocation
        for one in allocation.devices.results if allocation else ():
            if (one.driver, one.pool, one.device) == device and not _tolerated(taint, one.tolerations):
                users |= {user.uid for user in claim.status.reserved_for}
    for pod in objects.of(POD):
        if part(pod.object, "metadata").get("uid") in users:
            _evict(objects, pod)


def _tolerated(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> bool:
    return any(
        one.effect in ("", taint.effect)
        and one.key in ("", taint.key)
        and (one.operator == "Exists" or (one.operator in ("", "Equal") and one.value == taint.value))
        for one in tolerations
    )


# -- objects


def _apply(objects: _Objects, change: Apply) -> None:
    for document in change.documents:
        known = document.known
        if known is not None and known.namespaced and not document.namespace:
            metadata = {**part(document.object, "metadata"), "namespace": "default"}
            document = Document({**document.object, "metadata": metadata}, document.where)
        old = objects.documents.get(_key(document))
        if old is not None and old.kind == POD.kind:
            _release(objects, old, again=False)
        objects.documents[_key(document)] = document
        if known in SCALED:
            for pod in pods_of(document, objects.snapshot):
                _release(objects, pod, again=False)
            _make_pods(objects, document, wanted_pods(document), ())


def _delete(objects: _Objects, change: Delete) -> None:
    document = _find(objects, change.target)
    objects.drop(document)
    if document.kind == POD.kind:
        _release(objects, document, again=False)
    elif document.kind == NODE.kind:
        for pod in _pods_on(objects, document.name):
            gone = is_tied_to_node(pod.object)
            _release(objects, pod, again=False) if gone else _evict(objects, pod)
        for slice_ in objects.of(RESOURCE_SLICE):
            if part(slice_.object, "spec").get("nodeName") == document.name:
                objects.drop(slice_)
    elif document.known in SCALED:
        for pod in pods_of(document, objects.snapshot):
            _release(objects, pod, again=False)


def _scale(objects: _Objects, workload: Document, count: int) -> None:
    if workload.known not in SCALED:
        names = ", ".join(one.kind for one in SCALED)
        raise InputError(
            "unsupported: replicas of this kind", where=Where(object=workload.title), fix=f"give one of: {names}"
        )
    if not 0 <= count <= MAX_COPIES:
        raise InputError(f"{count} replicas", where=Where(object=workload.title), fix=f"ask for 0 to {MAX_COPIES}")
    there = pods_of(workload, objects.snapshot)
    for pod in sorted(there, key=_is_placed)[: max(len(there) - count, 0)]:
        _release(objects, pod, again=False)
    _make_pods(objects, workload, count - len(there), there)


def _is_placed(pod: Document) -> bool:
    return bool(part(pod.object, "spec").get("nodeName"))


def _make_pods(objects: _Objects, workload: Document, count: int, like: Sequence[Document]) -> None:
    owners = [owner for owner in (controller(pod.object) for pod in like[:1]) if owner is not None]
    for number in range(1, count + 1):
        objects.put(new_pod(workload, number, owners))
