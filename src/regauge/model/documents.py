"""Bytes to documents, with the place each came from.

An object is its JSON document. YAML is read as kubectl reads it (YAML 1.1 booleans, no dates, no base-60 numbers), JSON
lists stay as bytes until somebody looks, so that a hundred thousand pods load in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from regauge.base import InputError, Where
from regauge.model.kinds import Kind, find_kind
from regauge.model.manifest_yaml import read_yaml

Object = dict[str, Any]


class _Name(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    namespace: str | None = None


class _NamedHead(msgspec.Struct, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Name | None = None
    items: msgspec.Raw = msgspec.Raw()


class _Metadata(msgspec.Struct, gc=False):
    metadata: Any = None


_HEAD = msgspec.json.Decoder(_NamedHead)
_METADATA = msgspec.json.Decoder(_Metadata)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder()


class Document:
    """One Kubernetes object as it was written, and where. Treat `object` as read-only."""

    __slots__ = ("_object", "_raw", "api_version", "kind", "name", "namespace", "warnings", "where")

    def __init__(
        self,
        object_: Object | None,
        where: Where,
        raw: bytes | msgspec.Raw | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self._object = object_
        self._raw = raw
        self.where = where
        self.warnings = warnings
        if object_ is not None:
            metadata = object_.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            head = (
                object_.get("apiVersion"),
                object_.get("kind"),
                metadata.get("name"),
                metadata.get("namespace"),
            )
        else:
            decoded = _HEAD.decode(cast(bytes, raw))
            name = decoded.metadata or _Name()
            head = (decoded.api_version, decoded.kind, name.name, name.namespace)
        texts = [part if isinstance(part, str) else "" for part in head]
        self.api_version, self.kind, self.name, self.namespace = texts

    @property
    def object(self) -> Object:
        """The JSON document. Decoded at the first look when it came from JSON."""
        if self._object is None:
            try:
                self._object = cast(Object, _ANY.decode(cast(bytes, self._raw)))
            except RecursionError:
                raise InputError("nested too deep", where=self.where, fix="no object of a cluster is") from None
        return self._object

    @property
    def metadata(self) -> Object:
        """Its metadata, empty where it has none. Of JSON that nobody looked at nothing else is decoded, nor remembered."""
        whole = self._object
        found = _METADATA.decode(cast(bytes, self._raw)).metadata if whole is None else whole.get("metadata")
        return found if isinstance(found, dict) else {}

    def passing(self) -> Object:
        """The JSON document as `object`, but not remembered: for a pass over more objects than fit in memory as such."""
        return self._object if self._object is not None else cast(Object, _ANY.decode(cast(bytes, self._raw)))

    @property
    def raw(self) -> bytes | msgspec.Raw | None:
        """The JSON bytes it came from, when it came from JSON."""
        return self._raw

    @property
    def known(self) -> Kind | None:
        """Its kind in the table of kinds, or None for a kind that regauge does not know by name."""
        return find_kind(self.api_version, self.kind)

    @property
    def title(self) -> str:
        """Kind and name for messages: `Pod team-a/web-0`."""
        full = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {full}".strip()

    def __repr__(self) -> str:
        return f"Document({self.title!r}, {str(self.where)!r})"


def read_documents(data: bytes, file: str) -> Iterator[Document]:
    """All objects in `data`: YAML (any number of documents) or JSON, `List`s taken apart.

    `file` is only for messages. Raises `InputError` for text that is neither, and for a document that is not an object
    with `apiVersion` and `kind`.
    """
    head = data.lstrip(b" \t\r\n\xef\xbb\xbf")[:1]
    if head in (b"{", b"["):
        try:
            yield from _read_json(data, file)
            return
        except RecursionError:
            raise InputError("nested too deep", where=Where(file), fix="no object of a cluster is") from None
        except msgspec.DecodeError as error:
            if head == b"[" or b"\n---" in data[:1_000_000]:
                pass  # YAML in flow style, or several documents: the YAML reader decides
            else:
                raise InputError(f"not valid JSON: {error}", where=Where(file), fix="check the file's syntax") from None
    for value, line, warnings in read_yaml(data, file):
        yield from _documents_in(value, Where(file, line), warnings)


def _read_json(data: bytes, file: str) -> Iterator[Document]:
    body = data.lstrip(b"\xef\xbb\xbf")
    try:
        decoded = _HEAD.decode(body)
    except msgspec.ValidationError:
        yield from _documents_in(_ANY.decode(body), Where(file, 1), ())
        return
    if not memoryview(decoded.items):
        _check_head(decoded.api_version, decoded.kind, Where(file, 1))
        yield Document(None, Where(file, 1), body)
        return
    for index, raw in enumerate(_ITEMS.decode(decoded.items)):
        where = Where(file, None, None, f"items[{index}]")
        try:
            document = Document(None, where, raw)
        except msgspec.ValidationError as error:
            raise InputError(f"not a Kubernetes object: {error}", where=where) from None
        _check_head(document.api_version, document.kind, where)
        yield document


def _documents_in(value: Any, where: Where, warnings: tuple[str, ...]) -> Iterator[Document]:
    if value is None:
        return
    if isinstance(value, list):
        for item in value:
            yield from _documents_in(item, where, warnings)
        return
    if not isinstance(value, dict):
        raise InputError(
            f"a {_json_type(value)} where a Kubernetes object was expected",
            where=where,
            fix="every document needs apiVersion and kind",
        )
    if isinstance(value.get("items"), list) and str(value.get("kind", "")).endswith("List"):
        for item in value["items"]:
            line = getattr(item, "line", None)
            yield from _documents_in(item, Where(where.file, line or where.line), warnings)
        return
    _check_head(value.get("apiVersion"), value.get("kind"), where)
    yield Document(value, where, warnings=warnings)


def _check_head(api_version: object, kind: object, where: Where) -> None:
    for field, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            raise InputError(
                f"{field} is missing" if value in (None, "") else f"{field} is not text",
                where=Where(where.file, where.line, where.object, where.field or field),
                fix="every Kubernetes object names its apiVersion and kind",
            )


def _json_type(value: object) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "mapping"}
    return names.get(type(value), type(value).__name__)
