"""`regauge cdi audit`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.cdi.options import DOCUMENT_LIMIT_BYTES, NO, Directories, Root, node_of, read_bytes
from regauge.cli.findings import counted, tell_finding
from regauge.cli.options import Output
from regauge.cli.output import Format, print_document, print_table, tell

if TYPE_CHECKING:
    from regauge.audit import CdiAudit, HookUse

SCHEMA = "regauge.cdi.audit/v1"


class FailOn(StrEnum):
    """What `--fail-on` takes."""

    error = "error"
    warning = "warning"
    note = "note"
    never = "never"


def command(
    output: Output = Format.table,
    root: Root = "/",
    directories: Directories = None,
    runtime_classes: Annotated[
        str | None,
        typer.Option("--runtime-classes", metavar="FILE", help="kubectl get runtimeclasses -o yaml, or - for stdin."),
    ] = None,
    runtime_version: Annotated[
        str,
        typer.Option("--runtime-version", metavar="TEXT", help="As in the Node's status, such as containerd://1.7.22."),
    ] = "",
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Exit code 1 from this severity on.")] = FailOn.error,
) -> None:
    """Say what is wrong with a node's CDI, why it matters, and what to do. Reads only.

    Stale or missing devices and libraries, names in conflict, invalid files, permissions and links, hooks, specs that
    are lost after a reboot or that no runtime reads, CDI off or too old in the runtime, handlers of RuntimeClasses.

    \b
    regauge cdi audit
    regauge cdi audit --root /host -o json
    kubectl get runtimeclasses -o yaml | regauge cdi audit --runtime-classes -
    """
    from dataclasses import replace

    from regauge.audit import Severity, audit_cdi, is_at_least

    node = node_of(root, directories)
    classes = _handlers(runtime_classes) if runtime_classes else node.runtime_classes
    told = runtime_version or node.runtime_version
    found = audit_cdi(replace(node, runtime_classes=classes, runtime_version=told))
    if output is Format.table:
        _print(found)
    else:
        print_document(_document(found), output)
    if fail_on is not FailOn.never and any(is_at_least(one, Severity(fail_on.value)) for one in found.findings):
        raise typer.Exit(NO)


def _handlers(file: str) -> dict[str, str]:
    """The handlers of RuntimeClasses by their names."""
    from regauge.base import InputError, Where
    from regauge.model import read_documents

    found = {}
    for document in read_documents(read_bytes(file, DOCUMENT_LIMIT_BYTES), file):
        if document.kind == "RuntimeClass":
            found[str(document.name)] = str(document.object.get("handler", ""))
    if not found:
        raise InputError("no RuntimeClass was found", where=Where(file), fix="give kubectl get runtimeclasses -o yaml")
    return found


def _print(found: CdiAudit) -> None:
    for one in found.findings:
        tell_finding(one)
    if found.verdicts:
        rows = ((one.device, one.usable.value, ", ".join(one.because), one.file or "-") for one in found.verdicts)
        print_table(("DEVICE", "USABLE", "BECAUSE", "FILE"), rows)
        tell()
    if found.hooks:
        rows_ = ((one.path, ", ".join(one.names), _safe(one), ", ".join(one.files)) for one in found.hooks)
        print_table(("HOOK", "WHEN", "OWNER", "IN"), rows_)
        tell()
    for item in found.unknown:
        tell(f"not known: {item.what}: {item.why}")
    tell(f"{found.source}: {counted(found.findings)}; {len(found.verdicts)} devices.")


def _safe(one: HookUse) -> str:
    if one.exists is False:
        return "missing"
    if one.safe is None:
        return "not known"
    return "root's alone" if one.safe else f"uid {one.uid}, mode {one.mode or 0:04o}"


def _document(found: CdiAudit) -> dict[str, Any]:
    from regauge.audit import as_document

    return {
        "schema": SCHEMA,
        "source": found.source,
        "findings": [as_document(one) for one in found.findings],
        "devices": [
            {"name": one.device, "usable": one.usable.value, "because": list(one.because), "file": one.file}
            for one in found.verdicts
        ],
        "hooks": [
            {
                "path": one.path,
                "when": list(one.names),
                "files": list(one.files),
                "exists": one.exists,
                "uid": one.uid,
                "mode": None if one.mode is None else f"{one.mode:04o}",
                "safe": one.safe,
            }
            for one in found.hooks
        ],
        "unknown": [{"what": one.what, "why": one.why} for one in found.unknown],
    }
