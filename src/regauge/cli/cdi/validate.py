"""`regauge cdi validate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.cdi.options import NO, finding_document, read_bytes
from regauge.cli.options import Output
from regauge.cli.output import Format, print_document, tell

if TYPE_CHECKING:
    from regauge.cdi import Reading

SCHEMA = "regauge.cdi.validate/v1"


def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Spec files, directories of them, or -.")],
    output: Output = Format.table,
) -> None:
    """Check spec files: everything that is wrong, with file, line and rule. Exit code 1 when runtimes refuse one.

    \b
    regauge cdi validate acme.yaml
    regauge cdi validate /etc/cdi /var/run/cdi -o json
    nvidia-ctk cdi generate | regauge cdi validate -
    """
    readings = [(file, reading) for name in files for file, reading in _readings(name)]
    if output is Format.table:
        for file, reading in readings:
            _print(file, reading)
    else:
        print_document({"schema": SCHEMA, "files": [_document(file, reading) for file, reading in readings]}, output)
    if any(reading.error for _, reading in readings):
        raise typer.Exit(NO)


def _readings(name: str) -> Iterator[tuple[str, Reading]]:
    """The file, or the spec files in a directory as runtimes see them; there, one that cannot be read is wrong itself."""
    import os

    from regauge.base import InputError, Where
    from regauge.cdi import examine, is_spec_file

    if name == "-" or not os.path.isdir(name):
        yield name, examine(read_bytes(name), name)
        return
    found = sorted(one for one in os.listdir(name) if is_spec_file(one) and not os.path.isdir(f"{name}/{one}"))
    if not found:
        raise InputError("no file ends in .json or .yaml", where=Where(name), fix="name the files")
    for one in found:
        file = f"{name.rstrip('/')}/{one}"
        yield file, _reading(file)


def _reading(file: str) -> Reading:
    import os

    from regauge.base import InputError
    from regauge.cdi import Finding, Reading, examine

    if os.path.exists(file) and not os.path.isfile(file):
        return Reading(None, (Finding("unreadable", "not a regular file", file=file),))
    try:
        return examine(read_bytes(file), file)
    except InputError as error:
        return Reading(None, (Finding("unreadable", error.what, file=file),))


def _print(file: str, reading: Reading) -> None:
    order = {"error": 0, "warning": 1, "note": 2}
    for one in sorted(reading.findings, key=lambda finding: order[finding.severity]):
        place = f"{file}:{one.line}" if one.line else file
        field = f" {one.where.field}:" if one.where.field else ""
        fix = f" ({one.fix})" if one.fix else ""
        tell(f"{place}: {one.severity}: {one.code}:{field} {one.what}{fix}")
    if reading.spec is not None and not reading.error:
        count = len(reading.spec.devices)
        tell(f"{file}: valid, {count} device{'' if count == 1 else 's'} of {reading.spec.kind}")


def _document(file: str, reading: Reading) -> dict[str, Any]:
    from regauge.cdi import minimum_version

    spec = reading.spec
    return {
        "file": file,
        "valid": reading.error is None,
        "kind": spec.kind if spec else None,
        "version": spec.cdi_version if spec else None,
        "minimumVersion": minimum_version(spec) if spec else None,
        "devices": [device.name for device in spec.devices] if spec else [],
        "findings": [finding_document(one) for one in reading.findings],
    }
