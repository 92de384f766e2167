"""The bodies of requests: JSON or YAML, of the kind of the path, with every field known or told. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from regauge.base import InputError
from regauge.cluster import protobuf
from regauge.cluster.admission.customs import pruned
from regauge.cluster.admission.decoding import Decoded, decoded
from regauge.cluster.refusals import bad_request, failure
from regauge.cluster.registry import known
from regauge.cluster.schemas import Schema, Schemas
from regauge.cluster.store import copy_json
from regauge.kube import ApiError, PatchType
from regauge.model import Kind, Object, find_kind, split_api_version
from regauge.model.manifest_yaml import read_yaml

MAX_BODY_BYTES = 3 * 1024 * 1024
_SHOWN = 30
_SCHEME = "pkg/runtime/scheme.go:111"
_JSON = ("application/json", "text/json")
_READ = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_YAML = ("application/yaml", "application/x-yaml", "application/apply-patch+yaml")


def read_body(data: bytes, content_type: str = "", kind: Kind | None = None) -> Any:
    """The value in a body, None for an empty one. Raises `ApiError` 400 for what cannot be read, 413 for too much.

    With a `kind` the refusal says what the body should have been.
    """
    media = content_type.partition(";")[0].strip()
    if media == protobuf.MEDIA_TYPE:
        _check_size(data)
        if kind is not None and data and not data.startswith(protobuf.MAGIC):
            prefix = " ".join(str(byte) for byte in protobuf.MAGIC)
            why = f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]"
            raise _unrecognized(kind, data, why)
        return protobuf.read_protobuf(data) if data else None
    if media not in _YAML:
        if media and media not in _JSON and not media.endswith("+json"):
            message = f"the body of the request was in an unknown format - accepted media types include: {_READ}"
            raise ApiError(415, "UnsupportedMediaType", message, failure(415, "UnsupportedMediaType", message, {}))
        return read_json(data, kind)
    _check_size(data)
    try:
        found = [value for value, _, _ in read_yaml(data, "the body of the request")]
    except InputError as error:
        raise bad_request(str(error)) from None
    return copy_json(found[0]) if found else None


def read_json(data: bytes, kind: Kind | None = None) -> Any:
    _check_size(data)
    if not data.strip():
        return None
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        if kind is not None:
            raise unrecognized(kind, data, go_syntax_error(data.decode(errors="replace"))) from None
        raise bad_request(f"the body of the request is not JSON: {error}") from None
    if kind is not None and found is not None and not isinstance(found, dict):
        type_ = (
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise unrecognized(kind, data, f"{_go_value(found)} into Go value of type {type_}")
    return found


def read_delete_body(data: bytes) -> Any:
    """The options in the body of a DELETE, None for none. Raises `ApiError` 400 in Go's words."""
    if not data.strip():
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        why = go_syntax_error(data.decode(errors="replace"))
        raise bad_request(f"couldn't get version/kind; json parse error: {why}") from None


def unrecognized(kind: Kind, data: bytes, why: str) -> ApiError:
    """A body that is not even an object of some kind."""
    return _unrecognized(kind, data, f"couldn't get version/kind; json parse error: {why}")


def _unrecognized(kind: Kind, data: bytes, why: str) -> ApiError:
    text = data.decode(errors="replace").strip()
    if not text:
        shown = "<empty>"
    elif text[0] in '["':
        shown = data.hex() if len(data) < _SHOWN else f"{data[:_SHOWN].hex()} ..."
    else:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
    return bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why} ({shown})")


def _check_size(data: bytes) -> None:
    if len(data) > MAX_BODY_BYTES:
        message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
        raise ApiError(413, "RequestEntityTooLarge", message, failure(413, "RequestEntityTooLarge", message, {}))


def read_patch(data: bytes, patch_type: PatchType) -> Any:
    """The value of a patch in JSON. Raises `ApiError` 400 in Go's words as far as those are known."""
    _check_size(data)
    text = data.strip()
    try:
        body = msgspec.json.decode(data) if text else None
    except (msgspec.DecodeError, RecursionError):
        before = "" if patch_type == "strategic" else "error decoding patch: "
        raise bad_request(f"{before}{go_syntax_error(data.decode(errors='replace'))}") from None
    if patch_type == "json" and not isinstance(body, list):
        raise bad_request(f"error decoding patch: {_go_value(body)} into Go value of type []handlers.jsonPatchOp")
    if patch_type != "json" and not isinstance(body, dict):
        raise bad_request(f"error decoding patch: {_go_value(body)} into Go value of type map[string]interface {{}}")
    return body


