"""From a JSON document to what the API server would keep of it: types checked, nulls gone, unknown fields dropped.

Only for kinds whose views hold every field (resource.k8s.io). The refusals are in the words of Go's JSON decoder, which
names Go's types. Source: sigs.k8s.io/json, k8s.io/api resource/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from regauge.cluster.refusals import bad_request
from regauge.model import Kind, Object, View
from regauge.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

_INT64 = range(-(2**63), 2**63)
_READ_WHOLE: dict[str, type[View]] = {
    "resourceclaims": ResourceClaim,
    "resourceclaimtemplates": ResourceClaimTemplate,
    "resourceslices": ResourceSlice,
    "deviceclasses": DeviceClass,
    "devicetaintrules": DeviceTaintRule,
}
_GO_STRUCTS = {"SelectorRequirement": "NodeSelectorRequirement"}
_GO_STRINGS = {
    "allocationMode": "v1.DeviceAllocationMode",
    "DeviceTaint.effect": "v1.DeviceTaintEffect",
    "DeviceToleration.effect": "v1.DeviceTaintEffect",
    "DeviceToleration.operator": "v1.DeviceTolerationOperator",
    "NodeSelectorRequirement.operator": "v1.NodeSelectorOperator",
    "matchAttribute": "v1.FullyQualifiedName",
    "distinctAttribute": "v1.FullyQualifiedName",
    "capacityKey": "v1.QualifiedName",
}
_GO_KEYS = {
    "attributes": "v1.QualifiedName",
    "capacity": "v1.QualifiedName",
    "requests": "v1.QualifiedName",
    "consumedCapacity": "v1.QualifiedName",
    "nodeAllocatableResourceMappings": "v1.ResourceName",
}
_TIMES = frozenset({"timeAdded", "allocationTimestamp", "lastTransitionTime"})
_ZERO: dict[str, Any] = {"DeviceCapacity.value": "0", "Counter.value": "0", "ResourcePool.generation": 0}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_QUANTITY_TYPES = (inspect.StrType, inspect.IntType, inspect.FloatType)


class _Wrong(Exception):
    """What Go's decoder says."""


@dataclass(slots=True)
class Decoded:
    """The document as it is kept, and the paths of fields that nobody knows, deepest first as upstream warns."""

    object: Object
    unknown: list[str] = field(default_factory=list)


def decoded(kind: Kind, object_: Object) -> Decoded:
    """The document of a kind of resource.k8s.io as the server keeps it; others come back as they are.

    Raises `ApiError` 400 for a value of the wrong type.
    """
    type_ = _READ_WHOLE.get(kind.plural) if kind.group == "resource.k8s.io" else None
    if type_ is None:
        return Decoded(object_)
    unknown: list[str] = []
    try:
        new = _struct(_fields(type_), kind.kind, object_, ("", ""), unknown)
    except _Wrong as wrong:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {wrong}'
        raise bad_request(text) from None
    for name in ("apiVersion", "kind", "status"):
        if name in object_ and name not in new:
            new[name] = object_[name]
    told = [path for path in unknown if path not in ("apiVersion", "kind", "status")]
    return Decoded(new, sorted(told, key=lambda path: -path.count(".")))


