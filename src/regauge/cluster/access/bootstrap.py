"""The roles and bindings that every cluster has at its start: cluster-admin, admin, edit, view, discovery, self reviews.

The rules cover the kinds that this cluster serves. Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy of 1.36.
"""

from __future__ import annotations

from typing import Any

from regauge.cluster.access.identity import AUTHENTICATED, MASTERS
from regauge.cluster.port import ClusterApi
from regauge.model import Kind
from regauge.model.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_CORE = ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "serviceaccounts", "services"]
_APPS = ["daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets"]
_NAMESPACED: tuple[tuple[str, list[str]], ...] = (
    ("", _CORE),
    ("apps", [*_APPS, "statefulsets/scale"]),
    ("batch", ["cronjobs", "jobs"]),
    ("policy", ["poddisruptionbudgets"]),
    ("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"]),
)
_LOOKED_AT: tuple[tuple[str, list[str]], ...] = (
    ("", ["events", "limitranges", "namespaces", "pods/log", "pods/status", "resourcequotas"]),
    ("apps", ["controllerrevisions", "deployments/status", "daemonsets/status", "statefulsets/status"]),
    ("resource.k8s.io", ["resourceclaims/status"]),
    ("events.k8s.io", ["events"]),
)
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"]
_HEALTH = ["/healthz", "/livez", "/readyz"]
_REVIEWS = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
_RBAC = "rbac.authorization.k8s.io"


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _view() -> list[dict[str, Any]]:
    return [_rule(group, names, _READ) for group, names in (*_NAMESPACED, *_LOOKED_AT)]


def _edit() -> list[dict[str, Any]]:
    more = [_rule("", ["secrets"], _READ + _WRITE), _rule("", ["pods/eviction"], ["create"])]
    return [*_view(), *(_rule(group, names, _WRITE) for group, names in _NAMESPACED), *more]


def _roles() -> dict[str, list[dict[str, Any]]]:
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    own = [_rule("authorization.k8s.io", _REVIEWS, ["create"])]
    who = [_rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"])]
    return {
        "cluster-admin": everything,
        "admin": [*_edit(), _rule(_RBAC, ["roles", "rolebindings"], _READ + _WRITE)],
        "edit": _edit(),
        "view": _view(),
        "system:basic-user": [*own, *who],
        "system:discovery": [{"nonResourceURLs": _DISCOVERY + _HEALTH, "verbs": ["get"]}],
        "system:public-info-viewer": [{"nonResourceURLs": [*_HEALTH, "/version", "/version/"], "verbs": ["get"]}],
    }


_BINDINGS = {
    "cluster-admin": MASTERS,
    "system:basic-user": AUTHENTICATED,
    "system:discovery": AUTHENTICATED,
    "system:public-info-viewer": AUTHENTICATED,
}
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def bootstrap_roles(api: ClusterApi) -> None:
    """Make what is missing; what somebody changed stays as it is."""
    for name, rules in _roles().items():
        _make(api, CLUSTER_ROLE, name, {"rules": rules})
    for name, group in _BINDINGS.items():
        subject = {"apiGroup": _RBAC, "kind": "Group", "name": group}
        reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        _make(api, CLUSTER_ROLE_BINDING, name, {"roleRef": reference, "subjects": [subject]})


def _make(api: ClusterApi, kind: Kind, name: str, content: dict[str, Any]) -> None:
    if api.find(kind, name) is None:
        api.create(kind, {"metadata": {"name": name, "labels": dict(_LABELS)}, **content})
