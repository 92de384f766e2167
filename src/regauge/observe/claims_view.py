"""Claims with what kubectl does not show: who reserves them, on which node, which devices, since when, and why they wait.

Pure. Why a claim waits is the explain engine's answer in a few words; `regauge explain claim` has all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from regauge.base import Randomness
from regauge.inventory import claim_names, newest_slices
from regauge.model import ObjectMeta, Rules, Snapshot
from regauge.model.core import ENDED_PHASES, Pod
from regauge.model.kinds import CORE_EVENT
from regauge.model.resource import DeviceRequest, ResourceClaim, ResourceClaimConsumerReference
from regauge.observe.correlation import seconds
from regauge.scheduler import ClaimAnswer, State, as_stored, explain_claim, explain_pod

MOST_EXPLAINED = 100
NOT_PREPARED = "FailedPrepareDynamicResources"
"""The reason of the events that tell why a claim that has devices does not get into its pod."""
_HOSTNAME_FIELD = "metadata.name"
_HOSTNAME_LABEL = "kubernetes.io/hostname"

Wanted = Callable[[ObjectMeta], bool]


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One claim. `state` is in kubectl's words: pending, allocated, allocated,reserved, with deleted before it.

    `since_s` is when that began, in seconds since 1970, as far as the API tells. `requests` are in the form `NAME: CLASS x2`,
    `devices` driver/pool/device, `pods` who reserves it (what is no pod with its resource before it), `waiting` the pods that
    name it and have not reserved it. `why` is "" where there is nothing to say; `explained` False where nobody looked,
    because too many wait.
    """

    namespace: str
    name: str
    uid: str
    state: str
    since_s: float | None
    created_s: float | None
    classes: tuple[str, ...]
    requests: tuple[str, ...]
    devices: tuple[str, ...]
    node: str
    pods: tuple[str, ...]
    waiting: tuple[str, ...]
    owner: str
    why: str
    explained: bool = True

    @property
    def good(self) -> bool:
        """Whether it has devices and there is nothing to say."""
        return bool(self.devices) and not self.why


def view_claims(snapshot: Snapshot, rules: Rules, wanted: Wanted, random: Randomness) -> tuple[ClaimLine, ...]:
    """The claims that are `wanted`, by namespace and name. `random` settles nothing that is shown.

    Claims of hand-written files are taken as the API server would store them.
    """
    stored = as_stored(snapshot)
    ground = _Ground(stored, rules, random)
    there = sorted(stored.claims, key=lambda one: (one.metadata.namespace, one.metadata.name))
    return tuple(ground.line(claim) for claim in there if wanted(claim.metadata))


def claim_state(claim: ResourceClaim) -> str:
    """Source: printResourceClaim of pkg/printers/internalversion, 1.36."""
    words = ["deleted"] if claim.metadata.deletion_timestamp else []
    if claim.status.allocation is None:
        return ",".join(words or ["pending"])
    return ",".join([*words, "allocated", *(["reserved"] if claim.status.reserved_for else [])])


def node_of(claim: ResourceClaim) -> str:
    """The node that an allocation is bound to; "" where there is none or several would do."""
    allocation = claim.status.allocation
    terms = allocation.node_selector.node_selector_terms if allocation and allocation.node_selector else ()
    names = {
        value
        for term in terms
        for item in (*term.match_fields, *term.match_expressions)
        if item.key in (_HOSTNAME_FIELD, _HOSTNAME_LABEL) and item.operator == "In"
        for value in item.values
    }
    return names.pop() if len(terms) == 1 and len(names) == 1 else ""


def request_texts(requests: Iterable[DeviceRequest]) -> tuple[str, ...]:
    """Each request as `NAME: CLASS x2`, alternatives in their order."""
    return tuple(f"{one.name}: {' or '.join(_wishes(one))}" for one in requests)


