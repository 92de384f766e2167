"""Why a claim has these devices, gets them, or does not: one answer, told once. Pure.

What is decided is the allocator's answer for each node; this adds what a claim holds already, the words for the whole
cluster, and the order of nodes from the nearest miss to the farthest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regauge.allocator import ClusterExplanation, Explanation
from regauge.model.resource import ADMIN_ACCESS_LABEL, MAX_RESERVED_FOR, ResourceClaim
from regauge.scheduler.claims import check_claim
from regauge.scheduler.explaining_parts import taint_rule_notes
from regauge.scheduler.holding import Holding, holding
from regauge.scheduler.results import SchedulerError
from regauge.scheduler.state import State

ALLOCATED, POSSIBLE, IMPOSSIBLE = "allocated", "can be allocated", "cannot be allocated"
FAILING, UNKNOWN, UNSUPPORTED = "ends with an error", "not determined", "unsupported"
FITS, MISFIT, ERROR, NODE_ERROR = "fits", "does not fit", "error", "error on this node"
FAR = 1 << 30
_DISAGREES = "disagrees with itself"
_MEANT = "may be meant"
_MOST_HINTS = 5


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """The answer for one claim. `state` is one of the words above, `text` the main reason in one sentence.

    `order`: the nodes: those whose error spoils the others, those that fit, then from the nearest miss to the farthest.
    `cluster` is there for a claim that holds nothing yet.
    """

    claim: str
    state: str
    text: str
    holding: Holding | None = None
    cluster: ClusterExplanation | None = None
    order: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return self.state in (ALLOCATED, POSSIBLE)


def explain_claim(state: State, claim: ResourceClaim) -> ClaimAnswer:
    """Why the claim has what it has, or what it would get on each node. The state is not changed."""
    name = title(claim)
    if claim.status.allocation is not None:
        found = holding(state, claim)
        devices = ", ".join(str(one.device) for one in found.devices) or "no devices"
        since = f"since {found.since}" if found.since else "since when was not noted"
        return ClaimAnswer(name, ALLOCATED, f"holds {devices}, {since}", found, notes=_full(state, claim))
    return explain_unallocated(state, [claim])


def explain_unallocated(state: State, claims: Sequence[ResourceClaim]) -> ClaimAnswer:
    """What claims that hold nothing would get together on one node, or why they would not."""
    name = " + ".join(map(title, claims))
    for claim in claims:
        refused = check_claim(state, claim)
        if refused is not None:
            failing = isinstance(refused, SchedulerError)
            text = refused.message if isinstance(refused, SchedulerError) else ", ".join(refused.reasons)
            return ClaimAnswer(name, FAILING if failing else IMPOSSIBLE, text)
    nodes = [info.identity for info in state.nodes.values()]
    if not nodes:
        return ClaimAnswer(name, IMPOSSIBLE, "there are no nodes")
    cluster = state.devices.allocator().explain_nodes(nodes, claims)
    verdict, text = _verdict(cluster)
    notes = (
        *(note for claim in claims for note in _admin(state, claim)),
        *cluster_notes(cluster),
        *taint_rule_notes(state),
        *mistakes(state, claims, cluster),
        *_turned(state, claims, cluster),
    )
    return ClaimAnswer(name, verdict, text, None, cluster, nearest_first(cluster.nodes.values()), notes)


def title(claim: ResourceClaim) -> str:
    """A claim's name with its namespace."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


# -- the whole cluster


def _verdict(cluster: ClusterExplanation) -> tuple[str, str]:
    failing = [one for one in cluster.nodes.values() if one.outcome == ERROR]
    total = len(cluster.nodes)
    if failing:
        could = f"; {_some(cluster.fitting)} could serve it" if cluster.fitting else ""
        where = f" on {_some([one.node for one in failing])}" if failing[0].node else ""
        text = f"kube-scheduler gives up the whole attempt when it meets the error{where}: {failing[0].text}"
        return FAILING, text + could
    if cluster.fitting:
        best = cluster.nodes[cluster.fitting[0]]
        more = f" (and on {len(cluster.fitting) - 1} more of {total} nodes)" if len(cluster.fitting) > 1 else ""
        return POSSIBLE, f"on {best.node} it gets {best.text}{more}"
    outcomes = Counter(one.outcome for one in cluster.nodes.values())
    reason, count, example = cluster.reasons[0]
    text = f"{cluster.nodes[example].text}" if total == 1 else f"{count} of {total} nodes, such as {example}: {reason}"
    if outcomes.get(UNSUPPORTED):
        return UNSUPPORTED, text
    if outcomes.get(UNKNOWN):
        return UNKNOWN, text
    return IMPOSSIBLE, text


def _some(names: Iterable[str]) -> str:
    """A few names, and how many more."""
    everything = list(names)
    shown = ", ".join(everything[:3])
    return f"{shown} and {len(everything) - 3} more" if len(everything) > 3 else shown


