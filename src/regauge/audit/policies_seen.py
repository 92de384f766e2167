"""Admission policies of the input: which of them look at what, and whether anything follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.audit.ground import Ground, items, mapping
from regauge.model import Document

_GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = (_GROUP, "ValidatingAdmissionPolicy"), (_GROUP, "ValidatingAdmissionPolicyBinding")


def guards(ground: Ground, group: str, resource: str) -> tuple[Document, ...]:
    """Bound policies that deny and look at a resource. What they say of it is not judged."""
    bound = {
        str(mapping(one.object.get("spec")).get("policyName"))
        for one in ground.snapshot.documents(BINDING)
        if "Deny" in items(mapping(one.object.get("spec")).get("validationActions"))
    }
    return tuple(
        one
        for one in ground.snapshot.documents(POLICY)
        if one.name in bound and any(_looks(rule, group, resource) for rule in _rules(one))
    )


def are_known(ground: Ground) -> bool:
    """Whether it is known which policies there are: some are in the input, or a whole cluster was read."""
    unread = ground.given.unread
    return ground.has(POLICY) or (unread is not None and f"validatingadmissionpolicies.{_GROUP}" not in unread)


def _rules(policy: Document) -> Iterator[Mapping[str, Any]]:
    constraints = mapping(mapping(policy.object.get("spec")).get("matchConstraints"))
    yield from map(mapping, items(constraints.get("resourceRules")))


def _looks(rule: Mapping[str, Any], group: str, resource: str) -> bool:
    groups, resources = items(rule.get("apiGroups")), items(rule.get("resources"))
    return any(one in (group, "*") for one in groups) and any(one in (resource, "*", "*/*") for one in resources)
