"""Text to tokens, and literals to values."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from regauge.cel.errors import SyntaxFault


class Token(NamedTuple):
    """`kind` is "int", "uint", "float", "string", "bytes", "ident", "escaped", "end", or the token's own text."""

    kind: str
    text: str
    offset: int


_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_STRING = (
    r"(?:[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n\r]*\"|'[^'\n\r]*')"
    rf"|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*')"
)
_TOKEN = re.compile(
    r"(?P<space>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB]{_STRING})|(?P<string>{_STRING})"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<ident>[A-Za-z_][A-Za-z0-9_]*)|(?P<escaped>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<mark>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
)
_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})


def tokens(source: str) -> list[Token]:
    """The tokens of `source`, with an "end" token behind. Raises `SyntaxFault`."""
    found: list[Token] = []
    offset, end = 0, len(source)
    match = _TOKEN.match
    while offset < end:
        token = match(source, offset)
        if token is None:
            shown = source[offset].encode("unicode_escape").decode()
            raise SyntaxFault(f"Syntax error: token recognition error at: '{shown}'", offset)
        kind, text = token.lastgroup or "", token.group()
        if kind == "mark" or text in _KEYWORDS:
            kind = text
        if kind != "space":
            found.append(Token(kind, text, offset))
        offset = token.end()
    found.append(Token("end", "<EOF>", end))
    return found


_NAMED: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPED = re.compile(
    r"\\(?:([abfnrtv\"'\\?`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


def text_value(token: Token) -> str:
    """The value of a string literal. Raises `SyntaxFault` for a code point that does not exist."""
    raw, body = _unquoted(token.text)
    if raw or "\\" not in body:
        return body

    def replace(match: re.Match[str]) -> str:
        named, byte, short, long, octal = match.groups()
        if named:
            return _NAMED[named]
        code = int(octal, 8) if octal else int(byte or short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise SyntaxFault("invalid unicode code point", token.offset)
        return chr(code)

    return _ESCAPED.sub(replace, body)


def bytes_value(token: Token) -> bytes:
    """The value of a bytes literal. Raises `SyntaxFault` for an escape that bytes do not have."""
    raw, body = _unquoted(token.text[1:])
    if raw or "\\" not in body:
        return body.encode()
    out, start = bytearray(), 0
    for match in _ESCAPED.finditer(body):
        out += body[start : match.start()].encode()
        start = match.end()
        named, byte, short, long, octal = match.groups()
        if short or long:
            raise SyntaxFault("unable to unescape string", token.offset)
        if named:
            out += _NAMED[named].encode()
        else:
            out.append(int(octal, 8) if octal else int(byte, 16))
    return bytes(out + body[start:].encode())


def _unquoted(text: str) -> tuple[bool, str]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return raw, text[quotes:-quotes]
