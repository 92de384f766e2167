"""The API over HTTP without the HTTP: a request in, an answer out. Watches are left to the server, which streams.

Source of the answers: apiserver pkg/endpoints/handlers of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regauge.cluster.access.identity import ANONYMOUS_PATHS
from regauge.cluster.access.requests import action_of, check
from regauge.cluster.admission.customs import rules_warning, schema_of
from regauge.cluster.admission.warnings import warnings_of
from regauge.cluster.api import Api
from regauge.cluster.bodies import (
    checked_kind,
    read_as,
    read_body,
    read_delete_body,
    read_json,
    repeated_fields,
    strict_refusal,
    unrecognized,
)
from regauge.cluster.conversion import deprecation, incoming, is_converted, outgoing
from regauge.cluster.deletion import DeleteOptions
from regauge.cluster.exchange import Answer, Request, Target, find_target, refusal, unknown_path
from regauge.cluster.fixed_paths import fixed_answer
from regauge.cluster.listing import as_list, check_not_ahead, list_objects, revision_of
from regauge.cluster.patches import patched
from regauge.cluster.patching import patch_object, patch_type_of
from regauge.cluster.podwrites import check_eviction_name
from regauge.cluster.refusals import bad_request, failure, invalid, invalid_object, required, unsupported
from regauge.cluster.registry import known
from regauge.cluster.subresources import SCALE, scale_of, scaled
from regauge.cluster.tables import Form, accepted, represented
from regauge.cluster.writeoptions import check_options
from regauge.kube import ApiError, ServerUnavailable
from regauge.model import Kind, Object
from regauge.model.kinds import CUSTOM_RESOURCE_DEFINITION, EVENT, NAMESPACE, RESOURCE_POOL_STATUS_REQUEST

__all__ = ["Answer", "Request", "answer", "authorize", "find_target"]

_CONNECTED = ("attach", "exec", "portforward")
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
        "customresourcedefinitions",
    }
)
_DELETE_OPTIONS = Kind("meta.k8s.io", "v1", "DeleteOptions", "deleteoptions")
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
    state, form = api.state, Form(as_, version, request.query.get("includeObject", ""))
    body = represented(state.store, state.schemas, target.served, found.body, form, state.clock.now_s())
    return replace(found, body=body)


def _shaped(found: Answer, target: Target) -> Answer:
    """The answer in the version of the path."""
    if not is_converted(target.served) or not isinstance(found.body, dict):
        return found
    body = found.body
    if body.get("kind") == f"{target.kind.kind}List" and "items" in body:
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
    if target.subresource in _CONNECTED and not api.get(target.kind, target.name, target.namespace)["spec"].get(
        "nodeName"
    ):
        raise bad_request(f"pod {target.name} does not have a host assigned")
    if target.subresource == "ephemeralcontainers" and request.method not in ("GET", "PUT", "PATCH"):
        return _not_allowed()
    if target.subresource in _UNSUPPORTED:
        raise unsupported(f"{target.subresource} of a pod")
    if target.subresource == "token" and request.method == "POST":
        return _token(api, request, target)
    if target.subresource == "scale":
        return _scale(api, request, target)
    match request.method, one:
        case "GET", False:
            return Answer(200, list_objects(api, request, target))
        case "GET", True if target.subresource in ("", "status", "finalize"):
            check_not_ahead(revision_of(request.query.get("resourceVersion", "")), api.state.store.revision)
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
    body = checked_kind(read_body(request.body, request.content_type, kind), kind)
    how = request.query.get("fieldValidation") or "Warn"
    read = read_as(api.state.schemas, kind, body, custom_schema(api, kind))
    if how != "Ignore":
        is_json = "json" in (request.content_type or "json")
        told = [*(repeated_fields(request.body) if is_json else ()), *read.unknown]
        if told and how == "Strict":
            raise strict_refusal(kind, told)
        api.warnings += told
    return incoming(kind, read.object)


_CONDITIONAL = (RESOURCE_POOL_STATUS_REQUEST,)


def _check_conditional(target: Target, metadata: Mapping[str, Any]) -> None:
    """Some kinds are updated only by those who say which state they have seen."""
    if not metadata.get("resourceVersion"):
        kind = replace(target.kind, kind=target.kind.plural)
        raise invalid_object(
            kind, target.name, [invalid("metadata.resourceVersion", 0, "must be specified for an update")]
        )


def _name_of(document: Object) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def custom_schema(api: Api, kind: Kind) -> Mapping[str, Any] | None:
    """The schema of a custom kind, None for kinds that are built in and for definitions without one."""
    return None if known(kind) else schema_of(api.state.store, kind)


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


def _token(api: Api, request: Request, target: Target) -> Answer:
    tokens = api.state.tokens
    if tokens is None:
        raise unsupported("tokens of service accounts, on a cluster without keys")
    body = read_body(request.body, request.content_type)
    found = tokens.requested(
        api.state.store, target.namespace, target.name, body if isinstance(body, dict) else {}, api.state.new_uid()
    )
    return Answer(201, found)


def _create(api: Api, request: Request, target: Target) -> Answer:
    if target.subresource:
        body = read_body(request.body, request.content_type)
        body = body if isinstance(body, dict) else {}
        name = target.name or str((body.get("metadata") or {}).get("name") or "")
        if target.subresource == "eviction":
            check_eviction_name(target.name, body)
        body["metadata"] = {**(body.get("metadata") or {}), "name": name}
        return Answer(201, api.create(target.kind, body, target.namespace, subresource=target.subresource))
    if target.kind.namespaced and not target.namespace:
        return _not_allowed()
    if not request.body.strip():
        raise unrecognized(target.kind, request.body, "unexpected end of JSON input")
    document = _document(api, request, target)
    if target.served == EVENT and not document.get("eventTime"):
        raise invalid_object(Kind("", "v1", "Event", "events"), _name_of(document), [required("eventTime")])
    created = api.create(target.kind, document, target.namespace)
    api.warnings += warnings_of(target.kind, created)
    if target.kind == CUSTOM_RESOURCE_DEFINITION:
        api.warnings += rules_warning(created)
    return Answer(201, created)


def _update(api: Api, request: Request, target: Target) -> Answer:
    body = _document(api, request, target)
    metadata = body.setdefault("metadata", {})
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name not in (None, "", target.name):
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if not name:
        raise bad_request(f"name must be provided: the URL says {target.name}")
    if not known(target.kind) or target.kind in _CONDITIONAL:
        _check_conditional(target, metadata)
    updated = api.update(target.kind, body, target.namespace, subresource=target.subresource)
    api.warnings += warnings_of(target.kind, updated)
    return Answer(200, updated)


def delete_options(request: Request) -> DeleteOptions:
    options = _delete_body(request)
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


def _delete_body(request: Request) -> Object:
    body = read_delete_body(request.body) if "json" in (request.content_type or "json") else None
    body = read_body(request.body, request.content_type) if body is None else body
    options = dict(body) if isinstance(body, dict) else {}
    if options.get("kind") not in (None, "", "DeleteOptions"):
        version = options.get("apiVersion") or "v1"
        message = (
            f'no kind "{options["kind"]}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
        raise bad_request(message)
    if options.get("orphanDependents") is not None and options.get("propagationPolicy"):
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_object(_DELETE_OPTIONS, "", [invalid("propagationPolicy", options["propagationPolicy"], why)])
    if options.get("orphanDependents") is not None:
        options["propagationPolicy"] = "Orphan" if options["orphanDependents"] else "Background"
    return options


def _trying(api: Api, request: Request) -> Api:
    """The API for a deletion: its options may say in the body that it is a dry run."""
    told = _delete_body(request).get("dryRun")
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
    return Answer(200, as_list(target.kind, found.items, found.resource_version))
