"""Who may do what, as far as RBAC objects in the input tell: bindings with the rules of their roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.audit.ground import Ground, items, mapping
from regauge.model import Document
from regauge.model.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING

WRITES = ("create", "update", "patch", "delete", "deletecollection")
_OPERATORS = ("system:", "kubeadm:", "eks:", "gke", "aks")
_OPERATOR_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, slots=True)
class Grant:
    """What one binding gives to one subject. `namespace` is "" for everywhere."""

    document: Document
    subject: str
    namespace: str
    role: str
    rules: tuple[Mapping[str, Any], ...]

    @property
    def everything(self) -> bool:
        """Whether all verbs on all resources of all groups are given."""
        return any(
            "*" in items(one.get("verbs")) and "*" in items(one.get("resources")) and "*" in items(one.get("apiGroups"))
            for one in self.rules
        )

    def may(self, verb: str, group: str, resource: str) -> bool:
        """Whether the verb on any object of the resource is given, as the RBAC authorizer decides it."""
        return any(
            _has(one, "verbs", verb)
            and _has(one, "apiGroups", group)
            and _has_resource(one, resource)
            and not items(one.get("resourceNames"))
            for one in self.rules
        )

    def writes(self, group: str, resource: str) -> tuple[str, ...]:
        """The writing verbs that are given."""
        return tuple(verb for verb in WRITES if self.may(verb, group, resource))

    @property
    def is_tenants(self) -> bool:
        """Whether the subject is none of the cluster's own parts and operators."""
        kind, _, name = self.subject.partition(" ")
        if kind == "ServiceAccount":
            return name.partition("/")[0] not in _OPERATOR_NAMESPACES
        if kind == "Group" and name in ("system:authenticated", "system:unauthenticated", "system:serviceaccounts"):
            return True
        return not name.startswith(_OPERATORS)


def grants(ground: Ground) -> tuple[Grant, ...]:
    """Every binding of the input for each of its subjects. One whose role is not in the input gives nothing here."""
    return tuple(_granted(ground))


def _granted(ground: Ground) -> Iterator[Grant]:
    roles = {
        (document.kind, document.namespace, document.name): _rules(document)
        for kind in (CLUSTER_ROLE, ROLE)
        for document in ground.snapshot.documents(kind)
    }
    for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING):
        for document in ground.snapshot.documents(kind):
            reference = mapping(document.object.get("roleRef"))
            role, name = str(reference.get("kind")), str(reference.get("name"))
            rules = roles.get((role, document.namespace if role == "Role" else "", name))
            for subject in map(mapping, items(document.object.get("subjects"))) if rules else ():
                yield Grant(document, _name(subject, document), document.namespace, f"{role} {name}", rules or ())


def _rules(document: Document) -> tuple[Mapping[str, Any], ...]:
    return tuple(mapping(one) for one in items(document.object.get("rules")))


def _name(subject: Mapping[str, Any], document: Document) -> str:
    kind, name = str(subject.get("kind")), str(subject.get("name"))
    if kind != "ServiceAccount":
        return f"{kind} {name}"
    return f"ServiceAccount {subject.get('namespace') or document.namespace}/{name}"


def _has(rule: Mapping[str, Any], field: str, wanted: str) -> bool:
    given = items(rule.get(field))
    return wanted in given or "*" in given


def _has_resource(rule: Mapping[str, Any], wanted: str) -> bool:
    given = items(rule.get("resources"))
    _, slash, part = wanted.partition("/")
    return wanted in given or "*" in given or (bool(slash) and f"*/{part}" in given)
