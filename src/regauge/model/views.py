"""From documents to typed views."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from regauge.base import InputError, Where
from regauge.model.documents import Document, Object
from regauge.model.meta import View
from regauge.model.versions import to_v1

V = TypeVar("V", bound=View)


def view(object_: Object, type_: type[V]) -> V:
    """The document as a read-only view of `type_`. Nulls count as absent, as for the API server.

    Raises `InputError` that names the field for a value of the wrong type.
    """
    try:
        return msgspec.convert(object_, type_)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(without_nulls(object_), type_)
    except msgspec.ValidationError as error:
        raise _input_error(error, object_) from None


def document_view(document: Document, type_: type[V]) -> V:
    """The same from a document; JSON bytes are decoded straight. Old resource.k8s.io versions become v1."""
    known = document.known
    old = known is not None and document.api_version != known.api_version
    try:
        if old:
            return view(to_v1(document.object), type_)
        if document.raw is not None:
            try:
                return msgspec.json.decode(document.raw, type=type_)
            except msgspec.ValidationError:
                pass
        return view(document.object, type_)
    except InputError as error:
        raise error.at(file=document.where.file, line=document.where.line, object=document.title) from None


def without_nulls(value: Any) -> Any:
    """A copy of a JSON value in which members that are null are left out of mappings."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _input_error(error: msgspec.ValidationError, object_: Object) -> InputError:
    text, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$.") or None
    return InputError(text[:1].lower() + text[1:], where=Where(field=field), fix="correct the value of this field")
