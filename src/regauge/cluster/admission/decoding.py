"""From a JSON document to what the API server would keep of it: types checked, nulls gone, unknown fields dropped.

Driven by the schemas of the served minor, for every built-in kind in every version. The refusals are in the words of Go's
JSON decoder, which names Go's types. Source: sigs.k8s.io/json, k8s.io/api.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal

import msgspec

from regauge.cluster.refusals import bad_request
from regauge.cluster.schemas import Schema, Schemas
from regauge.model import Kind, Object

_REFERENCE = "#/$defs/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_INTEGERS = {"int32": range(-(2**31), 2**31), "int64": range(-(2**63), 2**63)}
_GO_STRINGS = {
    "allocationMode": "DeviceAllocationMode",
    "DeviceTaint.effect": "DeviceTaintEffect",
    "DeviceToleration.effect": "DeviceTaintEffect",
    "DeviceToleration.operator": "DeviceTolerationOperator",
    "NodeSelectorRequirement.operator": "NodeSelectorOperator",
    "matchAttribute": "FullyQualifiedName",
    "distinctAttribute": "FullyQualifiedName",
    "capacityKey": "QualifiedName",
}
_GO_KEYS = {
    "attributes": "QualifiedName",
    "capacity": "QualifiedName",
    "CapacityRequirements.requests": "QualifiedName",
    "consumedCapacity": "QualifiedName",
}
_RESOURCE_KEYS = frozenset({"nodeAllocatableResourceMappings", "limits", "ResourceRequirements.requests"})
_ZERO: dict[str, Any] = {"DeviceCapacity.value": "0", "Counter.value": "0", "ResourcePool.generation": 0}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_OBJECT_META = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


class _Wrong(Exception):
    """What Go's decoder says."""


@dataclass(slots=True)
class Decoded:
    """The document as it is kept, and the paths of fields that nobody knows, deepest first as upstream warns."""

    object: Object
    unknown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Shape:
    """What a schema says of a value. `go` is the package and name of a struct, such as `v1.PodSpec`."""

    what: Literal["struct", "list", "map", "string", "boolean", "int32", "int64", "quantity", "time", "metadata", "any"]
    go: str = ""
    members: dict[str, Shape] = field(default_factory=dict)
    below: Shape | None = None

    @property
    def name(self) -> str:
        return self.go.rpartition(".")[2]


class Shapes:
    """The shapes of one minor, each made when it is first needed."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._made: dict[str, Shape] = {}

    def of(self, kind: Kind) -> Shape | None:
        """The shape of a built-in kind, None for others."""
        name = self._schemas.name_for(kind)
        return self._named(name) if name else None

    def _named(self, name: str) -> Shape:
        found = self._made.get(name)
        if found is None:
            schema = self._schemas.definitions.get(name, {})
            found = self._made[name] = Shape("any")
            made = _SPECIAL.get(name) or self._made_from(schema, name)
            found.what, found.go, found.members, found.below = made.what, made.go, made.members, made.below
        return found

    def _made_from(self, schema: Schema, name: str = "") -> Shape:
        if "$ref" in schema:
            return self._named(schema["$ref"].removeprefix(_REFERENCE))
        if "properties" in schema:
            members = {key: self._made_from(item) for key, item in schema["properties"].items()}
            return Shape("struct", ".".join(name.split(".")[-2:]), members)
        told = schema.get("type")
        type_ = next((item for item in told if item != "null"), "") if isinstance(told, list) else told
        if type_ == "array":
            return Shape("list", below=self._made_from(schema.get("items") or {}))
        if type_ == "object" and isinstance(schema.get("additionalProperties"), dict):
            return Shape("map", below=self._made_from(schema["additionalProperties"]))
        if type_ == "string" and schema.get("format") in (None, "byte"):
            return Shape("string")
        if type_ == "boolean":
            return Shape("boolean")
        if type_ == "integer":
            return Shape("int32" if schema.get("format") == "int32" else "int64")
        return Shape("any")


_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Shape("quantity"),
    f"{_META}Time": Shape("time"),
    f"{_META}ObjectMeta": Shape("metadata"),
    f"{_META}FieldsV1": Shape("any"),
}


@cache
def shapes_of(schemas: Schemas) -> Shapes:
    """The shapes of these schemas, made once."""
    return Shapes(schemas)


def decoded(schemas: Schemas, kind: Kind, object_: Object) -> Decoded:
    """The document of a built-in kind as the server keeps it; others come back as they are.

    Raises `ApiError` 400 for a value of the wrong type.
    """
    shape = shapes_of(schemas).of(kind)
    if shape is None:
        return Decoded(object_)
    unknown: list[str] = []
    try:
        new = _struct(shape, object_, ("", ""), unknown)
    except _Wrong as wrong:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {wrong}'
        raise bad_request(text) from None
    return Decoded(new, sorted(unknown, key=lambda path: -path.count(".")))


Place = tuple[str, str]  # the path without indexes, as errors name it; the path with them, as warnings do


def _struct(shape: Shape, value: Mapping[str, Any], at: Place, unknown: list[str]) -> dict[str, Any]:
    new: dict[str, Any] = {}
    for name, item in value.items():
        place = (_joined(at[0], shape.name, name), f"{at[1]}.{name}" if at[1] else name)
        member = shape.members.get(name)
        if member is None:
            unknown.append(place[1])
            continue
        read = _value(member, f"{shape.go}.{name}", item, place, unknown)
        if read is not None:
            new[name] = read
    if "metadata" in shape.members and value.get("metadata", 0) is None:
        new["metadata"] = {}
    for name in shape.members:
        if name not in new and f"{shape.name}.{name}" in _ZERO:
            new[name] = _ZERO[f"{shape.name}.{name}"]
    return new


def _joined(path: str, go: str, name: str) -> str:
    """The path of a member in Go's words: an embedded struct is named too."""
    if name == "opaque" and go.endswith("Configuration"):
        name = "DeviceConfiguration.opaque"
    return f"{path}.{name}" if path else name


