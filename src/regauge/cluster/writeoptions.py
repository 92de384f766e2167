"""The options of writes, as the query of a request gives them. Pure.

Source: apimachinery pkg/apis/meta/v1/validation of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from regauge.cluster.refusals import (
    FieldError,
    forbidden_field,
    invalid_object,
    required,
    too_long,
    unsupported_value,
)
from regauge.model import Kind

MANAGER_LIMIT_BYTES = 128
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}


def check_options(method: str, query: Mapping[str, str], *, apply: bool = False) -> None:
    """Raises `Invalid` for options that no write takes. `apply`: the write is a server-side apply."""
    title = _KINDS.get(method)
    if title is None:
        return
    errors = list(_manager(query, method, apply)) if method != "DELETE" else []
    dry_run = query.get("dryRun")
    if dry_run not in (None, "", "All"):
        errors.append(unsupported_value("dryRun", [dry_run], ("All",)))
    validation = query.get("fieldValidation")
    if method != "DELETE" and validation not in (None, *_VALIDATIONS):
        errors.append(unsupported_value("fieldValidation", validation, _VALIDATIONS))
    if errors:
        raise invalid_object(Kind("meta.k8s.io", "v1", title, title.lower()), "", errors)


def _manager(query: Mapping[str, str], method: str, apply: bool) -> Iterator[FieldError]:
    name = query.get("fieldManager") or ""
    if method == "PATCH" and apply and not name:
        yield required("fieldManager", "is required for apply patch")
    if method == "PATCH" and not apply and query.get("force"):
        yield forbidden_field("force", "may not be specified for non-apply patch")
    if len(name.encode()) > MANAGER_LIMIT_BYTES:
        yield too_long("fieldManager", MANAGER_LIMIT_BYTES)
    for place, letter in enumerate(name):
        if not letter.isprintable():
            text = f"invalid character U+{ord(letter):04X} (at position {place})"
            quoted = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in name)
            yield FieldError("fieldManager", "Invalid value", f'Invalid value: "{quoted}": {text}')
