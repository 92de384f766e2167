"""`regauge cdi diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.cdi.options import NO, read_bytes
from regauge.cli.options import Output
from regauge.cli.output import Format, print_document, say, tell

if TYPE_CHECKING:
    from regauge.cdi import Catalog, Change

SCHEMA = "regauge.cdi.diff/v1"
SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">", "unusable": "!", "usable": "="}


def command(
    before: Annotated[str, typer.Argument(metavar="A", help="A spec file, or a directory of them.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    output: Output = Format.table,
) -> None:
    """Compare two spec files or directories by what containers get, not by how it is written. Exit code 1: they differ.

    \b
    regauge cdi diff old.yaml new.json
    regauge cdi diff /etc/cdi /var/run/cdi
    """
    from regauge.cdi import changes

    old, new = _catalog(before), _catalog(after)
    found = changes(old, new, files=False)
    if output is not Format.table:
        print_document({"schema": SCHEMA, "changes": [change_document(one) for one in found]}, output)
    else:
        for one in found:
            print_change(one)
        if not found:
            say(f"no difference: {len(new.devices)} devices mean the same")
    if found:
        raise typer.Exit(NO)


def print_change(one: Change) -> None:
    tell(f"{SIGNS[one.how]} {one.name}: {one.how}, {one.file}")
    for detail in one.details:
        tell(f"    {detail}")


def change_document(one: Change) -> dict[str, Any]:
    return {"how": one.how, "name": one.name, "file": one.file, "details": list(one.details)}


def _catalog(place: str) -> Catalog:
    """The devices of a file, which must be valid, or of a directory; there, what is unusable is told."""
    import os

    from regauge import cdi
    from regauge.cdi.directory import SpecDirectories
    from regauge.host import RealFiles

    if os.path.isdir(place):
        found = SpecDirectories(RealFiles(), [place]).read()
        for file in found.unusable:
            say(f"left out: {file.error}")
        for conflict in found.conflicts:
            say(f"left out: {conflict}")
        return found
    one = cdi.spec_file(place, read_bytes(place))
    if one.error is not None:
        raise one.error.error()
    return cdi.catalog([[one]])