def _go_value(value: Any) -> str:
    names = {list: "array", dict: "object", str: "string", bool: "bool", type(None): "null"}
    return f"json: cannot unmarshal {names.get(type(value), 'number')}"


def go_syntax_error(text: str) -> str:
    """What Go's JSON decoder says of the first place at which a text is no JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text):
            return "unexpected end of JSON input"
        before = text[: error.pos].rstrip()[-1:]
        wanted = "looking for beginning of value"
        if "property name" in error.msg:
            wanted = "looking for beginning of object key string"
        elif "':'" in error.msg:
            wanted = "after object key"
        elif "','" in error.msg:
            wanted = (
                "after array element" if before == "]" or "[" in text[: error.pos] else "after object key:value pair"
            )
        elif error.msg.startswith("Extra data"):
            wanted = "after top-level value"
        return f"invalid character {shown_letter(text[error.pos])} {wanted}"
    return "invalid JSON"


def shown_letter(letter: str) -> str:
    return {"'": r"'\''", '"': "'\"'"}.get(letter, f"'{letter}'")


def checked_kind(body: Any, kind: Kind) -> Object:
    """The body as an object of this kind. Raises `ApiError` 400 when it says that it is something else."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise bad_request(f"the body of the request was not a {kind.kind}")
    version, name = body.get("apiVersion"), body.get("kind")
    if version not in (None, "", kind.api_version) and isinstance(version, str):
        _check_known(version, str(name or ""), kind)
        told = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise bad_request(told)
    if name not in (None, "", kind.kind):
        raise _not_a(kind, str(name), str(version or kind.api_version))
    return body


def _check_known(version: str, name: str, kind: Kind) -> None:
    """A kind that its group does not know is told before the version is compared."""
    group = split_api_version(version)[0]
    if group != kind.group and name and known(kind) and find_kind(version, name) is None:
        text = f'no kind "{name}" is registered for version "{version}" in scheme "{_SCHEME}"'
        short = split_api_version(version)[1]
        raise bad_request(f'{name} in version "{short}" cannot be handled as a {kind.kind}: {text}')


def _not_a(kind: Kind, name: str, version: str) -> ApiError:
    short = split_api_version(version)[1]
    if find_kind(version, name) is None:
        why = f'no kind "{name}" is registered for version "{version}" in scheme "{_SCHEME}"'
    else:
        internal = kind.group.partition(".")[0] or "core"
        why = f"converting ({short}.{name}) to ({internal}.{kind.kind}): unknown conversion"
    return bad_request(f'{name} in version "{short}" cannot be handled as a {kind.kind}: {why}')


def read_as(schemas: Schemas, kind: Kind, body: Object, custom: Schema | None = None) -> Decoded:
    """The body as objects of a kind are kept, and the fields that nobody knows, as upstream names them.

    Custom resources are read by the schema of their definition, `custom`. Raises `ApiError` 400 for a value of the wrong
    type.
    """
    if custom is not None:
        new, unknown = pruned(custom, body)
        return Decoded(new, [f'unknown field "{path}"' for path in unknown])
    read = decoded(schemas, kind, body)
    return Decoded(read.object, [f'unknown field "{path}"' for path in read.unknown])


def decode_error(error: ApiError, kind: Kind) -> str:
    """What is wrong with a value, without the sentence about the object around it."""
    return error.message.removeprefix(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: ')


def repeated_fields(data: bytes) -> list[str]:
    """The fields that stand twice in one object of a JSON body, as upstream names them."""
    found = False

    def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        read = dict(pairs)
        found = found or len(read) != len(pairs)
        return read

    try:
        json.loads(data, object_pairs_hook=plain)
        if not found:
            return []
        return list(_repeated(json.loads(data, object_pairs_hook=_Pairs), ""))
    except (ValueError, RecursionError):
        return []  # what is no JSON is told by whoever reads it


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, each as often as it stands there."""


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, item in value:
            place = f"{path}.{name}" if path else name
            if name in seen:
                yield f'duplicate field "{place}"'
            seen.add(name)
            yield from _repeated(item, place)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _repeated(item, f"{path}[{number}]")


def strict_refusal(kind: Kind, unknown: list[str]) -> ApiError:
    title = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{title}: strict decoding error: {', '.join(unknown)}")
