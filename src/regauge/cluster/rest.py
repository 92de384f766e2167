"""The API over HTTP without the HTTP: a request in, an answer out. Watches are left to the server, which streams.

Source of the answers: apiserver pkg/endpoints/handlers of 1.36.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regauge.cluster import serving
from regauge.cluster.admission.decoding import decoded
from regauge.cluster.api import Api
from regauge.cluster.deletion import DeleteOptions
from regauge.cluster.podwrites import check_eviction_name
from regauge.cluster.refusals import bad_request, failure, internal_error, unsupported
from regauge.cluster.registry import has_status, known
from regauge.cluster.selecting import matcher
from regauge.kube import ApiError, Gone, PatchType, ServerUnavailable
from regauge.model import Kind, Object
from regauge.model.kinds import NAMESPACE, POD

MAX_BODY_BYTES = 3 * 1024 * 1024
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


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `actor` is who calls (field manager or user agent)."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    body: bytes = b""
    actor: str = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """The code and the body: a JSON value, or plain text."""

    code: int
    body: Any


@dataclass(frozen=True, slots=True)
class Target:
    """What a path means. `name` is empty for a collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def answer(api: Api, request: Request) -> Answer:
    """The answer to a request that is no watch. Refusals become Status objects."""
    try:
        fixed = _fixed(api, request)
        if fixed is not None:
            return fixed
        target = find_target(api, request.path)
        if target is None:
            return _unknown(api, request.path)
        return _dispatch(api.as_actor(request.actor), request, target)
    except ApiError as error:
        return refusal(error)
    except ServerUnavailable as error:
        return Answer(503, failure(503, "ServiceUnavailable", str(error)))


def refusal(error: ApiError) -> Answer:
    return Answer(error.code, error.status or failure(error.code, error.reason, error.message))


def _fixed(api: Api, request: Request) -> Answer | None:
    """Paths that are not about objects."""
    parts = request.path.strip("/").split("/")
    store = api.state.store
    match parts:
        case ["version"]:
            return Answer(200, _version(api))
        case ["healthz" | "livez" | "readyz"]:
            return Answer(200, "ok")
        case ["api"]:
            return Answer(200, serving.api_versions())
        case ["api", "v1"]:
            return Answer(200, serving.api_resource_list(store, "", "v1"))
        case ["apis"]:
            return Answer(200, serving.api_group_list(store))
        case ["apis", group]:
            versions = serving.group_versions(store).get(group) if group else None
            found = {"kind": "APIGroup", "apiVersion": "v1", **serving.api_group(group, versions)} if versions else None
            return Answer(200, found) if found else _unknown(api, request.path)
        case ["apis", group, version] if version in serving.group_versions(store).get(group, []):
            return Answer(200, serving.api_resource_list(store, group, version))
    return None


def _version(api: Api) -> dict[str, str]:
    version = api.version()
    major, _, minor = version.minor.partition(".")
    return {"major": major, "minor": minor, "gitVersion": version.git_version, "platform": "linux/amd64"}


