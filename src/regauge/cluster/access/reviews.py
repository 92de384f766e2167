"""The questions that clients ask about access: who am I, may I, what may I, may they. Pure.

Source: pkg/registry/authorization and pkg/registry/authentication of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.cluster.access.identity import MASTERS, User, authenticated
from regauge.cluster.access.rbac import Action, allowed, rules_for
from regauge.cluster.refusals import bad_request
from regauge.cluster.store import Store
from regauge.model import Object

REVIEWS: Mapping[tuple[str, str], tuple[str, bool]] = {
    ("authentication.k8s.io", "selfsubjectreviews"): ("SelfSubjectReview", False),
    ("authorization.k8s.io", "localsubjectaccessreviews"): ("LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "selfsubjectrulesreviews"): ("SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "subjectaccessreviews"): ("SubjectAccessReview", False),
}


def reviewed(store: Store, user: User, group: str, plural: str, body: Object) -> Object:
    """The review with its answer in the status."""
    kind, _ = REVIEWS[group, plural]
    spec = body.get("spec") or {}
    head = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}}
    match plural:
        case "selfsubjectreviews":
            info: Object = {"username": user.name, "groups": list(user.groups)}
            return {**head, "status": {"userInfo": {**info, **({"uid": user.uid} if user.uid else {})}}}
        case "selfsubjectaccessreviews":
            return {**head, "spec": spec, "status": _decision(store, user, spec)}
        case "selfsubjectrulesreviews":
            return {**head, "spec": spec, "status": _rules(store, user, str(spec.get("namespace") or ""))}
    asked = authenticated(str(spec.get("user") or ""), list(spec.get("groups") or ()), str(spec.get("uid") or ""))
    asked = User(asked.name, tuple(spec.get("groups") or ()), asked.uid)
    return {**head, "spec": spec, "status": _decision(store, asked, spec)}


def _decision(store: Store, user: User, spec: Mapping[str, Any]) -> Object:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        raise bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    if path is not None:
        action = Action(str(path.get("verb") or ""), path=str(path.get("path") or "/"))
    else:
        told = {key: str((resource or {}).get(key) or "") for key in ("verb", "group", "resource", "subresource")}
        more = {key: str((resource or {}).get(key) or "") for key in ("namespace", "name")}
        action = Action(**told, **more)
    return {"allowed": True} if allowed(store, user, action) else {"allowed": False}


def _rules(store: Store, user: User, namespace: str) -> Object:
    rules = list(rules_for(store, user, namespace))
    if MASTERS in user.groups:
        rules.append({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    resources = [
        {key: list(rule[key]) for key in ("verbs", "apiGroups", "resources", "resourceNames") if rule.get(key)}
        for rule in rules
        if rule.get("resources")
    ]
    paths = [
        {"verbs": list(rule["verbs"]), "nonResourceURLs": list(rule["nonResourceURLs"])}
        for rule in rules
        if rule.get("nonResourceURLs")
    ]
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
