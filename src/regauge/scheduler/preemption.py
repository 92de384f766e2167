"""Which pods of lower priority would have to go so that a pod fits. Only what a node's own resources decide can be cured:
a lack of devices never is.

Disruption budgets are kept where there is a choice, and broken where there is none.
Source: kube-scheduler plugins/defaultpreemption and framework/preemption of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regauge.scheduler.claims import OnNode
from regauge.scheduler.cycle import Cycle
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.results import Preemption, Refusal, SchedulerError

PLUGIN = "DefaultPreemption"
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_HELP = "Preemption is not helpful for scheduling"
NEVER = "Never"
PREEMPTED = "PreemptionByScheduler"


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """Why preemption does not help, per node that might have been helped; `barred` when it is not allowed at all.

    `error`: trying it out ended in an error, which is then all that is said.
    """

    refusals: Mapping[str, Refusal]
    barred: str = ""
    error: str = ""


def preempt(cycle: Cycle, refusals: Mapping[str, Refusal]) -> Preemption | NoPreemption:
    """The node and the pods that would have to leave it, or why none would help."""
    barred = _barred(cycle, refusals)
    if barred:
        return NoPreemption({}, barred)
    found: dict[str, _Victims] = {}
    failed: dict[str, Refusal] = {}
    errors: dict[str, None] = {}
    for name, refusal in refusals.items():
        if not refusal.curable:
            continue
        victims = _victims(cycle, cycle.state.nodes[name])
        if isinstance(victims, _Victims):
            found[name] = victims
        elif isinstance(victims, Refusal):
            failed[name] = victims
        else:
            errors[victims.message] = None
    if not found:
        return NoPreemption(failed, error=", ".join(errors) if len(errors) < 2 else f"[{', '.join(errors)}]")
    least = min(_cost(victims) for victims in found.values())
    best = max((name for name in found if _cost(found[name]) == least), key=lambda name: _latest(found[name].pods))
    return Preemption(best, tuple(info.key for info in found[best].pods))


def _barred(cycle: Cycle, refusals: Mapping[str, Refusal]) -> str:
    pod = cycle.pod.pod
    if pod.spec.preemption_policy == NEVER:
        return "not eligible due to preemptionPolicy=Never."
    nominated = pod.status.nominated_node_name
    node = cycle.state.nodes.get(nominated)
    refusal = refusals.get(nominated)
    if node is None or (refusal is not None and not refusal.curable):
        return ""
    if any(info.priority < cycle.pod.priority and _leaving(info) for info in node.pods.values()):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _leaving(info: PodInfo) -> bool:
    return info.pod.metadata.deletion_timestamp is not None and any(
        item.type == "DisruptionTarget" and item.status == "True" and item.reason == PREEMPTED
        for item in info.pod.status.conditions
    )


@dataclass(frozen=True, slots=True)
class _Victims:
    """The pods that would have to go, the most important first, and how many of them a budget guards."""

    pods: tuple[PodInfo, ...]
    guarded: int


def _victims(cycle: Cycle, node: NodeInfo) -> _Victims | Refusal | SchedulerError:
    candidates = [info for info in node.pods.values() if info.priority < cycle.pod.priority]
    if not candidates:
        return Refusal(PLUGIN, (NO_VICTIMS,))
    bare = node.changed(without=[info.uid for info in candidates])
    refused = _try(cycle, bare)
    if refused is not None:
        return refused
    candidates.sort(key=_importance)
    guarded, free = _split(cycle, candidates)
    victims, broken = [], 0
    for info in (*guarded, *free):
        bare.add(info)
        if _try(cycle, bare) is not None:
            bare.remove(info.uid)
            victims.append(info)
            broken += info in guarded
    return _Victims(tuple(sorted(victims, key=_importance)), broken)


def _importance(info: PodInfo) -> tuple[int, str, tuple[str, str]]:
    return -info.priority, _started(info), info.key


def _split(cycle: Cycle, candidates: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
    """Those that a budget has no disruption left for, and the others."""
    budgets = list(cycle.state.around.budgets)
    left = [budget.status.disruptions_allowed for budget in budgets]
    guarded: list[PodInfo] = []
    free: list[PodInfo] = []
    for info in candidates:
        broken = False
        for index, budget in enumerate(budgets):
            if budget.covers(info.pod):
                left[index] -= 1
                broken = broken or left[index] < 0
        (guarded if broken else free).append(info)
    return guarded, free


def _try(cycle: Cycle, node: NodeInfo) -> Refusal | SchedulerError | None:
    others = (node if item.name == node.name else item for item in cycle.state.nodes.values())
    verdict = cycle.changed(others).check_alone(node)
    return None if isinstance(verdict, OnNode) else verdict


def _started(info: PodInfo) -> str:
    return info.pod.status.start_time or "~"


def _cost(victims: _Victims) -> tuple[int, int, int, int]:
    """The cheapest first: fewest broken budgets, lowest top priority, lowest sum, fewest pods."""
    top = max((info.priority for info in victims.pods), default=-(2**31))
    return victims.guarded, top, sum(info.priority + 2**31 for info in victims.pods), len(victims.pods)


def _latest(victims: tuple[PodInfo, ...]) -> str:
    """When the first of the most important victims started."""
    top = max((info.priority for info in victims), default=0)
    return min((_started(info) for info in victims if info.priority == top), default="")
