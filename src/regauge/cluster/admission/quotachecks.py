"""What makes a ResourceQuota invalid. Source: pkg/apis/core/validation of 1.36."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.cluster.admission.names import qualified_name_faults
from regauge.cluster.admission.pods import is_extended
from regauge.cluster.refusals import FieldError, invalid
from regauge.model import Object, Quantity

_COUNTS = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_AMOUNTS = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.storage",
        *(f"{side}.{name}" for side in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    }
)
_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_OPPOSITES = ({"Terminating", "NotTerminating"}, {"BestEffort", "NotBestEffort"})


def quota_errors(object_: Object) -> list[FieldError]:
    return list(_quota(object_.get("spec") or {}))


def _quota(spec: Object) -> Iterator[FieldError]:
    for name, value in sorted((spec.get("hard") or {}).items()):
        path = f"spec.hard[{name}]"
        yield from _name(path, name)
        amount = Quantity.from_document(value)
        if amount.sign < 0:
            yield invalid(path, str(amount), "must be greater than or equal to 0")
        if (name in _COUNTS or is_extended(name)) and amount.milli_value() % 1000:
            yield invalid(path, str(amount), "must be an integer")
    scopes = list(spec.get("scopes") or [])
    if any(scope not in _SCOPES for scope in scopes):
        yield invalid("spec.scopes", scopes, "unsupported scope")
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        yield invalid("spec.scopes", scopes, "conflicting scopes")


def _name(path: str, name: str) -> Iterator[FieldError]:
    faults = qualified_name_faults(name)
    for fault in faults:
        yield invalid(path, name, fault)
    pages = name.startswith(("hugepages-", "requests.hugepages-"))
    if "/" not in name and not (name in _COUNTS or name in _AMOUNTS or pages):
        if not faults and name != "storage":
            yield invalid(path, name, "must be a standard resource type or fully qualified")
        yield invalid(path, name, "must be a standard resource for quota")
