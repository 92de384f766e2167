"""PATCH: the three patch types on the version that the client sees, and server-side apply.

Source: apiserver pkg/endpoints/handlers/patch.go of 1.36.
"""

from __future__ import annotations

from typing import Any

import msgspec

from regauge.cluster.admission.customs import schema_of
from regauge.cluster.admission.warnings import warnings_of
from regauge.cluster.api import Api
from regauge.cluster.bodies import checked_kind, decode_error, read_as, read_body, read_patch
from regauge.cluster.conversion import incoming, outgoing
from regauge.cluster.exchange import Answer, Request, Target
from regauge.cluster.managers import Manager
from regauge.cluster.patches import Typed, patched
from regauge.cluster.refusals import bad_request, failure, invalid, invalid_object
from regauge.cluster.registry import known
from regauge.kube import ApiError, PatchType
from regauge.model import Kind, Object

_PATCH_TYPES: dict[str, PatchType] = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+cbor": "apply",
}
_NAMELESS = Kind("", "", "", "")


def patch_type_of(request: Request) -> PatchType:
    """Raises `ApiError` 415 for a content type that is no patch."""
    found = _PATCH_TYPES.get(request.content_type.partition(";")[0].strip())
    if found is None:
        message = "415: Unsupported Media Type"
        raise ApiError(415, "UnsupportedMediaType", message, failure(415, "UnsupportedMediaType", message, {}))
    return found


def patch_object(api: Api, request: Request, target: Target) -> Answer:
    patch_type = patch_type_of(request)
    if patch_type == "strategic" and not known(target.kind):
        told = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        message = f"the body of the request was in an unknown format - accepted media types include: {told}"
        raise ApiError(415, "UnsupportedMediaType", message, failure(415, "UnsupportedMediaType", message, {}))
    if patch_type == "apply":
        return _apply(api, request, target)
    live = api.get(target.kind, target.name, target.namespace)
    body = read_patch(request.body, patch_type)
    schema = api.state.schemas.of(target.served)
    typed = Typed(api.state.schemas, schema) if schema else None
    seen = outgoing(target.served, live)
    new = patched(seen, body, patch_type, typed)
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise bad_request("the patch leaves no object")
    if new["metadata"].get("name") != target.name:
        raise bad_request(
            f"the name of the object ({new['metadata'].get('name', '')}) does not match the name on the URL ({target.name})"
        )
    new = _read(api, request, target, new)
    changed = api.replace(target.kind, live, incoming(target.served, new), target.namespace, target.subresource)
    api.warnings += warnings_of(target.kind, changed)
    return Answer(200, changed)


def _read(api: Api, request: Request, target: Target, new: Object) -> Object:
    """The patched object as its kind is read. Raises `Invalid` for what cannot be read."""
    if new.get("kind") != target.served.kind and known(target.kind):
        raise _unreadable(new, f'no kind "{new.get("kind")}" is expected here')
    try:
        custom = None if known(target.kind) else schema_of(api.state.store, target.kind)
        read = read_as(api.state.schemas, target.served, new, custom)
    except ApiError as error:
        raise _unreadable(new, decode_error(error, target.served)) from None
    how = request.query.get("fieldValidation") or "Warn"
    unknown = read.unknown if how != "Ignore" else []
    if unknown and how == "Strict":
        raise _unreadable(new, f"strict decoding error: {', '.join(unknown)}")
    api.warnings += unknown
    return read.object


def _unreadable(new: Object, why: str) -> ApiError:
    """The patch makes something that is no object of its kind: the whole of it is told."""
    metadata = new["metadata"]
    ordered = {name: metadata[name] for name in _METADATA_ORDER if name in metadata}
    body = {**dict(sorted(new.items())), "metadata": {**ordered, **metadata}}
    text = msgspec.json.encode({key: body[key] for key in sorted(body)}).decode()
    return invalid_object(_NAMELESS, "", [invalid("patch", text, why)])


_METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def _apply(api: Api, request: Request, target: Target) -> Answer:
    name = request.query.get("fieldManager") or ""
    body = read_body(request.body, "application/apply-patch+yaml")
    if not isinstance(body, dict) or not body.get("kind") or not body.get("apiVersion"):
        group, _, version = str((body or {}).get("apiVersion") or "").rpartition("/")
        told = f"{group}/{version}, Kind={(body or {}).get('kind') or ''}"
        raise bad_request(f"invalid object type: {told}")
    body = checked_kind(body, target.served)
    metadata = body.get("metadata") or {}
    _check_declared(api, target, body)
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if metadata.get("name") not in (None, "", target.name):
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    force = request.query.get("force") in ("true", "1", "True")
    manager = Manager(name, target.subresource)
    wanted = incoming(target.served, body)
    found, new = api.apply(target.kind, target.name, wanted, target.namespace, manager, force=force)
    return Answer(201 if new else 200, found)


def _check_declared(api: Api, target: Target, body: Object) -> None:
    """An apply of fields that nobody knows is refused, whatever fieldValidation says."""
    named = (body.get("metadata") or {}).get("name", "") if isinstance(body.get("metadata"), dict) else ""
    if isinstance(named, bool | int | float):
        told = f".metadata.name: expected string, got &value.valueUnstructured{{Value:{_go_value(named)}}}"
        raise _untyped(target, "", "", told)
    unknown = read_as(api.state.schemas, target.served, body).unknown
    if unknown:
        path = unknown[0].removeprefix('unknown field "').removesuffix('"')
        raise _untyped(target, target.namespace, named, f".{path}: field not declared in schema")


def _untyped(target: Target, namespace: str, name: str, why: str) -> ApiError:
    kind = target.served
    title = f"({namespace}/{name}; {kind.group}/{kind.version}, Kind={kind.kind})"
    message = f"failed to create typed patch object {title}: {why}"
    return ApiError(500, "", message, failure(500, "", message))


def _go_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