def _wishes(request: DeviceRequest) -> list[str]:
    alternatives = (request.exactly,) if request.exactly is not None else request.first_available
    texts = []
    for one in alternatives:
        amount = "all" if one.allocation_mode == "All" else f"x{one.count or 1}"
        admin = " as admin" if getattr(one, "admin_access", None) else ""
        texts.append(f"{one.device_class_name} {amount}{admin}")
    return texts


def _classes(claim: ResourceClaim) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for request in claim.spec.devices.requests:
        for one in (request.exactly,) if request.exactly is not None else request.first_available:
            found[one.device_class_name] = None
    return tuple(found)


class _Ground:
    """What is looked up for every claim. The explain engine is only woken for the first claim that waits."""

    def __init__(self, snapshot: Snapshot, rules: Rules, random: Randomness) -> None:
        self._snapshot, self._rules, self._random = snapshot, rules, random
        self._pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in snapshot.pods}
        self._users: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in snapshot.pods:
            if pod.status.phase not in ENDED_PHASES:
                for name in claim_names(pod):
                    self._users[(pod.metadata.namespace, name)].append(pod)
        self._state: State | None = None
        self._answers: dict[bytes, ClaimAnswer] = {}
        self._pod_answers: dict[tuple[str, str], str] = {}
        self._published = _published(snapshot)
        self._not_prepared = dict(_not_prepared(snapshot))

    def line(self, claim: ResourceClaim) -> ClaimLine:
        metadata, allocation = claim.metadata, claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        reserving = [one for one in claim.status.reserved_for if _is_pod(one)]
        mine = self._users.get((metadata.namespace, metadata.name), [])
        held_by = {one.uid for one in reserving}
        waiting = [pod for pod in mine if pod.metadata.uid not in held_by]
        why, explained = self._why(claim, waiting)
        return ClaimLine(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            state=claim_state(claim),
            since_s=_since(claim),
            created_s=seconds(metadata.creation_timestamp),
            classes=_classes(claim),
            requests=request_texts(claim.spec.devices.requests),
            devices=tuple(dict.fromkeys(f"{one.driver}/{one.pool}/{one.device}" for one in results)),
            node=self._node(claim),
            pods=tuple(one.name if _is_pod(one) else f"{one.resource}/{one.name}" for one in claim.status.reserved_for),
            waiting=tuple(sorted(pod.metadata.name for pod in waiting)),
            owner=next((f"{one.kind}/{one.name}" for one in metadata.owner_references if one.controller), ""),
            why=why,
            explained=explained,
        )

    def _node(self, claim: ResourceClaim) -> str:
        users = (self._pods.get((claim.metadata.namespace, one.name)) for one in claim.status.reserved_for)
        placed = [pod.spec.node_name for pod in users if pod is not None and pod.spec.node_name]
        return node_of(claim) or (placed[0] if len(set(placed)) == 1 else "")

    def _why(self, claim: ResourceClaim, waiting: Sequence[Pod]) -> tuple[str, bool]:
        """What there is to say, and whether it was looked into."""
        if claim.metadata.deletion_timestamp:
            return self._why_not_gone(claim), True
        if claim.status.allocation is not None:
            return "; ".join((*self._users_trouble(claim), *self._device_trouble(claim))), True
        if len(self._answers) + len(self._pod_answers) >= MOST_EXPLAINED:
            return "not looked into: many claims wait", False
        return self._why_pending(claim, waiting), True

    def _why_not_gone(self, claim: ResourceClaim) -> str:
        users = ", ".join(one.name for one in claim.status.reserved_for)
        if users:
            return f"goes when {users} ends"
        finalizers = ", ".join(claim.metadata.finalizers)
        return f"kept by finalizer {finalizers}" if finalizers else "about to go"

    def _users_trouble(self, claim: ResourceClaim) -> list[str]:
        if not claim.status.reserved_for:
            return ["no pod reserves it"]
        found = []
        for one in claim.status.reserved_for:
            pod = self._pods.get((claim.metadata.namespace, one.name)) if _is_pod(one) else None
            if not _is_pod(one):
                continue
            if pod is None or (one.uid and pod.metadata.uid != one.uid):
                found.append(f"reserved for pod {one.name}, which is gone")
            elif pod.status.phase in ENDED_PHASES:
                found.append(f"reserved for pod {one.name}, which has ended ({pod.status.phase})")
            elif not pod.spec.node_name:
                found.append(f"reserved for pod {one.name}, which is on no node yet")
            elif pod.status.phase not in ("", "Running"):
                found += self._start_trouble(pod)
        return found

    def _start_trouble(self, pod: Pod) -> list[str]:
        """What the kubelet last said of a pod that is on its node and does not run: its devices cannot be prepared."""
        told = self._not_prepared.get(pod.metadata.uid)
        return [f"pod {pod.metadata.name} on {pod.spec.node_name}: {told}"] if told else []

    def _device_trouble(self, claim: ResourceClaim) -> list[str]:
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        return [
            f"{one.device} is not published any more"
            for one in results
            if (one.driver, one.pool, one.device) not in self._published
        ]

    # -- the explain engine

    def _why_pending(self, claim: ResourceClaim, waiting: Sequence[Pod]) -> str:
        answer = self._explained(claim)
        if not answer.good:
            return _in_short(answer)
        if not waiting:
            return "no pod names it"
        return self._pod_text(min(waiting, key=lambda one: one.metadata.name))

    def _explained(self, claim: ResourceClaim) -> ClaimAnswer:
        """Claims of one form are asked about once."""
        key = msgspec.json.encode((claim.metadata.namespace if _asks_admin(claim) else "", claim.spec))
        if key not in self._answers:
            self._answers[key] = explain_claim(self.state, claim)
        return self._answers[key]

    def _pod_text(self, pod: Pod) -> str:
        key = (pod.metadata.namespace, pod.metadata.name)
        if key not in self._pod_answers:
            answer = explain_pod(self.state, pod, self._random)
            text = f"can be had; the scheduler has not come to pod {pod.metadata.name} yet"
            self._pod_answers[key] = text if answer.good else f"pod {pod.metadata.name}: {answer.text}"
        return self._pod_answers[key]

    @property
    def state(self) -> State:
        if self._state is None:
            self._state = State.of(self._snapshot, self._rules)
        return self._state