def _value(shape: Shape, owner: str, value: Any, at: Place, unknown: list[str]) -> Any:
    """`value` read as `shape`. `owner` is the Go struct and the field, such as `v1.DeviceRequest.name`."""
    if value is None:
        return None
    match shape.what:
        case "any" | "quantity":
            return value  # a quantity is looked at when it is made canonical
        case "metadata":
            return _metadata(owner, value, at, unknown)
        case "struct":
            _expect(value, dict, owner, at, shape.go)
            return _struct(shape, value, at, unknown)
        case "list" if shape.below is not None:
            _expect(value, list, owner, at, _go_type(shape, owner))
            return [_member(shape.below, owner, item, at, i, unknown) for i, item in enumerate(value)]
        case "map" if shape.below is not None:
            _expect(value, dict, owner, at, _go_type(shape, owner))
            return {name: _member(shape.below, owner, item, at, name, unknown) for name, item in value.items()}
    return _scalar(shape, owner, value, at)


def _member(shape: Shape, owner: str, value: Any, at: Place, index: int | str, unknown: list[str]) -> Any:
    """A member of a list or map: null is the zero value there."""
    place = (at[0], f"{at[1]}[{index}]" if isinstance(index, int) else f"{at[1]}.{index}")
    if value is None:
        value = _zero(shape)
    return _value(shape, owner, value, place, unknown)


def _zero(shape: Shape) -> Any:
    zeros: dict[str, Any] = {"struct": {}, "string": "", "boolean": False, "int32": 0, "int64": 0, "quantity": "0"}
    return zeros.get(shape.what)


def _go_type(shape: Shape, owner: str) -> str:
    package, struct, name = owner.split(".")
    match shape.what:
        case "quantity":
            return "resource.Quantity"
        case "struct":
            return shape.go
        case "boolean":
            return "bool"
        case "int32" | "int64":
            return shape.what
        case "list" if shape.below is not None:
            return f"[]{_go_type(shape.below, owner)}"
        case "map" if shape.below is not None:
            return f"map[{_go_key(package, struct, name)}]{_go_type(shape.below, owner)}"
    found = _GO_STRINGS.get(f"{struct}.{name}") or _GO_STRINGS.get(name)
    return f"{package}.{found}" if found else "string"


def _go_key(package: str, struct: str, name: str) -> str:
    if name in _RESOURCE_KEYS or f"{struct}.{name}" in _RESOURCE_KEYS:
        return "v1.ResourceName"
    found = _GO_KEYS.get(f"{struct}.{name}") or _GO_KEYS.get(name)
    return f"{package}.{found}" if found else "string"


def _scalar(shape: Shape, owner: str, value: Any, at: Place) -> Any:
    go = _go_type(shape, owner)
    if shape.what == "boolean":
        return _expect(value, bool, owner, at, go)
    if shape.what in _INTEGERS:
        if isinstance(value, bool) or not isinstance(value, int) or value not in _INTEGERS[shape.what]:
            raise _mismatch(value, owner, at, go)
        return value
    if shape.what == "time":
        return _time(_expect(value, str, owner, at, "string"))
    return _expect(value, str, owner, at, go)


def _expect(value: Any, type_: type, owner: str, at: Place, go: str) -> Any:
    if not isinstance(value, type_):
        raise _mismatch(value, owner, at, go)
    return value


def _mismatch(value: Any, owner: str, at: Place, go: str) -> _Wrong:
    struct = owner.split(".")[-2]
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
    return f"number {msgspec.json.encode(value).decode()}" if go in _INTEGERS else "number"


def _time(text: str) -> str:
    """A time as it is kept: UTC, whole seconds."""
    if not _TIME.fullmatch(text):
        raise _Wrong(f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{text}" as "2006"')
    try:
        read = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise _Wrong(f'parsing time "{text}": out of range') from None
    return read.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _metadata(owner: str, value: Any, at: Place, unknown: list[str]) -> dict[str, Any]:
    """Metadata with its strings and maps of strings checked; the rest of it stays as it is."""
    if not isinstance(value, dict):
        raise _mismatch(value, owner, at, "v1.ObjectMeta")
    unknown += [f"{at[1]}.{name}" for name in value if name not in _OBJECT_META]
    new = {name: item for name, item in value.items() if item is not None and name in _OBJECT_META}
    for name in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if name in new and not isinstance(new[name], str):
            raise _mismatch(new[name], f"v1.ObjectMeta.{name}", (f"{at[0]}.{name}", ""), "string")
    for name in ("labels", "annotations"):
        if name in new:
            new[name] = dict(_strings(name, new[name], at[0]))
    return new


def _strings(name: str, value: Any, path: str) -> Iterator[tuple[str, str]]:
    at = (f"{path}.{name}", "")
    if not isinstance(value, dict):
        raise _mismatch(value, f"v1.ObjectMeta.{name}", at, "map[string]string")
    for key, item in value.items():
        if item is not None and not isinstance(item, str):
            raise _mismatch(item, f"v1.ObjectMeta.{name}", at, "string")
        yield key, item or ""
