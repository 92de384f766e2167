"""The values of expressions, and equality and order on them.

bool, int, float, str, bytes, None and tuples are Python's own; the rest is here. All are immutable.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from regauge.cel import types
from regauge.cel.errors import EvaluationError, TooMuch, no_such_overload
from regauge.cel.types import Type
from regauge.model import Quantity, Semver

MAX_COMPARED: Final = 200_000
MAX_ELEMENTS: Final = 1_000_000
MAX_TEXT: Final = 16 << 20
Plain = TypeVar("Plain", int, str, bytes)


class Uint(int):
    """An unsigned integer, told apart from int by its class."""

    __slots__ = ()


class QuantitySum(Quantity):
    """A quantity that came out of add or sub: upstream returns a pointer, which a plain quantity is not equal to."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Duration:
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Nanoseconds since 1970 UTC, and the offset it was written with."""

    nanoseconds: int
    offset_s: int = 0


@dataclass(frozen=True, slots=True)
class Optional:
    """A value, or none."""

    present: bool
    value: object = None


NONE: Final = Optional(False)


@dataclass(frozen=True, slots=True)
class Ip:
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """An address with the length of a prefix; bits behind the prefix are kept."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    bits: int


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL as Go's net/url keeps them."""

    scheme: str
    host: str
    path: str
    escaped_path: str
    query: str
    text: str


@dataclass(frozen=True, slots=True)
class Format:
    """A named format; `check` gives the complaints about a text."""

    name: str
    check: Callable[[str], list[str]]
    regex_size: int


