"""YAML text in, YAML text out: a document is written anew only where it changed, and keeps its comments and order. Pure.

What a document says is decided by the reader that everything else uses; what is done here is only carrying the difference
between two values into the text. The text that comes out is read again and compared: where comments cannot be kept with
the right content (shared anchors), the content wins and that is said.
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ruamel.yaml
import ruamel.yaml.error
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from regauge.base import BugError, InputError, canonical_json
from regauge.model import Object, read_documents

_MARKER = re.compile(r"^---(?:[ \t].*)?$", re.M)
_LOOKS_OTHER = re.compile(r"^(?:[-+]?[0-9.][0-9a-fA-FxXoO_.eE+-]*|true|false|yes|no|on|off|null|y|n|~|)$", re.I)
WIDTH = 100_000
MAX_COMPARED_LINES = 20_000
DEFAULT_INDENT = 2


@dataclass(frozen=True, slots=True)
class Replacement:
    """What an object of the text becomes: `object` (None: it is left out) with others `before` it, and a comment."""

    object: Object | None
    before: tuple[Object, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The new text, and notes on what could not be kept of the old one."""

    text: str
    notes: tuple[str, ...] = ()


def rewrite(text: str, file: str, replacements: Sequence[Replacement], head: Sequence[Object] = ()) -> Rewritten:
    """The text with its objects replaced, one replacement for each object in the order in which they are read.

    `head` are objects that come first. Objects that do not change keep every byte.
    """
    notes: list[str] = []
    parts = [dump(item) for item in head]
    remaining = list(replacements)
    for chunk in _chunks(text):
        values = [document.object for document in read_documents(chunk.encode(), file)]
        own, remaining = remaining[: len(values)], remaining[len(values) :]
        if not values:
            parts += [chunk] if chunk.strip() else []
            continue
        parts += _rewrite_chunk(chunk, file, values, own, notes)
    if remaining:
        raise BugError(f"{file}: {len(remaining)} objects more were read than are in its text")
    return Rewritten(join(parts), tuple(notes))


def join(parts: Sequence[str]) -> str:
    """Documents as one stream."""
    return "---\n".join(part if part.endswith("\n") else part + "\n" for part in parts)


def dump(object_: Object) -> str:
    """One object as YAML, in the order of its keys."""
    return _emit(_plain(object_), DEFAULT_INDENT, 0)


def _chunks(text: str) -> Iterator[str]:
    """The documents of a stream as text, without their markers. JSON and streams with directives are one chunk."""
    if text.lstrip()[:1] in ("{", "[") or text.startswith("%"):
        yield text
        return
    begin = 0
    for marker in _MARKER.finditer(text):
        yield text[begin : marker.start()]
        begin = marker.end() + 1
    yield text[begin:]


def _rewrite_chunk(
    chunk: str, file: str, values: list[Object], own: list[Replacement], notes: list[str]
) -> Iterator[str]:
    same = all(item.object == value and not item.before for value, item in zip(values, own))
    comments = "".join(item.comment for item in own)
    if same:
        yield comments + chunk.removeprefix("\n")
        return
    wanted = [
        object_ for item in own for object_ in (*item.before, *([item.object] if item.object is not None else []))
    ]
    if len(values) == 1 and not _is_list(chunk):
        yield from map(dump, own[0].before)
        if own[0].object is None:
            yield comments
            return
        yield comments + _edited(chunk, file, own[0].object, notes)
        return
    yield comments + _edited_list(chunk, file, wanted, notes)


def _is_list(chunk: str) -> bool:
    return bool(re.search(r"""^(?:kind:\s*["']?\w*List\b|\[)|"kind":\s*"\w*List\"""", chunk, re.M))


def _edited(chunk: str, file: str, wanted: Object, notes: list[str]) -> str:
    tree = _tree(chunk)
    if isinstance(tree, CommentedMap):
        _carry(tree, wanted)
        out = _kept_lines(chunk, _emit(tree, *_indent(chunk)), file, [wanted])
        if out is not None:
            return out
    notes.append(
        f"{file}: {wanted.get('kind')} {(wanted.get('metadata') or {}).get('name')}: its comments could not be kept"
    )
    return dump(wanted)


def _edited_list(chunk: str, file: str, wanted: list[Object], notes: list[str]) -> str:
    tree = _tree(chunk)
    if isinstance(tree, CommentedMap) and isinstance(tree.get("items"), list):
        _carry_list(tree["items"], wanted)
        out = _kept_lines(chunk, _emit(tree, *_indent(chunk)), file, wanted)
        if out is not None:
            return out
    notes.append(f"{file}: the comments of its list could not be kept")
    return join([dump(item) for item in wanted])


