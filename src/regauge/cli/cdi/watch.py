"""`regauge cdi watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.cdi.diff import change_document, print_change
from regauge.cli.cdi.options import Directories, Root
from regauge.cli.options import Output
from regauge.cli.output import Format, say

if TYPE_CHECKING:
    from regauge.cdi import Change
    from regauge.cdi.directory import SpecDirectories


def command(
    for_s: Annotated[
        float | None, typer.Option("--for", min=0, metavar="SECONDS", help="How long. Default: until stopped.")
    ] = None,
    every_s: Annotated[float, typer.Option("--every", min=0.05, metavar="SECONDS", help="How often to look.")] = 0.5,
    output: Output = Format.table,
    root: Root = "/",
    directories: Directories = None,
) -> None:
    """Print what changes in the CDI directories as it happens: devices that come, go or change, files that break.

    -o json prints one object a line.

    \b
    regauge cdi watch
    regauge cdi watch --for 60 -o json
    """
    import sys
    import time

    watched = _watched(root, directories)
    say(f"watching {', '.join(watched.paths)}: {len(watched.read().devices)} devices")
    end_s = None if for_s is None else time.monotonic() + for_s
    while end_s is None or time.monotonic() < end_s:
        time.sleep(every_s if end_s is None else max(0.0, min(every_s, end_s - time.monotonic())))
        for one in watched.changes():
            _print(one, output)
        sys.stdout.flush()


def _watched(root: str, directories: list[str] | None) -> SpecDirectories:
    import time

    from regauge.cdi.directory import SpecDirectories, StatStamp
    from regauge.cli.cdi.options import node_of
    from regauge.collect import NodeTree
    from regauge.host import RealFiles

    paths = directories or [place.path for place in node_of(root, None).spec_directories]
    tree = NodeTree(root)
    # Where the directories lead is settled now; one that is not there yet is found when it comes.
    return SpecDirectories(RealFiles(), [tree.outside(tree.real(path)) for path in paths], StatStamp(time.time))


def _print(one: Change, output: Format) -> None:
    from datetime import UTC, datetime

    from regauge.base import canonical_json

    moment = datetime.now(UTC).strftime("%H:%M:%SZ")
    if output is Format.table:
        print(moment, end=" ")
        print_change(one)
    else:
        print(canonical_json({"time": moment, **change_document(one)}).decode())
