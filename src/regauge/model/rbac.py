"""Who may do what, by roles and their bindings, as the API server decides it. Pure.

Source: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation, pkg/apis/rbac/v1 (evaluation helpers) and
pkg/controller/clusterroleaggregation of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.model.documents import Document
from regauge.model.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from regauge.model.meta import LabelSelector, SelectorRequirement
from regauge.model.selectors import matches_labels
from regauge.model.snapshot import Snapshot

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ACCOUNTS = "system:serviceaccounts"
_ACCOUNT = "system:serviceaccount:"

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


@dataclass(frozen=True, slots=True)
class Who:
    """A caller by name and groups, all of them: nothing is added here."""

    name: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a binding names. `namespace` is that of a ServiceAccount."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def who(self) -> Who:
        """A caller that is this subject, with the groups that come with it, and nothing else."""
        if self.kind == "Group":
            return Who("", (self.name,) if self.name == UNAUTHENTICATED else (self.name, AUTHENTICATED))
        if self.kind == "ServiceAccount":
            return account(self.namespace, self.name)
        return Who(self.name, (AUTHENTICATED,))

    def is_(self, who: Who) -> bool:
        """Whether the caller is meant."""
        if self.kind == "User":
            return who.name == self.name
        if self.kind == "Group":
            return self.name in who.groups
        named = f"{_ACCOUNT}{self.namespace}:{self.name}"
        return self.kind == "ServiceAccount" and bool(self.namespace) and who.name == named


@dataclass(frozen=True, slots=True)
class Grant:
    """What one binding gives to one subject, in a namespace ("" is everywhere). `role` is its kind and name."""

    document: Document
    subject: Subject
    namespace: str
    role: str
    rules: tuple[Rule, ...]

    def allows(self, action: Action) -> bool:
        """Whether a rule of the role allows it where the binding reaches."""
        return self.reaches(action.namespace) and any(rule_allows(rule, action) for rule in self.rules)

    def reaches(self, namespace: str) -> bool:
        return self.namespace in ("", namespace)


class Rights:
    """All bindings of a snapshot with the rules of their roles."""

    def __init__(self, grants: Iterable[Grant], dangling: Iterable[Document]) -> None:
        self.grants = tuple(grants)
        self._of: dict[Subject, list[int]] = {}
        for place, one in enumerate(self.grants):
            self._of.setdefault(one.subject, []).append(place)
        self.dangling = tuple(dangling)
        """Bindings whose role is not in the input: what they give is not known."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Rights:
        """Everything that the bindings of a snapshot give."""
        roles = _roles(snapshot)
        grants: list[Grant] = []
        dangling: list[Document] = []
        for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING):
            for document in snapshot.documents(kind):
                reference = _mapping(document.object.get("roleRef"))
                role, name = str(reference.get("kind")), str(reference.get("name"))
                place = document.namespace if kind is ROLE_BINDING else ""
                reached = role == "ClusterRole" or (role == "Role" and kind is ROLE_BINDING)
                rules = roles.get((role, place if role == "Role" else "", name)) if reached else None
                if rules is None:
                    dangling.append(document)
                    continue
                grants += (
                    Grant(document, one, place, f"{role} {name}", rules) for one in subjects_of(document.object, place)
                )
        return cls(grants, dangling)

    def of_caller(self, who: Who) -> tuple[Grant, ...]:
        """What is given to a caller by name and groups, bindings of the cluster first."""
        parts = who.name.removeprefix(_ACCOUNT).split(":") if who.name.startswith(_ACCOUNT) else ()
        meant = [Subject("User", who.name), *(Subject("Group", name) for name in who.groups)]
        if len(parts) == 2:
            meant.append(Subject("ServiceAccount", parts[1], parts[0]))
        places = {place for subject in meant for place in self._of.get(subject, ())}
        return tuple(self.grants[place] for place in sorted(places))

    def granting(self, who: Who, action: Action) -> Grant | None:
        """The first grant by which the caller may, bindings of the cluster first; None when there is none."""
        return next((one for one in self.of_caller(who) if one.allows(action)), None)

    def allows(self, who: Who, action: Action) -> bool:
        """Whether the caller may. Members of system:masters may do everything."""
        return MASTERS in who.groups or self.granting(who, action) is not None

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Everybody whom a binding names, once, in order."""
        return tuple(dict.fromkeys(one.subject for one in self.grants))


def account(namespace: str, name: str) -> Who:
    """A service account as a caller, with the groups that the API server gives it."""
    return Who(f"{_ACCOUNT}{namespace}:{name}", (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED))


def subjects_of(binding: Mapping[str, Any], namespace: str) -> Iterator[Subject]:
    """Whom a binding names. An account without a namespace is one of the binding's; of a cluster's binding it is nobody."""
    for one in map(_mapping, _items(binding.get("subjects"))):
        kind = str(one.get("kind"))
        place = str(one.get("namespace") or namespace) if kind == "ServiceAccount" else ""
        yield Subject(kind, str(one.get("name")), place)


def rule_allows(rule: Rule, action: Action) -> bool:
    """Whether one rule allows an action, wherever it is bound."""
    if not _has(rule, "verbs", action.verb):
        return False
    if action.path:
        return any(_path_matches(str(one), action.path) for one in _items(rule.get("nonResourceURLs")))
    names = _items(rule.get("resourceNames"))
    return (
        _has(rule, "apiGroups", action.group)
        and _resource_matches(rule, action)
        and (not names or action.name in names)
    )


def gathered_rules(name: str, roles: Mapping[str, Mapping[str, Any]]) -> tuple[Rule, ...]:
    """The rules of a ClusterRole; those of an aggregated one are of the roles that it selects, as its controller sums up."""
    found: dict[str, None] = {}
    rules: list[Rule] = []
    todo = [name]
    while todo:
        one = todo.pop()
        if one in found or one not in roles:
            continue
        found[one] = None
        selectors = _items(_mapping(roles[one].get("aggregationRule")).get("clusterRoleSelectors"))
        if not selectors:
            rules += (_mapping(rule) for rule in _items(roles[one].get("rules")))
            continue
        chosen = (other for other, role in roles.items() if any(_selects(_mapping(s), role) for s in selectors))
        todo += sorted(chosen, reverse=True)
    return tuple(rules)


def _roles(snapshot: Snapshot) -> Mapping[tuple[str, str, str], tuple[Rule, ...]]:
    """Rules by kind, namespace and name. What the controller has summed up already is taken as it is."""
    found: dict[tuple[str, str, str], tuple[Rule, ...]] = {}
    for document in snapshot.documents(ROLE):
        found["Role", document.namespace, document.name] = tuple(map(_mapping, _items(document.object.get("rules"))))
    every = {document.name: document.object for document in snapshot.documents(CLUSTER_ROLE)}
    for name, role in every.items():
        stored = tuple(map(_mapping, _items(role.get("rules"))))
        found["ClusterRole", "", name] = stored or gathered_rules(name, every)
    return found


def _selects(selector: Mapping[str, Any], role: Mapping[str, Any]) -> bool:
    requirements = (_mapping(one) for one in _items(selector.get("matchExpressions")))
    typed = LabelSelector(
        match_labels=dict(_mapping(selector.get("matchLabels"))),
        match_expressions=tuple(
            SelectorRequirement(
                key=str(one.get("key")), operator=str(one.get("operator")), values=tuple(_items(one.get("values")))
            )
            for one in requirements
        ),
    )
    return matches_labels(typed, _mapping(_mapping(role.get("metadata")).get("labels")))


def _has(rule: Rule, field: str, wanted: str) -> bool:
    given = _items(rule.get(field))
    return "*" in given or wanted in given


def _resource_matches(rule: Rule, action: Action) -> bool:
    given = _items(rule.get("resources"))
    if "*" in given or action.full_resource in given:
        return True
    return bool(action.subresource) and f"*/{action.subresource}" in given


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