def _in_short(answer: ClaimAnswer) -> str:
    """The main reason, without what the explain engine says about the whole attempt before an error."""
    failing = [] if answer.cluster is None else [one for one in answer.cluster.nodes.values() if one.outcome == "error"]
    text = f"error on {failing[0].node}: {failing[0].text}" if failing and failing[0].node else answer.text
    return text.replace(f"claim {answer.claim}: ", "").replace(f"claim {answer.claim}, ", "")


def _asks_admin(claim: ResourceClaim) -> bool:
    return any(one.exactly is not None and one.exactly.admin_access for one in claim.spec.devices.requests)


def _is_pod(reference: ResourceClaimConsumerReference) -> bool:
    return reference.resource == "pods" and not reference.api_group


def _since(claim: ResourceClaim) -> float | None:
    if claim.metadata.deletion_timestamp:
        return seconds(claim.metadata.deletion_timestamp)
    if claim.status.allocation is not None:
        return seconds(claim.status.allocation.allocation_timestamp)
    return seconds(claim.metadata.creation_timestamp)


def _published(snapshot: Snapshot) -> frozenset[tuple[str, str, str]]:
    slices = newest_slices(snapshot.slices)
    return frozenset((s.spec.driver, s.spec.pool.name, one.name) for s in slices for one in s.spec.devices)


def _not_prepared(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """What kubelets last said of pods whose devices they could not prepare, by the pod's uid; the latest comes last."""
    told = [one.object for one in snapshot.documents(CORE_EVENT) if one.object.get("reason") == NOT_PREPARED]
    for event in sorted(told, key=lambda one: seconds(one.get("lastTimestamp") or one.get("eventTime")) or 0.0):
        about = event.get("involvedObject")
        if isinstance(about, dict):
            yield str(about.get("uid", "")), " ".join(str(event.get("message", "")).split())
