"""Opaque parameters of claims and classes: typed, versioned, strict. Pure.

A kind of device names its types by apiVersion and kind (`DeviceKind.CONFIGS`). Parameters of another type, with a field that
the type does not know, or with a value of another type, are refused: before a claim is prepared, and by
`regauge driver check` before it is written at all. Class first, then claim: the last one counts most.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from regauge.base import InputError, Where
from regauge.driver.fields import type_name
from regauge.model import Document, Object
from regauge.model.resource import DeviceAllocationConfiguration

Known = Mapping[tuple[str, str], type[Any]]
_TYPED = ("apiVersion", "kind")


def read_config(parameters: object, known: Known, where: Where | None = None) -> Any:
    """The parameters as a value of their type. Raises `InputError` with what is known in place of what is not."""
    if not isinstance(parameters, dict):
        raise InputError(f"parameters are {type_name(parameters)} where a mapping is expected", where=where)
    version, kind = (parameters.get(name) for name in _TYPED)
    if not isinstance(version, str) or not isinstance(kind, str):
        raise InputError("parameters have no apiVersion and kind", where=where, fix=_fix(known, ""))
    type_ = known.get((version, kind))
    if type_ is None:
        raise InputError(f"there are no parameters {kind} of {version}", where=where, fix=_fix(known, kind))
    try:
        rest = {name: value for name, value in parameters.items() if name not in _TYPED}
        return msgspec.convert(rest, type_, strict=True)
    except msgspec.ValidationError as error:
        fields = ", ".join(field.encode_name for field in msgspec.structs.fields(type_))
        raise InputError(f"{kind}: {error}", where=where, fix=f"its fields: {fields}") from None


def _fix(known: Known, kind: str) -> str:
    if not known:
        return "this kind of device takes no parameters"
    named = {name: version for version, name in sorted(known)}
    near = difflib.get_close_matches(kind, list(named), 1, 0.6)
    if near:
        return f"say apiVersion: {named[near[0]]} and kind: {near[0]}"
    return "known: " + ", ".join(f"{name} of {version}" for version, name in sorted(known))


def read_configs(parameters: Iterable[object], known: Known) -> tuple[Any, ...]:
    """The same for several, in their order."""
    return tuple(read_config(one, known) for one in parameters)


def for_request(entries: Iterable[DeviceAllocationConfiguration], driver: str, request: str) -> tuple[Object, ...]:
    """The parameters that an allocation holds for a request (`REQUEST` or `REQUEST/SUBREQUEST`) and this driver."""
    names = {request, request.partition("/")[0]}
    mine = [entry for entry in entries if entry.opaque is not None and entry.opaque.driver == driver]
    meant = [entry for entry in mine if not entry.requests or names.intersection(entry.requests)]
    ordered = sorted(meant, key=lambda entry: entry.source != "FromClass")
    return tuple(entry.opaque.parameters for entry in ordered if entry.opaque is not None)


_PLACES = {
    "ResourceClaim": ("spec", "devices"),
    "ResourceClaimTemplate": ("spec", "spec", "devices"),
    "DeviceClass": ("spec",),
}


def drivers_in(document: Document) -> tuple[str, ...]:
    """The drivers for which a claim, a template or a class has parameters."""
    drivers = (opaque.get("driver") for _, opaque in _entries(document))
    return tuple(dict.fromkeys(driver for driver in drivers if isinstance(driver, str)))


def parameters_in(document: Document, driver: str) -> Iterator[tuple[Where, object]]:
    """The parameters for a driver in a claim, a template or a class, each with its place."""
    for field, opaque in _entries(document):
        if opaque.get("driver") == driver:
            parameters = opaque.get("parameters")
            line = getattr(parameters, "line", document.where.line)
            yield Where(document.where.file, line, f"{document.kind} {document.name}", field), parameters


def _entries(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    path = _PLACES.get(document.kind, ())
    value: Any = document.object if path else {}
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    entries = value.get("config") if isinstance(value, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        opaque = entry.get("opaque") if isinstance(entry, dict) else None
        if isinstance(opaque, dict):
            yield ".".join((*path, f"config[{index}]", "opaque", "parameters")), opaque
