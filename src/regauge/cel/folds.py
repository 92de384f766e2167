"""Loops over lists and maps, and bound names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regauge.cel.errors import EvaluationError
from regauge.cel.frames import Frame, Step
from regauge.cel.library.operators import add, insert
from regauge.cel.values import EMPTY_MAP, GO_NAMES, Map, map_key


class FoldParts(NamedTuple):
    """The parts of a loop; `slots` are those of the accumulator, the key or element, and the value (-1: none)."""

    range: Step
    start: Step
    condition: Step | None
    step: Step
    result: Step
    slots: tuple[int, int, int]


class _Unset:
    """A bound name that was not looked at yet, with what to evaluate then."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step


class _Growing(list[object]):
    """A list under construction; nobody else sees it."""

    __slots__ = ()


class _GrowingMap(dict[object, tuple[object, object]]):
    """A map under construction."""

    __slots__ = ()


def read_local(slot: int) -> Step:
    """The value of a local variable; an error kept in it is raised again."""

    def read(frame: Frame) -> object:
        value = frame[slot]
        kind = type(value)
        if kind is _Unset:
            try:
                value = value.step(frame)
            except EvaluationError as error:
                value = error
            frame[slot] = value
            kind = type(value)
        if kind is EvaluationError:
            raise value
        return _frozen(value) if kind is _Growing or kind is _GrowingMap else value

    return read


def _frozen(value: object) -> object:
    if type(value) is _Growing:
        return tuple(value)
    return Map(dict(value)) if type(value) is _GrowingMap else value


def bind(slot: int, value: Step, result: Step) -> Step:
    """A name for a value that is evaluated when it is first used."""

    def run(frame: Frame) -> object:
        frame[slot] = _Unset(value)
        return result(frame)

    return run


def _entries(over: object, pairs: bool) -> Iterable[tuple[object, object]]:
    if isinstance(over, tuple):
        return enumerate(over) if pairs else zip(over, over)
    if isinstance(over, Map):
        return over.items()
    shown = GO_NAMES.get(type(over), type(over).__name__)
    if pairs:
        raise EvaluationError(f"unsupported comprehension range type: {shown}")
    raise EvaluationError(f"got '{shown}', expected iterable type")


def fold(parts: FoldParts) -> Step:
    """A loop with an accumulator. Errors of a step stay in the accumulator, where a later step may absorb them."""
    over, start, condition, step, result, (accumulator, key, value) = parts
    pairs = value >= 0

    def run(frame: Frame) -> object:
        entries = _entries(over(frame), pairs)
        try:
            frame[accumulator] = start(frame)
        except EvaluationError as error:
            frame[accumulator] = error
        for first, second in entries:
            frame[key] = first
            if pairs:
                frame[value] = second
            if condition is not None and condition(frame) is False:
                break
            try:
                frame[accumulator] = step(frame)
            except EvaluationError as error:
                frame[accumulator] = error
        return result(frame)

    return run


def not_strictly_false(value: Step, cost: int) -> Step:
    """False only for False: an error in the accumulator does not end the loop."""

    def run(frame: Frame) -> bool:
        try:
            return value(frame) is not False
        except EvaluationError:
            return True
        finally:
            _charge(frame, cost)

    return run


def _charge(frame: Frame, cost: int) -> None:
    if cost:
        frame[1].charge(cost)


def append_to(slot: int, item: Step, read_cost: int, add_cost: int) -> Step:
    """`accumulator + [item]`, growing in place when the list is ours."""

    def run(frame: Frame) -> object:
        _charge(frame, read_cost)
        value = frame[slot]
        if type(value) is EvaluationError:
            _charge(frame, add_cost)
            raise value
        try:
            element = item(frame)
        finally:
            _charge(frame, add_cost)
        if type(value) is tuple:
            if value:
                return add(value, (element,))
            value = _Growing()
        value.append(element)
        return value

    return run


def insert_into(slot: int, parts: Sequence[Step], read_cost: int, call_cost: int) -> Step:
    """`cel.@mapInsert(accumulator, ...)`, growing in place when the map is ours."""

    def run(frame: Frame) -> object:
        _charge(frame, read_cost)
        target = frame[slot]
        if type(target) is EvaluationError:
            raise target
        args = [part(frame) for part in parts]
        _charge(frame, call_cost)
        if type(target) is not _GrowingMap:
            if target:
                return insert(target, *args)
            target = _GrowingMap()
        for key, value in insert(EMPTY_MAP, *args).items():
            if Map(target).find(key)[0]:
                raise EvaluationError(f"insert failed: key {key} already exists")
            target[map_key(key)] = (key, value)
        return target

    return run
