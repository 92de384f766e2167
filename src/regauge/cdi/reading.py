"""Strict reading of CDI specs: YAML and JSON alike, unknown fields and wrong types refused, every complaint with its line.

Files that are plain JSON of the right types, as most writers make them, take a short cut that gives the same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from regauge.base import InputError
from regauge.cdi.findings import Finding, Path
from regauge.cdi.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from regauge.cdi.scalars import NULLS, TAG, Scalar, WrongScalar, boolean, integer, plain, tagged
from regauge.cdi.tree import PLAIN, QUOTED, MappingNode, Node, ScalarNode, SequenceNode, compose, line_of
from regauge.cdi.validation import problems

VALUES_LIMIT = 1_000_000  # values read from one file, each expansion of an alias counted

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as read: the spec, unless it could not be understood, and what was found. `spec` may still be invalid."""

    spec: Spec | None
    findings: tuple[Finding, ...]

    @property
    def error(self) -> Finding | None:
        """The first error, the one the reference library stops at."""
        return next((finding for finding in self.findings if finding.severity == "error"), None)


def read_spec(text: str | bytes, file: str | None = None) -> Spec:
    """A valid spec. Raises `InputError` with file, line and field for the first thing that is wrong."""
    reading = examine(text, file)
    if reading.error:
        raise reading.error.error()
    assert reading.spec is not None
    return reading.spec


def validate(text: str | bytes, file: str | None = None) -> list[Finding]:
    """Everything there is to say about a file: errors in the reference's order, then warnings and notes, with lines."""
    order = {"error": 0, "warning": 1, "note": 2}
    return sorted(examine(text, file).findings, key=lambda finding: order[finding.severity])


def examine(text: str | bytes, file: str | None = None) -> Reading:
    """Read and validate one file."""
    reading = parse(text, file)
    if reading.spec is None:
        return reading
    found = list(problems(reading.spec))
    if not found:
        return reading
    root, _ = compose(text, file)
    placed = (replace(finding, file=file, line=line_of(root, finding.path)) for finding in found)
    return Reading(reading.spec, (*reading.findings, *placed))


def line_finder(text: str | bytes) -> Callable[[Path], int | None]:
    """Finds the lines, from 1, of parts of a spec by the paths that lead to them from the top; None if it is not YAML."""
    root, _ = compose(text)
    return lambda path: None if root is None else line_of(root, path)


def parse(text: str | bytes, file: str | None = None) -> Reading:
    """Read one file without asking whether the spec is valid."""
    spec = _short_cut(text)
    if spec is not None:
        return Reading(spec, ())
    root, findings = compose(text, file)
    if root is None:
        return Reading(None, tuple(findings))
    reader = _Reader(file, findings)
    try:
        spec = reader.value(_SPEC, root, ())
    except InputError as error:
        reader.complain("alias", error.what, (), root)
    if not isinstance(spec, Spec):
        spec = None
        if not reader.failed:
            reader.complain("empty", "the file says null and no more", (), root)
    return Reading(None if reader.failed else spec, tuple(reader.findings))


# The short cut ---------------------------------------------------------------------------------------------------

_DECODER = msgspec.json.Decoder(Spec)
# Legal JSON that the YAML reader of runtimes sees differently: some escapes, a key and its colon on different lines.
_NOT_YAML = re.compile(r'\\[u/]|\x7f|"[ \t\r]*\n\s*:')
_KEY_LIMIT = 1000


def _short_cut(text: str | bytes) -> Spec | None:
    """The spec, when the text is JSON, typed as it should be, that YAML readers understand in the same way."""
    if isinstance(text, bytes):
        try:
            text = text.decode("ascii")
        except UnicodeDecodeError:
            return None
    if text[:1] != "{" or not text.isascii() or _NOT_YAML.search(text):
        return None
    try:
        spec = _DECODER.decode(text)
        json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return spec


def _once(pairs: list[tuple[str, Any]]) -> None:
    keys = {key for key, _ in pairs}
    if len(keys) < len(pairs) or any(len(key) > _KEY_LIMIT for key in keys):
        raise ValueError


