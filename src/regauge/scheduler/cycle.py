"""One attempt to schedule one pod: the look before the nodes, the filters on each node, the scores.

Source: kube-scheduler schedule_one.go of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regauge.scheduler import claims as dra
from regauge.scheduler.extended import may_be_devices
from regauge.scheduler.filters import (
    NODE_AFFINITY,
    named_nodes,
    node_affinity,
    node_name,
    node_ports,
    node_resources,
    node_unschedulable,
    taint_toleration,
)
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.results import Refusal, SchedulerError
from regauge.scheduler.scores import (
    WEIGHTS,
    affinity_scores,
    balanced_scores,
    least_allocated_scores,
    node_affinity_scores,
    normalized,
    spread_scores,
    taint_scores,
)
from regauge.scheduler.spread import Affinity, Spread
from regauge.scheduler.state import State

FEW_NODES = 100
LEAST_PERCENT = 5
MOST_PERCENT = 50
NODES_PER_PERCENT = 125

Verdict = dra.OnNode | Refusal | SchedulerError


@dataclass(slots=True)
class Cycle:
    """What is worked out once for a pod and then asked for each node."""

    state: State
    pod: PodInfo
    attempt: dra.Attempt | None
    spread: Spread
    affinity: Affinity
    names: frozenset[str] | None

    def check(self, node: NodeInfo) -> Verdict:
        """All filters; also with the pods that were promised room on this node and go before this one."""
        promised = self.state.nominated(node.name, self.pod)
        if promised:
            fuller = node.changed(plus=promised)
            others = (fuller if item.name == node.name else item for item in self.state.nodes.values())
            verdict = self.changed(others).check_alone(fuller)
            if not isinstance(verdict, dra.OnNode):
                return verdict
        return self.check_alone(node)

    def check_alone(self, node: NodeInfo) -> Verdict:
        """All filters in upstream's order on the node as it is; the first no ends it."""
        for filter_ in (node_unschedulable, node_name, taint_toleration, node_affinity, node_ports):
            refused = filter_(self.pod, node)
            if refused is not None:
                return refused
        refused = (
            node_resources(self.pod, node, self._by_class) or self.spread.refuse(node) or self.affinity.refuse(node)
        )
        if refused is not None:
            return refused
        return self.attempt.on(node) if self.attempt is not None else dra.NOTHING

    def _by_class(self, resource: str) -> bool:
        return (
            self.state.rules.on("DRAExtendedResource")
            and may_be_devices(resource)
            and self.state.resolver.find(resource) is not None
        )

    def changed(self, everything: Iterable[NodeInfo]) -> Cycle:
        """The same attempt with other pods on the nodes, for trying out."""
        nodes = tuple(everything)
        return Cycle(
            self.state,
            self.pod,
            self.attempt,
            Spread(self.pod, nodes),
            Affinity(self.pod, nodes, self.state.around.namespace_labels, self.state.guarded),
            self.names,
        )


def begin(state: State, pod: PodInfo) -> Cycle | Refusal | SchedulerError:
    """The look before any node: a plugin may refuse for all of them."""
    names = named_nodes(pod.pod.spec)
    if names is not None and not names:
        return Refusal(NODE_AFFINITY, ("pod affinity terms conflict",))
    nodes = state.nodes.values()
    spread = Spread(pod, nodes)
    affinity = Affinity(pod, nodes, state.around.namespace_labels, state.guarded)
    attempt = dra.attempt(state, pod)
    if isinstance(attempt, (Refusal, SchedulerError)):
        return attempt
    return Cycle(state, pod, attempt, spread, affinity, names)


def search_order(cycle: Cycle) -> list[NodeInfo]:
    """The nodes to look at, beginning where the last search ended."""
    state = cycle.state
    nodes = list(state.nodes.values())
    if cycle.names is not None:
        nodes = [node for node in nodes if node.name in cycle.names]
    start = state.start % len(nodes) if nodes else 0
    return nodes[start:] + nodes[:start]


def how_many(count: int) -> int:
    """After how many feasible nodes the search ends: in large clusters not all are looked at."""
    if count < FEW_NODES:
        return count
    percent = max(LEAST_PERCENT, MOST_PERCENT - count // NODES_PER_PERCENT)
    return max(FEW_NODES, count * percent // 100)


@dataclass(frozen=True, slots=True)
class Found:
    """The feasible nodes with what would be done there, and why the others are not."""

    feasible: dict[str, dra.OnNode]
    refusals: dict[str, Refusal]


def find(cycle: Cycle, nodes: Sequence[NodeInfo], refused: dict[str, Refusal] | None = None) -> Found | SchedulerError:
    """Filter nodes in order until enough are feasible. An error on any node looked at gives up the attempt.

    `refused`: what earlier pods with the same demands were told, nothing having been given back since; is added to.
    """
    found = Found({}, {})
    enough = how_many(len(nodes))
    known = {} if refused is None else refused
    for node in nodes:
        verdict: Verdict | None = known.get(node.name)
        if verdict is None:
            verdict = cycle.check(node)
        if isinstance(verdict, SchedulerError):
            return verdict
        if isinstance(verdict, Refusal):
            found.refusals[node.name] = known[node.name] = verdict
            continue
        found.feasible[node.name] = verdict
        if len(found.feasible) >= enough:
            break
    return found


def total_scores(cycle: Cycle, feasible: dict[str, dra.OnNode]) -> dict[str, int]:
    """The weighted sum of all score plugins for each feasible node."""
    state, pod = cycle.state, cycle.pod
    nodes = [state.nodes[name] for name in feasible]
    everything = tuple(state.nodes.values())
    parts = {
        "TaintToleration": taint_scores(pod, nodes),
        "NodeAffinity": node_affinity_scores(pod, nodes),
        "NodeResourcesFit": least_allocated_scores(pod, nodes),
        "PodTopologySpread": spread_scores(pod, nodes, everything, state.around.like(pod.pod)),
        "NodeResourcesBalancedAllocation": balanced_scores(pod, nodes),
        "DynamicResources": _device_scores(cycle, feasible),
    }
    if pod.terms.like or pod.terms.dislike or state.befriended:
        parts["InterPodAffinity"] = affinity_scores(pod, nodes, everything, state.around.namespace_labels)
    return {
        name: sum(WEIGHTS[plugin] * scores[index] for plugin, scores in parts.items())
        for index, name in enumerate(feasible)
    }


def _device_scores(cycle: Cycle, feasible: dict[str, dra.OnNode]) -> list[int]:
    attempt = cycle.attempt
    if attempt is None or not attempt.weighs or not cycle.state.rules.on("DRAPrioritizedList"):
        return [0] * len(feasible)
    return normalized([dra.score(attempt.claims, chosen) for chosen in feasible.values()])
