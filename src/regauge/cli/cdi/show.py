"""`regauge cdi show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.cdi.options import NO, Directories, Root, node_of, read_bytes
from regauge.cli.options import Output
from regauge.cli.output import Format, print_document, say, tell

if TYPE_CHECKING:
    from regauge.cdi import ContainerEdits

SCHEMA = "regauge.cdi.show/v1"


def command(
    what: Annotated[str, typer.Argument(metavar="NAME|FILE", help="vendor/class=device, or a spec file.")],
    output: Output = Format.table,
    root: Root = "/",
    directories: Directories = None,
) -> None:
    """Show all that a container gets for a device, and which file says so; or a spec file as runtimes understand it.

    \b
    regauge cdi show acme.com/gpu=gpu0
    regauge cdi show ./acme.yaml -o json
    """
    from regauge.cdi import is_qualified

    if is_qualified(what):
        _device(what, output, root, directories)
    else:
        _file(what, output)


def _device(name: str, output: Format, root: str, directories: list[str] | None) -> None:
    from regauge.audit import device_catalog, listed_devices
    from regauge.cdi import edits_of

    node = node_of(root, directories)
    catalog = device_catalog(node)
    entry = catalog.devices.get(name)
    if entry is None:
        say(f"{name} cannot be resolved: {catalog.why_not(name)}")
        raise typer.Exit(NO)
    listed = next(one for one in listed_devices(node) if str(one.name) == name)
    document = {
        "schema": SCHEMA,
        "name": name,
        "file": entry.file.path,
        "priority": entry.priority,
        "writtenBy": listed.generator.name,
        "writtenByWhy": listed.generator.how,
        "replaces": list(listed.shadows),
        "annotations": dict(entry.device.annotations),
        "containerEdits": _plain(edits_of(entry)),
    }
    if output is not Format.table:
        print_document(document, output)
        return
    tell(f"{name} of {entry.file.path} (priority {entry.priority}), written by {listed.generator.name}")
    if listed.shadows:
        tell(f"replaces the one in {', '.join(listed.shadows)}")
    tell("all that a container gets for it:")
    print_document(document["containerEdits"], Format.yaml)


def _file(file: str, output: Format) -> None:
    from regauge.cdi import document_of, examine, to_yaml

    reading = examine(read_bytes(file), file)
    for finding in reading.findings:
        say(f"{finding.severity}: {finding}")
    if reading.spec is not None:
        if output is Format.table:
            tell(to_yaml(reading.spec).decode().rstrip("\n"))
        else:
            print_document({"schema": SCHEMA, "file": file, "spec": document_of(reading.spec)}, output)
    if reading.error is not None:
        raise typer.Exit(NO)


def _plain(edits: ContainerEdits) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(edits))
    return plain
