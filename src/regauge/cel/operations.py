"""Calls, logic, equality and literals as functions of the frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from regauge.cel.errors import BudgetExceeded, EvaluationError, no_such_overload
from regauge.cel.frames import Frame, Step
from regauge.cel.values import Map, Optional, compare, equal, map_key


def raising(text: str) -> Callable[..., object]:
    """A function that always fails with this text."""

    def fail(*args: object) -> object:
        raise EvaluationError(text)

    return fail


def apply(implementation: Callable[..., object], steps: Sequence[Step]) -> Step:
    """A strict call."""
    if len(steps) == 1:
        (only,) = steps
        return lambda frame: implementation(only(frame))
    if len(steps) == 2:
        first, second = steps
        return lambda frame: implementation(first(frame), second(frame))
    return lambda frame: implementation(*[step(frame) for step in steps])


def constant_call(implementation: Callable[..., object], values: Sequence[object]) -> Step:
    """A call whose arguments are all constant: its result, or its error, is worked out once."""
    try:
        value = implementation(*values)
    except EvaluationError as error:
        return raising(error.text)
    except BudgetExceeded:
        return lambda frame: implementation(*values)
    return lambda frame: value


def _bool(value: object) -> bool:
    if value is True or value is False:
        return value
    raise no_such_overload()


def conjunction(left: Step, right: Step) -> Step:
    """`&&`: False on either side wins, also over an error on the other."""
    return _decided_by(False, left, right)


def disjunction(left: Step, right: Step) -> Step:
    """`||`: True on either side wins, also over an error on the other."""
    return _decided_by(True, left, right)


def _decided_by(winner: bool, left: Step, right: Step) -> Step:
    other = not winner

    def run(frame: Frame) -> object:
        try:
            value = left(frame)
            if value is winner:
                return winner
            if value is not other:
                raise no_such_overload()
        except EvaluationError:
            try:
                if right(frame) is winner:
                    return winner
            except EvaluationError:
                pass
            raise
        value = right(frame)
        if value is True or value is False:
            return value
        raise no_such_overload()

    return run


def conditional(test: Step, if_true: Step, if_false: Step) -> Step:
    """`test ? if_true : if_false`."""

    def run(frame: Frame) -> object:
        return if_true(frame) if _bool(test(frame)) else if_false(frame)

    return run


def or_else(value: Step, other: Step, optional: bool, lenient: bool) -> Step:
    """`value.or(other)` and `value.orValue(other)`: the other side only if it is needed.

    `lenient`: what is no optional stands for itself.
    """

    def run(frame: Frame) -> object:
        found = value(frame)
        if type(found) is Optional:
            if not found.present:
                return other(frame)
            return found if optional else found.value
        if lenient:
            return found
        raise no_such_overload()

    return run


def equality(left: Step, right: Step, text: str | None, right_constant: bool) -> Step:
    """`==`. `text` is the side that is constant text, if one is."""
    if text is None:
        return lambda frame: equal(left(frame), right(frame))
    if not right_constant:
        return lambda frame: equal(text, right(frame))

    def run(frame: Frame) -> bool:
        value = left(frame)
        return value == text if type(value) is str else equal(value, text)

    return run


def inequality(left: Step, right: Step, text: str | None, right_constant: bool) -> Step:
    """`!=`: an error of the comparison itself makes the sides different."""

    def run(frame: Frame) -> bool:
        first, second = left(frame), right(frame)
        try:
            return not equal(first, second)
        except EvaluationError:
            return True

    return run


_ORDER_TESTS: Final[dict[str, Callable[[int], bool]]] = {
    "_<_": lambda sign: sign < 0,
    "_<=_": lambda sign: sign <= 0,
    "_>_": lambda sign: sign > 0,
    "_>=_": lambda sign: sign >= 0,
}


def order(function: str, left: Step, right: Step) -> Step:
    """One of the four comparisons."""
    test = _ORDER_TESTS[function]
    return lambda frame: test(compare(left(frame), right(frame)))


def list_literal(elements: Sequence[Step], optionals: frozenset[int]) -> Step:
    """`[a, ?b]`: an empty optional element is left out."""
    if not optionals:
        return lambda frame: tuple([element(frame) for element in elements])

    def run(frame: Frame) -> object:
        items: list[object] = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index in optionals:
                if type(value) is not Optional:
                    text = f"cannot initialize optional list element from non-optional value {value}"
                    raise EvaluationError(text)
                if value.present:
                    items.append(value.value)
            else:
                items.append(value)
        return tuple(items)

    return run


def map_literal(keys: Sequence[Step], values: Sequence[Step], optionals: Sequence[bool]) -> Step:
    """`{k: v, ?o: v}`: a later entry replaces an earlier one with the same key."""

    def run(frame: Frame) -> object:
        entries: dict[object, tuple[object, object]] = {}
        for key_step, value_step, optional in zip(keys, values, optionals):
            key, value = key_step(frame), value_step(frame)
            place = map_key(key)
            if optional:
                if type(value) is not Optional:
                    text = f"cannot initialize optional entry '{key}' from non-optional value {value}"
                    raise EvaluationError(text)
                if not value.present:
                    entries.pop(place, None)
                    continue
                value = value.value
            entries[place] = (key, value)
        return Map(entries)

    return run
