"""What is checked behind the types: literals that must make sense, and literals of one element type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from regauge.cel.errors import EvaluationError, Issue
from regauge.cel.library.conversions import to_duration, to_timestamp
from regauge.cel.library.formatting import Clause, complaint, parse_template
from regauge.cel.library.regexes import compile_pattern
from regauge.cel.syntax import Call, ListNode, Literal, MapNode, Node
from regauge.cel.types import ERROR, Type, unwrap_optional

_LITERAL_CHECKS: Final[dict[str, Callable[[object], object]]] = {
    "duration": to_duration,
    "timestamp": to_timestamp,
    "matches": lambda value: compile_pattern(str(value)),
}
_BY_CLAUSE: Final = {
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
    "s": frozenset(
        ["list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"],
    ),
}


def validate(root: Node) -> list[Issue]:
    """The issues of a tree whose types are known."""
    issues: list[Issue] = []
    for node, exempt in _walk(root):
        if isinstance(node, Call):
            issues += _literal_argument(node)
            if node.function == "format":
                issues += _format_call(node)
        elif not exempt and isinstance(node, ListNode):
            issues += _one_type(node)
        elif not exempt and isinstance(node, MapNode):
            issues += _one_type_each(node)
    return issues


def _walk(root: Node) -> Iterator[tuple[Node, bool]]:
    """Every node once, and whether it is inside of a call of format, where types may be mixed."""
    pending = [(root, False)]
    seen: set[int] = set()
    while pending:
        node, exempt = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node, exempt
        inside = exempt or (isinstance(node, Call) and node.function == "format")
        pending.extend((child, inside) for child in reversed(node.children()))


def _literal_argument(node: Call) -> list[Issue]:
    check = _LITERAL_CHECKS.get(node.function)
    if check is None or not node.args or not isinstance(node.args[0], Literal):
        return []
    if node.function == "matches" and not isinstance(node.args[0].value, str):
        return []
    try:
        check(node.args[0].value)
    except EvaluationError:
        return [Issue(f"invalid {node.function} argument", node.args[0].offset)]
    return []


def _mismatch(node: Node, expected: Type, found: Type) -> Issue:
    return Issue(f"expected type '{expected}' but found '{found}'", node.offset)


def _one_type(node: ListNode) -> list[Issue]:
    expected: Type | None = None
    for index, element in enumerate(node.elements):
        found = _type(element, index in node.optionals)
        if expected is None:
            expected = found
        elif expected != found:
            return [_mismatch(element, expected, found)]
    return []


def _one_type_each(node: MapNode) -> list[Issue]:
    issues: list[Issue] = []
    expected: tuple[Type, Type] | None = None
    for entry in node.entries:
        found = (_type(entry.key, False), _type(entry.value, entry.optional))
        if expected is None:
            expected = found
            continue
        for part, wanted, given in zip((entry.key, entry.value), expected, found):
            if wanted != given:
                issues.append(_mismatch(part, wanted, given))
    return issues


def _type(node: Node, optional: bool) -> Type:
    kind = node.type or ERROR
    return unwrap_optional(kind)[0] if optional else kind


def _format_call(node: Call) -> list[Issue]:
    """A literal template is checked against a literal list of arguments."""
    template, args = node.target, node.args[0] if node.args else None
    if not (isinstance(template, Literal) and isinstance(template.value, str) and isinstance(args, ListNode)):
        return []
    try:
        pieces = parse_template(template.value)
    except EvaluationError as error:
        return [Issue(error.text, node.offset)]
    clauses = [piece for piece in pieces if isinstance(piece, Clause)]
    for index, clause in enumerate(clauses):
        if index >= len(args.elements):
            return [Issue(f"index {index} out of range", node.offset)]
        bad = _bad_argument(clause.letter, args.elements[index])
        if bad is not None:
            kind = bad.type or ERROR
            return [Issue(complaint(clause.letter, kind.runtime_name), bad.offset)]
    if len(args.elements) > len(clauses):
        text = "too many arguments supplied to string.format"
        return [Issue(f"{text} (expected {len(clauses)}, got {len(args.elements)})", node.offset)]
    return []


def _bad_argument(letter: str, node: Node) -> Node | None:
    kind = node.type or ERROR
    if kind.kind != "dyn" and kind.kind not in _BY_CLAUSE[letter]:
        return node
    if letter == "s" and isinstance(node, ListNode | MapNode):
        return next(filter(None, (_bad_argument("s", child) for child in node.children())), None)
    return None
