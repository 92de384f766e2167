"""May this user do this? The roles and bindings of the store, evaluated by `regauge.model.rbac`. Pure.

Source: plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.cluster.access.identity import MASTERS, User
from regauge.cluster.store import Store
from regauge.model.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from regauge.model.rbac import Action, Rule, Subject, Who, gathered_rules, rule_allows, subjects_of


def allowed(store: Store, user: User, action: Action) -> bool:
    """Whether any rule that reaches the user allows it. Members of system:masters may do everything."""
    return granting(store, user, action) is not None


def granting(store: Store, user: User, action: Action) -> str | None:
    """Which binding allows it, in upstream's words; "" for members of system:masters, None when nothing does."""
    if MASTERS in user.groups:
        return ""
    for binding, namespace, subject in _bindings(store, user, action.namespace):
        if any(rule_allows(rule, action) for rule in _rules(store, binding, namespace)):
            return _granted(binding, namespace, subject)
    return None


def _granted(binding: Mapping[str, Any], namespace: str, subject: Subject) -> str:
    title, reference = binding["metadata"]["name"], binding.get("roleRef") or {}
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    named = f"{title}/{namespace}" if namespace else title
    whom = f"{subject.name}/{subject.namespace}" if subject.kind == "ServiceAccount" else subject.name
    role = f'{reference.get("kind")} "{reference.get("name")}"'
    return f'RBAC: allowed by {kind} "{named}" of {role} to {subject.kind} "{whom}"'


def rules_for(store: Store, user: User, namespace: str) -> Iterator[Rule]:
    """The rules that reach a user in a namespace ("" for the whole cluster only)."""
    for binding, place, _ in _bindings(store, user, namespace):
        yield from _rules(store, binding, place)


def _bindings(store: Store, user: User, namespace: str) -> Iterator[tuple[Mapping[str, Any], str, Subject]]:
    """Bindings that reach a user, those of the cluster first: (binding, its namespace, who is meant)."""
    who = Who(user.name, user.groups)
    found = [(binding, "") for binding in store.list(CLUSTER_ROLE_BINDING)]
    if namespace:
        found += [(binding, namespace) for binding in store.list(ROLE_BINDING, namespace)]
    for binding, place in found:
        subject = next((one for one in subjects_of(binding, place) if one.is_(who)), None)
        if subject is not None:
            yield binding, place, subject


def _rules(store: Store, binding: Mapping[str, Any], namespace: str) -> tuple[Rule, ...]:
    reference = binding.get("roleRef") or {}
    name = str(reference.get("name", ""))
    if reference.get("kind") != "ClusterRole":
        role = store.find(ROLE, (namespace, name)) if namespace else None
        return tuple((role or {}).get("rules") or ())
    one = store.find(CLUSTER_ROLE, ("", name))
    if one is None or not (one.get("aggregationRule") or {}).get("clusterRoleSelectors"):
        return tuple((one or {}).get("rules") or ())
    return gathered_rules(name, {role["metadata"]["name"]: role for role in store.list(CLUSTER_ROLE)})
