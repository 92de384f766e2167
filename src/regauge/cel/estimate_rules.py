"""The worst cost of single calls, arguments not counted: rules by overload, by function, and the standard ones.

The order in which they are asked is upstream's: extension libraries, Kubernetes' estimator, cel-go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from regauge.cel import types
from regauge.cel.sizes import (
    COMPARISONS,
    LIST_COST,
    MAX,
    NAME_FORMAT_REGEX,
    REGEX_FACTOR,
    TEXT_FACTOR,
    UNKNOWN,
    Argument,
    Estimate,
    Site,
    Size,
    capped,
    fixed,
    scaled,
)

Rule = Callable[[Site], Estimate | None]


def estimate(site: Site) -> Estimate:
    """The most that the call itself can cost, and the size of its result if known."""
    rule = _OVERLOADS.get(site.overload)
    found = rule(site) if rule else None
    if found is None:
        rule = _FUNCTIONS.get(site.function)
        found = rule(site) if rule else None
    if found is None:
        rule = _STANDARD.get(site.overload)
        found = rule(site) if rule else None
    return (1, None) if found is None else found


# -- extension libraries: lists and sets


def _allocating(factor: float, size: Size) -> Estimate:
    return capped(size.cost(factor) + 1 + LIST_COST), size


def _sets(factor: float) -> Rule:
    def rule(site: Site) -> Estimate:
        product = site.args[0].bounds.times(site.args[1].bounds)
        return capped(product.cost(factor) + 1), None

    return rule


def _slice(site: Site) -> Estimate | None:
    if site.target is None:
        return None
    start = site.args[0].literal_uint(0)
    stop = site.args[1].literal_uint(site.target.bounds.most)
    return _allocating(1, fixed((stop - start) & MAX))


def _flatten(site: Site) -> Estimate | None:
    if site.target is None:
        return None
    depth = site.args[0].literal_uint(MAX) if site.args else 1
    return _allocating(float(depth), site.target.bounds)


def _range(site: Site) -> Estimate:
    return _allocating(1, fixed(site.args[0].literal_uint(MAX)))


def _reverse(site: Site) -> Estimate | None:
    return _allocating(1, site.target.bounds) if site.target else None


def _squared(factor: float, of_argument: bool = False) -> Rule:
    def rule(site: Site) -> Estimate | None:
        measured = site.args[0] if of_argument else site.target
        if measured is None:
            return None
        return _allocating(factor, measured.bounds.times(measured.bounds))

    return rule


_SORT_TYPES: Final = {
    "int": 2.0,
    "uint": 2.0,
    "double": 2.0,
    "bool": 2.0,
    "google.protobuf.Duration": 2.0,
    "google.protobuf.Timestamp": 2.0,
    "string": 2.0 + TEXT_FACTOR,
    "bytes": 2.0 + TEXT_FACTOR,
}
_OVERLOADS: Final[Mapping[str, Rule]] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _squared(2.0),
    **{f"list_{kind}_sort": _squared(factor) for kind, factor in _SORT_TYPES.items()},
    **{f"list_{kind}_sortByAssociatedKeys": _squared(factor, of_argument=True) for kind, factor in _SORT_TYPES.items()},
}

# -- Kubernetes' libraries


def _element_size(site: Site, target: Argument) -> tuple[types.Type, Size] | None:
    """Type and size of the elements of a list; None when the type has no parameters."""
    if not target.type.params:
        return None
    path = (*target.path, "@items") if target.path else ()
    return target.type.params[0], site.limit(path) or UNKNOWN


def _one(site: Site) -> Estimate:
    return 1, None


def _search(site: Site) -> Estimate | None:
    if site.target is None:
        return None
    element = _element_size(site, site.target)
    if element is not None:
        each = 1 + (element[1].cost() if element[0].kind in ("string", "bytes") else 0)
        return capped(site.target.bounds.most * capped(each)), None
    if site.function == "includes":
        return site.target.bounds.most, None
    return site.target.bounds.cost(), None


def _traverse_argument(factor: float, sized: bool = False) -> Rule:
    def rule(site: Site) -> Estimate | None:
        if not site.args:
            return None
        size = site.args[0].bounds
        return size.cost(factor), size if sized else None

    return rule


def _traverse_target(site: Site) -> Estimate | None:
    if site.target is None:
        return None
    return site.target.bounds.cost(), site.target.bounds


def _replace(site: Site) -> Estimate | None:
    if site.target is None or len(site.args) < 2:
        return None
    size, old, new = site.target.bounds, site.args[0].bounds, site.args[1].bounds
    count_most = kept_most = 0
    if old.least == 0:
        count_most, kept_most = capped(size.most + 1), size.most
    elif new.most <= old.least:
        kept_most = size.most
    else:
        count_most = capped(math.ceil(float(size.most) / float(old.least)))
    count_least = kept_least = 0
    if old.most == 0:
        count_least, kept_least = capped(size.least + 1), size.least
    elif old.most <= new.least:
        kept_least = size.least
    else:
        count_least = capped(math.ceil(float(size.least) / float(old.most)))
    result = Size(count_least, count_most).times(new).plus(Size(kept_least, kept_most))
    return size.cost(2 * TEXT_FACTOR), result


def _split(site: Site) -> Estimate | None:
    if site.target is None:
        return None
    size = site.target.bounds
    most = size.most
    if len(site.args) > 1:
        value = getattr(site.args[1].node, "value", None)
        most = value & MAX if type(value) is int else most
    return size.cost(2 * TEXT_FACTOR), Size(0, most)


def _join(site: Site) -> Estimate | None:
    if site.target is None:
        return None
    count = site.target.bounds
    element = _element_size(site, site.target)
    size = count.times(element[1]) if element is not None else Size(0, 0)
    if site.args:
        separators = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(site.args[0].bounds.times(separators))
    return size.cost(), size


def _regex(text: Size, pattern: Size) -> int:
    return capped(text.plus(Size(1, 1)).cost() * pattern.cost(REGEX_FACTOR))


def _find(site: Site) -> Estimate | None:
    if site.target is None or not site.args:
        return None
    return _regex(site.target.bounds, site.args[0].bounds), Size(0, site.target.bounds.most)


def _ip(site: Site) -> Estimate | None:
    if site.overload == "cidr_ip":
        return 1, None
    return (site.args[0].bounds.cost(), None) if site.args else None


_ADDRESS: Final = Size(4, 16)


def _contains_address(site: Site) -> Estimate | None:
    if not site.args:
        return None
    cost = _ADDRESS.plus(_ADDRESS).cost()
    if site.function == "containsCIDR":
        cost += _ADDRESS.cost() + 1
    if site.overload in ("cidr_contains_ip_string", "cidr_contains_cidr_string"):
        cost += site.args[0].bounds.cost()
    return capped(cost), None


def _validate(site: Site) -> Estimate | None:
    if not site.args:
        return None
    return scaled(site.args[0].bounds.cost(), NAME_FORMAT_REGEX * REGEX_FACTOR), None


_EQUAL_COSTS: Final = {types.IP: 1, types.CIDR: 1, types.QUANTITY: 1, types.SEMVER: 1, types.FORMAT: 7, types.URL: 1}


def _equality(site: Site) -> Estimate | None:
    left, right = site.args
    cost = _EQUAL_COSTS.get(left.type) if left.type == right.type else None
    return None if cost is None else (cost, None)


NOMINAL: Final = [
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
]
_SEARCHES: Final = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes")
_AUTHORIZE_COST: Final = 350_000


def _authorize(site: Site) -> Estimate:
    return _AUTHORIZE_COST, None


_FUNCTIONS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(NOMINAL, _one),
    **dict.fromkeys(_SEARCHES, _search),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traverse_target),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traverse_argument(0.1)
    ),
    "url": _traverse_argument(TEXT_FACTOR, sized=True),
    "ip.isCanonical": _traverse_argument(2 * TEXT_FACTOR),
    "check": _authorize,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip": _ip,
    "containsIP": _contains_address,
    "containsCIDR": _contains_address,
    "validate": _validate,
    "_==_": _equality,
}

# -- cel-go


def _format(site: Site) -> Estimate | None:
    return (site.target.bounds.cost(), None) if site.target else None


def _to_bytes(site: Site) -> Estimate:
    size = site.args[0].bounds
    return size.cost(), Size(size.least, size.most * 4 & MAX)


def _to_text(site: Site) -> Estimate:
    size = site.args[0].bounds
    return size.cost(), Size(size.least // 4, size.most)


def _quote(site: Site) -> Estimate:
    size = site.args[0].bounds
    return size.cost(), Size(size.least + 2 & MAX, size.most * 2 + 2 & MAX)


def _first_argument(site: Site) -> Estimate:
    return site.args[0].bounds.cost(), None


def _in_list(site: Site) -> Estimate:
    return site.args[1].bounds.cost(1), None


def _matches(site: Site) -> Estimate | None:
    if site.target is not None:
        return _regex(site.target.bounds, site.args[0].bounds), None
    return _regex(site.args[0].bounds, site.args[1].bounds), None


def _contains(site: Site) -> Estimate | None:
    if site.target is None:
        return None
    return capped(site.target.bounds.cost() * site.args[0].bounds.cost()), None


def _nothing(site: Site) -> Estimate:
    return 0, None


def _conditional(site: Site) -> Estimate:
    return 0, site.args[1].bounds.union(site.args[2].bounds)


def _add(per_element: bool) -> Rule:
    def rule(site: Site) -> Estimate:
        size = site.args[0].bounds.plus(site.args[1].bounds)
        return size.cost() if per_element else 1, size

    return rule


def _comparison(site: Site) -> Estimate:
    return scaled(min(site.args[0].bounds.most, site.args[1].bounds.most), TEXT_FACTOR), None


_STANDARD: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    "string_format": _format,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quote,
    "starts_with_string": _first_argument,
    "ends_with_string": _first_argument,
    "in_list": _in_list,
    "matches": _matches,
    "matches_string": _matches,
    "contains_string": _contains,
    "logical_and": _nothing,
    "logical_or": _nothing,
    "conditional": _conditional,
    "add_string": _add(per_element=True),
    "add_bytes": _add(per_element=True),
    "add_list": _add(per_element=False),
}
