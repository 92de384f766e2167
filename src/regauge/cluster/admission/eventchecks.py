"""What makes an Event invalid. Source: pkg/apis/core/validation/events.go of 1.36."""

from __future__ import annotations

from regauge.cluster.refusals import FieldError, invalid, required
from regauge.model import Object

_TYPES = ("Normal", "Warning")


def event_errors(object_: Object, old: Object | None) -> list[FieldError]:
    """An event is in the namespace of what it is about; one that names its reporter has to tell more."""
    about = (object_.get("involvedObject") or {}).get("namespace") or ""
    namespace = object_["metadata"]["namespace"]
    errors: list[FieldError] = []
    if about != namespace and (about or namespace not in ("default", "kube-system")):
        errors.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
    if old is None and object_.get("eventTime"):
        for field, name in (("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance")):
            if not object_.get(field):
                errors.append(required(name))
        errors += [required(field) for field in ("action", "reason") if not object_.get(field)]
        if object_.get("type") not in _TYPES:
            errors.append(invalid("type", object_.get("type") or "", f"has invalid value: {object_.get('type') or ''}"))
    return errors
