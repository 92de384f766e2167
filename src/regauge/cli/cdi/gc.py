"""`regauge cdi gc`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.cdi.options import SPEC_LIMIT_BYTES, Directories, Root, node_of
from regauge.cli.options import Output
from regauge.cli.output import Format, print_document, print_table, say

if TYPE_CHECKING:
    from regauge.model.node_files import NodeFiles

SCHEMA = "regauge.cdi.gc/v1"
TROUBLE = 3


def command(
    delete: Annotated[bool, typer.Option("--delete", help="Remove the files. Without it they are only named.")] = False,
    output: Output = Format.table,
    root: Root = "/",
    directories: Directories = None,
) -> None:
    """Name the spec files that no container can need any more, or remove them.

    A file goes when the device nodes of all its devices are gone, or when the claim that it was written for is known
    neither to its driver's checkpoint nor to the kubelet. What could not be read stays.

    \b
    regauge cdi gc
    regauge cdi gc --delete
    """
    import time

    from regauge.audit import leftover_files

    node = node_of(root, directories)
    found = leftover_files(node, time.time())
    outcomes = {one.path: _remove(node, root, one.path) if delete else "would be removed" for one in found}
    if output is Format.table:
        print_table(("FILE", "WHY", ""), ((one.path, one.why, outcomes[one.path]) for one in found))
        say(f"{len(found)} files can go" if found else "no file can go")
        if found and not delete:
            say("Nothing was removed: --delete does it.")
    else:
        files = [{"file": one.path, "why": one.why, "outcome": outcomes[one.path]} for one in found]
        print_document({"schema": SCHEMA, "deleted": delete, "files": files}, output)
    if any(outcome.startswith("not removed") for outcome in outcomes.values()):
        raise typer.Exit(TROUBLE)


def _remove(node: NodeFiles, root: str, path: str) -> str:
    """Remove a file if it still is what was judged. A recorded node is a record, and nothing is removed there."""
    from regauge.collect import NodeTree
    from regauge.host import RealFiles

    judged = next(file.data for place in node.spec_directories for file in place.files if file.path == path)
    tree = NodeTree(root)
    try:
        now = tree.file(path, SPEC_LIMIT_BYTES)
        if now is None or now.data != judged:
            return "not removed: it changed meanwhile, or is not there"
        RealFiles().remove(tree.own(path))
    except OSError as error:
        return f"not removed: {(error.strerror or str(error)).lower()}"
    return "removed"
