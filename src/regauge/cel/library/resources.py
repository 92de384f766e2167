"""Quantities and semantic versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.values import QuantitySum
from regauge.model import Quantity, QuantityError, QuantityFormat, Semver, SemverError


def _text(value: object) -> str:
    if type(value) is not str:
        raise no_such_overload()
    return value


def _quantity(value: object) -> Quantity:
    if not isinstance(value, Quantity):
        raise no_such_overload()
    return value


def _semver(value: object) -> Semver:
    if type(value) is not Semver:
        raise no_such_overload()
    return value


def parse_quantity(text: object) -> Quantity:
    try:
        return Quantity.parse(_text(text))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(text: object) -> bool:
    try:
        Quantity.parse(_text(text))
    except QuantityError:
        return False
    return True


def _sum(operation: Callable[[Quantity, Quantity], Quantity]) -> Callable[[object, object], Quantity]:
    def total(left: object, right: object) -> Quantity:
        first = _quantity(left)
        second = Quantity.of(right, QuantityFormat.DECIMAL_EXPONENT) if type(right) is int else _quantity(right)
        try:
            result = operation(first, second)
        except QuantityError as error:
            raise EvaluationError(str(error)) from None
        return QuantitySum(*result.form)

    return total


def _as_integer(value: object) -> int:
    try:
        return _quantity(value).as_integer()
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _is_integer(value: object) -> bool:
    return _quantity(value).is_integer


def _as_float(value: object) -> float:
    return _quantity(value).approximate_float()


def _sign(value: object) -> int:
    return _quantity(value).sign


def compare_to(left: object, right: object) -> int:
    """-1, 0 or 1 for two quantities or two versions."""
    if type(left) is Semver:
        return left.cmp(_semver(right))
    return _quantity(left).cmp(_quantity(right))


def _greater(left: object, right: object) -> bool:
    return compare_to(left, right) > 0


def _less(left: object, right: object) -> bool:
    return compare_to(left, right) < 0


def parse_semver(text: object, *lenient: object) -> Semver:
    string = _text(text)
    if lenient and type(lenient[0]) is not bool:
        raise no_such_overload()
    try:
        return Semver.parse_lenient(string) if lenient and lenient[0] else Semver.parse(string)
    except SemverError as error:
        raise EvaluationError(str(error)) from None


def _is_semver(text: object, *lenient: object) -> bool:
    string = _text(text)
    if lenient and type(lenient[0]) is not bool:
        raise no_such_overload()
    try:
        parse_semver(string, *lenient)
    except EvaluationError:
        return False
    return True


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _major(value: object) -> int:
    return _wrapped(_semver(value).major)


def _minor(value: object) -> int:
    return _wrapped(_semver(value).minor)


def _patch(value: object) -> int:
    return _wrapped(_semver(value).patch)


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "quantity": parse_quantity,
    "isQuantity": _is_quantity,
    "add": _sum(Quantity.add),
    "sub": _sum(Quantity.sub),
    "asInteger": _as_integer,
    "isInteger": _is_integer,
    "asApproximateFloat": _as_float,
    "sign": _sign,
    "compareTo": compare_to,
    "isGreaterThan": _greater,
    "isLessThan": _less,
    "semver": parse_semver,
    "isSemver": _is_semver,
    "major": _major,
    "minor": _minor,
    "patch": _patch,
}
