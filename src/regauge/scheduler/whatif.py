"""What a change would do: every waiting pod is tried before and after it, one after the other, as the scheduler would. Pure.

Nothing is started or stopped meanwhile, and where the scheduler would pick by chance among nodes of the same score, the
first by name is taken: of two pods that want the last device either may get it in a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace as view_with

from regauge.base import Randomness
from regauge.model import Document, ObjectMeta, Rules, Snapshot, view
from regauge.model.core import Pod
from regauge.model.kinds import POD, PRIORITY_CLASS
from regauge.model.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from regauge.scheduler.changing import Change, ObjectName, changed, find_document
from regauge.scheduler.devices import CANNOT_ALLOCATE, PoolUse
from regauge.scheduler.explaining import not_preempted
from regauge.scheduler.nodes import is_terminal
from regauge.scheduler.placing import schedule
from regauge.scheduler.resources import is_extended
from regauge.scheduler.results import Held, Outcome, Scheduled, Unschedulable
from regauge.scheduler.state import State, placed
from regauge.scheduler.stored import as_stored, claim_templates, with_claims
from regauge.scheduler.templates import new_pod

RUNS, GOES, STUCK, ABSENT = "runs on", "goes to", "stuck", "not there"
MAX_FITTING = 1_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod is or would be: `how` is one of the words above, `why` the scheduler's words where it is stuck.

    `evicts`: pods of lower priority, as NAMESPACE/NAME, that the scheduler would take away from `node` to make room for a
    pod that is stuck.
    """

    how: str
    node: str = ""
    why: str = ""
    evicts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.how} {self.node}" if self.node and self.how != STUCK else self.how


@dataclass(frozen=True, slots=True)
class PodChange:
    """One pod for which the change makes a difference, or that is stuck before and after."""

    pod: str
    before: Place
    after: Place


@dataclass(frozen=True, slots=True)
class Fitting:
    """How many more copies of a workload fit, by node, and why not one more. `more`: the counting was ended."""

    workload: str
    count: int
    nodes: Mapping[str, int]
    why: str
    more: bool = False


@dataclass(frozen=True, slots=True)
class CountedUse:
    """A resource that device plugins count: what all nodes offer, and what pods take."""

    resource: str
    nodes: int
    devices: int
    used: int

    @property
    def free(self) -> int:
        return self.devices - self.used


