"""What makes a PriorityClass or a RuntimeClass invalid. Source: pkg/apis/{scheduling,node}/validation of 1.36."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.cluster.admission.names import label_faults, qualified_name_faults
from regauge.cluster.refusals import (
    FieldError,
    duplicate,
    forbidden,
    forbidden_field,
    invalid,
    required,
    unsupported_value,
)
from regauge.cluster.store import Store
from regauge.model import Kind, Object, Quantity
from regauge.model.kinds import PRIORITY_CLASS

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_POLICIES = ("PreemptLowerPriority", "Never")


def priority_class_errors(object_: Object, old: Object | None) -> list[FieldError]:
    return list(_priority_class(object_) if old is None else _priority_class_update(object_, old))


def _priority_class(object_: Object) -> Iterator[FieldError]:
    name, value = object_["metadata"]["name"], object_.get("value") or 0
    if name.startswith("system-") and SYSTEM_PRIORITIES.get(name) != value:
        text = "priority class names with 'system-' prefix are reserved for system use only. error:"
        known = "is not a known system priority class" if name not in SYSTEM_PRIORITIES else "has another value"
        yield forbidden_field("metadata.name", f"{text} {name} {known}")
    if value > HIGHEST_USER_PRIORITY and name not in SYSTEM_PRIORITIES:
        text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden_field("value", text)
    policy = object_.get("preemptionPolicy")
    if policy is not None and policy not in _POLICIES:
        yield unsupported_value("preemptionPolicy", policy, _POLICIES)


def _priority_class_update(object_: Object, old: Object) -> Iterator[FieldError]:
    if (object_.get("value") or 0) != (old.get("value") or 0):
        yield forbidden_field("value", "may not be changed in an update.")
    if object_.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", object_.get("preemptionPolicy"), "field is immutable")


def one_default_priority(store: Store, kind: Kind, object_: Object, _old: Object | None, _subresource: str) -> None:
    """Raises `Forbidden` when another class is the default already."""
    if kind != PRIORITY_CLASS or not object_.get("globalDefault"):
        return
    name = object_["metadata"]["name"]
    for other in store.list(PRIORITY_CLASS):
        title = other["metadata"]["name"]
        if other.get("globalDefault") and title != name:
            text = f"PriorityClass {title} is already marked as default. Only one default can exist"
            raise forbidden(PRIORITY_CLASS, name, text)


def runtime_class_errors(object_: Object, old: Object | None) -> list[FieldError]:
    return list(_runtime_class(object_, old))


def _runtime_class(object_: Object, old: Object | None) -> Iterator[FieldError]:
    handler = object_.get("handler") or ""
    if old is not None and handler != (old.get("handler") or ""):
        yield invalid("handler", handler, "field is immutable")
    if not handler:
        yield required("handler")
    else:
        for fault in label_faults(handler):
            yield invalid("handler", handler, fault)
    for name, value in sorted(((object_.get("overhead") or {}).get("podFixed") or {}).items()):
        amount = Quantity.from_document(value)
        if amount.sign < 0:
            yield invalid(f"overhead.limits[{name}]", str(amount), "must be greater than or equal to 0")
    yield from _scheduling(object_.get("scheduling") or {})


def _scheduling(scheduling: Object) -> Iterator[FieldError]:
    for name in sorted(scheduling.get("nodeSelector") or {}):
        for fault in qualified_name_faults(name):
            yield invalid("scheduling.nodeSelector", name, fault)
    seen: list[Object] = []
    for number, item in enumerate(scheduling.get("tolerations") or []):
        if item in seen:
            yield duplicate(f"scheduling.tolerations[{number}]", _go_toleration(item))
        seen.append(item)


def _go_toleration(item: Object) -> Object:
    """A toleration with all of its fields, as Go prints it."""
    fields = {name.title(): item.get(name) or "" for name in ("key", "operator", "value", "effect")}
    return {**fields, "TolerationSeconds": item.get("tolerationSeconds")}
