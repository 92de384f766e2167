"""The workloads of an estate that ask for accelerators, by their owners and pod templates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from regauge.inventory import pod_ask
from regauge.migrate.sites import pod_view, sites_of, template_kinds
from regauge.model import Document, Kind, Object, Snapshot, matches_node
from regauge.model.core import Node, Pod, PodResourceClaim, PodTemplateSpec
from regauge.model.kinds import DAEMON_SET, JOB, POD, TEMPLATE_PATHS
from regauge.model.resource import DeviceClaim


class AskStack(Enum):
    """How a workload asks: a counted resource, a claim, or a counted resource that DRA serves."""

    LIMITS = "device-plugin"
    CLAIM = "dra"
    BRIDGE = "bridge"


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing a pod of a workload asks for. `name` is a resource or device class, `count` is per pod."""

    stack: AskStack
    name: str
    count: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload: its document, a pod template of it, what each pod asks for, and its pods as they are now.

    An object with several pod templates is as many workloads; `part` says which.
    """

    document: Document
    kind: str
    namespace: str
    name: str
    template: PodTemplateSpec
    asks: tuple[Ask, ...]
    replicas: int
    pods: tuple[Pod, ...]
    part: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def template_of(object_: Object, kind: Kind) -> Object:
    """The pod template inside an object's document (for a pod the pod itself). A missing part is an empty template."""
    part: Object = object_
    for name in TEMPLATE_PATHS[kind]:
        inner = part.get(name)
        part = inner if isinstance(inner, dict) else {}
    return part


def find_workloads(snapshot: Snapshot) -> tuple[Workload, ...]:
    """Every workload with an accelerator in its template, in the order of namespace, kind and name.

    Pods, ReplicaSets and Jobs that belong to a workload of the snapshot are told with their owner.
    """
    owned = _Owned(snapshot)
    claim_specs = _claim_specs(snapshot)
    bridged = _bridged_names(snapshot)
    found: list[Workload] = []
    for document in _candidates(snapshot):
        if owned.has_owner(document):
            continue
        found += (item for item in _workloads(document, owned, claim_specs, bridged) if item.asks)
    return tuple(sorted(found, key=lambda item: (item.namespace, item.kind, item.name, item.part)))


def _candidates(snapshot: Snapshot) -> Iterator[Document]:
    """Every document of a kind that has pods in it, in the order of the tables."""
    for kind in TEMPLATE_PATHS:
        yield from snapshot.documents(kind)
    for known in template_kinds():
        yield from snapshot.documents((known.group, known.kind))


def _workloads(
    document: Document,
    owned: _Owned,
    claim_specs: Mapping[tuple[str, str, str], DeviceClaim],
    bridged: frozenset[str],
) -> Iterator[Workload]:
    """The workloads of one document, one for each pod template in it."""
    kind = document.known
    namespace = document.namespace or "default"
    sites = sites_of(document.passing())
    for site in sites:
        template = pod_view(site)
        if not template.spec.resource_claims and not pod_ask(template.spec.containers, template.spec.init_containers):
            continue
        pods = owned.pods_of(document)
        mine = pods if len(sites) == 1 else tuple(pod for pod in pods if _is_of(pod, template))
        asks = (*_counted_asks(template, mine, bridged), *_claim_asks(template, namespace, claim_specs))
        replicas = _replicas(document.passing(), kind, mine)
        part = site.name if len(sites) > 1 else ""
        yield Workload(document, document.kind, namespace, document.name, template, asks, replicas, mine, part)


def _is_of(pod: Pod, template: PodTemplateSpec) -> bool:
    """Whether a pod may come from a template: it has its containers, with what they ask for."""
    limits = {item.name: item.resources.limits for item in pod.spec.containers}
    return all(limits.get(item.name) == item.resources.limits for item in template.spec.containers)


def _replicas(object_: Object, kind: Kind | None, pods: tuple[Pod, ...]) -> int:
    spec = object_.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if kind is POD:
        return 1
    if kind is DAEMON_SET:
        return len(pods)
    if kind is None:
        return max(len(pods), 1)
    wanted = spec.get("parallelism", 1) if kind is JOB else spec.get("replicas", 1)
    return wanted if isinstance(wanted, int) else 1


