"""One form for expressions that mean the same: what does not matter to any answer is taken out of the tree.

Spaces, quotes, parentheses and the spelling of numbers do not matter; nor do the order of the terms of && and || (an error is
absorbed alike from both sides), the side a constant stands on, negations of negations, `in` against `has` within a domain,
and the names of loop variables. Two expressions of one form give the same answer for every device (but for the text of an
error, and for what the search of an answer costs); two of different forms may still do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from regauge.cel.checker import check
from regauge.cel.environment import Environment
from regauge.cel.errors import SyntaxFault
from regauge.cel.parser import parse
from regauge.cel.program import CompileError, compile_selector
from regauge.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select
from regauge.cel.types import BOOL

_TURNED: Final = {"_<_": "_>_", "_<=_": "_>=_", "_>_": "_<_", "_>=_": "_<=_", "_==_": "_==_"}
_OPPOSITE: Final = {"_&&_": "_||_", "_||_": "_&&_"}
Names = Mapping[str, str]


def canonical_form(expression: str, environment: Environment) -> str | CompileError:
    """The form of an expression, or why it does not compile. Never raises; the form is for comparing, not for running."""
    compiled = compile_selector(expression, environment)
    if isinstance(compiled, CompileError):
        return compiled
    try:
        root = parse(expression, environment.variant.quoted_names)
    except SyntaxFault as fault:  # what compiled does parse
        return CompileError(fault.text)
    check(root, environment)
    return _form(root, {})


def _form(node: Node, names: Names) -> str:
    if isinstance(node, Literal):
        return _literal(node.value)
    if isinstance(node, Ident):
        return names.get(node.name, node.name.removeprefix("."))
    if isinstance(node, Select):
        return _select(node, names)
    if isinstance(node, Call):
        return _call(node, names)
    if isinstance(node, Fold):
        return _fold(node, names)
    if isinstance(node, ListNode):
        parts = [("?" if at in node.optionals else "") + _form(one, names) for at, one in enumerate(node.elements)]
        return _group("list", *parts)
    assert isinstance(node, MapNode)
    entries = [
        _group("?entry" if one.optional else "entry", _form(one.key, names), _form(one.value, names))
        for one in node.entries
    ]
    return _group("map", *sorted(entries))


def _group(head: str, *parts: str) -> str:
    return f"({' '.join((head, *parts))})"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return f"{type(value).__name__.lower()}:{value!r}"


def _select(node: Select, names: Names) -> str:
    if node.replaced is not None:
        return _form(node.replaced, names)
    whole, member = _form(node.operand, names), _literal(node.member)
    if node.test_only:
        return _group("has", whole, member)
    return _group("get" if _is_map(node.operand) else "field", whole, member)


def _is_map(node: Node) -> bool:
    return node.type is not None and node.type.kind == "map"


def _is_inner(node: Node) -> bool:
    """Whether it is a map of values. A map of domains has() every domain, and `in` only those that are there."""
    return node.type is not None and node.type.kind == "map" and node.type.params[1].kind != "map"


def _call(node: Call, names: Names) -> str:
    if node.function in _OPPOSITE:
        return _terms(node.function, [(node, False)], names)
    if node.function == "!_":
        return _negated(node.args[0], names)
    if node.function == "_!=_":
        return _group("not", _call(Call(node.offset, "_==_", None, node.args), names))
    if node.function in _TURNED:
        left, right = node.args
        function = node.function
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, right, function = right, left, _TURNED[function]
        return _group(function, _form(left, names), _form(right, names))
    if node.function == "_[_]" and _is_map(node.args[0]):
        return _group("get", *(_form(one, names) for one in node.args))
    if node.function == "@in":
        return _contained(node, names)
    target = () if node.target is None else (_group("of", _form(node.target, names)),)
    return _group(node.function, *target, *(_form(one, names) for one in node.args))


def _contained(node: Call, names: Names) -> str:
    item, whole = node.args
    if _is_inner(whole) and isinstance(item, Literal) and isinstance(item.value, str):
        return _group("has", _form(whole, names), _literal(item.value))
    if isinstance(whole, ListNode) and not whole.optionals and all(isinstance(one, Literal) for one in whole.elements):
        choices = _group("list", *sorted({_form(one, names) for one in whole.elements}))
        return _group("@in", _form(item, names), choices)
    return _group("@in", _form(item, names), _form(whole, names))


def _negated(node: Node, names: Names) -> str:
    """The form of `!node`: negations go inward, where two of them meet they go away."""
    if isinstance(node, Call):
        if node.function == "!_" and node.args[0].type == BOOL:
            return _form(node.args[0], names)
        if node.function in _OPPOSITE:
            return _terms(_OPPOSITE[node.function], [(node, True)], names)
        if node.function == "_!=_":
            return _call(Call(node.offset, "_==_", None, node.args), names)
    return _group("not", _form(node, names))


def _terms(function: str, pending: list[tuple[Node, bool]], names: Names) -> str:
    """The terms of a chain of one operator, however it is nested, in order and each once. True beside a term: negated."""
    forms: dict[str, bool] = {}
    while pending:
        node, negated = pending.pop()
        if isinstance(node, Call) and node.function == (_OPPOSITE[function] if negated else function):
            pending.extend((one, negated) for one in node.args)
        elif isinstance(node, Call) and node.function == "!_" and not negated:
            pending.append((node.args[0], True))
        else:
            forms[_negated(node, names) if negated else _form(node, names)] = negated or node.type == BOOL
    (first, is_bool), *more = sorted(forms.items())
    return first if is_bool and not more else _group(function, first, *(form for form, _ in more))


def _fold(node: Fold, names: Names) -> str:
    level = len(names)
    inner = dict(names)
    for at, name in enumerate((node.accumulator, node.key, node.value)):
        if name:
            inner[name] = f"%{level}.{at}"
    after = {**names, node.accumulator: inner[node.accumulator]}
    return _group(
        "fold",
        _form(node.range, names),
        _form(node.start, names),
        _form(node.condition, inner),
        _form(node.step, inner),
        _form(node.result, after),
    )
