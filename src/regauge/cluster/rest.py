"""The API over HTTP without the HTTP: a request in, an answer out. Watches are left to the server, which streams.

Source of the answers: apiserver pkg/endpoints/handlers of 1.36.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from regauge.cluster.access.identity import ANONYMOUS_PATHS
from regauge.cluster.access.requests import action_of, check
from regauge.cluster.api import Api
from regauge.cluster.bodies import checked_kind, read_body, read_json, strict_refusal, unknown_fields
from regauge.cluster.deletion import DeleteOptions
from regauge.cluster.exchange import Answer, Request, Target, find_target, refusal, unknown_path
from regauge.cluster.fixed_paths import fixed_answer
from regauge.cluster.managers import Manager
from regauge.cluster.patches import patched
from regauge.cluster.podwrites import check_eviction_name
from regauge.cluster.refusals import (
    FieldError,
    bad_request,
    failure,
    internal_error,
    invalid,
    invalid_object,
    unsupported,
)
from regauge.cluster.registry import known
from regauge.cluster.selecting import matcher
from regauge.cluster.subresources import SCALE, scale_of, scaled
from regauge.cluster.tables import accepted, represented
from regauge.kube import ApiError, Gone, PatchType, ServerUnavailable
from regauge.model import Kind, Object
from regauge.model.kinds import NAMESPACE

__all__ = ["Answer", "Request", "answer", "authorize", "find_target", "no_watch_on_one"]

_UNSUPPORTED = ("attach", "ephemeralcontainers", "exec", "portforward", "resize")
_PATCH_OPTIONS = Kind("meta.k8s.io", "v1", "PatchOptions", "patchoptions")
_PATCH_TYPES: dict[str, PatchType] = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+cbor": "apply",
}
_ANSWERS_WITH_OBJECT = frozenset(
    {
        "namespaces",
        "persistentvolumes",
        "persistentvolumeclaims",
        "pods",
        "podtemplates",
        "resourcequotas",
        "services",
        "serviceaccounts",
        "deviceclasses",
        "devicetaintrules",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    }
)
_POLICIES = ("Background", "Foreground", "Orphan")


def answer(api: Api, request: Request) -> Answer:
    """The answer to a request that is no watch. Refusals become Status objects."""
    try:
        authorize(api, request)
        fixed = fixed_answer(api, request)
        if fixed is not None:
            return fixed
        target = find_target(api.state.store, request.path)
        if target is None:
            return unknown_path(api.state.store, request.path)
        dry_run = _dry_run(request.query.get("dryRun"))
        as_, version = accepted(request.accept)
        caller = api.as_caller(request.actor, request.manager, dry_run=dry_run)
        found = _dispatch(caller, request, target)
        if not as_ or not isinstance(found.body, dict) or found.body.get("kind") == "Status":
            return found
        now_s, include = api.state.clock.now_s(), request.query.get("includeObject", "")
        return replace(found, body=represented(api.state.store, target.kind, found.body, as_, version, now_s, include))
    except ApiError as error:
        return refusal(error)
    except ServerUnavailable as error:
        return Answer(503, failure(503, "ServiceUnavailable", str(error)))


def _not_allowed() -> Answer:
    message = "the server does not allow this method on the requested resource"
    return Answer(405, failure(405, "MethodNotAllowed", message, {}))


def authorize(api: Api, request: Request) -> None:
    """Raises `Forbidden` when the request has a user who may not do this."""
    if request.user is not None and request.path not in ANONYMOUS_PATHS:
        check(api.state.store, request.user, action_of(request.method, request.path, request.query))


def _dry_run(value: str | None) -> bool:
    if value not in (None, "", "All"):
        text = f'Unsupported value: ["{value}"]: supported values: "All"'
        message = f'CreateOptions.meta.k8s.io "" is invalid: dryRun: {text}'
        raise ApiError(422, "Invalid", message, failure(422, "Invalid", message))
    return value == "All"


def _dispatch(api: Api, request: Request, target: Target) -> Answer:
    one = bool(target.name)
    if target.subresource in _UNSUPPORTED:
        raise unsupported(f"{target.subresource} of a pod")
    if target.subresource == "scale":
        return _scale(api, request, target)
    match request.method, one:
        case "GET", False:
            return Answer(200, _list(api, request, target))
        case "GET", True if target.subresource in ("", "status", "finalize"):
            return Answer(200, api.get(target.kind, target.name, target.namespace))
        case "POST", _ if not one or target.subresource in ("binding", "eviction"):
            return _create(api, request, target)
        case "PUT", True if target.subresource in ("", "status", "finalize"):
            return _update(api, request, target)
        case "PATCH", True if target.subresource in ("", "status"):
            return _patch(api, request, target)
        case "DELETE", True if not target.subresource:
            return _delete(api, request, target)
        case "DELETE", False if target.namespace or not target.kind.namespaced:
            return _not_allowed() if target.kind == NAMESPACE else _delete_collection(api, request, target)
    return _not_allowed()


def _document(api: Api, request: Request, kind: Kind) -> tuple[Object, tuple[str, ...]]:
    """The object of a body, of the kind of the path, and what to warn of."""
    body = checked_kind(read_body(request.body, request.content_type), kind)
    how = request.query.get("fieldValidation") or "Warn"
    unknown = unknown_fields(api.state.schemas, kind, body) if how != "Ignore" else []
    if unknown and how == "Strict":
        raise strict_refusal(kind, unknown)
    return body, tuple(unknown)


def _scale(api: Api, request: Request, target: Target) -> Answer:
    workload = api.get(target.kind, target.name, target.namespace)
    scale = scale_of(workload)
    match request.method:
        case "GET":
            return Answer(200, scale)
        case "PUT":
            wanted = checked_kind(read_body(request.body, request.content_type), SCALE)
        case "PATCH":
            wanted = patched(scale, read_json(request.body), _patch_type(request), api.typed(SCALE))
        case _:
            return _not_allowed()
    return Answer(200, scale_of(api.update(target.kind, scaled(target.kind, workload, wanted), target.namespace)))


def _create(api: Api, request: Request, target: Target) -> Answer:
    if target.subresource:
        body = read_body(request.body, request.content_type)
        body = body if isinstance(body, dict) else {}
        if target.subresource == "eviction":
            check_eviction_name(target.name, body)
        body["metadata"] = {**(body.get("metadata") or {}), "name": target.name}
        return Answer(201, api.create(target.kind, body, target.namespace, subresource=target.subresource))
    if target.kind.namespaced and not target.namespace:
        return _not_allowed()
    if not request.body.strip():
        raise bad_request(
            f"the object provided is unrecognized (must be of type {target.kind.kind}): "
            "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"
        )
    body, warnings = _document(api, request, target.kind)
    return Answer(201, api.create(target.kind, body, target.namespace), warnings)


def _update(api: Api, request: Request, target: Target) -> Answer:
    body, warnings = _document(api, request, target.kind)
    metadata = body.setdefault("metadata", {})
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name not in (None, "", target.name):
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if not name:
        raise bad_request(f"name must be provided: the URL says {target.name}")
    return Answer(200, api.update(target.kind, body, target.namespace, subresource=target.subresource), warnings)


def _patch_type(request: Request) -> PatchType:
    content_type = request.content_type.partition(";")[0].strip()
    found = _PATCH_TYPES.get(content_type)
    if found is None:
        message = "415: Unsupported Media Type"
        raise ApiError(415, "UnsupportedMediaType", message, failure(415, "UnsupportedMediaType", message, {}))
    return found


def _patch(api: Api, request: Request, target: Target) -> Answer:
    patch_type = _patch_type(request)
    if patch_type == "strategic" and not known(target.kind):
        told = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        message = f"the body of the request was in an unknown format - accepted media types include: {told}"
        raise ApiError(415, "UnsupportedMediaType", message, failure(415, "UnsupportedMediaType", message, {}))
    if patch_type == "apply":
        return _apply(api, request, target)
    body = read_json(request.body)
    warnings = _unknown_after_patch(api, request, target, body, patch_type)
    changed = api.patch(
        target.kind, target.name, body, target.namespace, patch_type=patch_type, subresource=target.subresource
    )
    return Answer(200, changed, warnings)


def _unknown_after_patch(
    api: Api, request: Request, target: Target, body: Any, patch_type: PatchType
) -> tuple[str, ...]:
    """The unknown fields that a patch brings in, to be warned of. Raises `Invalid` when the caller wants it strict."""
    how = request.query.get("fieldValidation") or "Warn"
    live = None if how == "Ignore" else api.find(target.kind, target.name, target.namespace)
    if live is None:
        return ()
    new = patched(live, body, patch_type, api.typed(target.kind))
    unknown = unknown_fields(api.state.schemas, target.kind, new) if isinstance(new, dict) else []
    if unknown and how == "Strict":
        told = f"strict decoding error: {', '.join(unknown)}"
        raise invalid_object(target.kind, target.name, [invalid("patch", request.body.decode(errors="replace"), told)])
    return tuple(unknown)


def _apply(api: Api, request: Request, target: Target) -> Answer:
    name = request.query.get("fieldManager") or ""
    if not name:
        wrong = FieldError("fieldManager", "Required value", "Required value: is required for apply patch")
        raise invalid_object(_PATCH_OPTIONS, "", [wrong])
    body = read_body(request.body, "application/apply-patch+yaml")
    if not isinstance(body, dict) or not body.get("kind") or not body.get("apiVersion"):
        group, _, version = str((body or {}).get("apiVersion") or "").rpartition("/")
        told = f"{group}/{version}, Kind={(body or {}).get('kind') or ''}"
        raise bad_request(f"invalid object type: {told}")
    body = checked_kind(body, target.kind)
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
    found, new = api.apply(target.kind, target.name, body, target.namespace, manager, force=force)
    return Answer(201 if new else 200, found)


def _check_declared(api: Api, target: Target, body: Object) -> None:
    """An apply of fields that nobody knows is refused, whatever fieldValidation says."""
    unknown = unknown_fields(api.state.schemas, target.kind, body)
    if unknown:
        path = unknown[0].removeprefix('unknown field "').removesuffix('"')
        name = (body.get("metadata") or {}).get("name", "")
        title = f"({target.namespace}/{name}; {_with_slash(target.kind)}, Kind={target.kind.kind})"
        message = f"failed to create typed patch object {title}: .{path}: field not declared in schema"
        raise ApiError(500, "", message, failure(500, "", message))


def _with_slash(kind: Kind) -> str:
    return f"{kind.group}/{kind.version}"


def delete_options(request: Request) -> DeleteOptions:
    body = read_body(request.body, request.content_type)
    options = dict(body) if isinstance(body, dict) else {}
    for name in ("gracePeriodSeconds", "propagationPolicy"):
        if name in request.query and name not in options:
            options[name] = request.query[name]
    policy = str(options.get("propagationPolicy") or "")
    if policy and policy not in _POLICIES:
        text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        message = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {text}'
        raise ApiError(422, "Invalid", message, failure(422, "Invalid", message))
    preconditions = options.get("preconditions") or {}
    grace = options.get("gracePeriodSeconds")
    try:
        grace_s = None if grace in (None, "") else int(grace)
    except ValueError:
        raise bad_request(f"gracePeriodSeconds is not a whole number: {grace}") from None
    uid, version = (str(preconditions.get(name) or "") for name in ("uid", "resourceVersion"))
    return DeleteOptions(uid, version, grace_s, policy)


def _trying(api: Api, request: Request) -> Api:
    """The API for a deletion: its options may say in the body that it is a dry run."""
    body = read_body(request.body, request.content_type)
    told = body.get("dryRun") if isinstance(body, dict) else None
    return api.as_caller(request.actor, request.manager, dry_run=True) if told == ["All"] else api


def _delete(api: Api, request: Request, target: Target) -> Answer:
    api = _trying(api, request)
    last, gone = api.remove(target.kind, target.name, target.namespace, delete_options(request))
    if not gone or target.kind.plural in _ANSWERS_WITH_OBJECT:
        return Answer(200, last)
    group = {"group": target.kind.group} if target.kind.group else {}
    details = {"name": target.name, **group, "kind": target.kind.plural, "uid": last["metadata"]["uid"]}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Answer(200, status)


def _delete_collection(api: Api, request: Request, target: Target) -> Answer:
    api, options = _trying(api, request), delete_options(request)
    selectors = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    found = api.select(target.kind, target.namespace, *selectors)
    for item in found.items:
        api.remove(target.kind, item["metadata"]["name"], item["metadata"].get("namespace", ""), options)
    return Answer(200, _as_list(target.kind, found.items, found.resource_version))


def _list(api: Api, request: Request, target: Target) -> Object:
    match = matcher(target.kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
    store = api.state.store
    revision, start = store.revision, ""
    token = request.query.get("continue")
    if token:
        revision, start = _continued(token)
    everything = store.list(target.kind, target.namespace)
    if revision != store.revision:
        try:
            everything = store.list_at(target.kind, target.namespace, revision)
        except Gone:
            raise _token_expired() from None
    items = [item for item in everything if match(item) and _place(item) > start]
    limit = _number(request.query.get("limit"))
    if not limit or len(items) <= limit:
        return _as_list(target.kind, items, str(revision))
    page = items[:limit]
    more: dict[str, Any] = {"continue": _token(revision, _place(page[-1]))}
    if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
        more["remainingItemCount"] = len(items) - limit
    return _as_list(target.kind, page, str(revision), more)


def _as_list(kind: Kind, items: Any, revision: str, more: Mapping[str, Any] | None = None) -> Object:
    """A list as upstream writes it: the items without kind and apiVersion, for custom resources with them."""
    if known(kind):
        items = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    metadata = {"resourceVersion": revision, **(more or {})}
    return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": list(items)}


def _place(item: Object) -> str:
    return f"{item['metadata'].get('namespace', '')}\0{item['metadata']['name']}"


def _number(text: str | None) -> int:
    if not text:
        return 0
    if not text.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text))


def _token(revision: int, start: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode({"v": revision, "start": start})).decode()


def _continued(token: str) -> tuple[int, str]:
    try:
        read = msgspec.json.decode(base64.urlsafe_b64decode(token.encode()))
        return int(read["v"]), str(read["start"])
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request("continue key is not valid: it does not come from this server") from None


def _token_expired() -> Gone:
    message = "The provided continue parameter is too old. List again without it, or from the key it stands at."
    return Gone(410, "Expired", message, failure(410, "Expired", message))


def no_watch_on_one(target: Target) -> None:
    """A watch is on a collection; one object is watched with a field selector."""
    if target.name:
        raise internal_error("watch a collection with fieldSelector=metadata.name=... instead of one object")
