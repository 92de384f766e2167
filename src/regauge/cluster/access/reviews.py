"""The questions that clients ask about access: who am I, may I, what may I, may they. Pure.

Source: pkg/registry/authorization and pkg/registry/authentication of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.cluster.access.identity import MASTERS, User, authenticated
from regauge.cluster.access.rbac import granting, rules_for
from regauge.cluster.access.tokens import ISSUER, AccountTokens
from regauge.cluster.refusals import FieldError, invalid, invalid_object
from regauge.cluster.store import Store
from regauge.model import Kind, Object
from regauge.model.rbac import Action

REVIEWS: Mapping[tuple[str, str], tuple[str, bool]] = {
    ("authentication.k8s.io", "selfsubjectreviews"): ("SelfSubjectReview", False),
    ("authentication.k8s.io", "tokenreviews"): ("TokenReview", False),
    ("authorization.k8s.io", "localsubjectaccessreviews"): ("LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "selfsubjectrulesreviews"): ("SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "subjectaccessreviews"): ("SubjectAccessReview", False),
}


def reviewed(
    store: Store, user: User, group: str, plural: str, body: Object, tokens: AccountTokens | None = None
) -> Object:
    """The review with its answer in the status."""
    kind, _ = REVIEWS[group, plural]
    spec = body.get("spec") or {}
    info: Object
    head = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}}
    match plural:
        case "selfsubjectreviews":
            info = {"username": user.name, "groups": list(user.groups)}
            extra = {"authentication.kubernetes.io/credential-id": [user.credential]} if user.credential else {}
            info |= {key: item for key, item in (("uid", user.uid), ("extra", extra)) if item}
            return {**head, "status": {"userInfo": info}}
        case "tokenreviews":
            found = None if tokens is None else tokens.user(store, str(spec.get("token") or ""))
            if found is None:
                return {**head, "spec": spec, "status": {"user": {}, "error": "invalid bearer token"}}
            info = {"username": found.name, "uid": found.uid, "groups": list(found.groups)}
            return {**head, "spec": spec, "status": {"authenticated": True, "user": info, "audiences": [ISSUER]}}
        case "selfsubjectaccessreviews":
            _check_spec(spec, ())
            return {**head, "spec": spec, "status": _decision(store, user, spec)}
        case "selfsubjectrulesreviews":
            return {**head, "spec": {}, "status": _rules(store, user, str(spec.get("namespace") or ""))}
    namespace = str((body.get("metadata") or {}).get("namespace") or "") if REVIEWS[group, plural][1] else None
    _check_spec(spec, ("user",), namespace)
    asked = authenticated(str(spec.get("user") or ""), list(spec.get("groups") or ()), str(spec.get("uid") or ""))
    asked = User(asked.name, tuple(spec.get("groups") or ()), asked.uid)
    return {**head, "spec": spec, "status": _decision(store, asked, spec)}


_NAMELESS = Kind("authorization.k8s.io", "v1", "", "")
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def _check_spec(spec: Mapping[str, Any], wanted: tuple[str, ...], namespace: str | None = None) -> None:
    """Raises `Invalid` for a question that asks about nothing, about too much, or for nobody."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: list[FieldError] = []
    if resource is None and path is None:
        errors.append(invalid("spec.resourceAttributes", None, _ONE_OF))
    elif resource is not None and path is not None:
        errors.append(
            invalid("spec.nonResourceAttributes", path, "cannot be specified in combination with resourceAttributes")
        )
    if wanted and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    if namespace is not None and (resource or {}).get("namespace") != namespace:
        told = (resource or {}).get("namespace") or ""
        errors.append(invalid("spec.resourceAttributes.namespace", told, "must match metadata.namespace"))
    if errors:
        raise invalid_object(_NAMELESS, "", errors)


def _decision(store: Store, user: User, spec: Mapping[str, Any]) -> Object:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if path is not None:
        action = Action(str(path.get("verb") or ""), path=str(path.get("path") or "/"))
    else:
        told = {key: str((resource or {}).get(key) or "") for key in ("verb", "group", "resource", "subresource")}
        more = {key: str((resource or {}).get(key) or "") for key in ("namespace", "name")}
        action = Action(**told, **more)
    reason = granting(store, user, action)
    return {"allowed": False} if reason is None else {"allowed": True, **({"reason": reason} if reason else {})}


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
