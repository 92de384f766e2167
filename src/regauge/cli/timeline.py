"""`regauge timeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, Kubeconfig
from regauge.cli.output import print_report, say, tell, write_file
from regauge.cli.reading import From
from regauge.cli.view_output import TimelineFormat, print_columns, print_view_document
from regauge.cli.view_reading import Asked, InNamespace, NodesDir, NoHeaders, read_seen

if TYPE_CHECKING:
    from regauge.cli.view_reading import Seen
    from regauge.observe.timeline import Timeline


def command(
    claim: Annotated[str | None, typer.Argument(metavar="[CLAIM]", help="Its name, or NAMESPACE/NAME.")] = None,
    from_: From = None,
    pod: Annotated[str | None, typer.Option("--pod", metavar="NAME", help="All claims of this pod.")] = None,
    namespace: InNamespace = None,
    output: Annotated[
        TimelineFormat, typer.Option("--output", "-o", help="table, wide (with sources), json, yaml, svg or html.")
    ] = TimelineFormat.table,
    write: Annotated[
        str | None, typer.Option("--write", metavar="FILE", help="Write the picture there: .svg or .html.")
    ] = None,
    no_headers: NoHeaders = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, and tell what happens as it does.")] = False,
    nodes: NodesDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell the life of one claim: made, allocated, reserved, prepared, in use, tainted, given back. Reads only.

    \b
    regauge timeline rank-0-gpu -n team-a
    regauge timeline team-a/rank-0-gpu -o wide            with where each time is known from
    regauge timeline --pod trainer-0 -n team-a            of each claim of a pod
    regauge timeline rank-0-gpu --from estate.zip -o svg > rank-0.svg
    regauge timeline rank-0-gpu --follow                  on, until Ctrl-C or the claim is gone

    Times come from the claim, its pods, events, devices and the checkpoints of nodes. What is inferred has a bound or an
    interval, and -o wide says from what; what nothing tells of is listed as not known.
    """
    if (claim is None) == (pod is None):
        raise typer.BadParameter("give a CLAIM, or --pod NAME")
    name = claim or pod or ""
    if "/" in name:
        namespace, _, name = name.partition("/")
    asked = Asked(None, from_, kubeconfig, context, namespace, False, nodes, within=True)
    if follow:
        _follow(asked, name if claim else "", output, headers=not no_headers)
        return
    from regauge.cli.timeline_table import TIMELINE_KINDS, timelines_in

    seen = read_seen(asked, TIMELINE_KINDS)
    found = timelines_in(seen, name, of_pod=claim is None)
    picture = write is not None or output not in (TimelineFormat.table, TimelineFormat.wide)
    if picture and len(found) > 1:
        names = ", ".join(one.claim for one in found)
        raise typer.BadParameter(f"pod {name} has several claims; name one of them: {names}")
    if write is not None:
        _write(found[0], write)
        return
    for one in found:
        _print(one, seen, output, headers=not no_headers)


def _follow(asked: Asked, claim: str, output: TimelineFormat, *, headers: bool) -> None:
    if asked.place is not None:
        raise typer.BadParameter("a dump does not go on: --follow is for a cluster")
    if not claim:
        raise typer.BadParameter("--follow is for one CLAIM")
    if output not in (TimelineFormat.table, TimelineFormat.wide, TimelineFormat.json):
        raise typer.BadParameter("--follow prints lines: -o table, wide or json")
    from regauge.cli.timeline_following import follow_claim

    follow_claim(asked, claim, output, headers=headers)


def _print(found: Timeline, seen: Seen, output: TimelineFormat, *, headers: bool) -> None:
    from regauge.cli.timeline_table import COLUMNS, moment_rows, timeline_document
    from regauge.observe.timeline_picture import as_svg, page_of, title_of

    if output is TimelineFormat.svg:
        print(as_svg(found), end="")
    elif output is TimelineFormat.html:
        from regauge.cli.output import ReportFormat

        print_report(title_of(found), page_of(found), ReportFormat.html)
    elif output in (TimelineFormat.json, TimelineFormat.yaml):
        print_view_document(timeline_document(found, seen), output)
    else:
        for one in seen.estate.skipped:
            say(f"not read: {one.what}: {one.why}")
        tell(title_of(found))
        wide = output is TimelineFormat.wide
        columns = (*COLUMNS, "KNOWN FROM") if wide else COLUMNS
        print_columns(columns, moment_rows(found.moments, wide=wide), headers=headers)
        for text in found.not_known:
            tell(f"not known: {text}")


def _write(found: Timeline, path: str) -> None:
    from regauge.base import InputError
    from regauge.base.pages import as_html
    from regauge.observe.timeline_picture import as_svg, page_of, title_of

    if path.endswith(".svg"):
        write_file(path, as_svg(found))
    elif path.endswith((".html", ".htm")):
        write_file(path, as_html(title_of(found), page_of(found)))
    else:
        raise InputError(f"{path} tells no form of picture", fix="end it with .svg or .html")
    say(f"{path}: {len(found.moments)} moments of {title_of(found)}")
