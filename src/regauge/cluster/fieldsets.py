"""Sets of fields as managedFields has them (FieldsV1), and merging of documents by the keys of their lists. Pure.

A set is a mapping: `f:NAME` a field, `k:{KEYS}` a member of a list that is a map, `v:VALUE` a member of a list that is a
set, `.` the thing itself. What ends in an empty mapping is owned as a whole. Source: structured-merge-diff v6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from regauge.base import canonical_json
from regauge.cluster.schemas import Schema, Schemas, is_atomic, is_set, list_keys
from regauge.cluster.store import copy_json

Fields = dict[str, Any]
Path = tuple[str, ...]
_SELF = "."


def fields_of(schemas: Schemas, schema: Schema, value: Any) -> Fields:
    """The fields that a value sets."""
    if isinstance(value, dict) and not is_atomic(schema):
        return {f"f:{key}": fields_of(schemas, schemas.member(schema, key), item) for key, item in value.items()}
    keys = list_keys(schema)
    if isinstance(value, list) and keys:
        return {
            _member_name(keys, item): {_SELF: {}, **fields_of(schemas, schemas.items(schema), item)}
            for item in value
            if isinstance(item, dict)
        }
    if isinstance(value, list) and is_set(schema):
        return {f"v:{canonical_json(item).decode()}": {} for item in value}
    return {}


def _member_name(keys: Sequence[str], item: Mapping[str, Any]) -> str:
    defaults = {"protocol": "TCP"}
    told = {key: item.get(key, defaults.get(key)) for key in keys if item.get(key, defaults.get(key)) is not None}
    return f"k:{canonical_json(told).decode()}"


def leaves(fields: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """The paths that a set owns: those that end, and members themselves."""
    if not fields:
        yield path
        return
    for name, below in fields.items():
        if name == _SELF:
            yield path
        else:
            yield from leaves(below, (*path, name))


def from_paths(paths: Iterator[Path] | Sequence[Path] | set[Path]) -> Fields:
    """The set of these paths, in the order in which FieldsV1 is written."""
    result: Fields = {}
    wanted = sorted(set(paths))
    for path in wanted:
        place = result
        for name in path:
            place = place.setdefault(name, {})
    for path in wanted:
        place = result
        for name in path:
            place = place[name]
        if place and path:
            place[_SELF] = {}
    return _sorted(result)


def _sorted(fields: Fields) -> Fields:
    return {name: _sorted(fields[name]) for name in sorted(fields)}


def lookup(schemas: Schemas, schema: Schema, value: Any, path: Path) -> tuple[bool, Any]:
    """Whether a path is in a document, and what stands there."""
    for name in path:
        if name.startswith("f:"):
            key = name[2:]
            if not isinstance(value, dict) or key not in value:
                return False, None
            value, schema = value[key], schemas.member(schema, key)
            continue
        place = _find(schema, value, name)
        if place is None:
            return False, None
        value, schema = value[place], schemas.items(schema)
    return True, value


def _find(schema: Schema, value: Any, name: str) -> int | None:
    if not isinstance(value, list):
        return None
    keys = list_keys(schema)
    for place, item in enumerate(value):
        if name.startswith("k:"):
            if isinstance(item, dict) and _member_name(keys, item) == name:
                return place
        elif f"v:{canonical_json(item).decode()}" == name:
            return place
    return None


def merged(schemas: Schemas, schema: Schema, live: Any, applied: Any) -> Any:
    """The live value with what is applied put over it."""
    if isinstance(applied, dict) and isinstance(live, dict) and not is_atomic(schema):
        result = dict(live)
        for key, item in applied.items():
            result[key] = merged(schemas, schemas.member(schema, key), live.get(key), item)
        return result
    keys = list_keys(schema)
    if isinstance(applied, list) and isinstance(live, list) and keys:
        return _merged_list(schemas, schema, live, applied)
    if isinstance(applied, list) and isinstance(live, list) and is_set(schema):
        return live + [item for item in applied if item not in live]
    return copy_json(applied)


def _merged_list(schemas: Schemas, schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    keys, below = list_keys(schema), schemas.items(schema)
    wanted = {_member_name(keys, item): item for item in applied}
    result, seen = [], set()
    for item in live:
        name = _member_name(keys, item)
        seen.add(name)
        result.append(merged(schemas, below, item, wanted[name]) if name in wanted else item)
    return result + [copy_json(item) for name, item in wanted.items() if name not in seen]


def without(schemas: Schemas, schema: Schema, value: Any, paths: Sequence[Path]) -> Any:
    """A copy without these paths; a mapping that loses its last member goes with it."""
    result = copy_json(value)
    for path in sorted(paths, key=len, reverse=True):
        _drop(schemas, schema, result, path)
    return result


def _drop(schemas: Schemas, schema: Schema, value: Any, path: Path) -> None:
    name, rest = path[0], path[1:]
    if name.startswith("f:"):
        key = name[2:]
        if not isinstance(value, dict) or key not in value:
            return
        if rest:
            _drop(schemas, schemas.member(schema, key), value[key], rest)
        if not rest or (value[key] in ({}, []) and len(rest) == 1):
            del value[key]
        return
    place = _find(schema, value, name)
    if place is None:
        return
    if rest:
        _drop(schemas, schemas.items(schema), value[place], rest)
    else:
        del value[place]


def shown(path: Path) -> str:
    """A path as messages show it: `.spec.containers[name="a"].image`."""
    text = ""
    for name in path:
        if name.startswith("f:"):
            text += f".{name[2:]}"
        elif name.startswith("k:"):
            told = msgspec.json.decode(name[2:])
            text += "[" + ",".join(f"{key}={canonical_json(item).decode()}" for key, item in told.items()) + "]"
        else:
            text += f"[={name[2:]}]"
    return text
