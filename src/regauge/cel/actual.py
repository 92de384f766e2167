"""What calls really cost, by the sizes of their arguments: upstream's run-time tracker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from regauge.cel.environment import Variant
from regauge.cel.estimate_rules import NOMINAL
from regauge.cel.sizes import COMPARISONS, LIST_COST, REGEX_FACTOR, TEXT_FACTOR, scaled
from regauge.cel.values import (
    Cidr,
    Format,
    Ip,
    Map,
    Optional,
    QuantitySum,
    Url,
    size_of,
)
from regauge.model import Quantity, Semver

Args = tuple[object, ...]
Rule = Callable[[str, Args, object], int | None]
Cost = Callable[[Args, object], int]


def cost_rule(function: str, overload: str, variant: Variant) -> Cost:
    """What a call costs by its arguments and result. `overload` is "" when the check left more than one."""
    if overload in variant.fixed_costs:
        return lambda args, result: 1
    rules = [_OVERLOADS.get(overload), _FUNCTIONS.get(function), _STANDARD.get(overload)]
    if overload in _AFFIXES:
        rules = [_traverse(variant.affix_argument)]
    known = [rule for rule in rules if rule is not None]

    def cost(args: Args, result: object) -> int:
        for rule in known:
            found = rule(overload, args, result)
            if found is not None:
                return found
        return 1

    return cost


_DEEPEST: Final = 8
_AFFIXES: Final = frozenset({"starts_with_string", "ends_with_string"})


def _fixed(cost: int) -> Rule:
    return lambda overload, args, result: cost


def _traverse(index: int = 0, factor: float = TEXT_FACTOR) -> Rule:
    def rule(overload: str, args: Args, result: object) -> int | None:
        return scaled(size_of(args[index]), factor) if len(args) > index else None

    return rule


def _traverse_result(overload: str, args: Args, result: object) -> int:
    return scaled(size_of(result), 2 * TEXT_FACTOR)


def _elements(value: object, depth: int = 0) -> int:
    """What going through a value and all that is in it costs. Beyond a depth that no text reaches it is 1."""
    if depth > _DEEPEST:
        return 1
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * TEXT_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * TEXT_FACTOR)
    if isinstance(value, tuple):
        return sum(_elements(item, depth + 1) for item in value)
    if isinstance(value, Map):
        return sum(_elements(key, depth + 1) + _elements(value.find(key)[1], depth + 1) for key in value)
    return 1


def _search(overload: str, args: Args, result: object) -> int:
    return _elements(args[0]) if args else 0


def _regex(text: object, pattern: object) -> int:
    return math.ceil((1.0 + size_of(text)) * TEXT_FACTOR) * scaled(size_of(pattern), REGEX_FACTOR)


def _find(overload: str, args: Args, result: object) -> int | None:
    return _regex(args[0], args[1]) if len(args) >= 2 else None


def _ip(overload: str, args: Args, result: object) -> int:
    return 1 if overload == "cidr_ip" else scaled(size_of(args[0]), TEXT_FACTOR)


def _contains_address(overload: str, args: Args, result: object) -> int:
    own, other = size_of(args[0]), size_of(args[1])
    cost = scaled(own + own, TEXT_FACTOR)
    if "containsCIDR" in overload or overload.startswith("cidr_contains_cidr"):
        cost += scaled(own, TEXT_FACTOR) + 1
    if overload in ("cidr_contains_ip_string", "cidr_contains_cidr_string"):
        cost += scaled(other, TEXT_FACTOR)
    return cost


def _contains_cidr(overload: str, args: Args, result: object) -> int:
    return _contains_address(overload or "cidr_contains_cidr", args, result)


def _validate(overload: str, args: Args, result: object) -> int | None:
    if len(args) < 2 or not isinstance(args[0], Format):
        return None
    return math.ceil((1.0 + size_of(args[1])) * TEXT_FACTOR) * scaled(args[0].regex_size, REGEX_FACTOR)


_UNIT: Final = frozenset({Quantity, QuantitySum, Ip, Cidr, Format, Url, Semver})


def _equality(overload: str, args: Args, result: object) -> int | None:
    return 1 if type(args[0]) in _UNIT else None


_SEARCHES: Final = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes")
_TRAVERSALS: Final = [
    "url",
    "lowerAscii",
    "upperAscii",
    "substring",
    "trim",
    "cidr",
    "isIP",
    "isCIDR",
    "quantity",
    "isQuantity",
    "semver",
    "isSemver",
]
_FUNCTIONS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(NOMINAL, _fixed(1)),
    **dict.fromkeys(_SEARCHES, _search),
    **dict.fromkeys(_TRAVERSALS, _traverse()),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _traverse(0, 2 * TEXT_FACTOR)),
    "check": _fixed(350_000),
    "join": _traverse_result,
    "find": _find,
    "findAll": _find,
    "ip": _ip,
    "containsIP": _contains_address,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equality,
}


def _allocation(size: float) -> int:
    return int(size) + 1 + LIST_COST


def _output(overload: str, args: Args, result: object) -> int:
    return _allocation(size_of(result))


def _flatten(overload: str, args: Args, result: object) -> int:
    depth = args[1] if len(args) == 2 and isinstance(args[1], int) else 1
    return _allocation(min(float(size_of(args[0])) * depth, 2.0**63) if depth >= 0 else size_of(args[0]))


def _self_compare(index: int) -> Rule:
    def rule(overload: str, args: Args, result: object) -> int:
        items = args[index]
        size = size_of(items)
        factor = 2.0
        if isinstance(items, tuple) and items and isinstance(items[0], str | bytes):
            factor += TEXT_FACTOR
        return _allocation(size * size * factor)

    return rule


def _sets(factor: int) -> Rule:
    return lambda overload, args, result: 1 + size_of(args[0]) * size_of(args[1]) * factor


_KINDS: Final = [
    "int",
    "uint",
    "double",
    "bool",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "string",
    "bytes",
]
_OVERLOADS: Final[Mapping[str, Rule]] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _output,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _output,
    "list_reverse": _output,
    "list_distinct": _self_compare(0),
    **{f"list_{kind}_sort": _self_compare(0) for kind in _KINDS},
    **{f"list_{kind}_sortByAssociatedKeys": _self_compare(1) for kind in _KINDS},
}


def _size_with_optionals(value: object) -> int:
    while isinstance(value, Optional) and value.present:
        value = value.value
    return size_of(value)


def _comparison(overload: str, args: Args, result: object) -> int:
    return scaled(min(_size_with_optionals(args[0]), _size_with_optionals(args[1])), TEXT_FACTOR)


def _in_list(overload: str, args: Args, result: object) -> int:
    return _size_with_optionals(args[1])


def _sum(overload: str, args: Args, result: object) -> int:
    return scaled(size_of(args[0]) + size_of(args[1]), TEXT_FACTOR)


def _product(overload: str, args: Args, result: object) -> int:
    return scaled(size_of(args[0]), TEXT_FACTOR) * scaled(size_of(args[1]), TEXT_FACTOR)


_STANDARD: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"), _traverse()),
    **dict.fromkeys(("add_string", "add_bytes"), _sum),
    **dict.fromkeys(("matches", "matches_string"), _find),
    "in_list": _in_list,
    "contains_string": _product,
}
