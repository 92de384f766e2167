"""How good a feasible node is: the sum of upstream's score plugins with their default weights.

Source: kube-scheduler framework/plugins and apis/config/v1/default_plugins.go of 1.36. ImageLocality is left out: the
views carry no images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from regauge.model import LabelSelector, matches_node_term
from regauge.scheduler.filters import tolerates
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.resources import CPU, MEMORY
from regauge.scheduler.spread import Constraint, constraints, default_constraints
from regauge.scheduler.terms import NamespaceLabels, Term

MAX_SCORE = 100
HOSTNAME = "kubernetes.io/hostname"
HARD_AFFINITY_WEIGHT = 1
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
}

Scores = list[int]


def normalized(scores: Sequence[int], *, reverse: bool = False) -> Scores:
    """Scaled to 0..100 by the largest; `reverse`: the smallest is the best."""
    most = max(scores, default=0)
    if most == 0:
        return [MAX_SCORE if reverse else score for score in scores]
    return [MAX_SCORE - MAX_SCORE * score // most if reverse else MAX_SCORE * score // most for score in scores]


def taint_scores(pod: PodInfo, nodes: Sequence[NodeInfo]) -> Scores:
    """Fewer untolerated PreferNoSchedule taints are better."""
    tolerations = [item for item in pod.pod.spec.tolerations if item.effect in ("", "PreferNoSchedule")]
    counts = [
        sum(
            1
            for taint in node.node.spec.taints
            if taint.effect == "PreferNoSchedule" and not any(tolerates(item, taint) for item in tolerations)
        )
        for node in nodes
    ]
    return normalized(counts, reverse=True)


def node_affinity_scores(pod: PodInfo, nodes: Sequence[NodeInfo]) -> Scores:
    """The weights of the preferred terms that match."""
    affinity = pod.pod.spec.affinity
    preferred = affinity.node_affinity.preferred if affinity and affinity.node_affinity else ()
    if not preferred:
        return [0] * len(nodes)
    return normalized(
        [sum(item.weight for item in preferred if matches_node_term(item.preference, node.node)) for node in nodes]
    )


def least_allocated_scores(pod: PodInfo, nodes: Sequence[NodeInfo]) -> Scores:
    """The emptier the better, cpu and memory alike."""
    return [_least_allocated(pod, node) for node in nodes]


def _least_allocated(pod: PodInfo, node: NodeInfo) -> int:
    total = count = 0
    for name, used in ((CPU, node.scored_cpu + pod.scored_cpu), (MEMORY, node.scored_memory + pod.scored_memory)):
        offered = node.allocatable.get(name, 0)
        if offered:
            count += 1
            total += 0 if used > offered else (offered - used) * MAX_SCORE // offered
    return total // count if count else 0


def balanced_scores(pod: PodInfo, nodes: Sequence[NodeInfo]) -> Scores:
    """The more even the use of cpu and memory becomes the better. A pod that asks for neither has no say."""
    cpu, memory = pod.requests.get(CPU, 0), pod.requests.get(MEMORY, 0)
    if not cpu and not memory:
        return [0] * len(nodes)
    return [
        MAX_SCORE // 2 + _half(MAX_SCORE // 2 + _balance(node, cpu, memory) - _balance(node, 0, 0)) for node in nodes
    ]


def _half(value: int) -> int:
    return int(value / 2)


def _balance(node: NodeInfo, cpu: int, memory: int) -> int:
    shares = []
    for name, more in ((CPU, cpu), (MEMORY, memory)):
        offered = node.allocatable.get(name, 0)
        if offered:
            shares.append(min(1.0, (node.requested.get(name, 0) + more) / offered))
    deviation = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return int((1 - deviation) * MAX_SCORE)


def spread_scores(
    pod: PodInfo, feasible: Sequence[NodeInfo], everything: Iterable[NodeInfo], like: LabelSelector | None
) -> Scores:
    """Few pods of the same kind in the node's domains are good, by the soft spread constraints.

    `like`: the pods of the same kind for pods without constraints of their own; such pods may be put on nodes that lack
    the label of a domain.
    """
    strict = bool(pod.pod.spec.topology_spread_constraints)
    soft = constraints(pod, "ScheduleAnyway") if strict else default_constraints(like) if like is not None else ()
    if not soft:
        return [0] * len(feasible)
    ignored = [strict and not _complete(node, soft) for node in feasible]
    counted = [node for node, skip in zip(feasible, ignored) if not skip]
    counts = [_domain_counts(pod, item, soft, counted, everything, strict) for item in soft]
    sizes = [len(counted) if item.key == HOSTNAME else len(found) for item, found in zip(soft, counts)]
    raw = [0 if skip else _spread_score(pod, node, soft, counts, sizes) for node, skip in zip(feasible, ignored)]
    return _spread_normalized(raw, ignored)


def _complete(node: NodeInfo, soft: Sequence[Constraint]) -> bool:
    return all(item.key in node.labels for item in soft)


def _domain_counts(
    pod: PodInfo,
    item: Constraint,
    soft: Sequence[Constraint],
    counted: Sequence[NodeInfo],
    everything: Iterable[NodeInfo],
    strict: bool,
) -> dict[str, int]:
    if item.key == HOSTNAME:
        return {}
    counts = dict.fromkeys((node.labels.get(item.key, "") for node in counted), 0)
    for node in everything:
        value = node.labels.get(item.key, "")
        if value in counts and (not strict or _complete(node, soft)) and item.counts_node(pod, node):
            counts[value] += item.count(pod.key[0], node)
    return counts


def _spread_score(
    pod: PodInfo,
    node: NodeInfo,
    soft: Sequence[Constraint],
    counts: Sequence[Mapping[str, int]],
    sizes: Sequence[int],
) -> int:
    total = 0.0
    for item, found, size in zip(soft, counts, sizes):
        if item.key not in node.labels:
            continue
        have = item.count(pod.key[0], node) if item.key == HOSTNAME else found[node.labels[item.key]]
        total += have * math.log(size + 2) + (item.max_skew - 1)
    return math.floor(total + 0.5)


def _spread_normalized(raw: Sequence[int], ignored: Sequence[bool]) -> Scores:
    counted = [score for score, skip in zip(raw, ignored) if not skip]
    least, most = min(counted, default=0), max(counted, default=0)
    return [
        0 if skip else MAX_SCORE if most == 0 else MAX_SCORE * (most + least - score) // most
        for score, skip in zip(raw, ignored)
    ]


def affinity_scores(
    pod: PodInfo,
    feasible: Sequence[NodeInfo],
    everything: Iterable[NodeInfo],
    namespaces: NamespaceLabels,
) -> Scores:
    """Near those that the pod likes and that like the pod, away from the others."""
    domains: dict[tuple[str, str], int] = {}

    def weigh(terms: Iterable[Term], meant: PodInfo, node: NodeInfo, weight: Callable[[Term], int]) -> None:
        for term in terms:
            value = node.labels.get(term.topology_key)
            if value is not None and term.matches(meant.key[0], meant.labels, namespaces):
                pair = (term.topology_key, value)
                domains[pair] = domains.get(pair, 0) + weight(term)

    own = pod.terms
    for node in everything:
        for other in node.pods.values():
            if own.like or own.dislike:
                weigh(own.like, other, node, lambda term: term.weight)
                weigh(own.dislike, other, node, lambda term: -term.weight)
            if other.terms:
                weigh(other.terms.need, pod, node, lambda _: HARD_AFFINITY_WEIGHT)
                weigh(other.terms.like, pod, node, lambda term: term.weight)
                weigh(other.terms.dislike, pod, node, lambda term: -term.weight)
    if not domains:
        return [0] * len(feasible)
    raw = [sum(score for (key, value), score in domains.items() if node.labels.get(key) == value) for node in feasible]
    least, most = min(raw), max(raw)
    return [int(MAX_SCORE * ((score - least) / (most - least))) if most > least else 0 for score in raw]
