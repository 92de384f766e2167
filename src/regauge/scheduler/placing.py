"""Where a pod goes, or why nowhere."""

from __future__ import annotations

from collections.abc import Mapping

from regauge.base import BugError, Randomness
from regauge.model import Rules
from regauge.model.core import Pod
from regauge.model.quoting import go_quote
from regauge.scheduler import claims as dra
from regauge.scheduler.cycle import Cycle, Found, begin, find, search_order, total_scores
from regauge.scheduler.filters import NODE_AFFINITY
from regauge.scheduler.messages import after_message, fit_message
from regauge.scheduler.nodes import PodInfo
from regauge.scheduler.preemption import NoPreemption, preempt
from regauge.scheduler.results import (
    ClaimAllocation,
    Held,
    Outcome,
    Preemption,
    Refusal,
    Scheduled,
    SchedulerError,
    Unschedulable,
)
from regauge.scheduler.state import State, group_key

SCHEDULING_GATES = "SchedulingGates"
GANG_SCHEDULING = "GangScheduling"
POD_GROUPS = "unsupported: scheduling one pod of a pod group (spec.schedulingGroup) by itself"
NO_NODES = "no nodes available to schedule pods"


def held(pod: Pod, state: State) -> Held | None:
    """Why the pod is not even tried now, or None. Nothing is written about such a pod."""
    waiting = held_by_itself(pod, state)
    if waiting is not None:
        return waiting
    waits = _waits_for_group(pod, state)
    return Held(GANG_SCHEDULING, waits) if waits else None


def held_by_itself(pod: Pod, state: State) -> Held | None:
    """Why the pod is not even tried now, whatever its group lacks."""
    if pod.spec.scheduling_gates:
        names = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return Held(SCHEDULING_GATES, f"waiting for scheduling gates: [{names}]")
    claims = dra.pod_claims(state, pod)
    return Held(dra.DYNAMIC_RESOURCES, claims) if isinstance(claims, str) else None


def _waits_for_group(pod: Pod, state: State) -> str:
    """What the pod's group lacks before any of its pods is tried, or ""."""
    key = group_key(pod)
    if key is None or not state.rules.on(GANG_SCHEDULING):
        return ""
    group = state.groups.get(key)
    if group is None:
        return f"waiting for pods's pod group {go_quote(key[1])} to appear in scheduling queue"
    gang = group.spec.scheduling_policy.gang
    if gang is not None and len(state.members(key)) < gang.min_count:
        return "waiting for minCount pods from a gang to appear in scheduling queue"
    return ""


def schedule(pod: Pod, state: State, rules: Rules, random: Randomness) -> Outcome:
    """Where a pod that waits goes, among the best nodes by chance; or why it goes nowhere.

    `rules` have to be those of the state. The state is not changed but for the place where the next search begins:
    `State.assume` takes a `Scheduled` over. The pod's defaults have to be filled in, as the API server stores it.
    """
    if rules is not state.rules and rules != state.rules:
        raise BugError("a pod was to be scheduled under other rules than those of the state")
    waiting = held(pod, state)
    if waiting is not None:
        return waiting
    if group_key(pod) is not None and state.rules.on("GenericWorkload"):
        return SchedulerError(POD_GROUPS)
    return attempt_alone(pod, state, random)


def attempt_alone(pod: Pod, state: State, random: Randomness, refused: dict[str, Refusal] | None = None) -> Outcome:
    """The attempt itself, for a pod that nothing holds; also for one pod of a group, as a part of the group's.

    `refused`: nodes that refused pods with the same demands, and still do; is added to.
    """
    if not state.nodes:
        return Unschedulable(NO_NODES, {})
    info = state.info(pod)
    cycle = begin(state, info)
    if isinstance(cycle, SchedulerError):
        return cycle
    if isinstance(cycle, Refusal):
        return _refused_before(state, info, cycle)
    found = _search(cycle, refused)
    if isinstance(found, SchedulerError):
        return found
    if not found.feasible:
        return _nowhere(cycle, found)
    return _choose(cycle, found, random)


def check_node(pod: Pod, node: str, state: State) -> Refusal | SchedulerError | Held | None:
    """Whether one pod would fit on one node now, by all filters; None for yes. The node has to be in the state."""
    waiting = held(pod, state)
    if waiting is not None:
        return waiting
    cycle = begin(state, state.info(pod))
    if isinstance(cycle, (Refusal, SchedulerError)):
        return cycle
    verdict = cycle.check(state.nodes[node])
    return verdict if isinstance(verdict, (Refusal, SchedulerError)) else None


