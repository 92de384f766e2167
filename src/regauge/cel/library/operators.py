"""Arithmetic, order and membership."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.library.clock import add_times, negate_duration, subtract_times
from regauge.cel.values import (
    MAPS,
    DomainMap,
    Duration,
    Map,
    Timestamp,
    Uint,
    bounded_list,
    bounded_text,
    compare,
    surely_equal,
)

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1


def checked_int(number: int) -> int:
    """`number` if it is an int64."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def checked_uint(number: int) -> Uint:
    """`number` as a uint64."""
    if 0 <= number <= MAX_UINT:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def add(left: object, right: object) -> object:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return checked_int(left + right)  # type: ignore[operator]
        if kind is float:
            return left + right  # type: ignore[operator]
        if kind is str or kind is tuple or kind is bytes:
            (bounded_list if kind is tuple else bounded_text)(len(left) + len(right))  # type: ignore[arg-type]
            return left + right  # type: ignore[operator]
        if kind is Uint:
            return checked_uint(int(left) + int(right))  # type: ignore[call-overload]
    if isinstance(left, Duration | Timestamp):
        return add_times(left, right)
    raise no_such_overload()


def subtract(left: object, right: object) -> object:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return checked_int(left - right)  # type: ignore[operator]
        if kind is float:
            return left - right  # type: ignore[operator]
        if kind is Uint:
            return checked_uint(int(left) - int(right))  # type: ignore[call-overload]
    if isinstance(left, Duration | Timestamp):
        return subtract_times(left, right)
    raise no_such_overload()


def multiply(left: object, right: object) -> object:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return checked_int(left * right)  # type: ignore[operator]
        if kind is float:
            return left * right  # type: ignore[operator]
        if kind is Uint:
            return checked_uint(int(left) * int(right))  # type: ignore[call-overload]
    raise no_such_overload()


def divide(left: object, right: object) -> object:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint, float):
        raise no_such_overload()
    if kind is float:
        return _divide_floats(left, right)  # type: ignore[arg-type]
    if right == 0:
        raise EvaluationError("division by zero")
    if kind is Uint:
        return Uint(int(left) // int(right))  # type: ignore[call-overload]
    quotient: int = abs(left) // abs(right)  # type: ignore[arg-type]
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)  # type: ignore[operator]


def _divide_floats(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: object, right: object) -> object:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise no_such_overload()
    if right == 0:
        raise EvaluationError("modulus by zero")
    if kind is Uint:
        return Uint(int(left) % int(right))  # type: ignore[call-overload]
    if left == MIN_INT and right == -1:
        raise EvaluationError("integer overflow")
    rest: int = abs(left) % abs(right)  # type: ignore[arg-type]
    return rest if left >= 0 else -rest  # type: ignore[operator]


def negate(value: object) -> object:
    if type(value) is int:
        return checked_int(-value)
    if type(value) is float:
        return -value
    if isinstance(value, Duration):
        return negate_duration(value)
    raise no_such_overload()


def logical_not(value: object) -> bool:
    if type(value) is not bool:
        raise no_such_overload()
    return not value


def contains(element: object, container: object) -> bool:
    """The operator `in`: an element of a list, or a key of a map."""
    kind = type(container)
    if kind is tuple:
        return any(surely_equal(element, other) for other in container)  # type: ignore[attr-defined]
    if kind is DomainMap:
        return container.has(element)  # type: ignore[attr-defined, no-any-return]
    if kind in MAPS:
        return container.find(element)[0]  # type: ignore[attr-defined, no-any-return]
    raise no_such_overload()


def insert(target: object, *entry: object) -> Map:
    """The step of transformMap and transformMapEntry; a key that is there already is an error."""
    if type(target) not in MAPS:
        raise no_such_overload()
    assert isinstance(target, Map)
    if len(entry) == 2:
        return _insert(target, entry[0], entry[1])
    update = entry[0]
    if not isinstance(update, Map):
        raise no_such_overload()
    for key in update:
        target = _insert(target, key, update[key])
    return target


def _insert(target: Map, key: object, value: object) -> Map:
    if target.find(key)[0]:
        raise EvaluationError(f"insert failed: key {key} already exists")
    return target.with_entry(key, value)


def _less(left: object, right: object) -> bool:
    return compare(left, right) < 0


def _less_equal(left: object, right: object) -> bool:
    return compare(left, right) <= 0


def _greater(left: object, right: object) -> bool:
    return compare(left, right) > 0


def _greater_equal(left: object, right: object) -> bool:
    return compare(left, right) >= 0


_ZEROS: Final[Mapping[type, object]] = {int: 0, Uint: Uint(0), float: 0.0, Duration: Duration(0)}


def _sum(items: object) -> object:
    """The sum of a list of numbers or durations. An empty list tells no type, so its sum is 0."""
    if type(items) is not tuple:
        raise no_such_overload()
    result = _ZEROS.get(type(items[0]) if items else int)
    if result is None:
        raise no_such_overload()
    for item in items:
        result = add(result, item)
    return result


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": logical_not,
    "_<_": _less,
    "_<=_": _less_equal,
    "_>_": _greater,
    "_>=_": _greater_equal,
    "@in": contains,
    "sum": _sum,
    "cel.@mapInsert": insert,
}
