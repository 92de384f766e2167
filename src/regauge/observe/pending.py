"""Why claims wait, in a bounded set of words: the scheduler's own decision, put into one of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from regauge.allocator import Explanation, SlotNote
from regauge.audit import Ground, select
from regauge.base import InputError
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim
from regauge.scheduler import ClaimAnswer, explain_claim, is_terminal

MOST_DEVICES_EXPLAINED = 60_000
"""How many devices are looked at in one round: those of a cluster, once for every claim that asks for something else."""

DEVICES_PER_S = 500
"""A reason stays for as many seconds as the cluster has times so many devices: looking costs that much more."""


class Reason(StrEnum):
    """Why a claim has no devices. Those before NO_DEVICES are of the claim and its pods, those after it of the devices."""

    DELETED = "deleted"
    UNUSED = "unused"
    GATED = "scheduling-gated"
    SCHEDULER = "waits-for-scheduler"
    ELSEWHERE = "pod-fits-nowhere"
    NO_CLAIM = "claim-missing"
    NO_CLASS = "class-missing"
    REFUSED = "refused"
    NO_NODES = "no-nodes"
    NO_DEVICES = "no-devices"
    INCOMPLETE = "pool-incomplete"
    IN_USE = "devices-in-use"
    TOO_MANY = "too-many-for-a-node"
    TAINTED = "tainted"
    CAPACITY = "capacity-used-up"
    COUNTERS = "counters-used-up"
    CONSTRAINT = "constraint"
    GATE = "feature-off"
    NOT_SELECTED = "not-selected"
    OTHER_NODES = "offered-to-other-nodes"
    TOGETHER = "not-together"
    ERROR = "selector-error"
    UNKNOWN = "not-determined"
    NOT_EXAMINED = "not-examined"


OF_DEVICES: Mapping[str, Reason] = {
    "in use": Reason.IN_USE,
    "tainted": Reason.TAINTED,
    "too little capacity": Reason.CAPACITY,
    "too little left of shared counters": Reason.COUNTERS,
    "lacks the attribute of a constraint": Reason.CONSTRAINT,
    "not selected": Reason.NOT_SELECTED,
    "offered to other nodes": Reason.OTHER_NODES,
    "a feature is off": Reason.GATE,
    "error": Reason.ERROR,
}
"""What the allocator says of one device, in the words of this table, from the nearest miss to the farthest."""
_THERE = ("free", "chosen")
_IN_USE, _NOT_SELECTED = "in use", "not selected"
_SELECTED = (*_THERE, _IN_USE, "tainted", "too little capacity", "too little left of shared counters")
_HIDING = ("incomplete", "invalid", "stale")


class Explained:
    """Reasons that were worked out, by what is asked for. Each `reasons` looks anew at those looked at longest ago, as many
    as MOST_DEVICES_EXPLAINED allows, and takes the others as they were: a cluster of any size costs the same.
    """

    def __init__(self, most_devices: int = MOST_DEVICES_EXPLAINED) -> None:
        self._most = most_devices
        self._known: dict[bytes, tuple[float, Reason]] = {}

    def reasons(self, ground: Ground) -> Mapping[tuple[str, str], Reason]:
        """The reason of every claim that waits, by namespace and name."""
        found: dict[tuple[str, str], Reason] = {}
        asking: dict[bytes, list[ResourceClaim]] = {}
        for _, claim in ground.claims:
            if claim.status.allocation is None:
                plain = _of_users(claim, ground.users(claim))
                if plain is not None:
                    found[_name(claim)] = plain
                else:
                    asking.setdefault(_asked(claim), []).append(claim)
        self._known = {key: one for key, one in self._known.items() if key in asking}
        self._look(asking, ground)
        for key, claims in asking.items():
            reason = self._known[key][1] if key in self._known else Reason.NOT_EXAMINED
            for claim in claims:
                found[_name(claim)] = _with_pods(reason, ground.users(claim))
        return found

    def _look(self, asking: Mapping[bytes, list[ResourceClaim]], ground: Ground) -> None:
        """Explain what was explained longest ago, at least one claim."""
        left, now_s = self._most, ground.given.now_s
        stays_s = len(ground.devices) / DEVICES_PER_S
        ages_s = {key: now_s - self._known[key][0] if key in self._known else math.inf for key in asking}
        due = sorted((key for key in asking if ages_s[key] >= stays_s), key=lambda key: -ages_s[key])
        for number, key in enumerate(due):
            left -= len(ground.devices)
            if number and left < 0:
                return
            self._known[key] = (now_s, explained(ground, asking[key][0]))


def _name(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.namespace, claim.metadata.name


def _asked(claim: ResourceClaim) -> bytes:
    """What decides about devices: the same for all claims of a template. The namespace decides about admin access alone."""
    admin = any(one.exactly and one.exactly.admin_access for one in claim.spec.devices.requests)
    return msgspec.json.encode((claim.metadata.namespace if admin else "", claim.spec))


def _of_users(claim: ResourceClaim, pods: Iterable[Pod]) -> Reason | None:
    """The reason that lies with the claim and its pods alone, if one does."""
    if claim.metadata.deletion_timestamp:
        return Reason.DELETED
    waiting = [pod for pod in pods if not is_terminal(pod)]
    if not waiting:
        return Reason.UNUSED
    return Reason.GATED if all(pod.spec.scheduling_gates for pod in waiting) else None


def _with_pods(reason: Reason, pods: Iterable[Pod]) -> Reason:
    """Devices that could be had, and a pod that the scheduler found no node for: something else of the pod does not fit."""
    if reason is not Reason.SCHEDULER:
        return reason
    return Reason.ELSEWHERE if any(is_unschedulable(pod) for pod in pods) else reason


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler has said that it found no node for a pod."""
    return any(
        (one.type, one.status, one.reason) == ("PodScheduled", "False", "Unschedulable")
        for one in pod.status.conditions
    )


