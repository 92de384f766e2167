"""What the verbs of the group share: which node, which directories, reading spec files and runtime configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regauge.cdi import Finding
    from regauge.model.node_files import NodeFiles

SPEC_LIMIT_BYTES = 16 << 20
DOCUMENT_LIMIT_BYTES = 64 << 20
NO = 1

Root = Annotated[
    str, typer.Option("--root", metavar="DIR", help="A node's files, or a recorded node. Default: this host.")
]
Directories = Annotated[
    list[str] | None,
    typer.Option("--dir", metavar="DIR", help="CDI directory, lowest priority first; may be given again."),
]


def node_of(root: str, directories: list[str] | None) -> NodeFiles:
    """The node that the options name."""
    from regauge.collect import read_node

    return read_node(root, directories or ())


def read_bytes(file: str, limit_bytes: int = SPEC_LIMIT_BYTES) -> bytes:
    """The content of a file, or of standard input for "-". Raises `InputError`: missing, unreadable, too large."""
    import sys

    from regauge.base import InputError, Where

    try:
        if file == "-":
            data = sys.stdin.buffer.read(limit_bytes + 1)
        else:
            with open(file, "rb") as stream:
                data = stream.read(limit_bytes + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=Where(file), fix="check the path") from None
    if len(data) > limit_bytes:
        raise InputError(f"over {limit_bytes >> 20} MiB", where=Where(file), fix="give a smaller file")
    return data


def read_object(file: str) -> Mapping[str, Any]:
    """A JSON object from a file or standard input. Raises `InputError`."""
    import msgspec

    from regauge.base import InputError, Where

    try:
        found = msgspec.json.decode(read_bytes(file, DOCUMENT_LIMIT_BYTES))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", where=Where(file)) from None
    if not isinstance(found, dict):
        raise InputError("not a JSON object", where=Where(file))
    return found


def finding_document(finding: Finding) -> dict[str, Any]:
    """What is wrong in a spec, as JSON."""
    return {
        "line": finding.line,
        "field": finding.where.field,
        "rule": finding.code,
        "severity": finding.severity,
        "what": finding.what,
        "fix": finding.fix,
    }
