"""`regauge whatif`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, Output, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import From, read_whole

if TYPE_CHECKING:
    from regauge.scheduler import Change, Fitting, WhatIf

MOST_PODS = 40
MOST_POOLS = 30


def _many(flag: str, metavar: str, help_: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help_ + " May be given more than once.")


Likes = Annotated[list[str] | None, _many("--add-node-like", "NODE[=COUNT]", "More nodes like this one.")]
Drains = Annotated[list[str] | None, _many("--drain", "NODE", "The node takes no pods, and those it has go elsewhere.")]
Taints = Annotated[
    list[str] | None, _many("--taint-device", "DRIVER/POOL/DEVICE[:EFFECT]", "A taint, NoSchedule or NoExecute.")
]
Applies = Annotated[list[str] | None, _many("--apply", "FILE", "Objects to add, or to put in place of others.")]
Deletes = Annotated[list[str] | None, _many("--delete", "KIND/[NAMESPACE/]NAME", "An object that goes.")]
Scales = Annotated[list[str] | None, _many("--replicas", "KIND/NAMESPACE/NAME=N", "How many pods a workload has.")]
Fits = Annotated[list[str] | None, _many("--fits", "KIND/NAMESPACE/NAME", "Count how many more copies fit.")]

Plot = Annotated[
    str | None, typer.Option("--plot", metavar="FILE.svg", help="Devices used and free of each pool, as a picture.")
]


def _print_schema(wanted: bool) -> None:
    if wanted:
        from regauge.cli.whatif_document import json_schema

        print_document(json_schema(), Format.json)
        raise typer.Exit


def command(
    from_: From = None,
    add_node_like: Likes = None,
    drain: Drains = None,
    taint_device: Taints = None,
    apply: Applies = None,
    delete: Deletes = None,
    replicas: Scales = None,
    fits: Fits = None,
    plot: Plot = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Print the JSON Schema of -o json, and end.", is_eager=True, callback=_print_schema
        ),
    ] = False,
) -> None:
    """Tell what a change would do before it is made: which pods find a place, which are stuck, what is free. Reads only.

    \b
    regauge whatif --drain gpu-node-3                  the current kube context
    regauge whatif --from DIR --add-node-like gpu-node-3=2
    regauge whatif --from DIR --taint-device gpu.nvidia.com/node-1/gpu-0:NoExecute
    regauge whatif --from DIR --apply job.yaml --delete deployment/team/old
    regauge whatif --from DIR --replicas deployment/team/serve=12 --fits deployment/team/serve
    regauge whatif --from DIR --kube-version 1.37      the same cluster after an upgrade
    regauge whatif --drain gpu-node-3 --plot use.svg   devices used and free, before and after

    Changes are made in the order of these options. Ends with 1 when a pod becomes stuck, else with 0.
    """
    if plot and not plot.endswith(".svg"):
        raise typer.BadParameter(f"--plot {plot}: only .svg files are written")
    changes = changes_of(add_node_like, drain, taint_device, apply, delete, replicas)
    estate, gap = read_whole(from_, kubeconfig, context, "")
    if gap:
        say(f"warning: {gap}")
    before, after = rules_of(estate, None, None), rules_of(estate, kube_version, feature_gates)
    import random

    from regauge.scheduler import object_name, what_if

    copies = [object_name(text) for text in fits or ()]
    found = what_if(estate.snapshot, before, after, changes, random.Random(0), copies)
    if output is Format.table:
        tell_skipped(estate)
        _print(found)
        say(f"{estate.source}: Kubernetes {before.minor} before, {after.minor} after.")
    else:
        from regauge.cli.whatif_document import whatif_document

        print_document(whatif_document(found, estate, before.minor, after.minor), output)
    if plot:
        _write_plot(found, plot, f"{estate.source}: devices in use before and after")
    if found.stuck:
        raise typer.Exit(1)


def changes_of(
    likes: list[str] | None,
    drains: list[str] | None,
    taints: list[str] | None,
    applies: list[str] | None,
    deletes: list[str] | None,
    scales: list[str] | None,
) -> list[Change]:
    """The changes that these options mean, in their order. Raises for what is malformed."""
    from regauge.collect import load_estate
    from regauge.scheduler import AddNodes, Apply, Delete, Drain, Replicas, TaintDevice, object_name

    changes: list[Change] = []
    for text in likes or ():
        name, equals, count = text.partition("=")
        changes.append(AddNodes(name, _number(text, count) if equals else 1))
    changes += [Drain(name) for name in drains or ()]
    for text in taints or ():
        device, _, effect = text.partition(":")
        changes.append(TaintDevice(_device(device), effect or "NoSchedule"))
    changes += [Apply(tuple(load_estate(place).snapshot.all_documents())) for place in applies or ()]
    changes += [Delete(object_name(text)) for text in deletes or ()]
    for text in scales or ():
        name, _, count = text.partition("=")
        changes.append(Replicas(object_name(name), _number(text, count)))
    return changes


def _number(text: str, count: str) -> int:
    if not count.isascii() or not count.isdigit() or len(count) > 6:
        raise typer.BadParameter(f"{text}: a number has to stand after the =")
    return int(count)


def _device(text: str) -> Any:
    from regauge.allocator import DeviceId

    parts = text.split("/")
    if len(parts) < 3 or not all(parts):
        raise typer.BadParameter(f"{text}: write DRIVER/POOL/DEVICE")
    return DeviceId(parts[0], "/".join(parts[1:-1]), parts[-1])


# -- for people


def _print(found: WhatIf) -> None:
    gained, lost = found.schedulable, found.stuck
    rows = [
        (one.pod, str(one.before), str(one.after), one.after.why or "-")
        for one in (*lost, *gained, *(item for item in found.pods if item not in (*lost, *gained)))
    ]
    if rows:
        print_table(("POD", "BEFORE", "AFTER", "WHY"), rows[:MOST_PODS])
        if len(rows) > MOST_PODS:
            tell(f"and {len(rows) - MOST_PODS} more")
        tell()
    tell(f"{len(gained)} pods find a place, {len(lost)} become stuck, {found.unchanged} stay as they are.")
    for text in found.notes:
        tell(f"note: {text}")
    _print_fitting(found.before.fitting, found.after.fitting)
    _print_use(found)


def _print_fitting(before: tuple[Fitting, ...], after: tuple[Fitting, ...]) -> None:
    earlier = {one.workload: one for one in before}
    for one in after:
        old = earlier.get(one.workload)
        was = "" if old is None else f" (before: {_count(old)})"
        where = ", ".join(
            f"{count} on {node}" for node, count in sorted(one.nodes.items(), key=lambda item: -item[1])[:8]
        )
        tell(f"{one.workload}: {_count(one)} more copies fit{was}" + (f": {where}" if where else ""))
        if one.why:
            tell(f"  then: {one.why}")


def _count(one: Fitting) -> str:
    return f"at least {one.count}" if one.more else str(one.count)


def _print_use(found: WhatIf) -> None:
    from regauge.cli.whatif_plot import cells, rows

    everything = rows(found)
    few = len(everything) <= MOST_POOLS
    shown = [one for one in everything if few or one.changed or one.name.endswith(" pools")][:MOST_POOLS]
    if shown:
        tell()
        print_table(("POOL", "BEFORE", "AFTER", "FREE", "TAINTED"), map(cells, shown))
    if len(everything) > len(shown):
        tell(f"and {len(everything) - len(shown)} more; -o json and --plot have them all")


def _write_plot(found: WhatIf, place: str, title: str) -> None:
    from pathlib import Path

    from regauge.base import InputError, Where
    from regauge.cli.whatif_plot import svg
    from regauge.host import RealFiles

    try:
        RealFiles().write(str(Path(place).absolute()), svg(found, title))
    except OSError as error:
        fix = "name a file in a directory that may be written"
        raise InputError(f"cannot be written: {error.strerror}", where=Where(place), fix=fix) from None
    say(f"plot: {place}")
