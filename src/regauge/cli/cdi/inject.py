"""`regauge cdi inject`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.cdi.options import NO, Directories, Root, node_of, read_object
from regauge.cli.options import Output
from regauge.cli.output import Format, print_document, say

if TYPE_CHECKING:
    from regauge.cdi import Host


def command(
    devices: Annotated[list[str], typer.Argument(metavar="DEVICE...", help="Qualified names: vendor/class=device.")],
    spec: Annotated[str, typer.Option("--spec", metavar="FILE", help="OCI runtime configuration (config.json), or -.")],
    host_facts: Annotated[
        str | None,
        typer.Option("--host-facts", metavar="FILE", help="Device nodes of the host, instead of asking it."),
    ] = None,
    output: Output = Format.json,
    root: Root = "/",
    directories: Directories = None,
) -> None:
    """Print an OCI runtime configuration with the devices in it, as a runtime would start the container.

    --host-facts is JSON: {"devices": {"/dev/acme0": {"type": "c", "major": 195, "minor": 0, "fileMode": 432}}}.

    \b
    regauge cdi inject --spec config.json acme.com/gpu=gpu0
    regauge cdi inject --spec - --host-facts host.json --dir ./specs acme.com/gpu=gpu0 < config.json
    """
    from regauge.audit import device_catalog
    from regauge.cdi import Refused, inject

    host = _recorded(host_facts) if host_facts else _real(root)
    document = read_object(spec)
    outcome = inject(document, devices, device_catalog(node_of(root, directories)), host)
    if isinstance(outcome, Refused):
        say(f"refused: {outcome.reason}")
        raise typer.Exit(NO)
    print_document(outcome.document, Format.json if output is Format.table else output)


def _real(root: str) -> Host:
    from regauge.collect import NodeTree

    return NodeTree(root)


def _recorded(file: str) -> Host:
    import msgspec

    from regauge.base import InputError, Where
    from regauge.cdi import HostDevice, RecordedHost

    class Facts(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
        type: str
        major: int = 0
        minor: int = 0
        file_mode: int = 0o600

    try:
        given = msgspec.convert(read_object(file).get("devices", {}), dict[str, Facts])
    except msgspec.ValidationError as error:
        fix = "give type (b, c or p), major, minor and fileMode of each"
        raise InputError(str(error), where=Where(file, field="devices"), fix=fix) from None
    return RecordedHost(
        {path: HostDevice(one.type, one.major, one.minor, one.file_mode) for path, one in given.items()}
    )
