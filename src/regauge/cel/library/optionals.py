"""Optional values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.library.conversions import is_zero
from regauge.cel.values import NONE, Optional


def _optional(value: object) -> Optional:
    if not isinstance(value, Optional):
        raise no_such_overload()
    return value


def _of(value: object) -> Optional:
    return Optional(True, value)


def _of_non_zero(value: object) -> Optional:
    return NONE if is_zero(value) else Optional(True, value)


def _none() -> Optional:
    return NONE


def _value(value: object) -> object:
    optional = _optional(value)
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _has_value(value: object) -> bool:
    return _optional(value).present


def _unwrap(items: object) -> tuple[object, ...]:
    if type(items) is not tuple:
        raise no_such_overload()
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError(f"value {item} is not optional")
    return tuple(item.value for item in items if item.present)


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "optional.of": _of,
    "optional.ofNonZeroValue": _of_non_zero,
    "optional.none": _none,
    "value": _value,
    "hasValue": _has_value,
    "optional.unwrap": _unwrap,
    "unwrapOpt": _unwrap,
}
