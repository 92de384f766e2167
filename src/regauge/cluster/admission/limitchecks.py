"""What makes a LimitRange invalid. Source: pkg/apis/core/validation of 1.36."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regauge.cluster.refusals import FieldError, duplicate, invalid
from regauge.model import Object, Quantity

_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def _items(limit_range: Object) -> list[dict[str, Any]]:
    return list((limit_range.get("spec") or {}).get("limits") or [])


def _quantities(values: Any) -> dict[str, Quantity]:
    return {name: Quantity.from_document(value) for name, value in (values or {}).items()}


def range_errors(object_: Object) -> list[FieldError]:
    """What is wrong with a LimitRange."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(_items(object_)):
        path, type_ = f"spec.limits[{index}]", str(item.get("type") or "")
        if type_ not in _TYPES and "/" not in type_:
            errors.append(invalid(f"{path}.type", type_, "must be a standard limit type or fully qualified"))
        if type_ in seen:
            errors.append(duplicate(f"{path}.type", type_))
        seen.add(type_)
        errors += _inconsistent(path, item)
    return errors


def _inconsistent(path: str, item: Mapping[str, Any]) -> Iterator[FieldError]:
    low, high, default, request = (_quantities(item.get(name)) for name in ("min", "max", "default", "defaultRequest"))
    for name in sorted({*low, *high, *default, *request}):
        yield from _greater(f"{path}.min[{name}]", (low.get(name), "min value"), (high.get(name), "max value"), 0)
        asked = (request.get(name), "default request value")
        place = f"{path}.defaultRequest[{name}]"
        yield from _greater(place, (low.get(name), "min value"), asked, 1)
        yield from _greater(place, asked, (high.get(name), "max value"), 0)
        yield from _greater(place, asked, (default.get(name), "default limit value"), 0)
        given = (default.get(name), "default value")
        yield from _greater(f"{path}.default[{name}]", (low.get(name), "min value"), given, 0)
        yield from _greater(f"{path}.default[{name}]", given, (high.get(name), "max value"), 1)
    for name, ratio in sorted(_quantities(item.get("maxLimitRequestRatio")).items()):
        if ratio.milli_value() < 1000:
            yield invalid(f"{path}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1")


def _greater(
    path: str, less: tuple[Quantity | None, str], more: tuple[Quantity | None, str], shown: int
) -> Sequence[FieldError]:
    """An error when the first is greater than the second; `shown` says which of the two it names as wrong."""
    first, second = less[0], more[0]
    if first is None or second is None or first <= second:
        return ()
    value = (first, second)[shown]
    return (invalid(path, str(value), f"{less[1]} {first} is greater than {more[1]} {second}"),)