class Map:
    """A map. A look-up converts between int, uint and double, as cel-go does.

    No `Mapping`: telling an abstract class takes Python several times as long, and every read asks.
    """

    __slots__ = ("_items",)

    def __init__(self, items: dict[object, tuple[object, object]]) -> None:
        self._items = items

    @staticmethod
    def of_text(items: Mapping[str, object]) -> Map:
        """A map with text keys."""
        return Map({key: (key, value) for key, value in items.items()})

    def find(self, key: object) -> tuple[bool, object]:
        """Whether there is such a key, and the value."""
        found = self._items.get(map_key(key))
        if found is None:
            found = next(filter(None, map(self._items.get, _other_keys(key))), None)
        return (False, None) if found is None else (True, found[1])

    def with_entry(self, key: object, value: object) -> Map:
        """A copy with one more entry."""
        return Map({**self._items, map_key(key): (key, value)})

    def items(self) -> list[tuple[object, object]]:
        """The keys with their values, in the order in which they were written."""
        return list(self._items.values())

    def __iter__(self) -> Iterator[object]:
        return (key for key, _ in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return len(self._items)


class DomainMap(Map):
    """The attributes or capacities of a device by domain: a look-up of an unknown domain finds an empty map."""

    __slots__ = ()

    def find(self, key: object) -> tuple[bool, object]:
        found = self._items.get(key) if type(key) is str else None
        return True, EMPTY_MAP if found is None else found[1]

    def has(self, key: object) -> bool:
        """Whether the domain is really there, which is what `in` tells."""
        return type(key) is str and key in self._items


EMPTY_MAP: Final = Map({})
SIZED: Final = (str, tuple, bytes, Map)


def map_key(key: object) -> object:
    """What distinguishes keys: class and value, for lists and maps the object. Text and int stand for themselves."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    return (kind, id(key)) if kind is tuple or kind in MAPS or kind is Optional else (kind, key)


def _other_keys(key: object) -> tuple[object, ...]:
    """The numbers of other classes that a look-up of `key` tries as well."""
    if type(key) is int:
        return ((Uint, key),) if key >= 0 else ()
    if type(key) is Uint:
        return (int(key),)
    if type(key) is float and math.isfinite(key) and key == int(key):
        return (int(key), (Uint, int(key)))
    return ()


TYPES: Final[Mapping[type, Type]] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    tuple: Type("list"),
    Map: Type("map"),
    DomainMap: Type("map"),
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Type: types.TYPE,
    Optional: Type("opaque", "optional_type"),
    Quantity: types.QUANTITY,
    QuantitySum: types.QUANTITY,
    Semver: types.SEMVER,
    Ip: types.IP,
    Cidr: types.CIDR,
    Url: types.URL,
    Format: types.FORMAT,
}
GO_NAMES: Final[Mapping[type, str]] = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Type: "*types.Type",
    Optional: "*types.Optional",
    Quantity: "cel.Quantity",
    QuantitySum: "*cel.Quantity",
    Semver: "cel.Semver",
    Ip: "cel.IP",
    Cidr: "cel.CIDR",
    Url: "cel.URL",
    Format: "cel.Format",
}
NUMBERS: Final = frozenset({int, Uint, float})
MAPS: Final = frozenset({Map, DomainMap})


def type_name(value: object) -> str:
    """The name of the type of a value, as cel-go shows it."""
    return TYPES[type(value)].runtime_name


class _Fuel:
    """How many more parts of lists and maps may be compared: shared parts can make a small value endless."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_COMPARED

    def burn(self, parts: int) -> None:
        self.left -= parts + 1
        if self.left < 0:
            raise TooMuch(f"unsupported: comparison of more than {MAX_COMPARED} values")


def equal(left: object, right: object) -> bool:
    """CEL's equality. Raises `EvaluationError` where upstream's answer is an error."""
    if left is None or right is None:
        return left is None and right is None
    return equal_values(left, right)


def equal_values(left: object, right: object, fuel: _Fuel | None = None) -> bool:
    """Equality as the left value's class decides."""
    mine, theirs = type(left), type(right)
    if mine in NUMBERS:
        # Python compares a float with an int exactly; upstream makes both floats first.
        return theirs in NUMBERS and (left == right if mine is theirs else _equal_numbers(left, right))
    if isinstance(left, tuple):
        return isinstance(right, tuple) and _equal_lists(left, right, fuel or _Fuel())
    if isinstance(left, Map):
        return isinstance(right, Map) and _equal_maps(left, right, fuel or _Fuel())
    if isinstance(left, Optional):
        return isinstance(right, Optional) and _equal_optionals(left, right, fuel or _Fuel())
    wanted = _STRICT.get(mine, mine)
    if theirs is wanted:
        same = _EQUALITY.get(mine)
        return left == right if same is None else same(left, right)
    if mine in _STRICT:
        raise no_such_overload()
    return False


_STRICT: Final[Mapping[type, type]] = {
    Quantity: Quantity,
    QuantitySum: Quantity,
    Semver: Semver,
    Ip: Ip,
    Cidr: Cidr,
    Url: Url,
    Format: Format,
}


KUBERNETES_CLASSES: Final = frozenset(_STRICT)


def _equal_numbers(left: object, right: object) -> bool:
    """Of numbers of two classes."""
    if isinstance(left, float) and isinstance(right, int):
        return left == float(right)
    if isinstance(left, int) and isinstance(right, float):
        return float(left) == right
    return left == right


def _same_text(left: Url, right: Url) -> bool:
    return left.text == right.text


def _same_name(left: Format, right: Format) -> bool:
    return left.name == right.name


def _same_type(left: Type, right: Type) -> bool:
    return left.runtime_name == right.runtime_name


def _same_moment(left: Timestamp, right: Timestamp) -> bool:
    return left.nanoseconds == right.nanoseconds


# Of two values of one class, where it is not Python's own equality.
_EQUALITY: Final[Mapping[type, Callable[..., bool]]] = {
    Url: _same_text,
    Format: _same_name,
    Type: _same_type,
    Timestamp: _same_moment,
}


def _absorbed_equal(left: object, right: object, fuel: _Fuel) -> bool:
    """Equality of parts of lists and maps: an error does not make them different."""
    if left is None or right is None:
        return left is None and right is None
    try:
        return equal_values(left, right, fuel)
    except EvaluationError:
        return True


def surely_equal(left: object, right: object) -> bool:
    """Equality where an error counts as different, with the left value's class deciding."""
    try:
        return equal_values(left, right)
    except EvaluationError:
        return False


def _equal_lists(left: tuple[object, ...], right: tuple[object, ...], fuel: _Fuel) -> bool:
    if len(left) != len(right):
        return False
    fuel.burn(len(left))
    return all(_absorbed_equal(mine, theirs, fuel) for mine, theirs in zip(left, right))


def _equal_maps(left: Map, right: Map, fuel: _Fuel) -> bool:
    if len(left) != len(right):
        return False
    fuel.burn(len(left))
    for key, mine in left.items():
        present, value = right.find(key)
        if not present or not _absorbed_equal(mine, value, fuel):
            return False
    return True


def _equal_optionals(left: Optional, right: Optional, fuel: _Fuel) -> bool:
    if not left.present or not right.present:
        return left.present == right.present
    fuel.burn(1)
    return equal_values(left.value, right.value, fuel)


def compare(left: object, right: object) -> int:
    """-1, 0 or 1. Raises `EvaluationError` for values that have no order."""
    mine, theirs = type(left), type(right)
    if mine is theirs:
        order = _ORDERS.get(mine)
        if order is not None:
            return order(left, right)
    elif mine in NUMBERS and theirs in NUMBERS:
        return _order_numbers(left, right)
    raise no_such_overload()


def _order(left: Plain, right: Plain) -> int:
    return (left > right) - (left < right)


def _order_floats(left: float, right: float) -> int:
    if left != left or right != right:
        raise EvaluationError("NaN values cannot be ordered")
    return (left > right) - (left < right)


def _order_times(left: Timestamp | Duration, right: Timestamp | Duration) -> int:
    return _order(left.nanoseconds, right.nanoseconds)


def _order_numbers(left: object, right: object) -> int:
    """Of numbers of two classes: with a float on either side both are taken as floats."""
    assert isinstance(left, int | float) and isinstance(right, int | float)
    if isinstance(left, float) or isinstance(right, float):
        return _order_floats(float(left), float(right))
    return _order(left, right)


# By the class that both sides have.
_ORDERS: Final[Mapping[type, Callable[..., int]]] = {
    bool: _order,
    int: _order,
    Uint: _order,
    float: _order_floats,
    str: _order,
    bytes: _order,
    Timestamp: _order_times,
    Duration: _order_times,
}
COMPARABLE: Final = frozenset(_ORDERS)


def bounded_text(size: int) -> None:
    """Raise `TooMuch` for a text that would be longer than this program makes them."""
    if size > MAX_TEXT:
        raise TooMuch(f"unsupported: text of more than {MAX_TEXT} characters")


def bounded_list(size: int) -> None:
    """Raise `TooMuch` for a list that would be longer than this program makes them."""
    if size > MAX_ELEMENTS:
        raise TooMuch(f"unsupported: list of more than {MAX_ELEMENTS} elements")


def size_of(value: object) -> int:
    """The size that costs are counted with: 1 for what has no size."""
    if isinstance(value, SIZED):
        return len(value)
    if isinstance(value, Ip):
        return value.address.max_prefixlen // 8
    if isinstance(value, Cidr):
        return -(-value.bits // 8)
    return 1