def _search(cycle: Cycle, refused: dict[str, Refusal] | None) -> Found | SchedulerError:
    state = cycle.state
    nominated = state.nodes.get(cycle.pod.pod.status.nominated_node_name)
    if nominated is not None:
        first = find(cycle, [nominated])
        if isinstance(first, Found) and first.feasible:
            return first
    found = find(cycle, search_order(cycle), refused)
    if isinstance(found, Found):
        state.start = (state.start + len(found.feasible) + len(found.refusals)) % len(state.nodes)
    return found


def _choose(cycle: Cycle, found: Found, random: Randomness) -> Scheduled:
    feasible = found.feasible
    scores = total_scores(cycle, feasible) if len(feasible) > 1 else dict.fromkeys(feasible, 0)
    best = max(scores.values())
    ties = tuple(sorted(name for name, score in scores.items() if score == best))
    node = ties[0] if len(ties) == 1 else random.choice(ties)
    chosen = feasible[node]
    attempt = cycle.attempt
    return Scheduled(
        node,
        ties,
        tuple(sorted(feasible)),
        scores,
        _fresh_shares(chosen.allocations, random) + _shared(cycle),
        tuple(claim.metadata.name for claim in attempt.claims) if attempt else (),
        chosen.extended,
        chosen.mapped,
        _has_to_bind(cycle, chosen),
        found.refusals,
        unseen_parts(cycle.pod.pod),
    )


def unseen_parts(pod: Pod) -> tuple[str, ...]:
    """What of a pod a real scheduler looks at and this one does not: volumes that may bind it to some nodes."""
    return tuple(
        f"volume {volume.name}"
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    )


def _has_to_bind(cycle: Cycle, chosen: dra.OnNode) -> bool:
    """Whether there is something to do before the pod is bound. Once that was said of pods, too, whose extended
    resources a device plugin serves, because a class stands for them elsewhere."""
    attempt = cycle.attempt
    if attempt is None:
        return False
    careless = "scheduler-nominates-for-plugin-resources" in cycle.state.rules.quirks
    return careless or bool(attempt.claims) or chosen.extended is not None


def _fresh_shares(allocations: tuple[ClaimAllocation, ...], random: Randomness) -> tuple[ClaimAllocation, ...]:
    return tuple(dra.with_fresh_shares(item, random) for item in allocations)


def _shared(cycle: Cycle) -> tuple[ClaimAllocation, ...]:
    return tuple(dra.shared_allocations(cycle.state, cycle.attempt.claims)) if cycle.attempt is not None else ()


def _barred_by_group(state: State, pod: Pod) -> str:
    """Why one pod of a group may not preempt others by itself, or ""."""
    key = group_key(pod)
    if key is None or not state.rules.on("GenericWorkload"):
        return ""
    group = state.groups.get(key)
    if state.rules.on("TopologyAwareWorkloadScheduling"):
        if group is None:
            return "pod group for pod not found"
        if group.spec.scheduling_constraints is not None:
            return "not eligible due to placement-based pod group scheduling limitation"
    if state.rules.on("WorkloadAwarePreemption"):
        return "not eligible due to workload aware preemption enabled"
    return ""


def _refused_before(state: State, pod: PodInfo, refusal: Refusal) -> Unschedulable:
    after = dra.after_no_node(state, pod, None)
    barred = _barred_by_group(state, pod.pod)
    if not barred and pod.pod.spec.preemption_policy == "Never":
        barred = "not eligible due to preemptionPolicy=Never."
    said = after_message(len(state.nodes), after.message, NoPreemption({}, barred), state.rules)
    return Unschedulable(fit_message(len(state.nodes), refusal, (), "", said), {}, refusal)


def _nowhere(cycle: Cycle, found: Found) -> Unschedulable:
    state, count = cycle.state, len(cycle.state.nodes)
    absent = "" if cycle.names is None else f"node(s) didn't satisfy plugin(s) [{NODE_AFFINITY}]"
    after = dra.after_no_node(state, cycle.pod, cycle.attempt)
    barred = _barred_by_group(state, cycle.pod.pod)
    preemption = NoPreemption({}, barred) if barred else preempt(cycle, found.refusals)
    said = after_message(count, after.message, preemption, state.rules)
    message = fit_message(count, None, found.refusals.values(), absent, said)
    return Unschedulable(
        message,
        _with_absent(state, found.refusals, absent),
        None,
        preemption if isinstance(preemption, Preemption) else None,
        after.deallocate,
        after.delete,
        after.unreserve,
    )


def _with_absent(state: State, refusals: Mapping[str, Refusal], absent: str) -> dict[str, Refusal]:
    if not absent:
        return dict(refusals)
    return {name: refusals.get(name, Refusal(NODE_AFFINITY, (absent,))) for name in state.nodes}
