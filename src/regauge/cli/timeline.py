"""`regauge timeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.options import Context, Kubeconfig
from regauge.cli.output import print_report, say, tell, write_file
from regauge.cli.reading import From
from regauge.cli.view_output import TimelineFormat, print_columns, print_view_document
from regauge.cli.view_reading import Asked, InNamespace, NodesDir, NoHeaders, read_seen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.cli.view_reading import Seen
    from regauge.model import Kind
    from regauge.model.resource import ResourceClaim
    from regauge.observe.timeline import Moment, Timeline

SCHEMA = "regauge.timeline/v1"
COLUMNS = ("TIME", "AFTER", "OF", "WHAT")


def command(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="Its name, or NAMESPACE/NAME.")],
    from_: From = None,
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
    regauge timeline rank-0-gpu --from estate.zip -o svg > rank-0.svg
    regauge timeline rank-0-gpu --follow                  on, until Ctrl-C or the claim is gone

    Times come from the claim, its pods, events, devices and the checkpoints of nodes. What is inferred has a bound or an
    interval, and -o wide says from what; what nothing tells of is listed as not known.
    """
    asked = Asked(None, from_, kubeconfig, context, namespace, "/" in claim, nodes)
    if follow:
        if asked.place is not None:
            raise typer.BadParameter("a dump does not go on: --follow is for a cluster")
        if output not in (TimelineFormat.table, TimelineFormat.wide, TimelineFormat.json):
            raise typer.BadParameter("--follow prints lines: -o table, wide or json")
        from regauge.cli.timeline_following import follow_claim

        follow_claim(asked, claim, output, headers=not no_headers)
        return
    seen = read_seen(asked, timeline_kinds())
    found = timeline_in(seen, claim)
    if write is not None:
        _write(found, write)
        return
    _print(found, seen, output, headers=not no_headers)


def timeline_kinds() -> tuple[Kind, ...]:
    """What is read of a cluster to tell the life of a claim."""
    from regauge.model.kinds import CORE_EVENT, DEVICE_TAINT_RULE, POD, RESOURCE_CLAIM, RESOURCE_SLICE

    return (RESOURCE_CLAIM, POD, CORE_EVENT, RESOURCE_SLICE, DEVICE_TAINT_RULE)


def claim_in(seen: Seen, name: str) -> ResourceClaim:
    """The claim of this name. Raises `InputError` with near names where there is none."""
    from regauge.scheduler import find_named

    namespace = "" if "/" in name else seen.namespace
    return find_named("ResourceClaim", seen.estate.snapshot.claims, name, namespace)


def timeline_in(seen: Seen, name: str) -> Timeline:
    """Its life."""
    from regauge.observe.timeline import timeline_of

    return timeline_of(claim_in(seen, name), seen.estate.snapshot, seen.estate.nodes, seen.now_s)


def _print(found: Timeline, seen: Seen, output: TimelineFormat, *, headers: bool) -> None:
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


def moment_rows(moments: Iterable[Moment], first_s: float | None = None, *, wide: bool) -> list[tuple[str, ...]]:
    """A row for each moment; `first_s` is the first of all where these go on others."""
    from regauge.base import human_duration
    from regauge.observe.timeline_picture import time_text

    listed = list(moments)
    first = first_s if first_s is not None else min((one.at_s for one in listed), default=0.0)
    return [
        (
            time_text(one),
            f"+{human_duration(one.at_s - first)}",
            one.subject,
            one.text,
            *((f"{one.certainty.value}: {one.source}",) if wide else ()),
        )
        for one in listed
    ]


def timeline_document(found: Timeline, seen: Seen) -> dict[str, Any]:
    """The life as a document."""
    from regauge.cli.devices_document import moment, not_read

    return {
        "schema": SCHEMA,
        "source": seen.estate.source,
        "asOf": moment(found.now_s),
        "claim": {
            "namespace": found.namespace,
            "name": found.claim,
            "uid": found.uid,
            "state": found.state,
            "node": found.node,
            "devices": list(found.devices),
        },
        "moments": [moment_document(one) for one in found.moments],
        "periods": [
            {"of": one.subject, "kind": one.kind.value, "from": moment(one.from_s), "to": moment(one.to_s)}
            for one in found.periods
        ],
        "notKnown": list(found.not_known),
        "notRead": not_read(seen),
    }


def moment_document(one: Moment) -> dict[str, Any]:
    """One moment."""
    from regauge.cli.devices_document import moment

    return {
        "time": moment(one.at_s),
        "notBefore": moment(one.from_s),
        "certainty": one.certainty.value,
        "of": one.subject,
        "step": one.step.value,
        "text": one.text,
        "source": one.source,
    }


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