def nearest_first(found: Iterable[Explanation]) -> tuple[str, ...]:
    """The nodes whose error ends every attempt, those that fit, then the others from the nearest miss to the farthest."""
    return tuple(one.node for one in sorted(found, key=distance))


def distance(one: Explanation) -> tuple[int, int, int]:
    """How far a node is from fitting: one that spoils the others first, then those that fit, then by what is short."""
    if one.outcome == ERROR:
        return -1, 0, 0
    if one.outcome == FITS:
        return 0, 0, 0
    if one.outcome != MISFIT:
        return 3, 0, 0
    short = one.bound.need - one.bound.have if one.bound is not None else 1
    rank = min(
        (device.rank[0] for note in one.requests for device in note.devices if not _usable(device.kind)), default=FAR
    )
    return 1 if one.missed or one.would_fit else 2, short, rank


def _usable(kind: str) -> bool:
    return kind in ("chosen", "free")


def cluster_notes(cluster: ClusterExplanation) -> tuple[str, ...]:
    """What is worth saying once for all nodes: errors by device, hints by frequency, warnings."""
    devices = errors = 0
    hints: Counter[str] = Counter()
    warnings: dict[str, None] = {}
    for one in cluster.nodes.values():
        for note in one.requests:
            for device in note.devices:
                devices += 1
                errors += device.kind == ERROR
                hints.update(text for text in device.hints if device.kind == ERROR or _MEANT in text)
        if one.slow:
            warnings[one.slow] = None
        warnings |= dict.fromkeys(missed.text for missed in one.missed)
    notes = [f"a selector errs on {errors} of {devices} devices, which is not the same as false"] if errors else []
    notes += [f"on {count} of {devices} devices: {text}" for text, count in hints.most_common(_MOST_HINTS)]
    return (*notes, *warnings)


def mistakes(state: State, claims: Sequence[ResourceClaim], cluster: ClusterExplanation) -> tuple[str, ...]:
    """Known mistakes of this Kubernetes minor without which the first fitting node would have answered otherwise."""
    if not cluster.fitting:
        return ()
    node = cluster.fitting[0]
    return tuple(
        f"a known mistake of this version decides on {node} ({one.named}); without it: {one.instead}"
        for one in state.devices.allocator().mistakes(state.nodes[node].identity, claims)
    )


def _turned(state: State, claims: Sequence[ResourceClaim], cluster: ClusterExplanation) -> tuple[str, ...]:
    """What comes out with the slices in another order, where a pool's slices disagree and order decides."""
    unsure = [one.node for one in cluster.nodes.values() if any(_DISAGREES in pool.text for pool in one.pools)]
    if not unsure:
        return ()
    allocator = state.devices.allocator(backwards=True)
    notes = []
    for name in unsure[:_MOST_HINTS]:
        other, here = allocator.explain(state.nodes[name].identity, claims), cluster.nodes[name]
        if (other.outcome, other.text) != (here.outcome, here.text):
            notes.append(
                f"order dependent on {name}: with the slices as listed {here.outcome} ({here.text}), the other way "
                f"round {other.outcome} ({other.text})"
            )
    return tuple(notes)


def _admin(state: State, claim: ResourceClaim) -> tuple[str, ...]:
    asks = any(request.exactly and request.exactly.admin_access for request in claim.spec.devices.requests)
    namespace = claim.metadata.namespace
    if not asks or state.around.namespace_labels(namespace).get(ADMIN_ACCESS_LABEL) == "true":
        return ()
    return (
        f"admin access: the API server takes such claims only where namespace {namespace} has {ADMIN_ACCESS_LABEL}=true",
    )


# -- claims that have devices


def _full(state: State, claim: ResourceClaim) -> tuple[str, ...]:
    """Whether the list of users is full: one more pod could be placed and never be bound."""
    if len(claim.status.reserved_for) < MAX_RESERVED_FOR:
        return ()
    gate = "DRAWorkloadResourceClaims"
    group = (
        "reserve it for a PodGroup, which counts once"
        if state.rules.on(gate)
        else f"or, with the gate {gate}, a PodGroup"
    )
    return (
        f"claim {title(claim)} has {MAX_RESERVED_FOR} users, the most that status.reservedFor takes: one more pod can be "
        f"placed, but binding it fails; use more claims, {group}",
    )


def not_preempted(state: State, priority: int) -> tuple[str, ...]:
    """That nobody loses devices to a pod of this priority, if there is somebody of a lower one who has some."""
    for claim in state.claims.values():
        if claim.status.allocation is None:
            continue
        for user in claim.status.reserved_for:
            other = state.pods.get((claim.metadata.namespace, user.name))
            if other is not None and other.priority < priority:
                return (
                    "devices of claims are not preempted: up to 1.37 kube-scheduler takes no claim away from a pod of "
                    f"lower priority, though pod {claim.metadata.namespace}/{user.name} has one",
                )
    return ()