# The long way ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reader:
    """One file being read. `findings` grows; `failed` says that there is no spec to be had."""

    file: str | None
    findings: list[Finding]
    failed: bool = False
    values: int = 0
    open_merges: list[int] = field(default_factory=list)

    def complain(self, code: str, what: str, path: Path, node: Node, fix: str | None = None) -> None:
        self.failed = True
        self._note(Finding(code, what, path, fix=fix), node)

    def warn(self, code: str, what: str, path: Path, node: Node) -> None:
        self._note(Finding(code, what, path, severity="warning"), node)

    def _note(self, finding: Finding, node: Node) -> None:
        self.findings.append(replace(finding, file=self.file, line=node.start_mark.line + 1))

    def value(self, read: _Read[T], node: Node, path: Path) -> T | None:
        """What `read` makes of the node; None for null, and for what is wrong (then a finding says so)."""
        self.values += 1
        if self.values > VALUES_LIMIT:
            raise InputError(f"more than {VALUES_LIMIT:,} values: too many aliases of large parts")
        return None if _is_null(node) else read(self, node, path)

    def members(self, node: MappingNode, path: Path) -> list[tuple[str, Node, Node]]:
        """The fields of a mapping as (name, key, value), merged ones included. The same name twice is complained of."""
        if id(node) in self.open_merges:
            raise InputError("a mapping is merged into itself")
        seen: dict[str, Node] = {}
        found: list[tuple[str, Node, Node]] = []
        merge: Node | None = None
        for key, value in node.value:
            name = self._key(key, path)
            if name is None:
                continue
            if name in seen:
                first = seen[name].start_mark.line + 1
                what = f"{name!r} is given twice, first on line {first}"
                self.complain("duplicate-key", what, (*path, name), key, "remove one of them")
                continue
            seen[name] = key
            if name == "<<" and key.tag is PLAIN:
                merge = value
            else:
                found.append((name, key, value))
        if merge is not None:
            self.open_merges.append(id(node))
            found += self._merged(merge, path, seen)
            self.open_merges.pop()
        return found

    def _merged(self, merge: Node, path: Path, seen: dict[str, Node]) -> list[tuple[str, Node, Node]]:
        sources = merge.value if isinstance(merge, SequenceNode) else [merge]
        found = []
        for source in sources:
            self.values += 1
            if not isinstance(source, MappingNode):
                self.complain("type", "'<<' merges a mapping or a list of mappings", path, merge)
                continue
            for name, key, value in self.members(source, path):
                if name not in seen:
                    seen[name] = key
                    found.append((name, key, value))
        return found

    def _key(self, key: Node, path: Path) -> str | None:
        return None if _is_null(key) else _text(self, key, path)


def _is_null(node: Node) -> bool:
    if not isinstance(node, ScalarNode) or node.value not in NULLS:
        return False
    return node.tag is PLAIN or node.tag == TAG + "null"


_Read = Callable[[_Reader, Node, Path], T | None]


def _scalar(reader: _Reader, node: Node, path: Path, wanted: str) -> Scalar | None:
    if not isinstance(node, ScalarNode):
        kind = "list" if isinstance(node, SequenceNode) else "mapping"
        reader.complain("type", f"{wanted} is expected here, not a {kind}", path, node)
        return None
    try:
        if node.tag is QUOTED:
            return Scalar("str", node.value)
        return plain(node.value) if node.tag is PLAIN else tagged(node.tag, node.value)
    except WrongScalar as error:
        reader.complain("type", str(error), path, node)
        return None


def _text(reader: _Reader, node: Node, path: Path) -> str | None:
    if (node.tag is QUOTED or node.tag is PLAIN) and isinstance(node, ScalarNode):
        return str(node.value)
    scalar = _scalar(reader, node, path, "text")
    if scalar is None or scalar.kind == "null":
        return None
    # The text as written, not the value it stands for: 1e3 stays 1e3. Only !!binary is decoded.
    return str(scalar.value) if scalar.kind == "str" else str(node.value)


def _number(low: int, high: int) -> _Read[int]:
    def read(reader: _Reader, node: Node, path: Path) -> int | None:
        scalar = _scalar(reader, node, path, "a whole number")
        if scalar is None or scalar.kind == "null":
            return None
        try:
            number = integer(scalar, low, high)
        except WrongScalar as error:
            reader.complain("type", str(error), path, node)
            return None
        if isinstance(scalar.value, float) and scalar.value != number:
            reader.warn("number-cut", f"{node.value} is not whole: runtimes read {number}", path, node)
        return number

    return read


def _truth(reader: _Reader, node: Node, path: Path) -> bool | None:
    scalar = _scalar(reader, node, path, "true or false")
    if scalar is None or scalar.kind == "null":
        return None
    try:
        return boolean(scalar)
    except WrongScalar as error:
        reader.complain("type", str(error), path, node)
        return None


