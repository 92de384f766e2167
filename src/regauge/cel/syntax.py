"""The tree of an expression. The parser makes it, the checker writes `type` and `overloads` into it.

`offset` is the place in code points that error messages point to; `depth` and `weight` count
nested and all operations for the parser.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from regauge.cel.types import Type


@dataclass(slots=True, eq=False)
class Node:
    """What all nodes have."""

    offset: int
    type: Type | None = field(default=None, init=False)
    depth: int = field(default=0, init=False)
    weight: int = field(default=1, init=False)

    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: object


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str
    value: object = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    operand: Node
    member: str
    test_only: bool = False
    replaced: Ident | None = field(default=None, init=False)

    def children(self) -> tuple[Node, ...]:
        return (self.replaced,) if self.replaced else (self.operand,)


@dataclass(slots=True, eq=False)
class Call(Node):
    function: str
    target: Node | None
    args: tuple[Node, ...]
    overloads: tuple[str, ...] = field(default=(), init=False)

    def children(self) -> tuple[Node, ...]:
        return self.args if self.target is None else (self.target, *self.args)


@dataclass(slots=True, eq=False)
class ListNode(Node):
    elements: tuple[Node, ...]
    optionals: frozenset[int] = frozenset()

    def children(self) -> tuple[Node, ...]:
        return self.elements


@dataclass(slots=True, eq=False)
class Entry:
    """One entry of a map, or one field of a struct (then `key` is a literal string)."""

    key: Node
    value: Node
    optional: bool
    offset: int


@dataclass(slots=True, eq=False)
class MapNode(Node):
    entries: tuple[Entry, ...]

    def children(self) -> tuple[Node, ...]:
        return tuple(node for entry in self.entries for node in (entry.key, entry.value))


@dataclass(slots=True, eq=False)
class StructNode(Node):
    name: str
    entries: tuple[Entry, ...]

    def children(self) -> tuple[Node, ...]:
        return tuple(entry.value for entry in self.entries)


@dataclass(slots=True, eq=False)
class Fold(Node):
    """A comprehension: what all macros over lists and maps, and `cel.bind`, come down to."""

    range: Node
    key: str
    value: str
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node

    @property
    def is_bind(self) -> bool:
        """Whether this only names a value: no loop at all."""
        return (
            isinstance(self.range, ListNode)
            and not self.range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
        )

    def children(self) -> tuple[Node, ...]:
        return (self.range, self.start, self.condition, self.step, self.result)
