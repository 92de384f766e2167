"""Who manages which fields: the entries of managedFields, and server-side apply with its conflicts. Pure.

Source: apimachinery pkg/util/managedfields of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from regauge.base import canonical_json
from regauge.cluster.fieldsets import Fields, Path, fields_of, from_paths, leaves, lookup, merged, shown, without
from regauge.cluster.refusals import failure
from regauge.cluster.schemas import EMPTY, Schema, Schemas
from regauge.kube import Conflict
from regauge.model import Kind, Object

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_NOT_MANAGED = frozenset({"apiVersion", "kind"})
_METADATA_NOT_MANAGED = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_CUSTOM: Schema = {"properties": {"metadata": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}}


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes: the name, and the path of the write ("" or "status")."""

    name: str
    subresource: str = ""


class FieldManagement:
    """The managed fields of the objects of one server."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def _schema(self, kind: Kind) -> Schema:
        return self._schemas.of(kind) or _CUSTOM

    def updated(self, kind: Kind, old: Object | None, new: Object, manager: Manager, now: str) -> Object:
        """A new state with the fields that this write changed given to its manager and taken from the others."""
        base = _entries(new if old is None or "managedFields" in new["metadata"] else old)
        schema = self._schema(kind)
        before = set(leaves(self._fields(schema, old))) if old is not None else set()
        after = set(leaves(self._fields(schema, new)))
        changed = {path for path in after if path not in before or self._differs(schema, old, new, path)}
        gone = before - after
        entries, mine = [], set(changed)
        for entry in base:
            owned = set(leaves(entry["fieldsV1"]))
            if _is(entry, manager, "Update"):
                mine |= {path for path in owned if path in after}
                continue
            left = owned - changed - gone
            if left == owned:
                entries.append(entry)
            elif left:
                entries.append({**entry, "fieldsV1": from_paths(left)})
        mine = {path for path in mine if path in after}
        if mine:
            found = next((entry for entry in base if _is(entry, manager, "Update")), None)
            fields = from_paths(mine)
            if found is not None and found["fieldsV1"] == fields:
                entries.append(found)
            else:
                entries.append(_entry(kind, manager, "Update", fields, now))
        return _with(new, entries)

    def applied(
        self, kind: Kind, live: Object | None, wanted: Object, manager: Manager, now: str, *, force: bool
    ) -> Object:
        """The live object with an apply of `wanted`. Raises `Conflict` for fields that others manage otherwise."""
        schema = self._schema(kind)
        asked = set(leaves(self._fields(schema, wanted))) - {()}
        if live is None:
            return _with(wanted, [_entry(kind, manager, "Apply", from_paths(asked), now)])
        entries = _entries(live)
        differing = {path for path in asked if self._differs(schema, live, wanted, path)}
        conflicts = [
            (entry, path)
            for entry in entries
            if not _is(entry, manager, "Apply")
            for path in sorted(set(leaves(entry["fieldsV1"])) & differing)
        ]
        if manager.name == _KUBECTL:
            conflicts = [(entry, path) for entry, path in conflicts if not self._applied_before(schema, live, path)]
        if conflicts and not force:
            raise _conflict(conflicts)
        mine = next((entry for entry in entries if _is(entry, manager, "Apply")), None)
        others = [_less(entry, differing) for entry in entries if entry is not mine]
        kept = {path for entry in others for path in leaves(entry["fieldsV1"])}
        given_up = [] if mine is None else [p for p in leaves(mine["fieldsV1"]) if p not in asked and p not in kept]
        content = {key: value for key, value in wanted.items() if key not in _NOT_MANAGED}
        new = merged(self._schemas, schema, live, content)
        given_up = [path for path in given_up if path and not self._needed(path, asked, kept)]
        new = without(self._schemas, schema, new, given_up)
        fields = from_paths(asked)
        same = mine is not None and mine["fieldsV1"] == fields
        entry = mine if mine is not None and same else _entry(kind, manager, "Apply", fields, now)
        if manager.name == _KUBECTL and LAST_APPLIED in (live["metadata"].get("annotations") or {}):
            new = _remembering(new, wanted)
        return _with(new, [item for item in (*others, entry) if item["fieldsV1"]])

    def _applied_before(self, schema: Schema, live: Object, path: Path) -> bool:
        """Whether a field is as the last client-side apply left it: kubectl may take it over."""
        text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        try:
            last = msgspec.json.decode(text) if text else None
        except msgspec.DecodeError:
            return False
        there, value = lookup(self._schemas, schema, last, path)
        return there and value == lookup(self._schemas, schema, live, path)[1]

    def _needed(self, path: Path, asked: set[Path], kept: set[Path]) -> bool:
        """Whether somebody still owns something below."""
        return any(other[: len(path)] == path for other in (*asked, *kept))

    def _fields(self, schema: Schema, object_: Object | None) -> Fields:
        content = {key: value for key, value in (object_ or EMPTY).items() if key not in _NOT_MANAGED}
        metadata = content.get("metadata") or {}
        content["metadata"] = {key: value for key, value in metadata.items() if key not in _METADATA_NOT_MANAGED}
        if not content["metadata"]:
            del content["metadata"]
        return fields_of(self._schemas, schema, content)

    def _differs(self, schema: Schema, old: Object | None, new: Object, path: Path) -> bool:
        was, before = lookup(self._schemas, schema, old, path)
        _, after = lookup(self._schemas, schema, new, path)
        if was and isinstance(before, dict) and isinstance(after, dict) and path and path[-1].startswith("k:"):
            return False  # a member of a list: its fields are looked at one by one
        return not was or before != after


def _remembering(new: Object, wanted: Object) -> Object:
    """With the annotation of client-side apply kept up to date, so that it can be gone back to."""
    metadata = {key: value for key, value in wanted["metadata"].items() if key != "managedFields"}
    text = canonical_json({**wanted, "metadata": metadata}).decode() + "\n"
    annotations = {**(new["metadata"].get("annotations") or {}), LAST_APPLIED: text}
    return {**new, "metadata": {**new["metadata"], "annotations": annotations}}


def _entries(object_: Object) -> list[dict[str, Any]]:
    found = object_["metadata"].get("managedFields") or []
    return [entry for entry in found if isinstance(entry, dict) and isinstance(entry.get("fieldsV1"), dict)]


def _is(entry: Mapping[str, Any], manager: Manager, operation: str) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
        manager.name,
        operation,
        manager.subresource,
    )


def _entry(kind: Kind, manager: Manager, operation: str, fields: Fields, now: str) -> dict[str, Any]:
    entry = {
        "manager": manager.name,
        "operation": operation,
        "apiVersion": kind.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**entry, "subresource": manager.subresource} if manager.subresource else entry


def _less(entry: dict[str, Any], paths: set[Path]) -> dict[str, Any]:
    owned = set(leaves(entry["fieldsV1"]))
    return {**entry, "fieldsV1": from_paths(owned - paths)} if owned & paths else entry


def _with(object_: Object, entries: Sequence[dict[str, Any]]) -> Object:
    ordered = sorted(entries, key=lambda entry: (entry["operation"], entry.get("time") or "", entry["manager"]))
    metadata = {key: value for key, value in object_["metadata"].items() if key != "managedFields"}
    return {**object_, "metadata": {**metadata, **({"managedFields": ordered} if ordered else {})}}


def _conflict(found: Sequence[tuple[Mapping[str, Any], Path]]) -> Conflict:
    causes = []
    for entry, path in found:
        by = f'conflict with "{entry["manager"]}"'
        if entry.get("subresource"):
            by += f' with subresource "{entry["subresource"]}"'
        if entry["operation"] == "Update":
            by += f" using {entry['apiVersion']}"
        causes.append({"reason": "FieldManagerConflict", "message": by, "field": shown(path)})
    message = f"Apply failed with {len(causes)} conflict{'s' if len(causes) > 1 else ''}: " + _told(causes)
    return Conflict(409, "Conflict", message, failure(409, "Conflict", message, {"causes": causes}))


def _told(causes: Sequence[Mapping[str, str]]) -> str:
    by: dict[str, list[str]] = {}
    for cause in causes:
        by.setdefault(cause["message"], []).append(cause["field"])
    if len(causes) == 1:
        return f"{causes[0]['message']}: {causes[0]['field']}"
    return "\n".join(f"conflicts with {told.removeprefix('conflict with ')}:\n" + "\n".join(f"- {f}" for f in fields)
                     for told, fields in by.items())  # fmt: skip
