"""`regauge driver check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.output import Format, print_document, print_table, say

if TYPE_CHECKING:
    from regauge.base import InputError
    from regauge.driver.checking import Checked

SCHEMA = "regauge.driver-check/v1"


def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Descriptions of devices, and manifests.")],
    output: Annotated[Format, typer.Option("-o", "--output", help="How to print.")] = Format.table,
) -> None:
    """Check descriptions of devices, and the opaque parameters for their drivers in claims, templates and classes.

    Nothing is asked of this machine: whether device nodes are there is seen when the driver starts. Exit code 1 says that
    something is wrong.

    \b
    regauge driver check devices.yaml
    regauge driver check devices.yaml claim-template.yaml class.yaml
    """
    from regauge.driver.checking import check_files
    from regauge.driver.live import installed_kinds

    checked = check_files([(path, _read(path)) for path in files], installed_kinds())
    if output is Format.table:
        _print(checked)
    else:
        print_document(_document(checked), output)
    if checked.problems:
        raise typer.Exit(1)


def _read(path: str) -> bytes:
    from regauge.base import InputError, Where
    from regauge.host import RealFiles

    try:
        return RealFiles().read(path)
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror or error}", where=Where(file=path)) from None


def _print(checked: Checked) -> None:
    for problem in checked.problems:
        say(str(problem))
    rows = [(one.driver, one.kind, str(one.devices), str(one.rules)) for one in checked.descriptions]
    if rows:
        print_table(("DRIVER", "KIND", "DEVICES", "RULES"), rows)
    if checked.parameters:
        print(f"{checked.parameters} parameters checked")
    if checked.foreign:
        say(f"{checked.foreign} parameters are for other drivers and were not looked at")


def _document(checked: Checked) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "ok": not checked.problems,
        "descriptions": [
            {"file": one.file, "driver": one.driver, "kind": one.kind, "devices": one.devices, "rules": one.rules}
            for one in checked.descriptions
        ],
        "parameters": checked.parameters,
        "foreignParameters": checked.foreign,
        "problems": [_problem(error) for error in checked.problems],
    }


def _problem(error: InputError) -> dict[str, object]:
    where = error.where
    return {
        "file": where.file,
        "line": where.line,
        "object": where.object,
        "field": where.field,
        "what": error.what,
        "fix": error.fix,
    }
