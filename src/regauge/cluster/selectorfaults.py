"""Why a label selector cannot be read, in the words of upstream's parser. Pure. Source: apimachinery pkg/labels of 1.36."""

from __future__ import annotations

import re
from functools import lru_cache

from regauge.cluster.admission.names import label_value_faults, qualified_name_faults
from regauge.cluster.refusals import shown

_TOKEN = re.compile(r"==|!=|[(),!=<>]|[^\s(),!=<>]+")
_SIGNS = frozenset({"(", ")", ",", "!", "=", "==", "!=", "<", ">"})
_SETS = ("in", "notin")
_OPERATORS = {"in", "notin", "=", "==", "!=", "<", ">"}
_EXPECTED = "in, notin, =, ==, !=, gt, lt"


class _Fault(Exception):
    """What the parser says."""


MOST_REMEMBERED = 1024


@lru_cache(MOST_REMEMBERED)
def selector_fault(text: str) -> str:
    """What is wrong with a label selector, "" when it can be read."""
    try:
        _Reader(_TOKEN.findall(text)).read()
    except _Fault as fault:
        return str(fault)
    return ""


class _Reader:
    """Goes over the tokens of a selector once."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def read(self) -> None:
        while self._peek():
            token = self._peek()
            if token in _SIGNS and token != "!":
                raise _Fault(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                self._requirement()
            except _Fault as fault:
                raise _Fault(f"unable to parse requirement: {fault}") from None
            token = self._take()
            if token not in ("", ","):
                raise _Fault(f"found '{token}', expected: ',' or 'end of string'")
            after = self._peek()
            if token == "," and (not after or (after in _SIGNS and after != "!")):
                raise _Fault(f"found '{after}', expected: identifier after ','")

    def _requirement(self) -> None:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if not key or key in _SIGNS:
            raise _Fault(f"found '{key}', expected: identifier")
        for fault in qualified_name_faults(key):
            raise _Fault(f"<nil>: Invalid value: {shown(key)}: {fault}")
        if self._peek() in ("", ","):
            return
        operator = self._take()
        if absent or operator not in _OPERATORS:
            raise _Fault(f"found '{operator}', expected: {_EXPECTED}")
        values = self._values() if operator in _SETS else [self._value()]
        for place, value in enumerate(values):
            path = f"values[{place}][{key}]"
            if operator in "<>" and not value.lstrip("-").isdigit():
                told = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise _Fault(f"values[{place}]: Invalid value: {shown(value)}: {told}")
            for fault in label_value_faults(value):
                raise _Fault(f"{path}: Invalid value: {shown(value)}: {fault}")

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        value = self._take()
        if value in _SIGNS:
            raise _Fault(f"found '{value}', expected: identifier")
        return value

    def _values(self) -> list[str]:
        token = self._take()
        if token != "(":
            raise _Fault(f"found '{token}' expected: '('")
        first = self._peek()
        if first != ")" and first != "," and (not first or first in _SIGNS):
            raise _Fault(f"found '{first}', expected: ',', ')' or identifier")
        values: list[str] = []
        while self._peek() != ")":
            token = self._take()
            if token == ",":
                continue
            if not token or token in _SIGNS:
                raise _Fault(f"found '{token}', expected: ',', or identifier")
            values.append(token)
            if self._peek() not in (",", ")"):
                raise _Fault(f"found '{self._peek()}', expected: ',' or ')'")
        self._take()
        return values
