"""Why a pod is where it is, where it may go, or why it goes nowhere: every plugin's reason on every node. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec
from msgspec.structs import replace as view_with

from regauge.allocator import ClusterExplanation, Explanation
from regauge.base import Randomness
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim
from regauge.scheduler.claims import DYNAMIC_RESOURCES, pod_claims
from regauge.scheduler.cycle import Cycle, begin, how_many
from regauge.scheduler.explaining import (
    ERROR,
    FITS,
    ClaimAnswer,
    cluster_notes,
    distance,
    explain_claim,
    mistakes,
    not_preempted,
)
from regauge.scheduler.explaining_parts import (
    class_notes,
    container_notes,
    mapped_details,
    never_bound_notes,
    taint_rule_notes,
)
from regauge.scheduler.filters import NODE_AFFINITY
from regauge.scheduler.nodes import NodeInfo, PodInfo, is_terminal
from regauge.scheduler.placing import SCHEDULING_GATES, schedule
from regauge.scheduler.results import Held, Preemption, Refusal, Scheduled, SchedulerError, Unschedulable
from regauge.scheduler.shortfalls import counted, nearness, shortfalls
from regauge.scheduler.state import State

DEFAULT_SCHEDULER = "default-scheduler"
ENDED, PLACED, WAITING = "has ended", "is placed", "is not tried"
PLACEABLE, NOWHERE, FAILING = "can be scheduled", "cannot be scheduled", "ends with an error"
_KUBELET_DECIDES = (
    "{count} {name} is counted only, a device plugin serves it: which device is decided by the kubelet of the node when "
    "the pod is admitted"
)
_MOST_TIES = 8


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node: `plugin` says no in `reasons` ("" for yes), `details` has the numbers, `devices` the devices' part."""

    node: str
    plugin: str
    reasons: tuple[str, ...]
    details: tuple[str, ...] = ()
    devices: Explanation | None = None
    score: int | None = None


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The answer for one pod. `state` is one of the words above, `text` the main reason, `message` what the pod's
    condition says in a cluster.

    `nodes`: fitting ones first, then from the nearest miss to the farthest. `choice`: those among which the scheduler
    takes one, by chance if they are several. `reasons`: a sentence, for how many nodes, one of them.
    """

    pod: str
    state: str
    text: str
    message: str = ""
    node: str = ""
    choice: tuple[str, ...] = ()
    nodes: tuple[NodeVerdict, ...] = ()
    reasons: tuple[tuple[str, int, str], ...] = ()
    claims: tuple[ClaimAnswer, ...] = ()
    preemption: Preemption | None = None
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return self.state in (ENDED, PLACED, PLACEABLE)


def explain_pod(state: State, pod: Pod, random: Randomness) -> PodAnswer:
    """Why the pod is where it is, or what the scheduler would do with it. `random` settles no answer that is shown.

    The state is not changed.
    """
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if is_terminal(pod):
        return PodAnswer(name, ENDED, f"has ended ({pod.status.phase})", node=pod.spec.node_name)
    info = state.info(pod)
    if pod.spec.node_name:
        return _placed(state, info, name)
    start = state.start
    outcome = schedule(pod, state, state.rules, random)
    state.start = start
    if isinstance(outcome, Held):
        return _held(state, info, outcome, random)
    cycle = begin(state, info)
    if isinstance(cycle, SchedulerError):
        return PodAnswer(name, FAILING, cycle.message, cycle.message)
    if isinstance(cycle, Refusal):
        message = outcome.message if isinstance(outcome, Unschedulable) else ""
        return PodAnswer(name, NOWHERE, ", ".join(cycle.reasons), message, claims=_allocated(state, info))
    return _Looked(state, cycle, name).answer(outcome)


def _held(state: State, info: PodInfo, outcome: Held, random: Randomness) -> PodAnswer:
    """The answer for a pod that is not tried; for one with scheduling gates also what comes when they are lifted."""
    pod = info.pod
    if outcome.plugin != SCHEDULING_GATES:
        return PodAnswer(
            f"{pod.metadata.namespace}/{pod.metadata.name}", WAITING, outcome.reason, notes=_kubelet(state, info)
        )
    free = view_with(pod, spec=view_with(pod.spec, scheduling_gates=()))
    after = explain_pod(state, free, random)
    return replace(
        after, state=WAITING, text=f"{outcome.reason}; without them it {after.state}: {after.text}", message=""
    )


def _placed(state: State, info: PodInfo, name: str) -> PodAnswer:
    pod = info.pod
    since = next((one.last_transition_time for one in pod.status.conditions if one.type == "PodScheduled"), None)
    text = f"on {pod.spec.node_name} since {since or pod.status.start_time or '(not noted)'}"
    claims = _allocated(state, info)
    return PodAnswer(name, PLACED, text, node=pod.spec.node_name, claims=claims, notes=_kubelet(state, info))


def _allocated(state: State, info: PodInfo) -> tuple[ClaimAnswer, ...]:
    """The pod's claims that have devices, the special one among them."""
    found = pod_claims(state, info.pod)
    claims: list[ResourceClaim] = [] if isinstance(found, str) else list(found)
    special = state.special_claim_of(info.pod)
    if special is not None:
        claims.append(special)
    return tuple(explain_claim(state, claim) for claim in claims if claim.status.allocation is not None)


