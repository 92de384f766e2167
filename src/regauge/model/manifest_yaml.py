"""YAML as kubectl reads it, from the events of the C parser, without recursion and with bounds.

kubectl turns YAML into JSON with a YAML 1.1 reader: `yes`, `on` and `y` are booleans, `010` is eight, dates and
`12:30:45` stay text. Of two equal keys the last one wins; that is kept and said as a warning. Every mapping
remembers the line it began on.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import yaml

from regauge.base import InputError, Where

MAX_DEPTH = 200
MAX_ALIASED_NODES = 1_000_000

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INT = re.compile(r"[-+]?(0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)")
_NUMBER_START = frozenset("+-.0123456789")
_SPECIAL = {
    ".inf": float("inf"),
    ".Inf": float("inf"),
    ".INF": float("inf"),
    "+.inf": float("inf"),
    "-.inf": float("-inf"),
    "-.Inf": float("-inf"),
    "-.INF": float("-inf"),
    ".nan": float("nan"),
    ".NaN": float("nan"),
    ".NAN": float("nan"),
}


class LinedDict(dict[str, Any]):
    """A mapping that knows the line (from 1) it began on."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


def plain_scalar(text: str) -> Any:
    """The JSON value of an unquoted scalar without a tag."""
    if text in _NULLS:
        return None
    first = text[0]
    if first in _NUMBER_START:
        return _number(text)
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return text


def _number(text: str) -> Any:
    if text in _SPECIAL:
        return _SPECIAL[text]
    digits = text.replace("_", "")
    if _INT.fullmatch(digits):
        sign, body = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
        if len(body) > 1 and body[0] == "0" and body[1].isdigit():
            body = "0o" + body[1:]
        value = int(sign + body, 0)
        return value if -(2**63) <= value < 2**63 else float(value)
    if _FLOAT.fullmatch(digits):
        return _as_json_number(float(digits))
    return text


def _as_json_number(value: float) -> int | float:
    """A float that is whole is written without a fraction in JSON, and so comes back as an integer."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def read_yaml(data: bytes, file: str) -> Iterator[tuple[Any, int, tuple[str, ...]]]:
    """Every document of a YAML stream as (JSON value, first line, warnings). Raises `InputError` with the place."""
    try:
        loader = _LOADER(data)
    except (yaml.YAMLError, UnicodeError) as error:
        raise _input_error(error, file) from None
    try:
        while True:
            event = loader.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _Builder(loader, file)
                value = builder.build()
                yield value, builder.line, tuple(builder.warnings)
    except (yaml.YAMLError, UnicodeError, binascii.Error) as error:
        raise _input_error(error, file) from None
    except InputError as error:
        raise error.at(file=file) from None
    finally:
        loader.dispose()


def _input_error(error: Exception, file: str) -> InputError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    line = None if mark is None else mark.line + 1
    return InputError(f"not valid YAML: {problem}", where=Where(file, line), fix="check indentation, quotes and colons")


class _Builder:
    """Builds one document from parser events with a stack of its own."""

    def __init__(self, loader: Any, file: str) -> None:
        self._loader = loader
        self._file = file
        self._anchors: dict[str, Any] = {}
        self._aliased = 0
        self.line = 1
        self.warnings: list[str] = []

    def build(self) -> Any:
        stack: list[_Frame] = []
        root: Any = None
        first = True
        while True:
            event = self._loader.get_event()
            line = event.start_mark.line + 1
            if first:
                self.line, first = line, False
            if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                value = stack.pop().finish()
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                if len(stack) >= MAX_DEPTH:
                    raise InputError(f"nested deeper than {MAX_DEPTH} levels", where=Where(self._file, line))
                frame = _Frame(isinstance(event, yaml.MappingStartEvent), line)
                stack.append(frame)
                if event.anchor:
                    self._anchors[event.anchor] = frame.value
                continue
            elif isinstance(event, yaml.AliasEvent):
                value = self._alias(event.anchor, line)
            elif isinstance(event, yaml.DocumentEndEvent):
                return root
            else:
                value = _scalar(event)
                if event.anchor:
                    self._anchors[event.anchor] = value
            if stack:
                self._place(stack[-1], value, line)
            else:
                root = value

    def _place(self, frame: _Frame, value: Any, line: int) -> None:
        duplicate = frame.add(value, line)
        if duplicate is not None:
            self.warnings.append(f"line {line}: the key {duplicate} stands twice; the last one counts, as for kubectl")

    def _alias(self, anchor: str | None, line: int) -> Any:
        if anchor is None or anchor not in self._anchors:
            raise InputError(f"the alias *{anchor} has no anchor", where=Where(self._file, line))
        value = self._anchors[anchor]
        self._aliased += _size(value, MAX_ALIASED_NODES - self._aliased)
        if self._aliased >= MAX_ALIASED_NODES:
            raise InputError(
                "its aliases unfold to more than a million values",
                where=Where(self._file, line),
                fix="write the values out or use fewer aliases",
            )
        return value


class _Frame:
    """A mapping or a sequence that is being filled."""

    __slots__ = ("_key", "_merge", "value")

    def __init__(self, mapping: bool, line: int) -> None:
        self.value: Any = LinedDict(line) if mapping else []
        self._key: Any = _NO_KEY
        self._merge: list[Any] = []

    def add(self, value: Any, line: int) -> str | None:
        """Add the next value; the key when it stood there before."""
        if isinstance(self.value, list):
            self.value.append(value)
            return None
        if self._key is _NO_KEY:
            if value is None:
                raise InputError("a key is null", where=Where(None, line), fix="quote the key, or give it a name")
            self._key = _key_text(value)
            return None
        key, self._key = self._key, _NO_KEY
        if key == "<<" and isinstance(value, (dict, list)):
            self._merge.extend(value if isinstance(value, list) else [value])
            return None
        duplicate = key if key in self.value else None
        self.value[key] = value
        return duplicate

    def finish(self) -> Any:
        for merged in self._merge:
            if isinstance(merged, dict):
                for key, value in merged.items():
                    self.value.setdefault(key, value)
        return self.value


_NO_KEY = object()


def _key_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _scalar(event: Any) -> Any:
    tag = event.tag
    if event.implicit[0] and tag in (None, "!") and not event.style:
        return plain_scalar(event.value)
    if tag == "tag:yaml.org,2002:binary":
        return base64.b64decode(event.value, validate=True).decode()
    if tag in (None, "!", "tag:yaml.org,2002:str") or not tag.startswith("tag:yaml.org,2002:"):
        return event.value
    return plain_scalar(event.value)


def _size(value: Any, limit: int) -> int:
    """How many values `value` unfolds to, counted no further than `limit`."""
    count, todo = 0, [value]
    while todo and count < limit:
        item = todo.pop()
        count += 1
        if isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return count