def explained(ground: Ground, claim: ResourceClaim) -> Reason:
    """What the scheduler would say of a claim that pods wait for."""
    classes = {one.metadata.name for _, one in ground.classes}
    if any(name not in classes for name in _class_names(claim)):
        return Reason.NO_CLASS
    if not ground.snapshot.nodes:
        return Reason.NO_NODES
    try:
        answer = explain_claim(ground.state, claim)
    except InputError:
        return Reason.ERROR
    return _of_answer(answer, ground, claim)


def _class_names(claim: ResourceClaim) -> Iterable[str]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.exactly.device_class_name
        for part in request.first_available:
            yield part.device_class_name


def _of_answer(answer: ClaimAnswer, ground: Ground, claim: ResourceClaim) -> Reason:
    if answer.good:
        return Reason.SCHEDULER
    if answer.cluster is None:
        return Reason.REFUSED
    return _of_node(answer.cluster.nodes[answer.order[0]], ground, claim)


def _of_node(nearest: Explanation, ground: Ground, claim: ResourceClaim) -> Reason:
    """The reason on the node that comes nearest to fitting."""
    match nearest.outcome:
        case "error" | "error on this node":
            return Reason.ERROR
        case "not determined" | "unsupported":
            return Reason.UNKNOWN
    if any(pool.state in _HIDING for pool in nearest.pools):
        return Reason.INCOMPLETE
    notes = nearest.requests
    if not any(note.devices for note in notes):
        return Reason.NO_DEVICES
    served = {_request(note) for note in notes if _enough(note)}
    for note in notes:
        if _request(note) not in served:
            return _of_request(note, ground, claim)
    return Reason.TOGETHER


def _of_request(note: SlotNote, ground: Ground, claim: ResourceClaim) -> Reason:
    """The nearest miss. A device that is in use is one only if the request selects it, which the allocator does not ask."""
    used = any(one.kind == _IN_USE for one in note.devices)
    wanted = _wanted(note, ground, claim) if used else frozenset()
    kinds = [
        _NOT_SELECTED if one.kind == _IN_USE and str(one.device) not in wanted else one.kind for one in note.devices
    ]
    selected = sum(kind in _SELECTED for kind in kinds)
    if selected and note.wanted is not None and selected < note.wanted:
        return Reason.TOO_MANY
    missed = [kind for kind in kinds if kind not in _THERE]
    nearest = min(missed, key=list(OF_DEVICES).index, default=None)
    return Reason.NO_DEVICES if nearest is None else OF_DEVICES[nearest]


def _wanted(note: SlotNote, ground: Ground, claim: ResourceClaim) -> frozenset[str]:
    """The devices of a note that the selectors of its request and of the class select, by driver/pool/device."""
    head, _, tail = note.request.partition("/")
    pools = {(one.device.driver, one.device.pool) for one in note.devices}
    slices = [one for one in ground.newest if (one.spec.driver, one.spec.pool.name) in pools]
    for request in claim.spec.devices.requests:
        if request.name != head:
            continue
        part = request.exactly or next((one for one in request.first_available if one.name == tail), None)
        found = next((one for _, one in ground.classes if part and one.metadata.name == part.device_class_name), None)
        if part is not None and found is not None:
            selectors = (*found.spec.selectors, *part.selectors)
            expressions = [one.cel.expression for one in selectors if one.cel]
            return frozenset(device for device, _ in select(expressions, slices, ground.rules).devices)
    return frozenset()


def _request(note: SlotNote) -> str:
    """The request of a note: one of its alternatives is enough."""
    return f"{note.claim} {note.request.partition('/')[0]}"


def _enough(note: SlotNote) -> bool:
    return note.matching >= (1 if note.wanted is None else note.wanted)