@dataclass(frozen=True, slots=True)
class Situation:
    """A cluster once its waiting pods were tried."""

    places: Mapping[str, Place]
    pools: tuple[PoolUse, ...]
    counted: tuple[CountedUse, ...]
    fitting: tuple[Fitting, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The cluster before and after the changes. `unchanged`: pods that stay where they are, or go where they would have."""

    before: Situation
    after: Situation
    pods: tuple[PodChange, ...]
    unchanged: int
    notes: tuple[str, ...] = field(default=())

    @property
    def schedulable(self) -> tuple[PodChange, ...]:
        """The pods that find a place, new ones among them."""
        return tuple(one for one in self.pods if one.after.how == GOES and one.before.how in (STUCK, ABSENT))

    @property
    def stuck(self) -> tuple[PodChange, ...]:
        """The pods that had a place, or are new, and find none."""
        return tuple(one for one in self.pods if one.after.how == STUCK and one.before.how != STUCK)


def what_if(
    snapshot: Snapshot,
    before: Rules,
    after: Rules,
    changes: Iterable[Change],
    random: Randomness,
    copies: Iterable[ObjectName] = (),
) -> WhatIf:
    """The cluster under the rules `before`, and with the changes under the rules `after`. `copies`: workloads to count.

    Raises `InputError` for objects that are not there.
    """
    snapshot, copies = as_stored(snapshot), tuple(copies)
    first = _settle(snapshot, before, random, [one for one in copies if _is_there(snapshot, one)])
    made = changed(snapshot, changes)
    last = _settle(made.snapshot, after, random, copies)
    pods, unchanged = _differences(first.places, last.places)
    return WhatIf(first, last, pods, unchanged, (*made.notes, *last.notes))


def _is_there(snapshot: Snapshot, name: ObjectName) -> bool:
    return any(
        one.kind == name.kind and one.name == name.name and name.namespace in ("", one.namespace)
        for one in snapshot.all_documents()
    )


def _differences(before: Mapping[str, Place], after: Mapping[str, Place]) -> tuple[tuple[PodChange, ...], int]:
    found, unchanged, nowhere = [], 0, Place(ABSENT)
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, nowhere), after.get(name, nowhere)
        if (old.how, old.node) == (new.how, new.node) and old.how != STUCK:
            unchanged += 1
        else:
            found.append(PodChange(name, old, new))
    return tuple(found), unchanged


# -- one cluster


def _settle(snapshot: Snapshot, rules: Rules, random: Randomness, copies: Iterable[ObjectName]) -> Situation:
    state = State.of(snapshot, rules)
    places: dict[str, Place] = {}
    waiting = []
    for pod in snapshot.pods:
        if is_terminal(pod):
            continue
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        places[name] = Place(RUNS, pod.spec.node_name) if pod.spec.node_name else Place(STUCK)
        if not pod.spec.node_name:
            waiting.append(pod)
    notes: dict[str, None] = {}
    for pod in sorted(waiting, key=_turn):
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        places[name] = found = place(state, pod, random)
        if found.evicts:
            notes[
                f"{name}: kube-scheduler would take {', '.join(found.evicts)} away from {found.node} to make room for it; "
                "here nobody is preempted"
            ] = None
        elif found.how == STUCK and CANNOT_ALLOCATE in found.why:
            notes |= dict.fromkeys(not_preempted(state, pod.spec.priority or 0))
    pools, counted = tuple(state.devices.pool_use()), tuple(_counted(state))
    fitting = tuple(_fitting(snapshot, state, find_document(snapshot, one), random) for one in copies)
    return Situation(places, pools, counted, fitting, tuple(notes))


def _turn(pod: Pod) -> tuple[int, str, str]:
    """The order of the scheduler's queue: by priority, then by age."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "~", pod.metadata.name


def place(state: State, pod: Pod, random: Randomness) -> Place:
    """Try to schedule the pod; if it fits, the state is that after it was bound."""
    outcome = schedule(pod, state, state.rules, _FirstOf(random))
    if not isinstance(outcome, Scheduled):
        preemption = outcome.preemption if isinstance(outcome, Unschedulable) else None
        if preemption is None:
            return Place(STUCK, why=_why(outcome))
        victims = tuple("/".join(one) for one in preemption.victims)
        return Place(STUCK, preemption.node, _why(outcome), victims)
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    chosen = {one.uid: one for one in outcome.allocations}
    for name in outcome.claims:
        claim = state.claims[(pod.metadata.namespace, name)]
        made = chosen.pop(claim.metadata.uid, None)
        users = (*claim.status.reserved_for, user)
        allocation = made.allocation if made is not None else claim.status.allocation
        state.put_claim(view_with(claim, status=ResourceClaimStatus(allocation=allocation, reserved_for=users)))
    for special in chosen.values():
        metadata = ObjectMeta(
            name=f"{pod.metadata.name}-extended-resources", namespace=special.namespace, uid=special.uid
        )
        status = ResourceClaimStatus(allocation=special.allocation, reserved_for=(user,))
        state.put_claim(ResourceClaim(metadata=metadata, status=status))
    state.put_pod(placed(pod, outcome))
    return Place(GOES, outcome.node)


def _why(outcome: Outcome) -> str:
    if isinstance(outcome, Held):
        return f"{outcome.plugin}: {outcome.reason}"
    return "" if isinstance(outcome, Scheduled) else outcome.message


class _FirstOf:
    """Randomness that takes the first where the scheduler would take any, so that both sides can be compared."""

    def __init__(self, random: Randomness) -> None:
        self.getrandbits = random.getrandbits
        self.random = random.random
        self.randrange = random.randrange

    def choice(self, seq: Sequence[T], /) -> T:
        return seq[0]


def _counted(state: State) -> Iterable[CountedUse]:
    nodes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for node in state.nodes.values():
        for name, amount in node.allocatable.items():
            if amount and is_extended(name):
                nodes[name] += 1
                devices[name] += amount
                used[name] += node.requested.get(name, 0)
    return [CountedUse(name, nodes[name], devices[name], used[name]) for name in sorted(devices)]


def _fitting(snapshot: Snapshot, state: State, workload: Document, random: Randomness) -> Fitting:
    """Copies one after the other until one does not fit. The state is used up."""
    templates = claim_templates(snapshot)
    priorities = Snapshot.of(one for one in snapshot.all_documents() if one.known == PRIORITY_CLASS)
    nodes: Counter[str] = Counter()
    for number in range(1, MAX_FITTING + 1):
        document = Document(new_pod(workload, number), workload.where)
        (stored,) = as_stored(Snapshot.of([*priorities.all_documents(), document])).documents(POD)
        object_, claims = with_claims(stored.object, templates)
        for claim in claims:
            state.put_claim(view(claim, ResourceClaim))
        pod = view(object_, Pod)
        state.put_pod(pod)
        found = place(state, pod, random)
        if found.how != GOES:
            return Fitting(workload.title, number - 1, dict(nodes), found.why)
        nodes[found.node] += 1
    return Fitting(workload.title, MAX_FITTING, dict(nodes), "", more=True)