def _counted_asks(template: PodTemplateSpec, pods: tuple[Pod, ...], bridged: frozenset[str]) -> Iterator[Ask]:
    served = {
        mapping.resource_name
        for pod in pods
        if pod.status.extended_resource_claim_status
        for mapping in pod.status.extended_resource_claim_status.request_mappings
    }
    for name, count in pod_ask(template.spec.containers, template.spec.init_containers).items():
        bridge = name in served or (name in bridged and not pods)
        yield Ask(AskStack.BRIDGE if bridge else AskStack.LIMITS, name, count)


def _claim_asks(
    template: PodTemplateSpec, namespace: str, claim_specs: Mapping[tuple[str, str, str], DeviceClaim]
) -> Iterator[Ask]:
    for entry in template.spec.resource_claims:
        kind, name = _referenced(entry)
        spec = claim_specs.get((kind, namespace, name))
        if spec is None:
            yield Ask(AskStack.CLAIM, "?", 0, f"{kind} {name} is not in the input")
            continue
        shared = " (shared)" if kind == "ResourceClaim" else ""
        for request in spec.requests:
            choices = [request.exactly] if request.exactly else list(request.first_available)
            first = choices[0] if choices else None
            if first is None:
                continue
            count = 0 if first.allocation_mode == "All" else (first.count or 1)
            others = f", or {len(choices) - 1} alternatives" if len(choices) > 1 else ""
            every = ", all devices" if first.allocation_mode == "All" else ""
            yield Ask(AskStack.CLAIM, first.device_class_name, count, f"{entry.name}{shared}{every}{others}")


def _referenced(entry: PodResourceClaim) -> tuple[str, str]:
    if entry.resource_claim_name:
        return "ResourceClaim", entry.resource_claim_name
    return "ResourceClaimTemplate", entry.resource_claim_template_name or ""


def _claim_specs(snapshot: Snapshot) -> dict[tuple[str, str, str], DeviceClaim]:
    specs = {
        ("ResourceClaimTemplate", item.metadata.namespace, item.metadata.name): item.spec.spec.devices
        for item in snapshot.claim_templates
    }
    for claim in snapshot.claims:
        specs[("ResourceClaim", claim.metadata.namespace, claim.metadata.name)] = claim.spec.devices
    return specs


def _bridged_names(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(
        item.spec.extended_resource_name for item in snapshot.device_classes if item.spec.extended_resource_name
    )


def _uid_and_owner(document: Document) -> tuple[str, str | None]:
    metadata = document.metadata
    owners = metadata.get("ownerReferences") or ()
    controllers = [owner.get("uid") for owner in owners if isinstance(owner, dict) and owner.get("controller")]
    return str(metadata.get("uid", "")), controllers[0] if controllers else None


class _Owned:
    """The pods of each workload: those whose topmost owner in the snapshot it is. Only pods that are asked for are read."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        known = {id(document): _uid_and_owner(document) for document in snapshot.all_documents()}
        self._present = {uid for uid, _ in known.values()}
        self._known = known
        owner_of = dict(known[id(document)] for document in _candidates(snapshot))
        self._owned: dict[str, list[Document]] = defaultdict(list)
        for document in snapshot.documents(POD):
            uid = known[id(document)][0]
            top = top_owner(uid, owner_of)
            if top != uid:
                self._owned[top].append(document)

    def has_owner(self, document: Document) -> bool:
        """Whether the controller of an object is in the snapshot, too."""
        owner = self._known[id(document)][1]
        return owner is not None and owner in self._present

    def pods_of(self, document: Document) -> tuple[Pod, ...]:
        own = [document] if document.known is POD else self._owned.get(self._known[id(document)][0], [])
        return tuple(self._snapshot.view(item, Pod) for item in own)


def top_owner(uid: str, owner_of: Mapping[str, str | None]) -> str:
    """Follow controllers upwards as far as they are known. A ring of owners ends where it began."""
    seen: set[str] = set()
    while uid not in seen:
        seen.add(uid)
        owner = owner_of.get(uid)
        if owner is None or owner not in owner_of:
            return uid
        uid = owner
    return uid


def used_names(workloads: Iterable[Workload], stack: AskStack) -> tuple[str, ...]:
    """The resources or classes that workloads ask for through one stack, sorted."""
    return tuple(sorted({ask.name for item in workloads for ask in item.asks if ask.stack is stack}))


def admits(workload: Workload, node: Node) -> bool:
    """Whether a workload's node selector and required affinity let it onto a node."""
    spec = workload.template.spec
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    return required is None or matches_node(required, node)
