"""What the owner of a cluster wants of what serves devices, beyond what holds for everybody."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from regauge.base import InputError, Where

_FIELDS = ("allowedRegistries", "allowedHostPaths", "operators", "requireSignatures")
_FIX = "it may have allowedRegistries, allowedHostPaths and operators (lists of text) and requireSignatures (true or false)"
_OPERATOR = re.compile(r"(?:User|Group) \S.*|ServiceAccount [a-z0-9.-]+/[a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class OwnerPolicy:
    """`registries`: where images of drivers may come from, as the beginning of their names; empty is anywhere.

    `host_paths`: all that drivers may mount of the host beside what serving takes; None leaves it to the rule. `signatures`:
    whether an admission policy must verify images. `operators`: who is none of the tenants, as `Group NAME`, `User NAME` or
    `ServiceAccount NAMESPACE/NAME`.
    """

    registries: tuple[str, ...] = ()
    host_paths: tuple[str, ...] | None = None
    signatures: bool = False
    operators: tuple[str, ...] = ()


def read_owner_policy(value: Any, file: str) -> OwnerPolicy:
    """The policy in a document. Raises `InputError` for what is no policy."""
    if not isinstance(value, dict):
        raise InputError("it is no mapping", where=Where(file), fix=_FIX)
    unknown = sorted(map(str, value.keys() - set(_FIELDS)))
    if unknown:
        raise InputError(f"unknown field {unknown[0]}", where=Where(file, field=unknown[0]), fix=_FIX)
    signatures = value.get("requireSignatures", False)
    if not isinstance(signatures, bool):
        raise InputError("it is neither true nor false", where=Where(file, field="requireSignatures"), fix=_FIX)
    operators = _texts(value, "operators", file)
    wrong = [one for one in operators if not _OPERATOR.fullmatch(one)]
    if wrong:
        where = Where(file, field="operators")
        fix = "write Group NAME, User NAME or ServiceAccount NAMESPACE/NAME"
        raise InputError(f"{wrong[0]!r} is nobody", where=where, fix=fix)
    paths = _texts(value, "allowedHostPaths", file) if "allowedHostPaths" in value else None
    return OwnerPolicy(_texts(value, "allowedRegistries", file), paths, signatures, operators)


def _texts(value: dict[str, Any], name: str, file: str) -> tuple[str, ...]:
    found = value.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
        raise InputError("it is no list of text", where=Where(file, field=name), fix=_FIX)
    return tuple(one.strip() for one in found)
