"""Lists: the lists extension, Kubernetes' list library, and sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from itertools import pairwise

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.values import (
    COMPARABLE,
    Optional,
    bounded_list,
    compare,
    surely_equal,
)

_DEEPEST = 250
_FEW = 48
NONE = Optional(False)
List = tuple[object, ...]


def _list(value: object) -> List:
    if type(value) is not tuple:
        raise no_such_overload()
    return value


def _int(value: object) -> int:
    if type(value) is not int:
        raise no_such_overload()
    return value


def _has(container: List, element: object) -> bool:
    return any(surely_equal(element, other) for other in container)


def index_of(items: List, wanted: object) -> int:
    """The first place of an equal element, or -1."""
    return next((at for at, item in enumerate(items) if surely_equal(item, wanted)), -1)


def last_index_of(items: List, wanted: object) -> int:
    """The last place of an equal element, or -1."""
    return next((at for at in range(len(items) - 1, -1, -1) if surely_equal(items[at], wanted)), -1)


def reverse(items: object) -> List:
    return _list(items)[::-1]


def _includes(target: object, wanted: object) -> bool:
    if type(target) is tuple:
        return any(surely_equal(item, wanted) for item in target)
    return surely_equal(target, wanted)


def _includes_few(target: object, wanted: object) -> bool:
    """`includes` of 1.36: long lists are only searched up to a limit, and then it is an error."""
    if type(target) is tuple and len(target) > _FEW and not _includes(target[:_FEW], wanted):
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {_FEW} values")
    return _includes(target, wanted)


def _slice(items: object, start: object, stop: object) -> List:
    whole, first, last = _list(items), _int(start), _int(stop)
    shown = f"cannot slice({first}, {last})"
    if first < 0 or last < 0:
        raise EvaluationError(f"{shown}, negative indexes not supported")
    if first > last:
        raise EvaluationError(f"{shown}, start index must be less than or equal to end index")
    if len(whole) < last:
        raise EvaluationError(f"{shown}, list is length {len(whole)}")
    return whole[first:last]


def _flatten(items: object, *depth: object) -> List:
    levels = _int(depth[0]) if depth else 1
    if levels < 0:
        raise EvaluationError("level must be non-negative")
    flat = _list(items)
    for _ in range(min(levels, _DEEPEST)):
        if not any(type(item) is tuple for item in flat):
            break
        bounded_list(sum(len(item) if type(item) is tuple else 1 for item in flat))
        flat = tuple(inner for item in flat for inner in (item if type(item) is tuple else (item,)))
    return flat


def _range(count: object) -> List:
    number = _int(count)
    if number < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {number}")
    bounded_list(number)
    return tuple(range(number))


def _range_or_none(count: object) -> List:
    """`lists.range` of 1.36: below zero there is nothing."""
    return _range(max(_int(count), 0))


def _distinct(items: object) -> List:
    unique: list[object] = []
    for item in _list(items):
        if not any(surely_equal(item, other) for other in unique):
            unique.append(item)
    return tuple(unique)


def _sort_by(items: object, keys: object) -> List:
    whole, order = _list(items), _list(keys)
    if len(whole) != len(order):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(whole)} and {len(order)} elements respectively"
        )
    if not whole:
        return whole
    if type(order[0]) not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if len(order) > 1 and any(type(key) is not type(order[0]) for key in order):
        raise EvaluationError("list elements must have the same type")

    def by_key(left: int, right: int) -> int:
        try:
            return compare(order[left], order[right])
        except EvaluationError:
            return 0

    return tuple(whole[at] for at in sorted(range(len(whole)), key=cmp_to_key(by_key)))


def _sort(items: object) -> List:
    return _sort_by(items, items)


def _is_sorted(items: object) -> bool:
    whole = _list(items)
    if any(type(item) not in COMPARABLE for item in whole):
        raise no_such_overload()
    for left, right in pairwise(whole):
        try:
            if compare(left, right) > 0:
                return False
        except EvaluationError:
            continue
    return True


def _extreme(name: str, preferred: int) -> Callable[[object], object]:
    def extreme(items: object) -> object:
        whole = _list(items)
        if not whole:
            raise EvaluationError(f"{name} called on empty list")
        if any(type(item) not in COMPARABLE for item in whole):
            raise no_such_overload()
        found = whole[0]
        for item in whole[1:]:
            try:
                if compare(found, item) == preferred:
                    found = item
            except EvaluationError:
                continue
        return found

    return extreme


def _sets_contain(container: object, wanted: object) -> bool:
    whole = _list(container)
    return all(_has(whole, item) for item in _list(wanted))


def _sets_equivalent(left: object, right: object) -> bool:
    return _sets_contain(left, right) and _sets_contain(right, left)


def _sets_intersect(left: object, right: object) -> bool:
    other = _list(right)
    return any(_has(other, item) for item in _list(left))


def _first(items: object) -> Optional:
    whole = _list(items)
    return Optional(True, whole[0]) if whole else NONE


def _last(items: object) -> Optional:
    whole = _list(items)
    return Optional(True, whole[-1]) if whole else NONE


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "includes": _includes,
    "slice": _slice,
    "flatten": _flatten,
    "lists.range": _range,
    "distinct": _distinct,
    "sort": _sort,
    "@sortByAssociatedKeys": _sort_by,
    "isSorted": _is_sorted,
    "min": _extreme("min", 1),
    "max": _extreme("max", -1),
    "sets.contains": _sets_contain,
    "sets.equivalent": _sets_equivalent,
    "sets.intersects": _sets_intersect,
    "first": _first,
    "last": _last,
}
OVERLOADS: Mapping[str, Callable[..., object]] = {"includes 1.36": _includes_few, "lists_range 1.36": _range_or_none}
