"""Bounds of sizes, saturating like upstream's uint64, and the factors that turn sizes into costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from regauge.cel.syntax import Literal, Node
from regauge.cel.types import Type

MAX: Final = 2**64 - 1
TEXT_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25
LIST_COST: Final = 10
MAP_COST: Final = 30
NAME_FORMAT_REGEX: Final = 128
FORMAT_SIZE: Final = 64
# The overloads that cost what their sides have in common.
COMPARISONS: Final = (
    "less_string",
    "greater_string",
    "less_equals_string",
    "greater_equals_string",
    "less_bytes",
    "greater_bytes",
    "less_equals_bytes",
    "greater_equals_bytes",
    "equals",
    "not_equals",
)

Path = tuple[str, ...]


class Size(NamedTuple):
    """Bounds of the size of a value."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        return Size(capped(self.least * other.least), capped(self.most * other.most))

    def union(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))

    def cost(self, factor: float = TEXT_FACTOR) -> int:
        """The cost of going through it all once."""
        return scaled(self.most, factor)


UNKNOWN: Final = Size(0, MAX)


def fixed(size: int) -> Size:
    return Size(size, size)


def capped(number: int) -> int:
    """uint64 without overflow."""
    return min(number, MAX)


def scaled(number: int, factor: float) -> int:
    """`number * factor`, rounded up, with the rounding of float64."""
    return capped(math.ceil(float(number) * factor))


class Argument(NamedTuple):
    """What the rules for calls see of one argument."""

    node: Node
    path: Path
    type: Type
    size: Size | None

    @property
    def bounds(self) -> Size:
        """The size, or no bounds at all."""
        return self.size or UNKNOWN

    def literal_uint(self, default: int) -> int:
        """The value of a literal int, 0 if negative; `default` for everything else."""
        value = self.node.value if isinstance(self.node, Literal) else None
        return max(value, 0) if type(value) is int else default


class Site(NamedTuple):
    """One call with one of its overloads. `limit` tells the size of what the environment holds at a path."""

    function: str
    overload: str
    target: Argument | None
    args: tuple[Argument, ...]
    limit: Callable[[Path], Size | None]


Estimate = tuple[int, Size | None]
