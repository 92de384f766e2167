"""PodTopologySpread and InterPodAffinity as filters: where pods like these are already.

Source: kube-scheduler framework/plugins podtopologyspread and interpodaffinity of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regauge.model import LabelSelector, matches_labels
from regauge.model.core import TopologySpreadConstraint
from regauge.scheduler.filters import matches_required_affinity, untolerated
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.results import Refusal
from regauge.scheduler.terms import NamespaceLabels, Term, with_label_keys

POD_TOPOLOGY_SPREAD = "PodTopologySpread"
INTER_POD_AFFINITY = "InterPodAffinity"
HONOR = "Honor"

NO_SPREAD = "node(s) didn't match pod topology spread constraints"
Domain = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One spread constraint with its defaults filled in."""

    max_skew: int
    key: str
    selector: LabelSelector | None
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def counts_node(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Whether the node's pods are counted, by the inclusion policies."""
        if self.honor_affinity and not matches_required_affinity(pod.pod.spec, node.node):
            return False
        return not self.honor_taints or untolerated(node.node.spec.taints, pod.pod.spec.tolerations) is None

    def count(self, namespace: str, node: NodeInfo) -> int:
        """How many living pods of the node in `namespace` are meant."""
        selector = self.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return 0
        return sum(
            1
            for other in node.pods.values()
            if other.key[0] == namespace
            and other.pod.metadata.deletion_timestamp is None
            and matches_labels(selector, other.labels)
        )


def constraints(pod: PodInfo, action: str) -> tuple[Constraint, ...]:
    """The pod's constraints with this whenUnsatisfiable."""
    return tuple(_constraint(pod, item) for item in pod.pod.spec.topology_spread_constraints if _acts(item, action))


def _acts(item: TopologySpreadConstraint, action: str) -> bool:
    return item.when_unsatisfiable == action


def _constraint(pod: PodInfo, item: TopologySpreadConstraint) -> Constraint:
    return Constraint(
        item.max_skew,
        item.topology_key,
        with_label_keys(item.label_selector, item.match_label_keys, pod.labels),
        1 if item.min_domains is None else item.min_domains,
        (item.node_affinity_policy or HONOR) == HONOR,
        item.node_taints_policy == HONOR,
    )


def default_constraints(selector: LabelSelector) -> tuple[Constraint, ...]:
    """What upstream wishes for pods that say nothing: zones and hosts, softly."""
    return (
        Constraint(3, "topology.kubernetes.io/zone", selector, 1, True, False),
        Constraint(5, "kubernetes.io/hostname", selector, 1, True, False),
    )


class Spread:
    """The hard spread constraints of one pod against all nodes."""

    def __init__(self, pod: PodInfo, nodes: Iterable[NodeInfo]) -> None:
        self._pod = pod
        self._constraints = constraints(pod, "DoNotSchedule")
        self._counts: list[dict[str, int]] = [{} for _ in self._constraints]
        for node in nodes if self._constraints else ():
            self._count(node)

    def _count(self, node: NodeInfo) -> None:
        if any(item.key not in node.labels for item in self._constraints):
            return
        for item, counts in zip(self._constraints, self._counts):
            if item.counts_node(self._pod, node):
                value = node.labels[item.key]
                counts[value] = counts.get(value, 0) + item.count(self._pod.key[0], node)

    def refuse(self, node: NodeInfo) -> Refusal | None:
        """The no of the first constraint that this node would break."""
        for item, counts in zip(self._constraints, self._counts):
            value = node.labels.get(item.key)
            if value is None:
                return Refusal(POD_TOPOLOGY_SPREAD, (f"{NO_SPREAD} (missing required label)",))
            least = 0 if len(counts) < item.min_domains else min(counts.values(), default=2**31 - 1)
            itself = 1 if matches_labels(item.selector, self._pod.labels) else 0
            if counts.get(value, 0) + itself - least > item.max_skew:
                return Refusal(POD_TOPOLOGY_SPREAD, (NO_SPREAD,), curable=True)
        return None


class Affinity:
    """The hard affinity and anti-affinity terms of one pod, and those of others against it."""

    def __init__(self, pod: PodInfo, nodes: Iterable[NodeInfo], namespaces: NamespaceLabels, guarded: bool) -> None:
        """`guarded`: whether any pod in the cluster has a required anti-affinity term."""
        self._pod, self._namespaces = pod, namespaces
        self._near: dict[Domain, int] = {}
        self._avoided: dict[Domain, int] = {}
        self._avoiding: dict[Domain, int] = {}
        if pod.terms.need or pod.terms.avoid or guarded:
            for node in nodes:
                for other in node.pods.values():
                    self._count(other, node)

    def _count(self, other: PodInfo, node: NodeInfo) -> None:
        terms = self._pod.terms
        if terms.need and self._means_all(terms.need, other):
            _mark(self._near, terms.need, node)
        for term in terms.avoid:
            if term.matches(other.key[0], other.labels, self._namespaces):
                _mark(self._avoided, (term,), node)
        for term in other.terms.avoid:
            if term.matches(self._pod.key[0], self._pod.labels, self._namespaces):
                _mark(self._avoiding, (term,), node)

    def _means_all(self, terms: tuple[Term, ...], other: PodInfo) -> bool:
        return all(term.matches(other.key[0], other.labels, self._namespaces) for term in terms)

    def refuse(self, node: NodeInfo) -> Refusal | None:
        """The node's reason, in upstream's order: affinity, own anti-affinity, that of the pods already there."""
        if not self._has_company(node):
            return Refusal(INTER_POD_AFFINITY, ("node(s) didn't match pod affinity rules",))
        if any(
            self._avoided.get((term.topology_key, node.labels.get(term.topology_key, "\0")))
            for term in self._pod.terms.avoid
        ):
            return Refusal(INTER_POD_AFFINITY, ("node(s) didn't match pod anti-affinity rules",), curable=True)
        if self._avoiding and any(pair in self._avoiding for pair in node.labels.items()):
            reason = "node(s) didn't satisfy existing pods anti-affinity rules"
            return Refusal(INTER_POD_AFFINITY, (reason,), curable=True)
        return None

    def _has_company(self, node: NodeInfo) -> bool:
        need = self._pod.terms.need
        if any(term.topology_key not in node.labels for term in need):
            return False
        if all((term.topology_key, node.labels[term.topology_key]) in self._near for term in need):
            return True
        return not self._near and self._means_all(need, self._pod)


def _mark(counts: dict[Domain, int], terms: Iterable[Term], node: NodeInfo) -> None:
    for term in terms:
        value = node.labels.get(term.topology_key)
        if value is not None:
            pair = (term.topology_key, value)
            counts[pair] = counts.get(pair, 0) + 1
