"""Which kinds the API server serves under which paths, and what it says of them in discovery."""

from __future__ import annotations

from typing import Any

from regauge.cluster.registry import has_status
from regauge.cluster.store import Store
from regauge.cluster.subresources import SCALE, SCALED
from regauge.model import KINDS, Kind, Object
from regauge.model.kinds import CUSTOM_RESOURCE_DEFINITION, DEVICE_TAINT_RULE, NAMESPACE, POD

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SHORT_NAMES = {
    "configmaps": ["cm"],
    "customresourcedefinitions": ["crd", "crds"],
    "cronjobs": ["cj"],
    "daemonsets": ["ds"],
    "deployments": ["deploy"],
    "events": ["ev"],
    "limitranges": ["limits"],
    "namespaces": ["ns"],
    "nodes": ["no"],
    "persistentvolumeclaims": ["pvc"],
    "persistentvolumes": ["pv"],
    "poddisruptionbudgets": ["pdb"],
    "pods": ["po"],
    "priorityclasses": ["pc"],
    "replicasets": ["rs"],
    "replicationcontrollers": ["rc"],
    "resourcequotas": ["quota"],
    "serviceaccounts": ["sa"],
    "services": ["svc"],
    "statefulsets": ["sts"],
}
_NOT_SERVED = frozenset({(DEVICE_TAINT_RULE.group, DEVICE_TAINT_RULE.plural)})  # in 1.36 only before v1
_ALL = frozenset(
    {("", name) for name in ("pods", "replicationcontrollers", "services")}
    | {("apps", name) for name in ("daemonsets", "deployments", "replicasets", "statefulsets")}
    | {("batch", name) for name in ("cronjobs", "jobs")}
)
_SUBRESOURCES = {("", "pods"): (("binding", "Binding"), ("eviction", "Eviction"))}


def served_kinds(store: Store) -> tuple[Kind, ...]:
    """The kinds of the table and those of the custom resource definitions."""
    own = tuple(kind for kind in KINDS if (kind.group, kind.plural) not in _NOT_SERVED)
    return own + tuple(kind for crd in store.list(CUSTOM_RESOURCE_DEFINITION) for kind in custom_kinds(crd))


def custom_kinds(crd: Object) -> tuple[Kind, ...]:
    """The kinds that a custom resource definition makes known, one a served version."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    return tuple(
        Kind(spec.get("group", ""), version["name"], names.get("kind", ""), names.get("plural", ""), _namespaced(spec))
        for version in spec.get("versions") or []
        if version.get("served")
    )


def _namespaced(spec: Object) -> bool:
    return bool(spec.get("scope") == "Namespaced")


def find_served(store: Store, group: str, version: str, plural: str) -> Kind | None:
    for kind in served_kinds(store):
        if (kind.group, kind.version, kind.plural) == (group, version, plural):
            return kind
    return None


def group_versions(store: Store) -> dict[str, list[str]]:
    """The versions of each group, the core group as ""."""
    found: dict[str, list[str]] = {}
    for kind in served_kinds(store):
        versions = found.setdefault(kind.group, [])
        if kind.version not in versions:
            versions.append(kind.version)
    return found


def api_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_group(group: str, versions: list[str]) -> dict[str, Any]:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def api_group_list(store: Store) -> dict[str, Any]:
    groups = [api_group(group, versions) for group, versions in group_versions(store).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_resource_list(store: Store, group: str, version: str) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for kind in served_kinds(store):
        if (kind.group, kind.version) == (group, version):
            resources += _resources(kind)
    title = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": title, "resources": resources}


def _resources(kind: Kind) -> list[dict[str, Any]]:
    singular = kind.kind.lower()
    verbs = [verb for verb in VERBS if not (kind == NAMESPACE and verb == "deletecollection")]
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs,
    }
    if kind.plural in _SHORT_NAMES:
        entry["shortNames"] = _SHORT_NAMES[kind.plural]
    if (kind.group, kind.plural) in _ALL:
        entry["categories"] = ["all"]
    elif kind == CUSTOM_RESOURCE_DEFINITION:
        entry["categories"] = ["api-extensions"]
    under = {"singularName": "", "namespaced": kind.namespaced}
    found = [entry]
    for name, title in _SUBRESOURCES.get((kind.group, kind.plural), ()):
        found.append({**under, "name": f"{kind.plural}/{name}", "kind": title, "verbs": ["create"]})
    if kind == POD:
        found.append({**under, "name": "pods/log", "kind": kind.kind, "verbs": ["get"]})
    if kind in SCALED:
        target = {"group": SCALE.group, "version": SCALE.version, "kind": SCALE.kind}
        found.append({**under, "name": f"{kind.plural}/scale", **target, "verbs": ["get", "patch", "update"]})
    if has_status(kind):
        found.append({**under, "name": f"{kind.plural}/status", "kind": kind.kind, "verbs": ["get", "patch", "update"]})
    return found
