"""What the API server answers when it refuses: errors about fields, and the errors of `kube` with upstream's words.

Source of the words: apimachinery pkg/api/errors and pkg/util/validation/field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from regauge.kube import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from regauge.model import Kind

_CAUSES = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Too many": "FieldValueTooMany",
    "Too long": "FieldValueTooLong",
    "Not found": "FieldValueNotFound",
    "Type invalid": "FieldValueTypeInvalid",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field: `what` is the kind of error, `text` all that follows the path."""

    path: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, "Required value", f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, "Invalid value", f"Invalid value: {shown(value)}: {detail}")


def forbidden_field(path: str, detail: str) -> FieldError:
    return FieldError(path, "Forbidden", f"Forbidden: {detail}")


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, "Duplicate value", f"Duplicate value: {shown(value)}")


def unsupported_value(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    values = ", ".join(f'"{item}"' for item in supported)
    return FieldError(path, "Unsupported value", f"Unsupported value: {shown(value)}: supported values: {values}")


def too_many(path: str, have: int, limit: int) -> FieldError:
    return FieldError(path, "Too many", f"Too many: {have}: must have at most {limit} items")


def too_long(path: str, limit: int) -> FieldError:
    return FieldError(path, "Too long", f"Too long: may not be more than {limit} bytes")


def not_found_value(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(path, "Not found", f"Not found: {shown(value)}" + (f": {detail}" if detail else ""))


def shown(value: Any) -> str:
    """A value as an error message shows it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(value).decode()


def failure(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A Status object that says no."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": details} if details is not None else {}),
        "code": code,
    }


def _details(kind: Kind, name: str) -> dict[str, Any]:
    group = {"group": kind.group} if kind.group else {}
    return {**({"name": name} if name else {}), **group, "kind": kind.plural}


def not_found(kind: Kind, name: str) -> NotFound:
    message = f'{kind.resource} "{name}" not found'
    return NotFound(404, "NotFound", message, failure(404, "NotFound", message, _details(kind, name)))


def already_exists(kind: Kind, name: str, *, deleting: bool = False) -> AlreadyExists:
    message = ("object is being deleted: " if deleting else "") + f'{kind.resource} "{name}" already exists'
    return AlreadyExists(409, "AlreadyExists", message, failure(409, "AlreadyExists", message, _details(kind, name)))


def conflict(kind: Kind, name: str, why: str) -> Conflict:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Conflict(409, "Conflict", message, failure(409, "Conflict", message, _details(kind, name)))


def other_uid(kind: Kind, stored: Mapping[str, Any], asked: str) -> Conflict:
    """The object that is meant is not the one of this name."""
    metadata = stored["metadata"]
    key = "/".join(part for part in (kind.plural, metadata.get("namespace", ""), metadata["name"]) if part)
    why = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {metadata['uid']}"
    fields = f"Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return conflict(kind, metadata["name"], f"StorageError: invalid object, {fields}")


def modified(kind: Kind, name: str) -> Conflict:
    return conflict(
        kind, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[dict[str, str]] = ()) -> Forbidden:
    message = f'{kind.resource} "{name}" is forbidden: {why}' if name else f"{kind.resource} is forbidden: {why}"
    details = {**_details(kind, name), **({"causes": list(causes)} if causes else {})}
    return Forbidden(403, "Forbidden", message, failure(403, "Forbidden", message, details))


def invalid_object(kind: Kind, name: str, errors: Sequence[FieldError]) -> Invalid:
    """422 with all errors; the same text is said once in the message and every time in the causes."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    said = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    message = f'{title} "{name}" is invalid: {said}'
    details: dict[str, Any] = {
        **({"name": name} if name else {}),
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.kind,
        "causes": [{"reason": _CAUSES[error.what], "message": error.text, "field": error.path} for error in errors],
    }
    return Invalid(422, "Invalid", message, failure(422, "Invalid", message, details))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message, failure(400, "BadRequest", message))


def internal_error(message: str) -> ApiError:
    text = f"Internal error occurred: {message}"
    details = {"causes": [{"message": message}]}
    return ApiError(500, "InternalError", text, failure(500, "InternalError", text, details))


def unsupported(feature: str) -> ApiError:
    """What the cluster does not do says so in words."""
    message = f"unsupported: {feature}"
    return ApiError(501, "NotImplemented", message, failure(501, "NotImplemented", message))
