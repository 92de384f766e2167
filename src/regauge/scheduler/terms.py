"""The terms of pod affinity, prepared for matching. Source: kube-scheduler framework.AffinityTerm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from regauge.model import LabelSelector, SelectorRequirement, matches_labels
from regauge.model.core import Affinity, Pod, PodAffinity, PodAffinityTerm

Labels = Mapping[str, str]
NamespaceLabels = Callable[[str], Labels]


@dataclass(frozen=True, slots=True)
class Term:
    """Which pods a term means, and by which label their nodes are grouped."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    weight: int = 0

    def matches(self, namespace: str, labels: Labels, namespace_labels: NamespaceLabels) -> bool:
        """Whether a pod with these labels in this namespace is meant."""
        if namespace not in self.namespaces and (
            self.namespace_selector is None or not matches_labels(self.namespace_selector, namespace_labels(namespace))
        ):
            return False
        return matches_labels(self.selector, labels)


@dataclass(frozen=True, slots=True)
class PodTerms:
    """All terms of one pod."""

    need: tuple[Term, ...] = ()
    avoid: tuple[Term, ...] = ()
    like: tuple[Term, ...] = ()
    dislike: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.need or self.avoid or self.like or self.dislike)


NO_TERMS = PodTerms()


def with_label_keys(
    selector: LabelSelector | None, keys: tuple[str, ...], labels: Labels, operator: str = "In"
) -> LabelSelector | None:
    """The selector with the pod's own values of `keys` added, as matchLabelKeys and mismatchLabelKeys ask."""
    added = tuple(
        SelectorRequirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels
    )
    if not added or selector is None:
        return selector
    return LabelSelector(match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *added))


def _term(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> Term:
    labels = pod.metadata.labels or {}
    selector = with_label_keys(term.label_selector, term.match_label_keys, labels)
    selector = with_label_keys(selector, term.mismatch_label_keys, labels, "NotIn")
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset({pod.metadata.namespace})
    return Term(term.topology_key, selector, namespaces, term.namespace_selector, weight)


def _terms(pod: Pod, affinity: PodAffinity | None) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    if affinity is None:
        return (), ()
    hard = tuple(_term(pod, item) for item in affinity.required)
    soft = tuple(_term(pod, item.pod_affinity_term, item.weight) for item in affinity.preferred)
    return hard, soft


def pod_terms(pod: Pod) -> PodTerms:
    """The terms of a pod, its own namespace and label values filled in."""
    affinity: Affinity | None = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    need, like = _terms(pod, affinity.pod_affinity)
    avoid, dislike = _terms(pod, affinity.pod_anti_affinity)
    return replace(NO_TERMS, need=need, avoid=avoid, like=like, dislike=dislike)
