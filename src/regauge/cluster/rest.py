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
from regauge.cluster.admission.warnings import warnings_of
from regauge.cluster.api import Api
from regauge.cluster.bodies import checked_kind, read_as, read_body, read_json, repeated_fields, strict_refusal
from regauge.cluster.conversion import deprecation, incoming, is_converted, outgoing
from regauge.cluster.deletion import DeleteOptions
from regauge.cluster.exchange import Answer, Request, Target, find_target, refusal, unknown_path
from regauge.cluster.fixed_paths import fixed_answer
from regauge.cluster.patches import patched
from regauge.cluster.patching import patch_object, patch_type_of
from regauge.cluster.podwrites import check_eviction_name
from regauge.cluster.refusals import bad_request, failure, internal_error, unsupported
from regauge.cluster.registry import known
from regauge.cluster.selecting import matcher
from regauge.cluster.subresources import SCALE, scale_of, scaled
from regauge.cluster.tables import accepted, represented
from regauge.cluster.writeoptions import check_options
from regauge.kube import ApiError, Gone, ServerUnavailable
from regauge.model import Kind, Object
from regauge.model.kinds import NAMESPACE

__all__ = ["Answer", "Request", "answer", "authorize", "find_target", "no_watch_on_one"]

_UNSUPPORTED = ("attach", "ephemeralcontainers", "exec", "portforward", "resize")
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
        "resourcepoolstatusrequests",
    }
)
_POLICIES = ("Background", "Foreground", "Orphan")


def answer(api: Api, request: Request) -> Answer:
    """The answer to a request that is no watch. Refusals become Status objects."""
    caller = api.as_caller(request.actor, request.manager, dry_run=request.query.get("dryRun") == "All")
    try:
        found = _answered(api, caller, request)
    except ApiError as error:
        found = refusal(error)
    except ServerUnavailable as error:
        found = Answer(503, failure(503, "ServiceUnavailable", str(error)))
    return replace(found, warnings=tuple(dict.fromkeys(caller.warnings))) if caller.warnings else found


def _answered(api: Api, caller: Api, request: Request) -> Answer:
    authorize(api, request)
    fixed = fixed_answer(api, request)
    if fixed is not None:
        return fixed
    target = find_target(api.state.catalog, request.path)
    if target is None:
        return unknown_path(api.state.catalog, request.path)
    caller.warnings += deprecation(target.served, api.version().minor)
    check_options(request.method, request.query, apply="apply-patch" in request.content_type)
    as_, version = accepted(request.accept)
    found = _shaped(_dispatch(caller, request, target), target)
    if not as_ or not isinstance(found.body, dict) or found.body.get("kind") == "Status":
        return found
    now_s, include = api.state.clock.now_s(), request.query.get("includeObject", "")
    return replace(found, body=represented(api.state.store, target.served, found.body, as_, version, now_s, include))


def _shaped(found: Answer, target: Target) -> Answer:
    """The answer in the version of the path."""
    if not is_converted(target.served) or not isinstance(found.body, dict):
        return found
    body = found.body
    if body.get("kind") == f"{target.kind.kind}List":
        items = [_bare(outgoing(target.served, item)) for item in body["items"]]
        return replace(found, body={**body, "apiVersion": target.served.api_version, "items": items})
    return replace(found, body=outgoing(target.served, body)) if body.get("kind") == target.kind.kind else found


def _bare(item: Object) -> Object:
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def _not_allowed() -> Answer:
    message = "the server does not allow this method on the requested resource"
    return Answer(405, failure(405, "MethodNotAllowed", message, {}))


def authorize(api: Api, request: Request) -> None:
    """Raises `Forbidden` when the request has a user who may not do this."""
    if request.user is not None and request.path not in ANONYMOUS_PATHS:
        check(api.state.store, request.user, action_of(request.method, request.path, request.query))


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
            return patch_object(api, request, target)
        case "DELETE", True if not target.subresource:
            return _delete(api, request, target)
        case "DELETE", False if target.namespace or not target.kind.namespaced:
            return _not_allowed() if target.kind == NAMESPACE else _delete_collection(api, request, target)
    return _not_allowed()


def _document(api: Api, request: Request, target: Target) -> Object:
    """The object of a body as it is stored; what the caller is to be warned of is gathered."""
    kind = target.served
    body = checked_kind(read_body(request.body, request.content_type), kind)
    how = request.query.get("fieldValidation") or "Warn"
    read = read_as(api.state.schemas, kind, body)
    if how != "Ignore":
        is_json = "json" in (request.content_type or "json")
        told = [*(repeated_fields(request.body) if is_json else ()), *read.unknown]
        if told and how == "Strict":
            raise strict_refusal(kind, told)
        api.warnings += told
    return incoming(kind, read.object)


def _scale(api: Api, request: Request, target: Target) -> Answer:
    workload = api.get(target.kind, target.name, target.namespace)
    scale = scale_of(workload)
    match request.method:
        case "GET":
            return Answer(200, scale)
        case "PUT":
            wanted = checked_kind(read_body(request.body, request.content_type), SCALE)
        case "PATCH":
            wanted = patched(scale, read_json(request.body), patch_type_of(request), api.typed(SCALE))
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
    created = api.create(target.kind, _document(api, request, target), target.namespace)
    api.warnings += warnings_of(target.kind, created)
    return Answer(201, created)


def _update(api: Api, request: Request, target: Target) -> Answer:
    body = _document(api, request, target)
    metadata = body.setdefault("metadata", {})
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name not in (None, "", target.name):
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if not name:
        raise bad_request(f"name must be provided: the URL says {target.name}")
    updated = api.update(target.kind, body, target.namespace, subresource=target.subresource)
    api.warnings += warnings_of(target.kind, updated)
    return Answer(200, updated)


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