def find_target(api: Api, path: str) -> Target | None:
    """The object or collection that a path names, None when nothing is served there."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, version, rest = "", *_split(parts, 1)
    elif parts[0] == "apis" and len(parts) > 2:
        group, (version, rest) = parts[1], _split(parts, 2)
    else:
        return None
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and not (not group and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3:
        return None
    kind = serving.find_served(api.state.store, group, version, rest[0])
    if kind is None or (namespace and not kind.namespaced):
        return None
    name, subresource = [*rest[1:], "", ""][:2]
    if name and kind.namespaced and not namespace:
        return None
    return Target(kind, namespace, name, subresource) if _has(kind, subresource) else None


def _split(parts: list[str], at: int) -> tuple[str, list[str]]:
    return (parts[at] if len(parts) > at else ""), parts[at + 1 :]


def _has(kind: Kind, subresource: str) -> bool:
    match subresource:
        case "":
            return True
        case "status":
            return has_status(kind) or not known(kind)
        case "binding" | "eviction":
            return kind == POD
        case "finalize":
            return kind == NAMESPACE
    return False


def _unknown(api: Api, path: str) -> Answer:
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else None
    if parts[0] != "api" and group not in serving.group_versions(api.state.store):
        return Answer(404, "404 page not found\n")
    message = "the server could not find the requested resource"
    return Answer(404, failure(404, "NotFound", message, {}))


def _not_allowed() -> Answer:
    message = "the server does not allow this method on the requested resource"
    return Answer(405, failure(405, "MethodNotAllowed", message, {}))


def _dispatch(api: Api, request: Request, target: Target) -> Answer:
    if "dryRun" in request.query:
        raise unsupported("dryRun")
    one = bool(target.name)
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


def _document(request: Request, kind: Kind) -> Object:
    """The JSON object of a body, of the kind of the path."""
    body = read_json(request.body)
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise bad_request(f"the body of the request was not a {kind.kind}")
    version = body.get("apiVersion")
    if version not in (None, "", kind.api_version):
        expected = (
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
        raise bad_request(expected)
    if body.get("kind") not in (None, "", kind.kind):
        raise bad_request(f'no kind "{body["kind"]}" is registered here; expected {kind.kind}')
    unknown = decoded(kind, body).unknown if request.query.get("fieldValidation") == "Strict" else []
    if unknown:
        told = ", ".join(f'unknown field "{path}"' for path in unknown)
        title = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{title}: strict decoding error: {told}")
    return body


def read_json(data: bytes) -> Any:
    if len(data) > MAX_BODY_BYTES:
        message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
        raise ApiError(413, "RequestEntityTooLarge", message, failure(413, "RequestEntityTooLarge", message, {}))
    if not data.strip():
        return None
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from None


def _create(api: Api, request: Request, target: Target) -> Answer:
    if target.subresource:
        body = read_json(request.body)
        body = body if isinstance(body, dict) else {}
        if target.subresource == "eviction":
            check_eviction_name(target.name, body)
        body["metadata"] = {**(body.get("metadata") or {}), "name": target.name}
        return Answer(201, api.create(target.kind, body, target.namespace, subresource=target.subresource))
    if target.kind.namespaced and not target.namespace:
        return _not_allowed()
    return Answer(201, api.create(target.kind, _document(request, target.kind), target.namespace))


def _update(api: Api, request: Request, target: Target) -> Answer:
    body = _document(request, target.kind)
    metadata = body.setdefault("metadata", {})
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name not in (None, "", target.name):
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if not name:
        raise bad_request(f"name must be provided: the URL says {target.name}")
    return Answer(200, api.update(target.kind, body, target.namespace, subresource=target.subresource))


def _patch(api: Api, request: Request, target: Target) -> Answer:
    content_type = request.content_type.partition(";")[0].strip()
    patch_type = _PATCH_TYPES.get(content_type)
    if patch_type is None:
        message = "415: Unsupported Media Type"
        return Answer(415, failure(415, "UnsupportedMediaType", message, {}))
    body = None if patch_type == "apply" else read_json(request.body)
    changed = api.patch(
        target.kind, target.name, body, target.namespace, patch_type=patch_type, subresource=target.subresource
    )
    return Answer(200, changed)


def delete_options(request: Request) -> DeleteOptions:
    body = read_json(request.body)
    options = dict(body) if isinstance(body, dict) else {}
    for name in ("gracePeriodSeconds", "propagationPolicy"):
        if name in request.query and name not in options:
            options[name] = request.query[name]
    if options.get("dryRun"):
        raise unsupported("dryRun")
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


def _delete(api: Api, request: Request, target: Target) -> Answer:
    last, gone = api.remove(target.kind, target.name, target.namespace, delete_options(request))
    if not gone or target.kind.plural in _ANSWERS_WITH_OBJECT:
        return Answer(200, last)
    group = {"group": target.kind.group} if target.kind.group else {}
    details = {"name": target.name, **group, "kind": target.kind.plural, "uid": last["metadata"]["uid"]}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Answer(200, status)


def _delete_collection(api: Api, request: Request, target: Target) -> Answer:
    options = delete_options(request)
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