@cache
def _fields(type_: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    """The members of a view by their JSON names."""
    info = inspect.type_info(type_)
    return {item.encode_name: item.type for item in info.fields} if isinstance(info, inspect.StructType) else {}


def _go_name(type_: type[msgspec.Struct]) -> str:
    return _GO_STRUCTS.get(type_.__name__, type_.__name__)


Place = tuple[str, str]  # the path without indexes, as errors name it; the path with them, as warnings do


def _struct(
    members: Mapping[str, inspect.Type], go: str, value: Mapping[str, Any], at: Place, unknown: list[str]
) -> dict[str, Any]:
    new: dict[str, Any] = {}
    for name, item in value.items():
        place = (_joined(at[0], go, name), f"{at[1]}.{name}" if at[1] else name)
        if name == "metadata":
            new[name] = _metadata(go, item, place[0])
            continue
        if name not in members:
            unknown.append(place[1])
            continue
        read = _value(members[name], f"{go}.{name}", item, place, unknown)
        if read is not None:
            new[name] = read
    for name in members:
        if name not in new and f"{go}.{name}" in _ZERO:
            new[name] = _ZERO[f"{go}.{name}"]
    return new


def _joined(path: str, go: str, name: str) -> str:
    """The path of a member in Go's words: an embedded struct is named too."""
    if name == "opaque" and go.endswith("Configuration"):
        name = "DeviceConfiguration.opaque"
    return f"{path}.{name}" if path else name


def _value(type_: inspect.Type, owner: str, value: Any, at: Place, unknown: list[str]) -> Any:
    """`value` read as `type_`. `owner` is the Go struct and the field, such as `DeviceRequest.name`."""
    plain = _plain(type_)
    if value is None or isinstance(plain, inspect.AnyType):
        return value
    if plain is None:
        return value  # a quantity: looked at when it is made canonical
    match plain:
        case inspect.StructType():
            _expect(value, dict, owner, at, f"v1.{_go_name(plain.cls)}")
            return _struct(_fields(plain.cls), _go_name(plain.cls), value, at, unknown)
        case inspect.VarTupleType():
            _expect(value, list, owner, at, f"[]{_go_type(plain.item_type, owner)}")
            return [_member(plain.item_type, owner, item, at, i, unknown) for i, item in enumerate(value)]
        case inspect.DictType():
            key = _GO_KEYS.get(owner.rpartition(".")[2], "string")
            _expect(value, dict, owner, at, f"map[{key}]{_go_type(plain.value_type, owner)}")
            return {name: _member(plain.value_type, owner, item, at, name, unknown) for name, item in value.items()}
    return _scalar(plain, owner, value, at)


def _member(type_: inspect.Type, owner: str, value: Any, at: Place, index: int | str, unknown: list[str]) -> Any:
    """A member of a list or map: null is the zero value there."""
    place = (at[0], f"{at[1]}[{index}]" if isinstance(index, int) else f"{at[1]}.{index}")
    if value is None:
        value = _zero(type_)
    return _value(type_, owner, value, place, unknown)


def _zero(type_: inspect.Type) -> Any:
    match _plain(type_):
        case inspect.StructType():
            return {}
        case inspect.StrType():
            return ""
        case inspect.BoolType():
            return False
        case inspect.IntType():
            return 0
        case None:
            return "0"
    return None


def _plain(type_: inspect.Type) -> inspect.Type | None:
    """The type without its `| None`; None for a quantity."""
    if not isinstance(type_, inspect.UnionType):
        return type_
    parts = [part for part in type_.types if not isinstance(part, inspect.NoneType)]
    if len(parts) > 1 and all(isinstance(part, _QUANTITY_TYPES) for part in parts):
        return None
    return parts[0]


def _go_type(type_: inspect.Type, owner: str) -> str:
    plain = _plain(type_)
    match plain:
        case None:
            return "resource.Quantity"
        case inspect.StructType():
            return f"v1.{_go_name(plain.cls)}"
        case inspect.BoolType():
            return "bool"
        case inspect.IntType():
            return "int64"
    return _GO_STRINGS.get(owner) or _GO_STRINGS.get(owner.rpartition(".")[2]) or "string"


def _scalar(type_: inspect.Type, owner: str, value: Any, at: Place) -> Any:
    go = _go_type(type_, owner)
    if isinstance(type_, inspect.BoolType):
        return _expect(value, bool, owner, at, go)
    if isinstance(type_, inspect.IntType):
        if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
            raise _mismatch(value, owner, at, go)
        return value
    _expect(value, str, owner, at, go)
    return _time(value) if owner.rpartition(".")[2] in _TIMES else value


def _expect(value: Any, type_: type, owner: str, at: Place, go: str) -> Any:
    if not isinstance(value, type_):
        raise _mismatch(value, owner, at, go)
    return value


def _mismatch(value: Any, owner: str, at: Place, go: str) -> _Wrong:
    struct = owner.partition(".")[0]
    return _Wrong(f"json: cannot unmarshal {_json_name(value, go)} into Go struct field {struct}.{at[0]} of type {go}")


def _json_name(value: Any, go: str) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return f"number {msgspec.json.encode(value).decode()}" if go == "int64" else "number"


def _time(text: str) -> str:
    """A time as it is kept: UTC, whole seconds."""
    if not _TIME.fullmatch(text):
        raise _Wrong(f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{text}" as "2006"')
    try:
        read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise _Wrong(f'parsing time "{text}": out of range') from None
    return read.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _metadata(go: str, value: Any, path: str) -> dict[str, Any]:
    """Metadata with its strings and maps of strings checked; the rest of it stays as it is."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _mismatch(value, f"{go}.metadata", (path, path), "v1.ObjectMeta")
    new = {name: item for name, item in value.items() if item is not None}
    for name in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if name in new and not isinstance(new[name], str):
            raise _mismatch(new[name], f"ObjectMeta.{name}", (f"{path}.{name}", ""), "string")
    for name in ("labels", "annotations"):
        if name in new:
            new[name] = dict(_strings(name, new[name], path))
    return new


def _strings(name: str, value: Any, path: str) -> Iterator[tuple[str, str]]:
    at = (f"{path}.{name}", "")
    if not isinstance(value, dict):
        raise _mismatch(value, f"ObjectMeta.{name}", at, "map[string]string")
    for key, item in value.items():
        if item is not None and not isinstance(item, str):
            raise _mismatch(item, f"ObjectMeta.{name}", at, "string")
        yield key, item or ""
