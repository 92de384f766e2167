"""CDI specs as files: JSON, or YAML in the layout of the reference library.

Strings that some YAML reader would take for a number, a truth value or a date are quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from regauge.base import InputError
from regauge.cdi.model import Spec
from regauge.cdi.names import spec_file_name
from regauge.cdi.scalars import must_be_quoted
from regauge.cdi.validation import problems

_INDENT = 4
_LETTER = r"[\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
_PLAIN = re.compile(rf"(?![ -\-:>?@\[\]`{{|}}]){_LETTER}+|[$()+]{_LETTER}*|[-?:](?! ){_LETTER}+")
_NOT_PLAIN = re.compile(r": |:$| #| $|^\.\.\.|^---")
_NOT_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_PRINTABLE = re.compile(rf"{_LETTER}*")


def document_of(spec: Spec) -> dict[str, Any]:
    """The spec as a JSON document, fields in the order of the specification."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))
    for device in document.setdefault("devices", []):
        device.setdefault("containerEdits", {})
    order = ("cdiVersion", "kind", "annotations", "devices", "containerEdits")
    document = {"cdiVersion": spec.cdi_version, "containerEdits": {}} | document
    return {name: document[name] for name in order if name in document}


def to_json(spec: Spec) -> bytes:
    """The spec as JSON on one line, with escapes where YAML readers, as which runtimes read it, refuse or fold a letter."""
    text = msgspec.json.encode(document_of(spec)).decode()
    return _NOT_YAML.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text).encode()


def to_yaml(spec: Spec) -> bytes:
    """The spec as YAML."""
    document = document_of(spec)
    if not document["containerEdits"]:
        del document["containerEdits"]
    return ("---\n" + "\n".join(_mapping(document, 0)) + "\n").encode()


def file_for(spec: Spec, name: str) -> tuple[str, bytes]:
    """(file name, content) to write a valid spec under `name`: JSON if it ends in .json, else YAML (.yaml is added).

    Raises `InputError` when the spec is invalid or the name is a path.
    """
    name = spec_file_name(name)
    for finding in problems(spec):
        if finding.severity == "error":
            raise finding.error().at(file=name)
    try:
        return name, to_json(spec) if name.endswith(".json") else to_yaml(spec)
    except UnicodeEncodeError:
        raise InputError("a text in the spec has half a character in it", fix="write valid Unicode") from None


def _mapping(document: dict[str, Any], column: int) -> Iterator[str]:
    pad = " " * column
    for name, value in document.items():
        key = f"{pad}{scalar_text(name)}:"
        inner = _INDENT * (column // _INDENT + 1)
        if isinstance(value, dict) and value:
            yield key
            yield from _mapping(value, inner)
        elif isinstance(value, list) and value:
            yield key
            yield from _sequence(value, inner)
        else:
            yield f"{key} {scalar_text(value)}"


def _sequence(items: list[Any], column: int) -> Iterator[str]:
    pad = " " * column
    for item in items:
        if isinstance(item, dict) and item:
            lines = list(_mapping(item, column + 2))
            yield f"{pad}- {lines[0].lstrip(' ')}"
            yield from lines[1:]
        else:
            yield f"{pad}- {scalar_text(item)}"


def scalar_text(value: Any) -> str:
    """A scalar (or an empty list or mapping) as YAML."""
    if not isinstance(value, str):
        return json.dumps(value)
    if must_be_quoted(value):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and not _NOT_PLAIN.search(value):
        return value
    if _PRINTABLE.fullmatch(value):
        return "'" + value.replace("'", "''") + "'"
    return _double_quoted(value)


def _double_quoted(value: str) -> str:
    """Like JSON, but characters outside the basic plane by one number: YAML knows no surrogate pairs."""
    value.encode()
    return "".join(
        json.dumps(letter)[1:-1] if letter < "\U00010000" else f"\\U{ord(letter):08X}" for letter in value
    ).join('""')
