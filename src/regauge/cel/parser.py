"""Tokens to a tree. The limits on size and nesting are cel-go's."""

from __future__ import annotations

import sys
from typing import Final

from regauge.cel.errors import SyntaxFault
from regauge.cel.lexer import Token, bytes_value, text_value, tokens
from regauge.cel.macros import COPYING, expand
from regauge.cel.syntax import Call, Entry, Ident, ListNode, Literal, MapNode, Node, Select, StructNode
from regauge.cel.values import Uint

MAX_CODE_POINTS: Final = 100_000
MAX_DEPTH: Final = 250
MAX_WEIGHT: Final = 100_000
MAX_COPIED: Final = 4_000

STARTS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
"""What an expression may begin with, as cel-go's parser lists it."""

_FRAMES: Final = 12_000
_SHALLOW_TOKENS: Final = 80
_RELATIONS: Final = frozenset({"<", "<=", ">=", ">", "==", "!=", "in"})
_OPERATORS: Final = {"in": "@in", "!": "!_", "-": "-_"}
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)


def parse(source: str, quoted_names: bool = True) -> Node:
    """The tree of `source`, macros expanded. `quoted_names` allows names in backquotes. Raises `SyntaxFault`."""
    if len(source) > MAX_CODE_POINTS:
        text = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_CODE_POINTS}"
        raise SyntaxFault(text, -1)
    found = tokens(source)
    if len(found) > _SHALLOW_TOKENS and sys.getrecursionlimit() < _FRAMES:
        # Nesting is limited to 250 levels, which take up to a few thousand frames here and in what follows.
        sys.setrecursionlimit(_FRAMES)
    return _Parser(found, quoted_names).start()


