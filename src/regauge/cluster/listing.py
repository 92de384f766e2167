"""Lists: their options, their pages, and the revision they are of. Pure.

Source: apimachinery pkg/apis/meta/internalversion/validation, apiserver pkg/storage (continue.go, errors.go) of 1.36.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from regauge.cluster.admission.customs import selectable_fields
from regauge.cluster.api import Api
from regauge.cluster.eventforms import core_selector
from regauge.cluster.exchange import Request, Target
from regauge.cluster.refusals import (
    FieldError,
    bad_request,
    failure,
    forbidden_field,
    invalid_object,
    unsupported_value,
)
from regauge.cluster.registry import known
from regauge.cluster.selecting import matcher
from regauge.kube import ApiError, Gone
from regauge.model import Kind, Object
from regauge.model.kinds import EVENT

_OPTIONS = Kind("meta.k8s.io", "v1", "ListOptions", "listoptions")
_TRUE = ("1", "true", "True", "maybe")
_MATCH = "resourceVersionMatch"
_TOKEN_VERSION = "meta.k8s.io/v1"
RETRY_AFTER_S = 1


def check_list_options(query: Mapping[str, str]) -> None:
    """Raises `Invalid` for options that do not go together."""
    watch = query.get("watch") in _TRUE
    errors = list(_watch_errors(query) if watch else _list_errors(query))
    if errors:
        raise invalid_object(_OPTIONS, "", errors)


def _list_errors(query: Mapping[str, str]) -> Iterator[FieldError]:
    match, version = query.get(_MATCH, ""), query.get("resourceVersion", "")
    if "sendInitialEvents" in query:
        yield forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if not match:
        return
    if not version:
        yield forbidden_field(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if query.get("continue"):
        yield forbidden_field(_MATCH, "resourceVersionMatch is forbidden when continue is provided")
    if match not in ("Exact", "NotOlderThan"):
        yield unsupported_value(_MATCH, match, ("Exact", "NotOlderThan", ""))
    if match == "Exact" and version == "0":
        yield forbidden_field(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')


def _watch_errors(query: Mapping[str, str]) -> Iterator[FieldError]:
    match = query.get(_MATCH, "")
    if "sendInitialEvents" in query:
        if match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            yield forbidden_field(_MATCH, text)
    elif match:
        yield forbidden_field(
            _MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
        if match != "NotOlderThan":
            yield unsupported_value(_MATCH, match, ("NotOlderThan",))


def watch_query(request: Request, target: Target) -> dict[str, str]:
    """The options of a watch, checked. A watch of one object is one of its collection with a field selector.

    Raises `ApiError` for options that do not go together or cannot be read.
    """
    query = dict(request.query)
    check_list_options(query)
    seconds = query.get("timeoutSeconds", "")
    if seconds and not seconds.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{seconds}": invalid syntax')
    version = query.get("resourceVersion", "")
    if version and not version.isdigit():
        message = _unreadable_version(version)
        raise ApiError(500, "", message, failure(500, "", message))
    if target.served == EVENT:
        query["fieldSelector"] = _core_fields(query.get("fieldSelector", ""))
    if target.name:
        selectors = (query.get("fieldSelector", ""), f"metadata.name={target.name}")
        query["fieldSelector"] = ",".join(filter(None, selectors))
    return query


def _unreadable_version(text: str) -> str:
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'


def _core_fields(text: str) -> str:
    """A field selector of events.k8s.io/v1 in the fields of the stored form. Raises `ApiError` for fields of that form."""
    if text.startswith("involvedObject."):
        raise bad_request(f"field label not supported: {text.partition('=')[0].rstrip('!')}")
    return core_selector(text)


def list_objects(api: Api, request: Request, target: Target) -> Object:
    """The list, or the page of it, that a request asks for."""
    query, store = dict(request.query), api.state.store
    if target.served == EVENT:
        query["fieldSelector"] = _core_fields(query.get("fieldSelector", ""))
    check_list_options(query)
    offered = () if known(target.kind) else selectable_fields(store, target.kind)
    match = matcher(target.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""), offered)
    limit, token = _number(query.get("limit")), query.get("continue")
    revision, start = store.revision, ""
    if token:
        if query.get("resourceVersion") not in (None, "", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, start = _continued(token)
    else:
        asked = revision_of(query.get("resourceVersion", ""))
        check_not_ahead(asked, store.revision)
        if asked and (query.get(_MATCH) == "Exact" or (limit and not query.get(_MATCH))):
            revision = asked
    everything = store.list(target.kind, target.namespace)
    if revision != store.revision:
        try:
            everything = store.list_at(target.kind, target.namespace, revision)
        except Gone:
            raise _token_too_old(store.revision, start) if token else _list_too_old() from None
    items = [item for item in everything if match(item) and _place(item) > start]
    if not limit or len(items) <= limit:
        return as_list(target.kind, items, str(revision))
    page = items[:limit]
    more: dict[str, Any] = {"continue": _token(revision, _place(page[-1]))}
    if not query.get("labelSelector") and not query.get("fieldSelector"):
        more["remainingItemCount"] = len(items) - limit
    return as_list(target.kind, page, str(revision), more)


def as_list(kind: Kind, items: Any, revision: str, more: Mapping[str, Any] | None = None) -> Object:
    """A list as upstream writes it: the items without kind and apiVersion, for custom resources with them."""
    if known(kind):
        items = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    metadata = {"resourceVersion": revision, **(more or {})}
    return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": list(items)}


def revision_of(text: str) -> int:
    """The revision that a request names, 0 when it names none. Raises `ApiError` 400 for what is no number."""
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(f"invalid resource version: {_unreadable_version(text)}")
    return int(text)


def check_not_ahead(asked: int, revision: int) -> None:
    """Raises `ApiError` 504 for a revision that has not been reached."""
    if asked <= revision:
        return
    message = f"Timeout: Too large resource version: {asked}, current: {revision}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": RETRY_AFTER_S}
    raise ApiError(504, "Timeout", message, failure(504, "Timeout", message, details))


def _place(item: Object) -> str:
    return f"{item['metadata'].get('namespace', '')}\0{item['metadata']['name']}"


def _number(text: str | None) -> int:
    if not text:
        return 0
    if not text.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text))


def _token(revision: int, start: str) -> str:
    told = {"v": _TOKEN_VERSION, "rv": revision, "start": start}
    return base64.urlsafe_b64encode(msgspec.json.encode(told)).rstrip(b"=").decode()


def _continued(token: str) -> tuple[int, str]:
    try:
        read = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if read["v"] != _TOKEN_VERSION:
            raise ValueError(read["v"])
        return int(read["rv"]), str(read["start"])
    except (ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request(
            "invalid continue token: continue key is not valid: it does not come from this server"
        ) from None


def _list_too_old() -> Gone:
    message = "The resourceVersion for the provided list is too old."
    return Gone(410, "Expired", message, failure(410, "Expired", message))


def _token_too_old(revision: int, start: str) -> Gone:
    """With a token for what is there now."""
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
        " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
        " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
        " deleted between the time the first chunk was returned and now may show up in the list."
    )
    status = failure(410, "Expired", message)
    return Gone(410, "Expired", message, {**status, "metadata": {"continue": _token(revision, start)}})
