"""Which kinds the API server serves under which paths, and what it says of them in discovery."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from regauge.cluster.registry import has_status
from regauge.cluster.store import Store
from regauge.cluster.subresources import SCALE, SCALED
from regauge.model import KINDS, Kind, Object, Rules, find_kind
from regauge.model.kinds import (
    CORE_EVENT,
    CUSTOM_RESOURCE_DEFINITION,
    DEVICE_TAINT_RULE,
    EVENT,
    NAMESPACE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    SERVICE_ACCOUNT,
    WORKLOAD,
)

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
_VERSIONED = frozenset({RESOURCE_CLAIM.group, POD_GROUP.group})
_GATES = {WORKLOAD: "GenericWorkload", POD_GROUP: "GenericWorkload"}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_ALL = frozenset(
    {("", name) for name in ("pods", "replicationcontrollers", "services")}
    | {("apps", name) for name in ("daemonsets", "deployments", "replicasets", "statefulsets")}
    | {("batch", name) for name in ("cronjobs", "jobs")}
)
_SUBRESOURCES = {("", "pods"): (("binding", "Binding"), ("eviction", "Eviction"))}


def served_kinds(store: Store) -> tuple[Kind, ...]:
    """The kinds as they are stored: those of the table and those of the custom resource definitions."""
    return KINDS + tuple(kind for crd in store.list(CUSTOM_RESOURCE_DEFINITION) for kind in custom_kinds(crd))


class Catalog:
    """What one server serves: every kind in every version of this minor that is switched on.

    `versions` switches versions on and off as kube-apiserver's --runtime-config does: "GROUP/VERSION", "api/alpha",
    "api/beta" and "api/all". Kinds behind a feature gate need the gate too.
    """

    def __init__(self, store: Store, rules: Rules, versions: Mapping[str, bool] = MappingProxyType({})) -> None:
        self.store = store
        self._own = tuple(_own_kinds(rules, versions))
        self._found = {(kind.group, kind.version, kind.plural): kind for kind in self._own}

    def kinds(self) -> tuple[Kind, ...]:
        crds = self.store.list(CUSTOM_RESOURCE_DEFINITION)
        return self._own + tuple(kind for crd in crds for kind in custom_kinds(crd))

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind at a path, in the version of the path."""
        own = self._found.get((group, version, plural))
        if own is not None:
            return own
        crd = self.store.find(CUSTOM_RESOURCE_DEFINITION, ("", f"{plural}.{group}"))
        return next((kind for kind in custom_kinds(crd) if kind.version == version), None) if crd else None

    def group_versions(self) -> dict[str, list[str]]:
        """The versions of each group, the best first; the core group as ""."""
        found: dict[str, set[str]] = {}
        for kind in self.kinds():
            found.setdefault(kind.group, set()).add(kind.version)
        for group, _, _ in _REVIEWS:
            found.setdefault(group, {"v1"})
        return {group: sorted(found[group], key=_priority, reverse=True) for group in sorted(found, key=_place)}


_ORDER = (
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
)
_REVIEWS = (
    ("authentication.k8s.io", "SelfSubjectReview", False),
    ("authentication.k8s.io", "TokenReview", False),
    ("authorization.k8s.io", "LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "SubjectAccessReview", False),
)


def _place(group: str) -> tuple[int, str]:
    """Built-in groups come in the order in which upstream lists them, those of custom resources after them."""
    return (_ORDER.index(group) if group in _ORDER else len(_ORDER) if group else -1), group


def _own_kinds(rules: Rules, versions: Mapping[str, bool]) -> Iterator[Kind]:
    for kind in KINDS:
        if kind.group not in _VERSIONED or kind == PRIORITY_CLASS:
            yield kind
            continue
        for name, titles in rules.api.items():
            group, _, version = name.rpartition("/")
            gate = _GATES.get(kind)
            if group != kind.group or kind.kind not in titles or (gate and not rules.on(gate)):
                continue
            if _switched_on(name, version, versions, name in rules.served):
                yield replace(kind, version=version)


def _switched_on(name: str, version: str, versions: Mapping[str, bool], default: bool) -> bool:
    stage = "api/alpha" if "alpha" in version else "api/beta" if "beta" in version else "api/ga"
    for key in (name, stage, "api/all"):
        if key in versions:
            return versions[key]
    return default


def _priority(version: str) -> tuple[int, int, int, str]:
    """Stable before beta before alpha, and the newer first within each; names of another form come last."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return 0, 0, 0, version
    major, stage, number = found.groups()
    return {"alpha": 1, "beta": 2}.get(stage or "", 3), int(major), int(number or 0), ""


def stored_as(kind: Kind) -> Kind:
    """The kind under which objects of this kind are stored, whatever version they are served in."""
    if kind == EVENT:
        return CORE_EVENT
    if kind.group not in _VERSIONED:
        return kind
    return find_kind(kind.api_version, kind.kind) or kind


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


def api_versions(address: str) -> dict[str, Any]:
    """The versions of the core group, and under which address everybody reaches the server."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}] if address else []
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def api_group(group: str, versions: list[str]) -> dict[str, Any]:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def api_group_list(catalog: Catalog) -> dict[str, Any]:
    groups = [api_group(group, versions) for group, versions in catalog.group_versions().items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_resource_list(catalog: Catalog, group: str, version: str) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for kind in catalog.kinds():
        if (kind.group, kind.version) == (group, version):
            resources += _resources(kind)
    for review, title, namespaced in _REVIEWS:
        if (review, "v1") == (group, version):
            name = title.lower()
            entry = {"name": f"{name}s", "singularName": name, "namespaced": namespaced, "kind": title}
            resources.append({**entry, "verbs": ["create"]})
    resources.sort(key=lambda item: str(item["name"]))
    title = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": title, "resources": resources}


_STORED_IN = {DEVICE_TAINT_RULE: "v1alpha3", CUSTOM_RESOURCE_DEFINITION: "v1beta1"}


def _storage_hash(kind: Kind) -> str:
    """What clients compare to see whether the stored form has changed."""
    stored = stored_as(kind)
    text = f"{stored.group}/{_STORED_IN.get(stored, stored.version)}/{stored.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _resources(kind: Kind) -> list[dict[str, Any]]:
    singular = kind.kind.lower()
    verbs = [verb for verb in VERBS if not (kind == NAMESPACE and verb == "deletecollection")]
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs,
        "storageVersionHash": _storage_hash(kind),
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
    if kind == SERVICE_ACCOUNT:
        token = {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
        found.append({**under, "name": f"{kind.plural}/token", **token, "verbs": ["create"]})
    if kind == POD:
        found.append({**under, "name": "pods/log", "kind": kind.kind, "verbs": ["get"]})
    if kind in SCALED:
        target = {"group": SCALE.group, "version": SCALE.version, "kind": SCALE.kind}
        found.append({**under, "name": f"{kind.plural}/scale", **target, "verbs": ["get", "patch", "update"]})
    if has_status(kind):
        found.append({**under, "name": f"{kind.plural}/status", "kind": kind.kind, "verbs": ["get", "patch", "update"]})
    return found
