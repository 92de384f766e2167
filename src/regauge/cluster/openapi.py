"""OpenAPI documents of what the server serves: version 3 by group and version. Pure.

Source: kube-openapi pkg/handler3 of 1.36.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from regauge.cluster import serving
from regauge.cluster.registry import known
from regauge.cluster.schemas import Schemas
from regauge.model import Kind
from regauge.model.kinds import CUSTOM_RESOURCE_DEFINITION

_COMPONENT = "#/components/schemas/"
_PARAMETERS = {
    "get": ("pretty", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"),
    "post": ("pretty", "dryRun", "fieldManager", "fieldValidation"),
    "put": ("pretty", "dryRun", "fieldManager", "fieldValidation"),
    "patch": ("pretty", "dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("pretty", "dryRun", "gracePeriodSeconds", "propagationPolicy"),
}
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def group_version_paths(catalog: serving.Catalog) -> Iterator[tuple[str, str, str]]:
    """The name below /openapi/v3, the group and the version."""
    for group, versions in catalog.group_versions().items():
        for version in versions:
            yield (f"apis/{group}/{version}" if group else f"api/{version}"), group, version


def index(catalog: serving.Catalog, schemas: Schemas) -> dict[str, Any]:
    """The root document: where each group and version is, with a hash that changes with its content."""
    paths = {}
    for path, group, version in group_version_paths(catalog):
        content = [schemas_key(schemas), *(kind.kind for kind in _kinds(catalog, group, version))]
        content += [crd["metadata"]["resourceVersion"] for crd in _crds(catalog, group)]
        digest = hashlib.sha256("\n".join(content).encode()).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def schemas_key(schemas: Schemas) -> str:
    """Stands for the whole set of schemas: it never changes while a server runs."""
    return str(len(schemas.definitions))


def document(catalog: serving.Catalog, schemas: Schemas, group: str, version: str) -> dict[str, Any]:
    """The document of one group and version: paths, and the schemas that they reach."""
    kinds = _kinds(catalog, group, version)
    names = [schemas.name_of(kind.group, kind.version, kind.kind) for kind in kinds]
    reached = _reached(schemas, [*filter(None, names), _DELETE_OPTIONS, _OBJECT_META])
    components = {name: _converted(schemas.definitions[name]) for name in reached}
    components.update(_custom(catalog, group, version))
    paths: dict[str, Any] = {}
    for kind in kinds:
        paths.update(_paths(kind, schemas.name_of(kind.group, kind.version, kind.kind) or _custom_name(kind)))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _kinds(catalog: serving.Catalog, group: str, version: str) -> list[Kind]:
    return [kind for kind in catalog.kinds() if (kind.group, kind.version) == (group, version)]


def _crds(catalog: serving.Catalog, group: str) -> list[Any]:
    return [crd for crd in catalog.store.list(CUSTOM_RESOURCE_DEFINITION) if crd["spec"].get("group") == group]


def _reached(schemas: Schemas, roots: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    waiting = [name for name in roots if name in schemas.definitions]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        waiting += [item for item in _references(schemas.definitions[name]) if item in schemas.definitions]
    return sorted(found)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref" and isinstance(item, str):
                yield item.rpartition("/")[2]
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _converted(value: Any) -> Any:
    """JSON schema as OpenAPI 3.0 has it: one type, references among the components."""
    if isinstance(value, list):
        return [_converted(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value and isinstance(value["$ref"], str):
        reference = {"$ref": _COMPONENT + value["$ref"].rpartition("/")[2]}
        rest = {key: _converted(item) for key, item in value.items() if key != "$ref"}
        return {"allOf": [reference], **rest} if rest else reference
    result = {}
    for key, item in value.items():
        if key == "type" and isinstance(item, list):
            result["type"] = next(name for name in item if name != "null")
        elif key == "properties" and isinstance(item, dict):
            result[key] = {name: _member(name, member) for name, member in item.items()}
        else:
            result[key] = _converted(item)
    return result


def _member(name: str, value: Any) -> Any:
    """A field; what a root says of its own version and kind is no list of choices."""
    if name in ("apiVersion", "kind") and isinstance(value, dict):
        value = {key: item for key, item in value.items() if key != "enum"}
    return _converted(value)


def _custom_name(kind: Kind) -> str:
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _custom(catalog: serving.Catalog, group: str, version: str) -> dict[str, Any]:
    """The schemas of custom resources, as their definitions give them."""
    found: dict[str, Any] = {}
    for crd in _crds(catalog, group):
        for kind in serving.custom_kinds(crd):
            if kind.version != version:
                continue
            given = next(item for item in crd["spec"]["versions"] if item["name"] == version)
            schema = dict((given.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"})
            properties = {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                **(schema.get("properties") or {}),
                "metadata": {"allOf": [{"$ref": _COMPONENT + _OBJECT_META}]},
            }
            schema["properties"] = properties
            schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind.kind}]
            found[_custom_name(kind)] = schema
    return found


def _paths(kind: Kind, name: str) -> dict[str, Any]:
    start = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = f"{start}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{start}/{kind.plural}"
    return {
        collection: {"get": _operation(kind, name, "get", "list"), "post": _operation(kind, name, "post", "post")},
        f"{collection}/{{name}}": {
            "get": _operation(kind, name, "get", "get"),
            "put": _operation(kind, name, "put", "put"),
            "patch": _operation(kind, name, "patch", "patch"),
            "delete": _operation(kind, name, "delete", "delete"),
        },
    }


def _operation(kind: Kind, name: str, method: str, action: str) -> dict[str, Any]:
    schema = {"schema": {"$ref": _COMPONENT + name}}
    operation: dict[str, Any] = {
        "parameters": [{"in": "query", "name": item, "schema": {"type": "string"}} for item in _PARAMETERS[method]],
        "responses": {"200": {"description": "OK", "content": {"application/json": schema}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "kind": kind.kind, "version": kind.version},
    }
    if method == "patch":
        types = [item for item in _PATCH_TYPES if known(kind) or "strategic" not in item]
        operation["requestBody"] = {"content": {item: {"schema": {"type": "object"}} for item in types}}
    elif method in ("post", "put"):
        operation["requestBody"] = {"content": {"*/*": schema}}
    return operation


def document_v2(schemas: Schemas) -> dict[str, Any]:
    """The older form, for clients that ask for it as JSON: the schemas without the paths."""
    text = msgspec.json.encode({name: _converted(schema) for name, schema in schemas.definitions.items()})
    definitions = msgspec.json.decode(text.replace(_COMPONENT.encode(), b"#/definitions/"))
    info = {"title": "Kubernetes", "version": "unversioned"}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions}
