"""What makes a ConfigMap or a Secret invalid. Source: pkg/apis/core/validation of 1.36."""

from __future__ import annotations

from regauge.cluster.refusals import FieldError, forbidden_field, too_long
from regauge.model import Object

SIZE_LIMIT_BYTES = 1024 * 1024
_FIELDS = ("data", "binaryData")


def data_errors(object_: Object, old: Object | None) -> list[FieldError]:
    """How much it holds, and what may not change any more."""
    size = sum(len(str(value).encode()) for field in _FIELDS for value in (object_.get(field) or {}).values())
    errors = (
        [too_long("[]" if object_.get("kind") == "ConfigMap" else "data", SIZE_LIMIT_BYTES)]
        if size > SIZE_LIMIT_BYTES
        else []
    )
    if old is None or not old.get("immutable"):
        return errors
    if not object_.get("immutable"):
        errors.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
    for field in _FIELDS:
        if (object_.get(field) or {}) != (old.get(field) or {}):
            errors.append(forbidden_field(field, "field is immutable when `immutable` is set"))
    return errors
