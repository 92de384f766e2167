"""What an expression may use: which functions, which fields of `device`, and what attributes may hold.

Upstream has two environments. *Stored* expressions (the scheduler's) know everything that any version may have
stored; *new* expressions (API validation) know what the feature gates and the previous minor allow.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from regauge.cel.types import ANY, BOOL, DYN, QUANTITY, STRING, Type, map_of, parse_type

MINORS: Final = (34, 35, 36, 37)
MAX_EXPRESSION_BYTES: Final = 10 * 1024
MAX_COST: Final = 1_000_000

_FLAG: Final = ("allowMultipleAllocations",)


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs between minors, as facts of its own.

    `stored_has_lists`: stored expressions know list attributes, with the gate if `stored_lists_need_gate`.
    `quoted_names`: names in backquotes. `affix_argument`: the argument of startsWith and endsWith that their real cost
    is counted by (0 is the receiver). `fixed_costs`: overloads with one estimate for all arguments, and real cost 1.
    `native_optionals`: a variable or a choice that is an optional with a value of one of Kubernetes' types fails.
    `lenient_optionals`: `or` and `orValue` of what is no optional give the value itself. `replaced`: overloads that do
    something else than in the newest minor, and under which name that is known.
    """

    stored_lists_need_gate: bool
    stored_has_lists: bool
    quoted_names: bool
    affix_argument: int
    fixed_costs: Mapping[str, int]
    lenient_optionals: bool
    native_optionals: bool
    replaced: Mapping[str, str]


_REPLACED_36: Final = {"lists_range": "lists_range 1.36", "dra_includes_dyn_dyn": "includes 1.36"}
_FIXED_36: Final = {"matches": 1, "dra_includes_dyn_dyn": 48}
_UNTIL_35: Final = Variant(
    stored_lists_need_gate=True,
    stored_has_lists=False,
    quoted_names=False,
    affix_argument=0,
    fixed_costs=_FIXED_36,
    lenient_optionals=True,
    native_optionals=True,
    replaced=_REPLACED_36,
)
VARIANTS: Final[Mapping[int, Variant]] = {
    34: _UNTIL_35,
    35: _UNTIL_35,
    36: replace(_UNTIL_35, stored_has_lists=True),
    37: Variant(
        stored_lists_need_gate=False,
        stored_has_lists=True,
        quoted_names=True,
        affix_argument=1,
        fixed_costs={},
        lenient_optionals=False,
        native_optionals=False,
        replaced={},
    ),
}


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment. Equal environments compile alike.

    `list_attributes` and `consumable_capacity` are the feature gates ListTypeAttributes and ConsumableCapacity;
    `derived` is for expressions of derived attributes, which give a value instead of a bool.
    """

    minor: int = 37
    stored: bool = True
    list_attributes: bool = False
    consumable_capacity: bool = True
    derived: bool = False

    @property
    def variant(self) -> Variant:
        return VARIANTS[min(max(self.minor, MINORS[0]), MINORS[-1])]

    @property
    def has_lists(self) -> bool:
        """Whether attributes may be lists, and so have the type dyn instead of any."""
        if not self.variant.stored_has_lists:
            return False
        if self.stored and not self.variant.stored_lists_need_gate:
            return True
        return self.list_attributes

    @property
    def reads_lists(self) -> bool:
        """Whether a device that has attributes with lists can be looked at at all."""
        return self.has_lists or not self.variant.stored_lists_need_gate

    @property
    def attribute_type(self) -> Type:
        return DYN if self.has_lists else ANY

    @property
    def fields(self) -> Mapping[str, Type]:
        """The fields of `device` and their types."""
        return _fields(self.has_lists, self.has_flag)

    @property
    def has_flag(self) -> bool:
        """Whether `device.allowMultipleAllocations` is known."""
        return self.stored or self.consumable_capacity

    @property
    def functions(self) -> Mapping[str, tuple[Overload, ...]]:
        """The declared functions by name, overloads in upstream's order."""
        return _functions(min(max(self.minor, MINORS[0]), MINORS[-1]), self.stored, self.list_attributes)

    def size_limit(self, path: tuple[str, ...]) -> int | None:
        """The largest size of what `device` holds at `path`, for the cost estimate; None when nothing is known."""
        return None if path[1:2] == _FLAG and not self.has_flag else _size_limit(path)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; the receiver of a member comes first in `args`."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[Type, ...]


@lru_cache(maxsize=4)
def _fields(has_lists: bool, has_multiple: bool) -> Mapping[str, Type]:
    attribute = DYN if has_lists else ANY
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    return {**fields, "allowMultipleAllocations": BOOL} if has_multiple else fields


@lru_cache(maxsize=1)
def _table() -> tuple[tuple[str, Overload, str, str, str], ...]:
    text = importlib.resources.files("regauge.cel").joinpath("functions.tsv").read_text("utf-8")
    rows = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        function, overload, style, args, result, stored, new, gate = line.split("\t")
        kinds = tuple(parse_type(arg) for arg in args.split("; ")) if args else ()
        known = parse_type(result)
        params = tuple(sorted(_params((*kinds, known)), key=str))
        rows.append((function, Overload(overload, style == "M", kinds, known, params), stored, new, gate))
    return tuple(rows)


def _params(kinds: tuple[Type, ...]) -> set[Type]:
    found: set[Type] = set()
    for kind in kinds:
        found |= {kind} if kind.kind == "param" else _params(kind.params)
    return found


@lru_cache(maxsize=16)
def _functions(minor: int, stored: bool, list_attributes: bool) -> Mapping[str, tuple[Overload, ...]]:
    functions: dict[str, list[Overload]] = {}
    for function, overload, for_stored, for_new, gate in _table():
        if not _within(minor, for_stored if stored else for_new) or (gate and not stored and not list_attributes):
            continue
        functions.setdefault(function, []).append(overload)
    return {name: tuple(overloads) for name, overloads in functions.items()}


def _within(minor: int, minors: str) -> bool:
    first, _, last = minors.partition("-")
    return bool(first) and int(first) <= minor <= int(last)


_STEPS: Final = {
    ("device", "driver"): "driver",
    ("device", "allowMultipleAllocations"): "flag",
    ("device", "attributes"): "attributes",
    ("device", "capacity"): "capacity",
    ("attributes", "@values"): "attributes of a domain",
    ("attributes", "@items"): "attributes of a domain",
    ("attributes", "@keys"): "domain",
    ("attributes of a domain", "@values"): "value",
    ("attributes of a domain", "@items"): "value",
    ("attributes of a domain", "@keys"): "id",
    ("capacity", "@values"): "capacity of a domain",
    ("capacity", "@items"): "capacity of a domain",
    ("capacity", "@keys"): "domain",
    ("capacity of a domain", "@values"): "quantity",
    ("capacity of a domain", "@items"): "quantity",
    ("capacity of a domain", "@keys"): "id",
}
_LIMITS: Final = {
    "device": 0,
    "driver": 63,
    "flag": 1,
    "attributes": 32,
    "attributes of a domain": 32,
    "capacity": 32,
    "capacity of a domain": 32,
    "domain": 63,
    "id": 32,
    "value": 64,
    "quantity": 0,
}


def _size_limit(path: tuple[str, ...]) -> int | None:
    """Follows upstream's size estimator through the declared type of `device`; limits from resource.k8s.io."""
    if not path or path[0] != "device":
        return None
    place = "device"
    for name in path[1:]:
        step = _STEPS.get((place, name))
        if step is None:
            if place != "attributes of a domain":
                return None
            step = "value"
        place = step
    return _LIMITS[place]
