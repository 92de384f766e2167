"""The macros: calls that the parser replaces by comprehensions, as cel-go and its extensions define them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Final

from regauge.cel.errors import SyntaxFault
from regauge.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select

ACCUMULATOR: Final = "@result"
_UNUSED: Final = "#unused"
_SORTED: Final = "@__sortBy_input__"
_OVERWRITES: Final = "iteration variable overwrites accumulator variable"

# Macros whose expansion has the target twice.
COPYING: Final = frozenset({"optMap", "optFlatMap"})

Args = tuple[Node, ...]
Macro = Callable[[int, Node | None, Args], Node | None]


def expand(offset: int, function: str, target: Node | None, args: Args) -> Node | None:
    """What the call stands for, or None when it is no macro. Raises `SyntaxFault`."""
    macro = _MACROS.get((function, len(args), target is not None))
    return macro(offset, target, args) if macro else None


def _has(offset: int, target: Node | None, args: Args) -> Node:
    argument = args[0]
    if isinstance(argument, Select) and not argument.test_only:
        return Select(offset, argument.operand, argument.member, test_only=True)
    raise SyntaxFault("invalid argument to has() macro", argument.offset)


def _variable(node: Node, complaint: str) -> str:
    if not isinstance(node, Ident):
        raise SyntaxFault(complaint, node.offset)
    if node.name in (ACCUMULATOR, "__result__"):
        raise SyntaxFault(_OVERWRITES, node.offset)
    return node.name


def _one(args: Args, complaint: str) -> tuple[str, str]:
    return _variable(args[0], complaint), ""


def _two(args: Args) -> tuple[str, str]:
    first = args[0].name if isinstance(args[0], Ident) else ""
    second = args[1].name if isinstance(args[1], Ident) else ""
    if first and first == second:
        raise SyntaxFault(f"duplicate variable name: {first}", args[1].offset)
    complaint = "argument must be a simple name"
    return _variable(args[0], complaint), _variable(args[1], complaint)


def _accumulator(offset: int) -> Ident:
    return Ident(offset, ACCUMULATOR)


def _call(offset: int, function: str, *args: Node) -> Call:
    return Call(offset, function, None, args)


def _fold(offset: int, target: Node, names: tuple[str, str], parts: tuple[Node, Node, Node, Node]) -> Fold:
    start, condition, step, result = parts
    return Fold(offset, target, names[0], names[1], ACCUMULATOR, start, condition, step, result)


def _quantifier(offset: int, target: Node, names: tuple[str, str], test: Node, kind: str) -> Node:
    accumulator = _accumulator(offset)
    if kind == "all":
        going = _call(offset, "@not_strictly_false", _accumulator(offset))
        step = _call(offset, "_&&_", _accumulator(offset), test)
        return _fold(offset, target, names, (Literal(offset, True), going, step, accumulator))
    if kind == "exists":
        going = _call(offset, "@not_strictly_false", _call(offset, "!_", _accumulator(offset)))
        step = _call(offset, "_||_", _accumulator(offset), test)
        return _fold(offset, target, names, (Literal(offset, False), going, step, accumulator))
    more = _call(offset, "_+_", _accumulator(offset), Literal(offset, 1))
    step = _call(offset, "_?_:_", test, more, _accumulator(offset))
    result = _call(offset, "_==_", accumulator, Literal(offset, 1))
    return _fold(offset, target, names, (Literal(offset, 0), Literal(offset, True), step, result))


def _quantifier_one(kind: str) -> Macro:
    def macro(offset: int, target: Node | None, args: Args) -> Node:
        assert target is not None
        names = _one(args, "argument must be a simple name")
        return _quantifier(offset, target, names, args[1], kind)

    return macro


def _quantifier_two(kind: str) -> Macro:
    def macro(offset: int, target: Node | None, args: Args) -> Node:
        assert target is not None
        return _quantifier(offset, target, _two(args), args[2], kind)

    return macro


def _collect(offset: int, target: Node, names: tuple[str, str], test: Node | None, item: Node) -> Node:
    """A list of the items for which the test holds."""
    step: Node = _call(offset, "_+_", _accumulator(offset), ListNode(offset, (item,)))
    return _filtered(offset, target, names, (ListNode(offset, ()), test, step))


def _filtered(offset: int, target: Node, names: tuple[str, str], parts: tuple[Node, Node | None, Node]) -> Node:
    start, test, step = parts
    if test is not None:
        step = _call(offset, "_?_:_", test, step, _accumulator(offset))
    return _fold(offset, target, names, (start, Literal(offset, True), step, _accumulator(offset)))


def _map(offset: int, target: Node | None, args: Args) -> Node:
    assert target is not None
    names = _one(args, "argument is not an identifier")
    return _collect(offset, target, names, args[1] if len(args) == 3 else None, args[-1])


def _filter(offset: int, target: Node | None, args: Args) -> Node:
    assert target is not None
    return _collect(offset, target, _one(args, "argument is not an identifier"), args[1], args[0])


def _transform_list(offset: int, target: Node | None, args: Args) -> Node:
    assert target is not None
    return _collect(offset, target, _two(args), args[2] if len(args) == 4 else None, args[-1])


def _transform_map(offset: int, target: Node | None, args: Args) -> Node:
    assert target is not None
    names = _two(args)
    step = _call(offset, "cel.@mapInsert", _accumulator(offset), Ident(offset, names[0]), args[-1])
    return _filtered(offset, target, names, (MapNode(offset, ()), args[2] if len(args) == 4 else None, step))


def _transform_entries(offset: int, target: Node | None, args: Args) -> Node:
    assert target is not None
    step = _call(offset, "cel.@mapInsert", _accumulator(offset), args[-1])
    test = args[2] if len(args) == 4 else None
    return _filtered(offset, target, _two(args), (MapNode(offset, ()), test, step))


def _bound(offset: int, name: str, value: Node, result: Node) -> Fold:
    empty, never = ListNode(offset, ()), Literal(offset, False)
    return Fold(offset, empty, _UNUSED, "", name, value, never, Ident(offset, name), result)


def _bind(offset: int, target: Node | None, args: Args) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise SyntaxFault("cel.bind() variable names must be simple identifiers", args[0].offset)
    return _bound(offset, args[0].name, args[1], args[2])


def _optional(wrap: bool) -> Macro:
    name = "optMap" if wrap else "optFlatMap"

    def macro(offset: int, target: Node | None, args: Args) -> Node:
        assert target is not None
        if not isinstance(args[0], Ident):
            raise SyntaxFault(f"{name}() variable name must be a simple identifier", args[0].offset)
        value = Call(offset, "value", deepcopy(target), ())
        mapped: Node = _bound(offset, args[0].name, value, args[1])
        if wrap:
            mapped = _call(offset, "optional.of", mapped)
        has_value = Call(offset, "hasValue", target, ())
        return _call(offset, "_?_:_", has_value, mapped, _call(offset, "optional.none"))

    return macro


def _sort_by(offset: int, target: Node | None, args: Args) -> Node:
    assert target is not None
    if not isinstance(target, (ListNode, Select, Ident, Fold, Call)):
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise SyntaxFault(text, target.offset)
    keys = _map(offset, Ident(offset, _SORTED), args)
    ordered = Call(offset, "@sortByAssociatedKeys", Ident(offset, _SORTED), (keys,))
    return _bound(offset, _SORTED, target, ordered)


_MACROS: Final[dict[tuple[str, int, bool], Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier_one("all"),
    ("exists", 2, True): _quantifier_one("exists"),
    ("exists_one", 2, True): _quantifier_one("one"),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("all", 3, True): _quantifier_two("all"),
    ("exists", 3, True): _quantifier_two("exists"),
    ("existsOne", 3, True): _quantifier_two("one"),
    ("exists_one", 3, True): _quantifier_two("one"),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_entries,
    ("transformMapEntry", 4, True): _transform_entries,
    ("optMap", 2, True): _optional(wrap=True),
    ("optFlatMap", 2, True): _optional(wrap=False),
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
}