def _kubelet(state: State, info: PodInfo, node: NodeInfo | None = None) -> tuple[str, ...]:
    """Counted resources whose devices the kubelet picks, on the pod's own node or on the given one."""
    node = node or state.nodes.get(info.pod.spec.node_name)
    return tuple(
        _KUBELET_DECIDES.format(count=count, name=name)
        for name, count in counted(info).items()
        if (node.allocatable.get(name) if node is not None else state.resolver.find(name) is None)
    )


@dataclass(slots=True)
class _Looked:
    """All nodes, looked at for one pod."""

    state: State
    cycle: Cycle
    name: str
    verdicts: dict[str, NodeVerdict] = field(default_factory=dict)
    devices: dict[str, Explanation] = field(default_factory=dict)
    shortages: list[tuple[str, int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extended: list[str] = field(default_factory=list)

    def answer(self, outcome: Scheduled | Unschedulable | SchedulerError) -> PodAnswer:
        asked: dict[bytes, tuple[tuple[ResourceClaim, ...], list[NodeInfo]]] = {}
        for node in self.state.nodes.values():
            self.verdicts[node.name] = self._verdict(node)
            if self.cycle.attempt is not None and self.verdicts[node.name].plugin in ("", DYNAMIC_RESOURCES):
                claims = self.cycle.attempt.asked_on(node)
                key = msgspec.json.encode([claim.spec for claim in claims])
                asked.setdefault(key, (claims, []))[1].append(node)
        for claims, nodes in asked.values():
            if claims:
                self._explain(claims, nodes)
        scores = outcome.scores if isinstance(outcome, Scheduled) else {}
        for name, one in self.verdicts.items():
            self.verdicts[name] = replace(one, devices=self.devices.get(name), score=scores.get(name))
        ordered = tuple(sorted(self.verdicts.values(), key=_far))
        return replace(self._worded(outcome), nodes=ordered, reasons=self._reasons(ordered), notes=self._notes(outcome))

    def _verdict(self, node: NodeInfo) -> NodeVerdict:
        if self.cycle.names is not None and node.name not in self.cycle.names:
            return NodeVerdict(node.name, NODE_AFFINITY, ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
        verdict = self.cycle.check(node)
        if isinstance(verdict, Refusal):
            details = shortfalls(self.cycle.pod, node, verdict)
            return NodeVerdict(node.name, verdict.plugin, verdict.reasons, details)
        if isinstance(verdict, SchedulerError):
            return NodeVerdict(node.name, DYNAMIC_RESOURCES, (verdict.message,))
        if verdict.extended is not None and not self.extended:
            self.extended = [*container_notes(node.name, verdict.extended)]
        return NodeVerdict(node.name, "", (), mapped_details(verdict.mapped))

    def _explain(self, claims: tuple[ResourceClaim, ...], nodes: Iterable[NodeInfo]) -> None:
        identities = [node.identity for node in nodes]
        found: ClusterExplanation = self.state.devices.allocator().explain_nodes(identities, claims)
        self.devices.update(found.nodes)
        self.shortages += [(f"{DYNAMIC_RESOURCES}: {text}", count, example) for text, count, example in found.reasons]
        self.notes += (*cluster_notes(found), *mistakes(self.state, claims, found))

    def _worded(self, outcome: Scheduled | Unschedulable | SchedulerError) -> PodAnswer:
        claims = _allocated(self.state, self.cycle.pod)
        fitting = [name for name, one in self.verdicts.items() if not one.plugin]
        match outcome:
            case Scheduled(ties=ties):
                return PodAnswer(self.name, PLACEABLE, _choice(ties, fitting), choice=ties, claims=claims)
            case SchedulerError(message=message):
                could = f"; without the error it fits on {_named(fitting)}" if fitting else ""
                text = f"kube-scheduler gives up the whole attempt: {message}{could}"
                return PodAnswer(self.name, FAILING, text, message, claims=claims)
            case Unschedulable(message=message, preemption=preemption):
                return PodAnswer(self.name, NOWHERE, message, message, claims=claims, preemption=preemption)

    def _notes(self, outcome: Scheduled | Unschedulable | SchedulerError) -> tuple[str, ...]:
        state, info = self.state, self.cycle.pod
        notes = [*dict.fromkeys(self.notes), *class_notes(state, info), *self.extended]
        if self.devices:
            notes += taint_rule_notes(state)
        notes += never_bound_notes(
            state, info, [state.nodes[one.node] for one in self.verdicts.values() if not one.plugin]
        )
        enough = how_many(len(state.nodes))
        if isinstance(outcome, Scheduled) and enough < len(state.nodes):
            notes.append(
                f"of {len(state.nodes)} nodes kube-scheduler stops looking after {enough} that fit, beginning where its "
                "last search ended: the nodes to choose from differ from attempt to attempt"
            )
        spoilers = [one.node for one in self.devices.values() if one.outcome == ERROR]
        if isinstance(outcome, Scheduled) and spoilers:
            notes.append(f"an attempt that looks at {_named(spoilers)} before it ends, ends with an error instead")
        if isinstance(outcome, Unschedulable) and outcome.preemption is not None:
            victims = ", ".join("/".join(one) for one in outcome.preemption.victims)
            notes.append(f"preemption would make room on {outcome.preemption.node}, taking away {victims}")
        if isinstance(outcome, Unschedulable) and any(
            one.plugin == DYNAMIC_RESOURCES for one in self.verdicts.values()
        ):
            notes += not_preempted(state, info.priority)
        scheduler = info.pod.spec.scheduler_name
        if scheduler not in ("", DEFAULT_SCHEDULER):
            notes.append(f"its scheduler is {scheduler}: this is what {DEFAULT_SCHEDULER} would do")
        unseen = outcome.unseen if isinstance(outcome, Scheduled) else ()
        notes += [f"not looked at: {one}" for one in unseen]
        notes += dict.fromkeys(text for node in self._looked() for text in _kubelet(state, info, node))
        return (*notes, *(text for claim in _allocated(state, info) for text in claim.notes))

    def _reasons(self, nodes: Iterable[NodeVerdict]) -> tuple[tuple[str, int, str], ...]:
        """Why not, by reason: the most frequent first, each with its nearest node."""
        counts: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for one in nodes:
            told = one.devices is not None and one.devices.outcome != FITS
            if one.plugin and not told:
                reason = f"{one.plugin}: {', '.join(one.reasons)}"
                counts[reason] += 1
                examples.setdefault(reason, one.node)
        others = [(reason, count, examples[reason]) for reason, count in counts.items()]
        return tuple(sorted((*others, *self.shortages), key=lambda one: -one[1]))

    def _looked(self) -> Iterable[NodeInfo]:
        """Nodes that serve the pod's counted resources themselves, a few of them."""
        names = counted(self.cycle.pod)
        return [node for node in self.state.nodes.values() if any(node.allocatable.get(name) for name in names)][:1]


def _far(one: NodeVerdict) -> tuple[int, tuple[int, int, int], int]:
    """The nearer, the smaller; nodes whose error spoils the others come first of all."""
    devices = distance(one.devices) if one.devices is not None else (0, 0, 0)
    if not one.plugin or devices[0] < 0:
        return 0, (min(devices[0], 0), 0, 0), -(one.score or 0)
    return 1 + nearness(one.plugin), devices, 0


def _choice(ties: tuple[str, ...], fitting: list[str]) -> str:
    total = f"fits on {len(fitting)} node{'s' if len(fitting) != 1 else ''}"
    if len(ties) == 1:
        return f"{total}; the scheduler takes {ties[0]}, which has the best score"
    return f"{total}; {len(ties)} of them have the best score ({_named(ties)}): the scheduler picks one at random"


def _named(names: Iterable[str]) -> str:
    everything = list(names)
    more = f" and {len(everything) - _MOST_TIES} more" if len(everything) > _MOST_TIES else ""
    return ", ".join(everything[:_MOST_TIES]) + more


def example_nodes(answer: PodAnswer) -> Mapping[str, NodeVerdict]:
    """One node for each reason, the nearest."""
    named = {example for _, _, example in answer.reasons}
    return {one.node: one for one in answer.nodes if one.node in named}
