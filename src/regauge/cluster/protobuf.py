"""Kubernetes' protobuf bodies as JSON documents, which is what typed Go clients send. Answers are always JSON. Pure.

Which fields there are is data with its source. A field that is no pointer in Go is left out when it is zero, as Go's JSON
leaves it out. Source: apimachinery pkg/runtime/serializer/protobuf of 1.37.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from regauge.cluster.refusals import bad_request, failure
from regauge.kube import ApiError
from regauge.model import Object

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAX_DEPTH = 100
_META = "apimachinery.pkg.apis.meta.v1."
_EMPTY: tuple[Any, ...] = ("", 0, False, {}, None)
_INTEGERS = ("int32", "int64", "uint32", "uint64")
_GROUPS = {
    "": "core",
    "events.k8s.io": "events",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
    "coordination.k8s.io": "coordination",
    "node.k8s.io": "node",
    "rbac.authorization.k8s.io": "rbac",
    "resource.k8s.io": "resource",
    "scheduling.k8s.io": "scheduling",
}


class _Bad(ValueError):
    """The bytes are no message."""


@cache
def _messages() -> Mapping[str, Mapping[str, list[str]]]:
    place = files("regauge.cluster") / "data" / "protobuf.json"
    found: Mapping[str, Mapping[str, list[str]]] = msgspec.json.decode(place.read_bytes())["messages"]
    return found


def read_protobuf(data: bytes) -> Object:
    """The object in an envelope. Raises `ApiError` 400 for what is no message, 415 for a kind without a description."""
    if not data.startswith(MAGIC):
        raise bad_request("the body of the request is not in the protobuf format of Kubernetes")
    try:
        envelope = _message("apimachinery.pkg.runtime.Unknown", data[len(MAGIC) :], 0)
        head = envelope
        raw = base64.b64decode(envelope.get("raw") or "")
        api_version, kind = str(head.get("apiVersion") or ""), str(head.get("kind") or "")
        name = _message_name(api_version, kind)
        if name not in _messages():
            message = f"the body of the request is a {kind} as protobuf, which is not read; send JSON"
            raise ApiError(415, "UnsupportedMediaType", message, failure(415, "UnsupportedMediaType", message, {}))
        return {"apiVersion": api_version, "kind": kind, **_message(name, raw, 0)}
    except (_Bad, IndexError, UnicodeDecodeError, msgspec.DecodeError, OverflowError, ValueError) as error:
        if isinstance(error, ApiError):
            raise
        raise bad_request(f"the body of the request is no protobuf message: {error}") from None


def _message_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    if kind in ("DeleteOptions", "Status"):
        return _META + kind
    if group == "apiextensions.k8s.io":
        return f"apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}"
    return f"api.{_GROUPS.get(group, group)}.{version}.{kind}"


def _message(name: str, data: bytes, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise _Bad("nested too deeply")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(data)
    known = _messages().get(name)
    if known is None:
        raise _Bad(f"a message {name} is not known")
    result: dict[str, Any] = {}
    for number, value in _fields(data):
        described = known.get(str(number))
        if described is None:
            continue
        field, type_, shape, flags = described
        if shape == "map":
            key, item = _pair(type_, _bytes(value), depth)
            result.setdefault(field, {})[key] = item
        elif shape == "list":
            result.setdefault(field, []).extend(_items(type_, value, depth))
        else:
            read = _value(type_, value, depth)
            if "i" in flags:
                result.update(read)
            elif "p" in flags or not any(read is empty or read == empty for empty in _EMPTY):
                result[field] = read
    return result["items"] if name.endswith(".ExtraValue") and "items" in result else result


def _items(type_: str, value: int | bytes, depth: int) -> Iterator[Any]:
    if isinstance(value, bytes) and type_ in _INTEGERS:
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            yield _signed(number)
        return
    yield _value(type_, value, depth)


def _pair(type_: str, data: bytes, depth: int) -> tuple[str, Any]:
    key, item = "", _value(type_, b"" if type_ not in (*_INTEGERS, "bool") else 0, depth)
    for number, value in _fields(data):
        if number == 1:
            key = _bytes(value).decode()
        elif number == 2:
            item = _value(type_, value, depth)
    return key, item


def _value(type_: str, value: int | bytes, depth: int) -> Any:
    if type_ == "bool":
        return bool(value)
    if type_ in _INTEGERS:
        if not isinstance(value, int):
            raise _Bad("a number is expected")
        return _signed(value)
    data = _bytes(value)
    if type_ == "string":
        return data.decode()
    if type_ == "bytes":
        return base64.b64encode(data).decode()
    return _message(type_, data, depth + 1)


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise _Bad("bytes are expected")
    return value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise _Bad("a number is too long")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1 | 5 as wire:
                size = 8 if wire == 1 else 4
                yield tag >> 3, data[at : at + size]
                at += size
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise _Bad("it ends too early")
                yield tag >> 3, data[at : at + size]
                at += size
            case other:
                raise _Bad(f"wire type {other}")


def _first(data: bytes, number: int, otherwise: Any) -> Any:
    return next((value for at, value in _fields(data) if at == number), otherwise)


def _time(data: bytes, places: str = "seconds") -> str | None:
    seconds = _signed(_first(data, 1, 0))
    if not data:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    micros = _first(data, 2, 0) // 1000 if places == "microseconds" else 0
    return moment.replace(microsecond=micros).isoformat(timespec=places).replace("+00:00", "Z")


def _int_or_string(data: bytes) -> int | str:
    if _first(data, 1, 0):
        return str(_first(data, 3, b"").decode())
    return _signed(_first(data, 2, 0))


def _json(data: bytes) -> Any:
    raw = _first(data, 1, b"")
    return msgspec.json.decode(raw) if raw else None


_SPECIAL: Mapping[str, Any] = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": lambda data: _time(data, "microseconds"),
    f"{_META}FieldsV1": _json,
    "apimachinery.pkg.runtime.RawExtension": _json,
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": _json,
    "apimachinery.pkg.api.resource.Quantity": lambda data: _first(data, 1, b"").decode(),
    "apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
}
