"""The bodies of requests: JSON or YAML, of the kind of the path, with every field known or told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from regauge.base import InputError
from regauge.cluster import protobuf
from regauge.cluster.admission.decoding import decoded
from regauge.cluster.refusals import bad_request, failure
from regauge.cluster.schemas import Schema, Schemas
from regauge.cluster.store import copy_json
from regauge.kube import ApiError
from regauge.model import Kind, Object
from regauge.model.manifest_yaml import read_yaml

MAX_BODY_BYTES = 3 * 1024 * 1024
_JSON = ("application/json", "text/json")
_READ = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_YAML = ("application/yaml", "application/x-yaml", "application/apply-patch+yaml")


def read_body(data: bytes, content_type: str = "") -> Any:
    """The value in a body, None for an empty one. Raises `ApiError` 400 for what cannot be read, 413 for too much."""
    media = content_type.partition(";")[0].strip()
    if media == protobuf.MEDIA_TYPE:
        _check_size(data)
        return protobuf.read_protobuf(data) if data else None
    if media not in _YAML:
        if media and media not in _JSON and not media.endswith("+json"):
            message = f"the body of the request was in an unknown format - accepted media types include: {_READ}"
            raise ApiError(415, "UnsupportedMediaType", message, failure(415, "UnsupportedMediaType", message, {}))
        return read_json(data)
    _check_size(data)
    try:
        found = [value for value, _, _ in read_yaml(data, "the body of the request")]
    except InputError as error:
        raise bad_request(str(error)) from None
    return copy_json(found[0]) if found else None


def read_json(data: bytes) -> Any:
    _check_size(data)
    if not data.strip():
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from None


def _check_size(data: bytes) -> None:
    if len(data) > MAX_BODY_BYTES:
        message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
        raise ApiError(413, "RequestEntityTooLarge", message, failure(413, "RequestEntityTooLarge", message, {}))


def checked_kind(body: Any, kind: Kind) -> Object:
    """The body as an object of this kind. Raises `ApiError` 400 when it says that it is something else."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise bad_request(f"the body of the request was not a {kind.kind}")
    version = body.get("apiVersion")
    if version not in (None, "", kind.api_version):
        told = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise bad_request(told)
    if body.get("kind") not in (None, "", kind.kind):
        raise bad_request(f'no kind "{body["kind"]}" is registered here; expected {kind.kind}')
    return body


def unknown_fields(schemas: Schemas, kind: Kind, body: Object) -> list[str]:
    """The fields that nobody knows, as upstream names them. Custom resources are not looked at."""
    if kind.group == "resource.k8s.io":
        return [f'unknown field "{path}"' for path in decoded(kind, body).unknown]
    schema = schemas.of(kind)
    if not schema:
        return []
    found: list[str] = []
    _unknown(schemas, schema, body, "", found)
    return [f'unknown field "{path}"' for path in sorted(found)]


def _unknown(schemas: Schemas, schema: Schema, value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, list):
        for number, item in enumerate(value):
            _unknown(schemas, schemas.items(schema), item, f"{path}[{number}]", found)
    elif isinstance(value, dict):
        members: Mapping[str, Any] | None = schema.get("properties")
        if members is None and "additionalProperties" not in schema:
            return
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            if members is not None and name not in members:
                found.append(place)
            else:
                _unknown(schemas, schemas.member(schema, name), item, place, found)


def strict_refusal(kind: Kind, unknown: list[str]) -> ApiError:
    title = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{title}: strict decoding error: {', '.join(unknown)}")
