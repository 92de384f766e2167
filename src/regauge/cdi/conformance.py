"""The reference program's questions, answered by this room: one case in, one answer out, both JSON objects.

So a driver author can run the same cases against both. Differences from the reference, on purpose: texts of errors are our
own, and `code` says which kind of error it is; a null entry in a list of parts is an error where the reference crashes;
files are written with mode 644, the reference leaves 600.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from regauge.base import InputError
from regauge.cdi.catalog import Catalog, catalog_of
from regauge.cdi.findings import Finding
from regauge.cdi.injection import Host, Refused, inject
from regauge.cdi.names import (
    annotate,
    annotated_devices,
    annotation_key,
    parse_device,
    spec_name,
    split_device,
    split_kind,
)
from regauge.cdi.reading import examine, parse
from regauge.cdi.versions import enforced_version
from regauge.cdi.writing import document_of, file_for

Case = Mapping[str, Any]
Answer = dict[str, Any]


class _Directory(msgspec.Struct, omit_defaults=True):
    missing: bool = False
    files: dict[str, str] | None = None


class _Format(msgspec.Struct):
    """The fields of a case; what a question does not need may be missing."""

    op: str = ""
    id: str | None = None
    spec: str = ""
    name: str = ""
    plugin: str = ""
    device: str = ""
    transient: str = ""
    devices: list[str] | None = None
    annotations: dict[str, str] | None = None
    dirs: list[_Directory] | None = None
    oci: dict[str, Any] | None = None


def conformance(case: Case, host: Host) -> Answer:
    """The answer to a case (`op` says which question; unknown ones are answered so). `host` is asked by `inject` only.

    Raises `InputError` when a field has the wrong type.
    """
    try:
        case = msgspec.to_builtins(msgspec.convert(case, _Format))
    except msgspec.ValidationError as error:
        raise InputError(str(error), fix="give a case as the reference program takes it") from None
    named = {} if case["id"] is None else {"id": case["id"]}
    return named | _answered(case, host)


def _answered(case: Case, host: Host) -> Answer:
    answer = _OPERATIONS.get(case["op"])
    if answer is None:
        return {"ok": False, "code": "unsupported", "error": f"unsupported: operation {case['op']!r}"}
    try:
        return _inject(case, host) if answer is _inject else answer(case)
    except InputError as error:
        return _failed("input", error)


def _failed(code: str, error: object, **more: Any) -> Answer:
    return {"ok": False, "code": code, "error": str(error), **more}


def _found(finding: Finding, **more: Any) -> Answer:
    return _failed(finding.code, finding, **more)


def _validate(case: Case) -> Answer:
    reading = examine(case["spec"], "dir0/spec.yaml")
    answer: Answer = {"parsed": reading.spec is not None}
    if reading.spec is not None:
        answer |= {"spec": document_of(reading.spec), "min_version": enforced_version(reading.spec)}
    if reading.error is not None:
        return _found(reading.error, **answer)
    assert reading.spec is not None
    vendor, class_name = split_kind(reading.spec.kind)
    return answer | {"ok": True, "vendor": vendor, "class": class_name}


def _parse(case: Case) -> Answer:
    split = list(split_device(case["name"]))
    try:
        vendor, class_name, device = parse_device(case["name"])
    except InputError as error:
        return _failed("input", error, vendor="", device=case["name"], split=split) | {"class": ""}
    return {"ok": True, "vendor": vendor, "class": class_name, "device": device, "split": split}


def _annotation_key(case: Case) -> Answer:
    try:
        return {"ok": True, "key": annotation_key(case["plugin"], case["device"])}
    except InputError as error:
        return _failed("input", error, key="")


def _annotation_update(case: Case) -> Answer:
    annotations = case.get("annotations") or {}
    try:
        updated = annotate(annotations, case["plugin"], case["device"], case.get("devices") or [])
    except InputError as error:
        return _failed("input", error, annotations=dict(annotations))
    return {"ok": True, "annotations": updated}


def _annotation_parse(case: Case) -> Answer:
    try:
        keys, devices = annotated_devices(case.get("annotations") or {})
    except InputError as error:
        return _failed("input", error, keys=None, devices=None)
    return {"ok": True, "keys": sorted(keys) or None, "devices": devices or None}


def _spec_name(case: Case) -> Answer:
    reading = parse(case["spec"])
    if reading.spec is None:
        return _found(reading.error) if reading.error else {"ok": False}
    try:
        return {"ok": True, "name": spec_name(reading.spec.kind, case.get("transient", ""))}
    except InputError as error:
        return _failed("input", error, name="")


def _directories(dirs: Sequence[Mapping[str, Any]] | None) -> dict[str, dict[str, str]]:
    if not dirs:
        raise InputError("the case has no dirs", fix="give at least one directory, such as {}")
    return {f"dir{index}": dict(entry.get("files") or {}) for index, entry in enumerate(dirs)}


def _catalog(case: Case) -> Catalog:
    return catalog_of(_directories(case["dirs"]))


def _list(case: Case) -> Answer:
    found = _catalog(case)
    errors: dict[str, list[str]] = {}
    codes: dict[str, list[str]] = {}

    def note(path: str, code: str, text: str) -> None:
        errors.setdefault(path, []).append(text)
        codes.setdefault(path, []).append(code)

    for file in found.unusable:
        if file.error:
            note(file.path, file.error.code, str(file.error))
    for conflict in found.conflicts:
        for path in (conflict.file, conflict.other):
            note(path, "conflict", str(conflict))
    return {
        "ok": True,
        "devices": list(found.devices) or None,
        "vendors": found.vendors or None,
        "classes": found.classes or None,
        "from": {name: entry.file.path for name, entry in found.devices.items()},
        "errors": errors,
        "codes": codes,
    }


def _inject(case: Case, host: Host) -> Answer:
    if case["oci"] is None:
        raise InputError("the case has no oci", fix="give a runtime configuration, such as {}")
    outcome = inject(case["oci"], case.get("devices") or [], _catalog(case), host)
    if isinstance(outcome, Refused):
        code = "unresolved" if outcome.unresolved else "injection"
        return _failed(code, outcome.reason, unresolved=list(outcome.unresolved) or None, oci=case["oci"])
    return {"ok": True, "unresolved": None, "oci": outcome.document}


def _write(case: Case) -> Answer:
    directories = _directories(case["dirs"])
    highest = list(directories)[-1]
    files = {f"{path}/{name}": text for path, inside in directories.items() for name, text in inside.items()}
    reading = parse(case["spec"])
    if reading.spec is None:
        return _found(reading.error, files=files) if reading.error else {"ok": False}
    try:
        name, data = file_for(reading.spec, case["name"])
    except InputError as error:
        return _failed("input", error, files=files)
    files[f"{highest}/{name}"] = data.decode()
    return {"ok": True, "files": files, "mode": "644"}


_OPERATIONS: Mapping[str, Callable[..., Answer]] = {
    "validate": _validate,
    "parse": _parse,
    "annotation_key": _annotation_key,
    "annotation_update": _annotation_update,
    "annotation_parse": _annotation_parse,
    "spec_name": _spec_name,
    "list": _list,
    "inject": _inject,
    "write": _write,
}
