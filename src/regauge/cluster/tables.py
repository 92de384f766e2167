"""Objects as tables, or as their metadata alone: the representations that clients ask for by their Accept header. Pure.

Source: apiserver pkg/endpoints/handlers/response.go and pkg/registry/rest/table.go of 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regauge.cluster.columns import AGE, COLUMNS, DEFAULT, NAME, Column, field
from regauge.cluster.refusals import bad_request, failure
from regauge.cluster.registry import known
from regauge.cluster.schemas import Schema, Schemas
from regauge.cluster.store import Store
from regauge.kube import ApiError
from regauge.model import Kind, Object
from regauge.model.kinds import CUSTOM_RESOURCE_DEFINITION

As = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]
_AS: Mapping[str, As] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']+)'\]")
_FORMS = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_CUSTOM_AGE = "date"


def accepted(accept: str) -> tuple[As, str]:
    """The representation that an Accept header asks for, and its version. Raises `ApiError` 406 when there is none."""
    if not accept.strip():
        return "", ""
    for part in accept.split(","):
        media, *options = [item.strip() for item in part.split(";")]
        if media not in ("application/json", "*/*", "application/*", "application/yaml"):
            continue
        told = dict(item.partition("=")[::2] for item in options if "=" in item)
        if "as" not in told:
            return "", ""
        if told["as"] in _AS and told.get("g") == "meta.k8s.io" and told.get("v") in ("v1", "v1beta1"):
            return _AS[told["as"]], told["v"]
    if "as=" in accept:
        message = "only the following media types are accepted: " + ", ".join(_FORMS)
        raise ApiError(406, "NotAcceptable", message, failure(406, "NotAcceptable", message))
    streams = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join((*_FORMS, *streams))}"
    raise ApiError(406, "NotAcceptable", message, failure(406, "NotAcceptable", message))


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer is to be turned into. `include` is the query parameter includeObject."""

    as_: As
    version: str
    include: str = ""


def represented(store: Store, schemas: Schemas, kind: Kind, found: Object, form: Form, now_s: float) -> Object:
    """An object or a list in another representation."""
    as_, version, include = form.as_, form.version, form.include
    items = found["items"] if "items" in found and found.get("kind") == f"{kind.kind}List" else None
    if as_ == "Table":
        if include not in ("", "None", "Metadata", "Object"):
            why = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(f"Unable to convert to Table as requested: {why}")
        columns = columns_of(store, kind)
        rows = [_row(kind, columns, item, now_s, version, include) for item in ([found] if items is None else items)]
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": _list_metadata(found),
            "columnDefinitions": [_definition(schemas, kind, column) for column in columns],
            "rows": rows,
        }
    if as_ == "PartialObjectMetadataList" and items is not None:
        return {
            "kind": as_,
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": found["metadata"],
            "items": [_metadata_only(item, version) for item in items],
        }
    if items is not None:
        message = f"you requested {as_}, but the requested object is a list (*{_go_package(kind)}.{kind.kind}List)"
        raise ApiError(406, "NotAcceptable", message, failure(406, "NotAcceptable", message))
    return _metadata_only(found, version)


def _go_package(kind: Kind) -> str:
    return kind.group.partition(".")[0] or "core"


def _list_metadata(found: Object) -> Object:
    wanted = ("resourceVersion", "continue", "remainingItemCount")
    return {key: value for key, value in (found.get("metadata") or {}).items() if key in wanted}


def _definition(schemas: Schemas, kind: Kind, column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or _described(schemas, kind, column.about) or column.name,
        "priority": 1 if column.wide else 0,
    }


def _described(schemas: Schemas, kind: Kind, about: str) -> str:
    """The description of a field, as the kind's schema has it."""
    schema = schemas.of(kind) or _CUSTOM
    for name in filter(None, about.split(".")):
        schema = schemas.member(schema, name)
    return str(schema.get("description") or "") if about else ""


_CUSTOM: Schema = {"properties": {"metadata": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}}


def _row(kind: Kind, columns: Sequence[Column], item: Object, now_s: float, version: str, include: str) -> Object:
    row: Object = {"cells": [column.cell(item, now_s) for column in columns]}
    if include == "Object":
        row["object"] = {"kind": kind.kind, "apiVersion": kind.api_version, **item}
    elif include != "None":
        row["object"] = _metadata_only(item, version)
    return row


def _metadata_only(item: Object, version: str) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": item["metadata"]}


def columns_of(store: Store, kind: Kind) -> Sequence[Column]:
    if known(kind):
        return COLUMNS.get((kind.group, kind.plural), DEFAULT)
    crd = store.find(CUSTOM_RESOURCE_DEFINITION, ("", kind.resource))
    versions: Iterable[Object] = ((crd or {}).get("spec") or {}).get("versions") or ()
    given = next((item for item in versions if item.get("name") == kind.version), {})
    printed = given.get("additionalPrinterColumns")
    return (NAME, *(_custom(item) for item in printed)) if printed else (NAME, AGE)


def _custom(item: Object) -> Column:
    path, type_ = str(item.get("jsonPath", "")), str(item.get("type", "string"))
    steps = [next(part for part in found if part) for found in _STEP.findall(path)]
    wide = bool(item.get("priority"))
    if type_ == _CUSTOM_AGE and path == ".metadata.creationTimestamp":
        return Column(item["name"], AGE.cell, wide)
    told = item.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(item["name"], _at(steps), wide, type_, str(item.get("format", "")), description=told)


def _at(steps: Sequence[str]) -> Any:
    if all(not step.isdigit() and "." not in step for step in steps):
        return field(".".join(steps), None)

    def read(item: Object, _now_s: float) -> Any:
        value: Any = item
        for step in steps:
            if isinstance(value, list):
                value = value[int(step)] if step.isdigit() and int(step) < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return value

    return read
