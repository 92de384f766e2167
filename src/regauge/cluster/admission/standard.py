"""The chain of admission as a cluster runs it: which check looks at which kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from regauge.base import InputError
from regauge.cluster.admission import pod_groups as groups
from regauge.cluster.admission import pods
from regauge.cluster.admission.bindings import binding_errors
from regauge.cluster.admission.chain import Admission
from regauge.cluster.admission.claims import ClaimRules, immutable_spec, immutable_template, status_errors
from regauge.cluster.admission.classes import one_default_priority, priority_class_errors, runtime_class_errors
from regauge.cluster.admission.customs import custom_errors, schema_of
from regauge.cluster.admission.datamaps import data_errors
from regauge.cluster.admission.eventchecks import event_errors
from regauge.cluster.admission.expressions import expression_checker
from regauge.cluster.admission.fields import conditions, items, opaque
from regauge.cluster.admission.gates import GatedFields
from regauge.cluster.admission.limitchecks import range_errors
from regauge.cluster.admission.limits import check_limits, limit_ranger
from regauge.cluster.admission.metadata import template_metadata_errors
from regauge.cluster.admission.nodes import node_errors
from regauge.cluster.admission.plugins import default_tolerations, priority, runtime_class
from regauge.cluster.admission.podstatus import status_errors as status_errors_of_pod
from regauge.cluster.admission.quota import check_quota
from regauge.cluster.admission.quotachecks import quota_errors
from regauge.cluster.admission.slices import slice_errors, taint_rule_errors
from regauge.cluster.admission.workloads import workload_errors
from regauge.cluster.refusals import FieldError, bad_request, forbidden_field, invalid
from regauge.cluster.registry import known
from regauge.cluster.store import Store
from regauge.model import Kind, Object, Rules, View, view
from regauge.model.core import Node, Pod, PodTemplateSpec
from regauge.model.kinds import NAMESPACE
from regauge.model.resource import (
    ADMIN_ACCESS_LABEL,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)

_CONFIG_LIMIT = 32
_WORKLOADS = frozenset({"deployments", "replicasets", "statefulsets", "daemonsets", "jobs"})
_READ_AS: dict[tuple[str, str], type[View]] = {
    ("", "pods"): Pod,
    ("", "nodes"): Node,
    ("resource.k8s.io", "resourceclaims"): ResourceClaim,
    ("resource.k8s.io", "resourceclaimtemplates"): ResourceClaimTemplate,
    ("resource.k8s.io", "resourceslices"): ResourceSlice,
    ("resource.k8s.io", "deviceclasses"): DeviceClass,
    ("resource.k8s.io", "devicetaintrules"): DeviceTaintRule,
}


_SIMPLE: dict[tuple[str, str], Callable[[Object, Object | None], list[FieldError]]] = {
    ("", "limitranges"): lambda object_, _old: range_errors(object_),
    ("", "resourcequotas"): lambda object_, _old: quota_errors(object_),
    ("", "configmaps"): data_errors,
    ("", "events"): event_errors,
    ("rbac.authorization.k8s.io", "rolebindings"): binding_errors,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): binding_errors,
    ("", "secrets"): data_errors,
    ("scheduling.k8s.io", "priorityclasses"): priority_class_errors,
    ("node.k8s.io", "runtimeclasses"): runtime_class_errors,
    ("scheduling.k8s.io", "workloads"): groups.workload_kind_errors,
}
_STAGED: dict[tuple[str, str], Callable[[Object, Object | None, str], list[FieldError]]] = {
    ("scheduling.k8s.io", "podgroups"): groups.pod_group_errors,
    ("resource.k8s.io", "resourcepoolstatusrequests"): groups.pool_request_errors,
}


@dataclass(frozen=True, slots=True)
class Validation:
    """The checks of every kind that has some. What has the wrong type ends in 400, as when upstream decodes."""

    claims: ClaimRules
    exact_steps: bool = False

    def __call__(
        self, store: Store, kind: Kind, object_: Object, old: Object | None, subresource: str
    ) -> list[FieldError]:
        type_ = _READ_AS.get((kind.group, kind.plural))
        if type_ is None:
            staged = _STAGED.get((kind.group, kind.plural))
            if staged is not None:
                return staged(object_, old, subresource)
            simple = _SIMPLE.get((kind.group, kind.plural))
            if simple is not None:
                return simple(object_, old)
            if not known(kind):
                schema = schema_of(store, kind)
                return custom_errors(schema, object_) if schema is not None else []
            if kind.group in ("apps", "batch") and kind.plural in _WORKLOADS and not subresource:
                return _workload(kind, object_, old)
            return []
        new_view = _typed(kind, object_, type_)
        old_view = None if old is None else _typed(kind, old, type_)
        match new_view:
            case Pod():
                return _pod(new_view, old_view, object_, old, subresource)
            case Node():
                return node_errors(new_view)
            case ResourceClaim():
                return self._claim(store, new_view, old_view, subresource)
            case ResourceClaimTemplate():
                return self._template(store, new_view, old_view, object_)
            case ResourceSlice():
                before = old_view.spec if isinstance(old_view, ResourceSlice) else None
                return slice_errors(new_view.spec, before, object_.get("spec") or {}, exact_steps=self.exact_steps)
            case DeviceClass():
                return self._class(new_view)
            case DeviceTaintRule() if subresource:
                return conditions("status.conditions", new_view.status.conditions, groups.CONDITIONS_LIMIT)
            case DeviceTaintRule():
                return taint_rule_errors(new_view.spec)
        return []

    def _claim(self, store: Store, new: ResourceClaim, old: View | None, subresource: str) -> list[FieldError]:
        if not isinstance(old, ResourceClaim):
            return self.claims.spec("spec", new.spec) + _admin_access(store, "spec", new.metadata.namespace, new.spec)
        if subresource == "status":
            deleting = new.metadata.deletion_timestamp is not None
            errors = status_errors(new.spec, old.status, new.status, deleting=deleting)
            return errors + _admin_results(store, new, old)
        return immutable_spec(old.spec, new.spec)

    def _template(
        self, store: Store, new: ResourceClaimTemplate, old: View | None, document: Object
    ) -> list[FieldError]:
        if isinstance(old, ResourceClaimTemplate):
            return immutable_template(old.spec, new.spec)
        errors = template_metadata_errors("spec.metadata", (document.get("spec") or {}).get("metadata") or {})
        errors += self.claims.spec("spec.spec", new.spec.spec)
        # The path of this one lacks a level: upstream hands the template's inner spec to the check of claims.
        return errors + _admin_access(store, "spec", new.metadata.namespace, new.spec.spec)

    def _class(self, new: DeviceClass) -> list[FieldError]:
        errors = self.claims.selectors("spec.selectors", new.spec.selectors)
        errors += items("spec.config", new.spec.config, _CONFIG_LIMIT, lambda path, item: opaque(path, item.opaque))
        name = new.spec.extended_resource_name
        if name is not None and not pods.is_extended(name):
            errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
        return errors


V = TypeVar("V", bound=View)


def _typed(kind: Kind, object_: Object, type_: type[V]) -> V:
    try:
        return view(object_, type_)
    except InputError as error:
        field = f" at {error.where.field}" if error.where.field else ""
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error.what}{field}'
        raise bad_request(text) from None


def _pod(new: Pod, old: View | None, document: Object, before: Object | None, subresource: str) -> list[FieldError]:
    if not isinstance(old, Pod) or before is None:
        return pods.pod_errors(new)
    if subresource == "status":
        return status_errors_of_pod(old, new)
    return pods.pod_errors(new) + pods.update_errors(before, document)


def _workload(kind: Kind, object_: Object, old: Object | None) -> list[FieldError]:
    spec = object_.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    new = _typed(kind, template if isinstance(template, dict) else {}, PodTemplateSpec)
    return workload_errors(kind, object_, old, new)


def _admin_results(store: Store, new: ResourceClaim, old: ResourceClaim) -> list[FieldError]:
    """Results of admin access are new only in a namespace that may have it."""
    results = new.status.allocation.devices.results if new.status.allocation else ()
    if old.status.allocation is not None or _may_administer(store, new.metadata.namespace):
        return []
    path = "status.allocation.devices.results"
    return [
        forbidden_field(f"{path}[{i}].adminAccess", _ADMIN_TEXT) for i, item in enumerate(results) if item.admin_access
    ]


_ADMIN_TEXT = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"


def _may_administer(store: Store, namespace: str) -> bool:
    found = store.find(NAMESPACE, ("", namespace))
    labels = ((found or {}).get("metadata") or {}).get("labels") or {}
    return bool(labels.get(ADMIN_ACCESS_LABEL) == "true")


def _admin_access(store: Store, path: str, namespace: str, spec: ResourceClaimSpec) -> list[FieldError]:
    asked = [i for i, request in enumerate(spec.devices.requests) if request.exactly and request.exactly.admin_access]
    if not asked or _may_administer(store, namespace):
        return []
    return [forbidden_field(f"{path}.devices.requests[{i}].adminAccess", _ADMIN_TEXT) for i in asked]


def standard_admission(rules: Rules) -> Admission:
    """Everything that upstream's default chain does and that decisions here depend on."""
    claims = ClaimRules(expression_checker(rules), rules.on("DRAConsumableCapacity"))
    return Admission(
        preparations=(
            GatedFields(rules).dropped,
            lambda kind, object_, _old: groups.group_defaults(rules, kind, object_),
        ),
        mutations=(limit_ranger, default_tolerations, priority, runtime_class, groups.admit_group(rules)),
        checks=(Validation(claims, exact_steps="api-zero-step-panics" not in rules.quirks),),
        gates=(one_default_priority, check_limits, check_quota, groups.check_template),
    )