class _Parser:
    """Recursive descent. `rules` counts how deep each rule of the grammar is nested."""

    def __init__(self, found: list[Token], quoted_names: bool) -> None:
        self.quoted_names = quoted_names
        self.tokens = found
        self.at = 0
        self.rules = {"expr": 0, "relation": 0, "calc": 0, "member": 0}

    # -- tokens

    def peek(self) -> str:
        return self.tokens[self.at].kind

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, kind: str) -> Token | None:
        return self.take() if self.tokens[self.at].kind == kind else None

    def expect(self, kind: str, shown: str | None = None) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise self.unexpected(token, shown or f"'{kind}'")
        return self.take()

    def unexpected(self, token: Token, expecting: str) -> SyntaxFault:
        text = f"Syntax error: mismatched input '{token.text}' expecting {expecting}"
        return SyntaxFault(text, token.offset)

    # -- limits

    def enter(self, rule: str, levels: int = 1) -> None:
        self.rules[rule] += levels
        if self.rules[rule] > MAX_DEPTH:
            raise SyntaxFault(f"expression recursion limit exceeded: {MAX_DEPTH}", -1)

    def leave(self, rule: str, levels: int = 1) -> None:
        self.rules[rule] -= levels

    def deeper(self, node: Node, *parts: Node) -> Node:
        """Note that `node` is an operation around `parts`."""
        return self.nest(node, 1, parts)

    def nest(self, node: Node, levels: int, parts: tuple[Node, ...]) -> Node:
        node.weight = 1 + sum(part.weight for part in parts)
        if node.weight > MAX_WEIGHT:
            raise self.too_heavy()
        depth = max((part.depth for part in parts), default=0) + levels
        if depth > MAX_DEPTH:
            raise SyntaxFault("max recursion depth exceeded", -1)
        node.depth = depth
        return node

    def too_heavy(self) -> SyntaxFault:
        return SyntaxFault(f"unsupported: the expression expands to more than {MAX_WEIGHT} operations", -1)

    # -- rules

    def start(self) -> Node:
        node = self.expression()
        if self.peek() != "end":
            raise self.unexpected(self.tokens[self.at], "<EOF>")
        return node

    def expression(self) -> Node:
        self.enter("expr")
        node = self.logical("||")
        question = self.accept("?")
        if question:
            if_true = self.logical("||")
            self.expect(":")
            if_false = self.expression()
            parts = (node, if_true, if_false)
            node = self.deeper(Call(question.offset, "_?_:_", None, parts), *parts)
        self.leave("expr")
        return node

    def logical(self, operator: str) -> Node:
        node = self.logical("&&") if operator == "||" else self.relation()
        terms, places = [node], []
        while (token := self.accept(operator)) is not None:
            places.append(token.offset)
            terms.append(self.logical("&&") if operator == "||" else self.relation())
        if len(terms) == 1:
            return node
        return self.balanced(f"_{operator}_", terms, places)

    def balanced(self, function: str, terms: list[Node], places: list[int]) -> Node:
        """Halved again and again, so that long chains do not nest deep."""
        if len(terms) == 1:
            return terms[0]
        middle = (len(places) - 1) // 2 + 1
        left = self.balanced(function, terms[:middle], places[: middle - 1])
        right = self.balanced(function, terms[middle:], places[middle:])
        return self.nest(Call(places[middle - 1], function, None, (left, right)), 0, (left, right))

    def relation(self) -> Node:
        self.enter("relation")
        node, levels = self.calculation(), 1
        while self.peek() in _RELATIONS:
            token = self.take()
            self.enter("relation")
            levels += 1
            self.enter("relation")
            right = self.calculation()
            self.leave("relation")
            name = _OPERATORS.get(token.kind) or f"_{token.kind}_"
            node = self.deeper(Call(token.offset, name, None, (node, right)), node, right)
        self.leave("relation", levels)
        return node

    def calculation(self) -> Node:
        self.enter("calc")
        node, levels = self.product(), 1
        while self.peek() in ("+", "-"):
            token = self.take()
            self.enter("calc")
            levels += 1
            self.enter("calc")
            right = self.product()
            self.leave("calc")
            node = self.deeper(Call(token.offset, f"_{token.kind}_", None, (node, right)), node, right)
        self.leave("calc", levels)
        return node

    def product(self) -> Node:
        node, levels = self.unary(), 0
        while self.peek() in ("*", "/", "%"):
            token = self.take()
            self.enter("calc")
            levels += 1
            self.enter("calc")
            right = self.unary()
            self.leave("calc")
            node = self.deeper(Call(token.offset, f"_{token.kind}_", None, (node, right)), node, right)
        self.leave("calc", levels)
        return node

    def unary(self) -> Node:
        first = self.tokens[self.at]
        if first.kind not in ("!", "-"):
            return self.member()
        count = 0
        while self.accept(first.kind):
            count += 1
        if first.kind == "-" and count == 1 and self.peek() in ("int", "float"):
            count = 0
            node = self.member(sign="-")
        else:
            node = self.member()
        if count % 2 == 0:
            return node
        return self.nest(Call(first.offset, _OPERATORS[first.kind], None, (node,)), 0, (node,))

    def member(self, sign: str = "") -> Node:
        self.enter("member")
        node, levels = self.primary(sign), 1
        while self.peek() in (".", "["):
            self.enter("member")
            levels += 1
            node = self.index(node) if self.peek() == "[" else self.selection(node)
        self.leave("member", levels)
        return node

    def index(self, node: Node) -> Node:
        token = self.take()
        function = "_[?_]" if self.accept("?") else "_[_]"
        index = self.expression()
        self.expect("]")
        return self.deeper(Call(token.offset, function, None, (node, index)), node, index)

    def selection(self, node: Node) -> Node:
        dot = self.take()
        if self.accept("?"):
            place = self.tokens[self.at].offset
            name = Literal(place, self.field())
            return self.nest(Call(dot.offset, "_?._", None, (node, name)), 1, (node,))
        quoted = self.peek() == "escaped"
        name_text = self.field()
        if quoted or self.peek() != "(":
            return self.deeper(Select(dot.offset, node, name_text), node)
        opening = self.take()
        args = self.arguments(")")
        repeated = (node,) if name_text in COPYING else ()
        if repeated and node.weight > MAX_COPIED:
            raise self.too_heavy()
        call = expand(opening.offset, name_text, node, args)
        return self.deeper(call or Call(opening.offset, name_text, node, args), node, *repeated, *args)

    def field(self) -> str:
        token = self.take()
        if token.kind == "escaped":
            if not self.quoted_names:
                raise SyntaxFault("unsupported syntax: '`'", token.offset)
            return token.text[1:-1]
        if token.kind != "ident":
            raise self.unexpected(token, "IDENTIFIER")
        return token.text

    def arguments(self, closing: str) -> tuple[Node, ...]:
        args: list[Node] = []
        if self.peek() != closing:
            args.append(self.expression())
            while self.accept(","):
                args.append(self.expression())
        self.expect(closing)
        return tuple(args)

    def primary(self, sign: str) -> Node:
        token = self.take()
        if token.kind in ("int", "uint", "float"):
            return Literal(token.offset - len(sign), _number(token, sign))
        if token.kind == "string":
            return Literal(token.offset, text_value(token))
        if token.kind == "bytes":
            return Literal(token.offset, bytes_value(token))
        if token.kind in ("true", "false", "null"):
            return Literal(token.offset, {"true": True, "false": False, "null": None}[token.kind])
        if token.kind == "(":
            node = self.expression()
            self.expect(")")
            return node
        if token.kind == "[":
            return self.list_literal(token)
        if token.kind == "{":
            return self.map_literal(token)
        if token.kind in (".", "ident"):
            return self.name(token)
        raise self.unexpected(token, STARTS)

    def name(self, token: Token) -> Node:
        prefix, place = "", token.offset
        if token.kind == ".":
            prefix, token = ".", self.expect("ident", "IDENTIFIER")
        if self.is_message():
            return self.message(prefix + token.text)
        if token.text in _RESERVED:
            raise SyntaxFault(f"reserved identifier: {token.text}", place)
        opening = self.accept("(")
        if opening is None:
            return Ident(token.offset, prefix + token.text)
        args = self.arguments(")")
        call = expand(opening.offset, prefix + token.text, None, args)
        return self.nest(call or Call(opening.offset, prefix + token.text, None, args), 0, args)

    def is_message(self) -> bool:
        """Whether names with dots and then a brace follow: a message literal."""
        at = self.at
        while self.tokens[at].kind == "." and self.tokens[at + 1].kind == "ident":
            at += 2
        return self.tokens[at].kind == "{"

    def message(self, name: str) -> Node:
        while self.accept("."):
            name += "." + self.take().text
        token, entries = self.take(), []
        while self.peek() != "}":
            optional = self.accept("?") is not None
            place = self.tokens[self.at].offset
            key = Literal(place, self.field())
            colon = self.expect(":")
            entries.append(Entry(key, self.expression(), optional, colon.offset))
            if not self.accept(","):
                break
        self.expect("}")
        return StructNode(token.offset, name, tuple(entries))

    def list_literal(self, token: Token) -> Node:
        elements: list[Node] = []
        optionals = set()
        while self.peek() != "]":
            if self.peek() == "," and not elements:
                self.take()
                break
            if self.accept("?"):
                optionals.add(len(elements))
            elements.append(self.expression())
            if not self.accept(","):
                break
        self.expect("]")
        return self.nest(ListNode(token.offset, tuple(elements), frozenset(optionals)), 0, tuple(elements))

    def map_literal(self, token: Token) -> Node:
        entries: list[Entry] = []
        while self.peek() != "}":
            if self.peek() == "," and not entries:
                self.take()
                break
            optional = self.accept("?") is not None
            key = self.expression()
            colon = self.expect(":")
            entries.append(Entry(key, self.expression(), optional, colon.offset))
            if not self.accept(","):
                break
        self.expect("}")
        node = MapNode(token.offset, tuple(entries))
        return self.nest(node, 0, node.children())


def _number(token: Token, sign: str) -> object:
    if token.kind == "float":
        value = float(sign + token.text)
        if value in (float("inf"), float("-inf")):
            raise SyntaxFault("invalid double literal", token.offset)
        return value
    digits = token.text.rstrip("uU") if token.kind == "uint" else token.text
    number = -1
    if len(digits) <= 64:
        number = int(digits[2:], 16) if digits.startswith("0x") else int(digits)
    if token.kind == "uint":
        if not 0 <= number < 2**64:
            raise SyntaxFault("invalid uint literal", token.offset)
        return Uint(number)
    if number < 0 or not -(2**63) <= (-number if sign else number) < 2**63:
        raise SyntaxFault("invalid int literal", token.offset)
    return -number if sign else number
