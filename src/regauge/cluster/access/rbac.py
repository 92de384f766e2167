"""May this user do this? Roles, cluster roles and their bindings, as Kubernetes evaluates them. Pure.

Source: plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.cluster.access.identity import MASTERS, User
from regauge.cluster.store import Store
from regauge.model.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    """What is asked for: a verb on a resource, or on a path when `path` is set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def allowed(store: Store, user: User, action: Action) -> bool:
    """Whether any rule that reaches the user allows it. Members of system:masters may do everything."""
    return granting(store, user, action) is not None


def granting(store: Store, user: User, action: Action) -> str | None:
    """Which binding allows it, in upstream's words; "" for members of system:masters, None when nothing does."""
    if MASTERS in user.groups:
        return ""
    bindings = [(binding, "") for binding in store.list(CLUSTER_ROLE_BINDING)]
    if action.namespace:
        bindings += [(binding, action.namespace) for binding in store.list(ROLE_BINDING, action.namespace)]
    for binding, namespace in bindings:
        subject = next((item for item in binding.get("subjects") or () if _is(item, user, namespace)), None)
        if subject is not None and any(_matches(rule, action) for rule in _rules(store, binding, namespace)):
            return _granted(binding, namespace, subject)
    return None


def _granted(binding: Mapping[str, Any], namespace: str, subject: Mapping[str, Any]) -> str:
    title, reference = binding["metadata"]["name"], binding.get("roleRef") or {}
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    named = f"{title}/{namespace}" if namespace else title
    whom = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        whom = f"{whom}/{subject.get('namespace') or namespace}"
    role = f'{reference.get("kind")} "{reference.get("name")}"'
    return f'RBAC: allowed by {kind} "{named}" of {role} to {subject.get("kind")} "{whom}"'


def rules_for(store: Store, user: User, namespace: str) -> Iterator[Rule]:
    """The rules that reach a user in a namespace ("" for the whole cluster only)."""
    for binding in store.list(CLUSTER_ROLE_BINDING):
        if _reaches(binding, user, ""):
            yield from _rules(store, binding, "")
    if not namespace:
        return
    for binding in store.list(ROLE_BINDING, namespace):
        if _reaches(binding, user, namespace):
            yield from _rules(store, binding, namespace)


def _reaches(binding: Mapping[str, Any], user: User, namespace: str) -> bool:
    return any(_is(subject, user, namespace) for subject in binding.get("subjects") or ())


def _is(subject: Mapping[str, Any], user: User, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return bool(subject.get("name") == user.name)
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            return user.service_account == (subject.get("namespace") or namespace, subject.get("name"))
    return False


def _rules(store: Store, binding: Mapping[str, Any], namespace: str) -> Iterator[Rule]:
    reference = binding.get("roleRef") or {}
    name = reference.get("name", "")
    if reference.get("kind") == "ClusterRole":
        role = store.find(CLUSTER_ROLE, ("", name))
    else:
        role = store.find(ROLE, (namespace, name)) if namespace else None
    yield from cluster_role_rules(store, role)


def cluster_role_rules(store: Store, role: Mapping[str, Any] | None) -> list[Rule]:
    """The rules of a role; those of an aggregated role are gathered from the roles it selects."""
    if role is None:
        return []
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    if not selectors:
        return list(role.get("rules") or ())
    found: list[Rule] = []
    for other in store.list(CLUSTER_ROLE):
        labels = other["metadata"].get("labels") or {}
        if any((s.get("matchLabels") or {}).items() <= labels.items() and s.get("matchLabels") for s in selectors):
            found += other.get("rules") or ()
    return found


def _matches(rule: Rule, action: Action) -> bool:
    if not _has(rule.get("verbs"), action.verb):
        return False
    if action.path:
        return any(_path_matches(pattern, action.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), action.group)
        and _resource_matches(rule.get("resources") or (), action)
        and (not names or action.name in names)
    )


def _has(values: Any, wanted: str) -> bool:
    return bool(values) and ("*" in values or wanted in values)


def _resource_matches(resources: Any, action: Action) -> bool:
    if "*" in resources or action.full_resource in resources:
        return True
    return bool(action.subresource) and f"*/{action.subresource}" in resources


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))
