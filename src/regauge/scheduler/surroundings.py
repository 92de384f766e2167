"""What bears on scheduling besides pods, nodes and devices: namespaces, disruption budgets, and what groups pods.

Source: kube-scheduler framework/plugins/helper/spread.go, plugins/defaultpreemption of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regauge.model import Kind, LabelSelector, Object, ObjectMeta, View, matches_labels, view
from regauge.model.core import Pod
from regauge.model.kinds import (
    NAMESPACE,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    SERVICE,
    STATEFUL_SET,
)

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
SURROUNDING_KINDS = (
    NAMESPACE,
    SERVICE,
    REPLICATION_CONTROLLER,
    REPLICA_SET,
    STATEFUL_SET,
    POD_DISRUPTION_BUDGET,
)
_OWNERS = {(kind.api_version, kind.kind): kind for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)}


class _ByLabels(View, frozen=True):
    selector: dict[str, str] | None = None


class _BySelector(View, frozen=True):
    selector: LabelSelector | None = None


class _GroupsByLabels(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _ByLabels = _ByLabels()


class _GroupsBySelector(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _BySelector = _BySelector()


class BudgetStatus(View, frozen=True):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = {}


class Budget(View, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _BySelector = _BySelector()
    status: BudgetStatus = BudgetStatus()

    def covers(self, pod: Pod) -> bool:
        """Whether the budget guards the pod and has not yet given it up."""
        selector, labels = self.spec.selector, pod.metadata.labels or {}
        if selector is None or not (selector.match_labels or selector.match_expressions) or not labels:
            return False
        return (
            self.metadata.namespace == pod.metadata.namespace
            and matches_labels(selector, labels)
            and pod.metadata.name not in self.status.disrupted_pods
        )


class Surroundings:
    """All of these objects, kept up to date one by one."""

    def __init__(self) -> None:
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._budgets: dict[tuple[str, str], Budget] = {}
        self._groups: dict[Kind, dict[tuple[str, str], LabelSelector | None]] = {}

    def put(self, kind: Kind, object_: Object) -> None:
        """An object of one of `SURROUNDING_KINDS` came or changed. Raises `InputError` when it cannot be read."""
        metadata = object_["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if kind == NAMESPACE:
            self._namespaces[key[1]] = {NAMESPACE_NAME_LABEL: key[1], **(metadata.get("labels") or {})}
        elif kind == POD_DISRUPTION_BUDGET:
            self._budgets[key] = view(object_, Budget)
        else:
            self._groups.setdefault(kind, {})[key] = _selector(kind, object_)

    def drop(self, kind: Kind, namespace: str, name: str) -> None:
        """An object went; one that is not known is fine."""
        self._groups.get(kind, {}).pop((namespace, name), None)
        if kind == NAMESPACE:
            self._namespaces.pop(name, None)
        elif kind == POD_DISRUPTION_BUDGET:
            self._budgets.pop((namespace, name), None)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return self._namespaces.get(name, {NAMESPACE_NAME_LABEL: name})

    @property
    def budgets(self) -> Iterable[Budget]:
        """All disruption budgets, by namespace and name."""
        return (budget for _, budget in sorted(self._budgets.items()))

    def like(self, pod: Pod) -> LabelSelector | None:
        """The selector for pods like this one, by the Services and the owner it has; None when there are none."""
        labels = pod.metadata.labels or {}
        found = [
            selector
            for (namespace, _), selector in self._groups.get(SERVICE, {}).items()
            if namespace == pod.metadata.namespace and selector is not None and matches_labels(selector, labels)
        ]
        owner = next((item for item in pod.metadata.owner_references if item.controller), None)
        kind = _OWNERS.get((owner.api_version, owner.kind)) if owner else None
        if owner is not None and kind is not None:
            selector = self._groups.get(kind, {}).get((pod.metadata.namespace, owner.name))
            found += [selector] if selector is not None else []
        merged = LabelSelector(
            match_labels={key: value for item in found for key, value in item.match_labels.items()},
            match_expressions=tuple(expression for item in found for expression in item.match_expressions),
        )
        return merged if merged.match_labels or merged.match_expressions else None


def _selector(kind: Kind, object_: Object) -> LabelSelector | None:
    if kind in (SERVICE, REPLICATION_CONTROLLER):
        labels = view(object_, _GroupsByLabels).spec.selector
        return None if labels is None else LabelSelector(match_labels=labels)
    return view(object_, _GroupsBySelector).spec.selector
