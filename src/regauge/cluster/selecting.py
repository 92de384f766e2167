"""Label and field selectors in their text form, as lists and watches take them.

Source: apimachinery pkg/labels and pkg/fields; the fields of each kind from its registry strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from regauge.base import InputError
from regauge.cluster.refusals import bad_request
from regauge.cluster.selectorfaults import selector_fault
from regauge.model import (
    Kind,
    Object,
    SelectorRequirement,
    matches_requirement,
    parse_label_selector,
    selector_parts,
)

Match = Callable[[Object], bool]

_METADATA = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_NEW_EVENT_FIELDS = (
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
)
_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): _POD_FIELDS,
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "events"): _EVENT_FIELDS,
    ("events.k8s.io", "events"): _NEW_EVENT_FIELDS,
    ("batch", "jobs"): ("status.successful",),
    ("resource.k8s.io", "resourceslices"): ("spec.nodeName", "spec.driver"),
}


def matcher(kind: Kind, label_selector: str = "", field_selector: str = "", more: tuple[str, ...] = ()) -> Match:
    """Whether an object is meant by both selectors. Raises `ApiError` 400 for a selector that cannot be read."""
    requirements = label_requirements(label_selector)
    fields = field_requirements(kind, field_selector, more)

    def match(object_: Object) -> bool:
        labels = object_["metadata"].get("labels") or {}
        return all(matches_requirement(item, labels) for item in requirements) and all(
            (_field(object_, name) == value) is equal for name, value, equal in fields
        )

    return match


def label_requirements(text: str) -> tuple[SelectorRequirement, ...]:
    """The requirements of a label selector. Raises `ApiError` 400 for one that cannot be read."""
    fault = selector_fault(text)
    if fault:
        raise bad_request(fault)
    try:
        return parse_label_selector(text)
    except InputError as error:
        raise bad_request(error.what) from None


def field_requirements(kind: Kind, text: str, more: tuple[str, ...] = ()) -> tuple[tuple[str, str, bool], ...]:
    """(field, value, whether equal) of a field selector. Only the fields that the kind offers may be named."""
    found = []
    offered = {*_METADATA, *more, *_FIELDS.get((kind.group, kind.plural), ())}
    if kind.plural in _OWN_NAME_ONLY:
        offered.discard("metadata.namespace")
    for part in selector_parts(text):
        equal = "!=" not in part
        name, sign, value = part.partition("!=") if not equal else part.partition("==" if "==" in part else "=")
        if not sign:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        name = name.strip()
        if name not in offered:
            raise bad_request(_unknown_field(kind, name, more))
        found.append((name, value.strip(), equal))
    return tuple(found)


def _unknown_field(kind: Kind, name: str, more: tuple[str, ...] = ()) -> str:
    """Kinds without fields of their own answer in other words than the rest."""
    if kind.plural in _OWN_NAME_ONLY:
        return f"field label not supported for {kind.api_version}, Kind={kind.kind}: {name}"
    if kind.plural == "jobs":
        return f'field label "{name}" not supported for {kind.kind}'
    if more or (kind.group, kind.plural) in _FIELDS:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _field(object_: Object, name: str) -> str:
    if name == "source":
        return str((object_.get("source") or {}).get("component") or object_.get("reportingComponent") or "")
    value: Any = object_
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return "false" if name in _BOOLEANS else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


_OWN_NAME_ONLY = frozenset({"resourceslices"})
_BOOLEANS = frozenset({"spec.unschedulable", "spec.hostNetwork"})