def _list(read: _Read[T], null_is_wrong: bool = False) -> _Read[tuple[T, ...]]:
    """A list. Null items are left out, as the reference does, or complained of where the reference would crash."""

    def read_list(reader: _Reader, node: Node, path: Path) -> tuple[T, ...] | None:
        if not isinstance(node, SequenceNode):
            reader.complain("type", "a list is expected here", path, node)
            return None
        items = []
        for index, child in enumerate(node.value):
            item = reader.value(read, child, (*path, index))
            if item is not None:
                items.append(item)
            elif null_is_wrong and not reader.failed:
                reader.complain(
                    "null-entry", "an entry of this list is null", (*path, index), child, "remove the entry"
                )
        return tuple(items)

    return read_list


def _text_map(reader: _Reader, node: Node, path: Path) -> dict[str, str] | None:
    if not isinstance(node, MappingNode):
        reader.complain("type", "a mapping of text to text is expected here", path, node)
        return None
    members = reader.members(node, path)
    return {name: reader.value(_text, value, (*path, name)) or "" for name, _, value in members}


def _struct(cls: type[T], fields: Mapping[str, tuple[str, _Read[Any]]], **zero: Any) -> _Read[T]:
    """A mapping with the given fields: name in the file to attribute and reader. `zero` is for what must be given."""

    def read_struct(reader: _Reader, node: Node, path: Path) -> T | None:
        if not isinstance(node, MappingNode):
            reader.complain("type", "a mapping is expected here", path, node)
            return None
        values = dict(zero)
        for name, key, child in reader.members(node, path):
            known = fields.get(name)
            if known is None:
                near = next((other for other in fields if other.lower() == name.lower()), None)
                fix = f"write {near}" if near else f"known here: {', '.join(fields)}"
                reader.complain("unknown-field", f"{name!r} is not a field of a CDI spec here", (*path, name), key, fix)
                continue
            value = reader.value(known[1], child, (*path, name))
            if value is not None:
                values[known[0]] = value
        return cls(**values)

    return read_struct


_INT64 = _number(-(2**63), 2**63 - 1)
_UINT32 = _number(0, 2**32 - 1)
_TEXTS = _list(_text)

_DEVICE_NODE = _struct(
    DeviceNode,
    {
        "path": ("path", _text),
        "hostPath": ("host_path", _text),
        "type": ("type", _text),
        "major": ("major", _INT64),
        "minor": ("minor", _INT64),
        "fileMode": ("file_mode", _UINT32),
        "permissions": ("permissions", _text),
        "uid": ("uid", _UINT32),
        "gid": ("gid", _UINT32),
    },
    path="",
)
_NET_DEVICE = _struct(
    NetDevice,
    {"hostInterfaceName": ("host_interface_name", _text), "name": ("name", _text)},
    host_interface_name="",
    name="",
)
_HOOK = _struct(
    Hook,
    {
        "hookName": ("hook_name", _text),
        "path": ("path", _text),
        "args": ("args", _TEXTS),
        "env": ("env", _TEXTS),
        "timeout": ("timeout", _INT64),
    },
    hook_name="",
    path="",
)
_MOUNT = _struct(
    Mount,
    {
        "hostPath": ("host_path", _text),
        "containerPath": ("container_path", _text),
        "options": ("options", _TEXTS),
        "type": ("type", _text),
    },
    host_path="",
    container_path="",
)
_INTEL_RDT = _struct(
    IntelRdt,
    {
        "closID": ("clos_id", _text),
        "l3CacheSchema": ("l3_cache_schema", _text),
        "memBwSchema": ("mem_bw_schema", _text),
        "schemata": ("schemata", _TEXTS),
        "enableMonitoring": ("enable_monitoring", _truth),
    },
)
_EDITS = _struct(
    ContainerEdits,
    {
        "env": ("env", _TEXTS),
        "deviceNodes": ("device_nodes", _list(_DEVICE_NODE, null_is_wrong=True)),
        "netDevices": ("net_devices", _list(_NET_DEVICE, null_is_wrong=True)),
        "hooks": ("hooks", _list(_HOOK, null_is_wrong=True)),
        "mounts": ("mounts", _list(_MOUNT, null_is_wrong=True)),
        "intelRdt": ("intel_rdt", _INTEL_RDT),
        "additionalGids": ("additional_gids", _list(_UINT32)),
    },
)
_DEVICE = _struct(
    Device,
    {"name": ("name", _text), "annotations": ("annotations", _text_map), "containerEdits": ("container_edits", _EDITS)},
    name="",
)
_SPEC = _struct(
    Spec,
    {
        "cdiVersion": ("cdi_version", _text),
        "kind": ("kind", _text),
        "annotations": ("annotations", _text_map),
        "devices": ("devices", _list(_DEVICE)),
        "containerEdits": ("container_edits", _EDITS),
    },
    kind="",
)
