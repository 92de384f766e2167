"""Whose rights are to be judged, and what it takes to reach what decides about devices."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.ground import Ground, items
from regauge.model.rbac import Action, Grant, Subject

WRITES = ("create", "update", "patch", "delete", "deletecollection")
_OPERATORS = ("system:", "kubeadm:", "eks:", "gke", "aks")
_OPERATOR_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
_ACCOUNTS_OF = "system:serviceaccounts:"
_EVERYBODY = ("system:authenticated", "system:unauthenticated", "system:serviceaccounts", "system:anonymous")


def is_tenant(ground: Ground, subject: Subject) -> bool:
    """Whether a subject is none of the cluster's own parts and operators, and none that the owner's policy names."""
    if str(subject) in ground.given.policy.operators:
        return False
    if subject.kind == "ServiceAccount":
        return subject.namespace not in _OPERATOR_NAMESPACES
    if subject.name.startswith("system:serviceaccount:"):
        return subject.name.split(":")[2] not in _OPERATOR_NAMESPACES
    if subject.kind == "Group" and subject.name.startswith(_ACCOUNTS_OF):
        return subject.name.removeprefix(_ACCOUNTS_OF) not in _OPERATOR_NAMESPACES
    return subject.name in _EVERYBODY or not subject.name.startswith(_OPERATORS)


def gives_everything(grant: Grant) -> bool:
    """Whether all verbs on all resources of all groups are given."""
    return any(
        "*" in items(one.get("verbs"))
        and "*" in items(one.get("resources"))
        and "*" in items(one.get("apiGroups"))
        and not items(one.get("resourceNames"))
        for one in grant.rules
    )


def tenants(ground: Ground, own: frozenset[Subject] = frozenset()) -> Iterator[Grant]:
    """What is given to subjects that are neither the cluster's own nor in `own`, short of everything."""
    for grant in ground.rights.grants:
        if is_tenant(ground, grant.subject) and grant.subject not in own and not gives_everything(grant):
            yield grant


def may_some(grant: Grant, verb: str, group: str, resource: str, namespace: str = "") -> bool:
    """Whether the verb is given on an object of the resource, be it on one name only. `resource` may have a part after /."""
    kind, _, part = resource.partition("/")
    names = {"", *(str(name) for rule in grant.rules for name in items(rule.get("resourceNames")))}
    return any(grant.allows(Action(verb, group, kind, part, namespace, name)) for name in names)


def writes(grant: Grant, group: str, resource: str, namespace: str = "") -> tuple[str, ...]:
    """The writing verbs that are given on objects of a resource, be it on some names only."""
    return tuple(verb for verb in WRITES if may_some(grant, verb, group, resource, namespace))