def _kept_lines(old: str, new: str, file: str, wanted: list[Object]) -> str | None:
    """The new text with the old one's lines where they differ in spacing only; None where neither says what is wanted."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if max(len(before), len(after)) <= MAX_COMPARED_LINES:
        matcher = difflib.SequenceMatcher(
            a=["".join(line.split()) for line in before], b=["".join(line.split()) for line in after], autojunk=False
        )
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            lines += before[i1:i2] if tag == "equal" else after[j1:j2]
        merged = "".join(lines)
        if _reads_as(merged, file, wanted):
            return merged
    return new if _reads_as(new, file, wanted) else None


def _tree(chunk: str) -> object:
    yaml = ruamel.yaml.YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.allow_duplicate_keys = True
    try:
        return yaml.load(chunk)
    except (ruamel.yaml.error.YAMLError, ValueError):
        return None


def _reads_as(text: str, file: str, wanted: list[Object]) -> bool:
    try:
        found = [document.object for document in read_documents(text.encode(), file)]
        return canonical_json(found) == canonical_json(wanted)
    except InputError:
        return False


def _emit(tree: object, indent: int, offset: int) -> str:
    yaml = ruamel.yaml.YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = WIDTH
    yaml.indent(mapping=indent, sequence=offset + 2, offset=offset)
    out = io.StringIO()
    yaml.dump(tree, out)
    return out.getvalue()


def _indent(chunk: str) -> tuple[int, int]:
    """How a document indents: mappings by so much, and the dashes of sequences by so much more than their key."""
    steps = [len(found[1]) for found in re.finditer(r"^[\w\"'].*:\s*(?:#.*)?\n( +)[^ #\n-]", chunk, re.M)]
    dashes = [
        len(found[2]) - len(found[1])
        for found in re.finditer(r"^( *)(?:- )?[\w\"'][^\n]*:\s*(?:#.*)?\n(?:\s*#[^\n]*\n)*( *)- ", chunk, re.M)
    ]
    step = steps[0] if steps else DEFAULT_INDENT
    offset = dashes[0] if dashes and 0 <= dashes[0] <= 8 else 0
    return step, offset


def _carry(tree: CommentedMap, wanted: Mapping[str, Any]) -> None:
    """Make a mapping of the text say what is wanted, touching only what differs."""
    for key in [key for key in tree if key not in wanted]:
        del tree[key]
    for key, value in wanted.items():
        if key not in tree or not _carry_into(tree[key], value):
            tree[key] = _plain(value)


def _carry_into(old: object, new: object) -> bool:
    """Whether `old` could be made to say `new` where it stands."""
    if isinstance(old, CommentedMap) and isinstance(new, dict):
        _carry(old, new)
        return True
    if isinstance(old, CommentedSeq) and isinstance(new, list):
        _carry_list(old, new)
        return True
    return _same_scalar(old, new)


def _same_scalar(old: object, new: object) -> bool:
    if isinstance(old, (dict, list)) or isinstance(new, (dict, list)):
        return False
    if type(new) in (str, int, bool) and isinstance(old, type(new)) and isinstance(old, bool) is isinstance(new, bool):
        return old == new
    out = _emit([old], DEFAULT_INDENT, 0)
    value = next(iter(read_documents(f"apiVersion: v\nkind: K\nv:\n{out}".encode(), "scalar"))).object["v"]
    return bool(value == [new]) and type(value[0]) is type(new)


def _carry_list(old: CommentedSeq, new: list[Any]) -> None:
    """Items are matched by their names, or else by their place."""
    by_name = {_name(item): item for item in old if _name(item)}
    places = [by_name.get(_name(item)) if _name(item) else None for item in new]
    if len(old) == len(new) and all(place is None or place is item for place, item in zip(places, old)):
        for index, item in enumerate(new):
            if not _carry_into(old[index], item):
                old[index] = _plain(item)
        return
    kept = []
    for place, item in zip(places, new):
        kept.append(place if place is not None and _carry_into(place, item) else _plain(item))
    comments = {index: old.ca.items[index] for index in list(old.ca.items) if index < len(old)}
    positions = {id(item): comments.get(index) for index, item in enumerate(old)}
    old.clear()
    old.ca.items.clear()
    for index, item in enumerate(kept):
        old.append(item)
        comment = positions.get(id(item))
        if comment is not None:
            old.ca.items[index] = comment


def _name(item: object) -> str:
    """What an item of a list goes by: its name, with its kind where it is an object."""
    if not isinstance(item, dict):
        return ""
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        return f"{item.get('kind')}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    name = item.get("name")
    return name if isinstance(name, str) else ""


def _plain(value: Any) -> Any:
    """A JSON value for the round-trip writer; text that YAML 1.1 would read as something else is quoted."""
    if isinstance(value, dict):
        made = CommentedMap()
        for key, item in value.items():
            made[key] = _plain(item)
        return made
    if isinstance(value, list):
        return CommentedSeq([_plain(item) for item in value])
    if isinstance(value, str) and _LOOKS_OTHER.match(value):
        return DoubleQuotedScalarString(value)
    return value
