"""Arithmetic, order and membership."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import AnyStr, Final

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.library.clock import add_times, negate_duration, subtract_times
from regauge.cel.values import (
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


def _join_lists(left: tuple[object, ...], right: tuple[object, ...]) -> tuple[object, ...]:
    bounded_list(len(left) + len(right))
    return left + right


def _join_texts(left: AnyStr, right: AnyStr) -> AnyStr:
    bounded_text(len(left) + len(right))
    return left + right


# By the class that both sides have.
_SUMS: Final[Mapping[type, Callable[..., object]]] = {
    int: lambda left, right: checked_int(left + right),
    Uint: lambda left, right: checked_uint(int(left) + int(right)),
    float: operator.add,
    str: _join_texts,
    bytes: _join_texts,
    tuple: _join_lists,
}
_DIFFERENCES: Final[Mapping[type, Callable[..., object]]] = {
    int: lambda left, right: checked_int(left - right),
    Uint: lambda left, right: checked_uint(int(left) - int(right)),
    float: operator.sub,
}
_PRODUCTS: Final[Mapping[type, Callable[..., object]]] = {
    int: lambda left, right: checked_int(left * right),
    Uint: lambda left, right: checked_uint(int(left) * int(right)),
    float: operator.mul,
}


def add(left: object, right: object) -> object:
    if type(left) is type(right) and (total := _SUMS.get(type(left))):
        return total(left, right)
    if isinstance(left, Duration | Timestamp):
        return add_times(left, right)
    raise no_such_overload()


def subtract(left: object, right: object) -> object:
    if type(left) is type(right) and (difference := _DIFFERENCES.get(type(left))):
        return difference(left, right)
    if isinstance(left, Duration | Timestamp):
        return subtract_times(left, right)
    raise no_such_overload()


def multiply(left: object, right: object) -> object:
    if type(left) is type(right) and (product := _PRODUCTS.get(type(left))):
        return product(left, right)
    raise no_such_overload()


def divide(left: object, right: object) -> object:
    if type(left) is float and type(right) is float:
        return _divide_floats(left, right)
    if type(left) is int and type(right) is int:
        return checked_int(_towards_zero(left, _divisor(right, "division by zero")))
    if type(left) is Uint and type(right) is Uint:
        return Uint(int(left) // _divisor(right, "division by zero"))
    raise no_such_overload()


def _divisor(number: int, complaint: str) -> int:
    if number == 0:
        raise EvaluationError(complaint)
    return number


def _towards_zero(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide_floats(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: object, right: object) -> object:
    if type(left) is Uint and type(right) is Uint:
        return Uint(int(left) % _divisor(right, "modulus by zero"))
    if type(left) is int and type(right) is int:
        rest = abs(left) % abs(_divisor(right, "modulus by zero"))
        if left == MIN_INT and right == -1:
            raise EvaluationError("integer overflow")
        return rest if left >= 0 else -rest
    raise no_such_overload()


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
    if isinstance(container, tuple):
        return any(surely_equal(element, other) for other in container)
    if isinstance(container, DomainMap):
        return container.has(element)
    if isinstance(container, Map):
        return container.find(element)[0]
    raise no_such_overload()


def insert(target: object, *entry: object) -> Map:
    """The step of transformMap and transformMapEntry; a key that is there already is an error."""
    if not isinstance(target, Map):
        raise no_such_overload()
    if len(entry) == 2:
        return _insert(target, entry[0], entry[1])
    update = entry[0]
    if not isinstance(update, Map):
        raise no_such_overload()
    for key, value in update.items():
        target = _insert(target, key, value)
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
