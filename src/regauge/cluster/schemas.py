"""The schemas of the built-in kinds, by Kubernetes minor, as the package `kubernetes-validate` brings them.

They say which lists are maps and by which keys (server-side apply, strategic merge), and make the OpenAPI documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from regauge.base import InputError
from regauge.model import Kind

Schema = Mapping[str, Any]
_REFERENCE = "#/$defs/"
EMPTY: Schema = {}
_OTHER_SHAPES = frozenset({("v1", "v1beta1")})


class Schemas:
    """The schemas of one minor, such as "1.36". Raises `InputError` when the installed package lacks the minor."""

    def __init__(self, minor: str) -> None:
        place = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{minor}.0-local" / "_definitions.json"
        if not place.is_file():
            fix = "upgrade the package kubernetes-validate"
            raise InputError(f"kubernetes-validate has no schemas of Kubernetes {minor}", fix=fix)
        self.definitions: Mapping[str, Schema] = msgspec.json.decode(place.read_bytes())["$defs"]
        self._roots: dict[tuple[str, str, str], str] = {}
        for name, schema in self.definitions.items():
            for item in schema.get("x-kubernetes-group-version-kind") or ():
                self._roots.setdefault((item["group"], item["version"], item["kind"]), name)

    def name_of(self, group: str, version: str, kind: str) -> str:
        """The name of a kind's definition, "" when there is none."""
        return self._roots.get((group, version, kind), "")

    def name_for(self, kind: Kind) -> str:
        """The name of the definition of a kind, in its version or else in another of the same shape that this minor knows."""
        versions = (kind.version, *(item for item in kind.others if (kind.version, item) not in _OTHER_SHAPES))
        names = (self.name_of(kind.group, version, kind.kind) for version in versions)
        return next(filter(None, names), "")

    def of(self, kind: Kind) -> Schema:
        """The schema of a kind; empty for kinds that are not built in."""
        return self.definitions.get(self.name_for(kind), EMPTY)

    def member(self, schema: Schema, name: str) -> Schema:
        """The schema of a field, with what its place says of it (merge keys) beside what its type says."""
        found = (schema.get("properties") or EMPTY).get(name)
        if found is None:
            extra = schema.get("additionalProperties")
            found = extra if isinstance(extra, dict) else EMPTY
        return self.resolved(found)

    def items(self, schema: Schema) -> Schema:
        return self.resolved(schema.get("items") or EMPTY)

    def resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        if reference is None:
            return schema
        return {**self.definitions.get(reference.removeprefix(_REFERENCE), EMPTY), **schema}


@cache
def schemas_of(minor: str) -> Schemas:
    """The schemas of a minor, read once."""
    return Schemas(minor)


def list_keys(schema: Schema) -> tuple[str, ...]:
    """The fields that identify a member of a list, for lists that are maps."""
    if schema.get("x-kubernetes-list-type") != "map":
        return ()
    return tuple(schema.get("x-kubernetes-list-map-keys") or ())


def is_set(schema: Schema) -> bool:
    return schema.get("x-kubernetes-list-type") == "set"


def is_atomic(schema: Schema) -> bool:
    """Whether a mapping is one value as a whole: said so, or an object of a built-in kind that says nothing of its fields."""
    if schema.get("x-kubernetes-map-type") == "atomic":
        return True
    return "type" in schema and "properties" not in schema and "additionalProperties" not in schema
