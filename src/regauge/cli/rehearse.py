"""`regauge rehearse`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import FeatureGates, KubeVersion, Output
from regauge.cli.output import Format, plain, print_document, print_table, say, tell
from regauge.cli.plan import read_plan_file

if TYPE_CHECKING:
    from regauge.model import Document
    from regauge.rehearsal import Report, Step


AUTO = "auto"


class RuntimeName(StrEnum):
    """What `--runtime` takes."""

    process = "process"
    oci = "oci"


Input = Annotated[
    str | None,
    typer.Argument(metavar="INPUT", help="Directory, file or - with a dump; `sample` is the packaged estate."),
]
Live = Annotated[bool, typer.Option("--live", help="Real sockets and processes (the default for the sample).")]
Simulated = Annotated[bool, typer.Option("--simulated", help="Virtual time, no sockets, no processes.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything that is left to chance.")]
Runtime = Annotated[
    RuntimeName,
    typer.Option("--runtime", help="Containers of the live sample: process, or oci (root, runc or crun)."),
]
PlanFile = Annotated[
    str | None, typer.Option("--plan", metavar="FILE", help="Rehearse this plan; `auto` makes one of INPUT first.")
]
ConvertFile = Annotated[
    str | None,
    typer.Option(
        "--convert", metavar="FILE", help="Schedule these workloads in both forms and compare; `auto`: all of INPUT."
    ),
]
NoFaults = Annotated[bool, typer.Option("--no-faults", help="Let nothing go wrong while a plan is rehearsed.")]
ReportFile = Annotated[
    str | None, typer.Option("--report", help="Write the report to this file: a page for .html, .md, else JSON.")
]


def command(
    input_: Input = None,
    live: Live = False,
    simulated: Simulated = False,
    seed: Seed = 0,
    runtime: Runtime = RuntimeName.process,
    plan: PlanFile = None,
    no_faults: NoFaults = False,
    convert: ConvertFile = None,
    report: ReportFile = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
) -> None:
    """Rehearse a first move from device plugin to DRA on a cluster in this process; check every step.

    Without INPUT the packaged sample runs live: one node, eight accelerators, both stacks over real gRPC. With a dump of
    your cluster its nodes, devices and workloads are set up again in virtual time, placed, compared with the dump, and
    one workload per resource that DRA can serve is moved. Commands of a dump are never executed.

    With --plan the whole plan is carried out there, step by step, while the rollout is killed and started again, drivers,
    scheduler and controllers die, and one node lacks a device; then it is rolled back, and everything has to be as it was.

    \b
    regauge rehearse
    regauge rehearse --simulated --seed 7
    regauge rehearse DIR --report report.json
    regauge rehearse sample --plan auto --report report.html
    regauge rehearse DIR --plan plan.yaml
    """
    from regauge.rehearsal import Mode, RehearsalOptions, rehearse, write_report

    _refuse_together(("--live", live), ("--simulated", simulated))
    _refuse_together(("--plan", plan), ("--convert", convert))
    if input_ is None:
        _refuse_without_estate(("--plan", plan), ("--convert", convert))
    mode = Mode.LIVE if live else Mode.SIMULATED if simulated else None
    options = RehearsalOptions(
        mode=mode,
        seed=seed,
        runtime=runtime.value,
        kube_version=kube_version,
        feature_gates=feature_gates,
        plan=read_plan_file(plan) if plan and plan != AUTO else None,
        make_plan=plan == AUTO,
        faults=not no_faults,
        convert=_manifests(convert),
    )
    result = rehearse(input_, options, _progress if output is Format.table else _quiet)
    if report:
        write_report(result, report)
    if output is Format.table:
        _print(result, report)
    else:
        print_document(result.as_document(), output)
    raise typer.Exit(0 if result.holds else 1)


def _refuse_together(*given: tuple[str, object]) -> None:
    from regauge.base import InputError

    if all(value for _, value in given):
        raise InputError(f"{' and '.join(name for name, _ in given)} exclude each other", fix="give one of them")


def _refuse_without_estate(*given: tuple[str, object]) -> None:
    from regauge.base import InputError

    told = next((name for name, value in given if value), None)
    if told is not None:
        raise InputError(f"{told} needs an estate", fix="give a dump as INPUT, or `sample` for the packaged one")


def _manifests(place: str | None) -> tuple[Document, ...] | None:
    """The documents of --convert; none of them for `auto`."""
    from regauge.cli.manifests import read_manifests

    if place is None:
        return None
    if place == AUTO:
        return ()
    return tuple(document for manifest in read_manifests(place) for document in manifest.documents)


def _quiet(_title: str, _step: Step | None) -> None:
    """Programs read the report; nothing is told on the way."""


def _progress(title: str, step: Step | None) -> None:
    """One line per step on stderr; on a terminal the running step is shown and then replaced."""
    terminal = sys.stderr.isatty()
    if step is None:
        if terminal:
            print(f"  ...  {plain(title)}", end="\r", file=sys.stderr, flush=True)
        return
    if terminal:
        print("\x1b[2K", end="\r", file=sys.stderr)
    took = f"{step.ended_s - step.began_s:.1f} s"
    say(f"  {'ok  ' if step.holds else 'FAIL'} {title} ({took})")
    for check in step.checks:
        if not check.holds:
            say(f"       {check.what}: {check.seen}")


def _print(report: Report, path: str | None) -> None:
    if report.ownership:
        tell()
        print_table(
            ("NODE", "DEVICE", "OWNED BY", "ADVERTISED AS", "HELD BY"),
            [
                (
                    row.node,
                    row.identity,
                    " AND ".join(row.stacks),
                    ", ".join(row.advertised_as),
                    ", ".join(row.holders) or "-",
                )
                for row in report.ownership
            ],
        )
    if any(not row.agrees for row in report.pods) or (report.pods and not report.attribution):
        tell()
        print_table(
            ("WORKLOAD", "POD", "ASKS FOR", "IN THE DUMP", "IN THE REHEARSAL", ""),
            [
                (row.workload, row.pod, row.asks, row.expected, row.found, row.why or "as in the dump")
                for row in report.pods
            ],
        )
    if report.attribution:
        tell()
        print_table(
            ("WORKLOAD", "DEVICES BEFORE", "AFTER THE PLAN", "AFTER THE WAY BACK"),
            [(row.workload, str(row.before), str(row.after), str(row.returned)) for row in report.attribution],
        )
    if report.comparisons:
        tell()
        print_table(
            ("WORKLOAD", "", "POD", "NODE", "DEVICES", "STARTED IN"),
            [
                (item.workload if when == "before" else "", f"{when} ({place.stack})", place.pod, place.node,
                 ", ".join(place.devices), "-" if place.start_s is None else f"{place.start_s:.2f} s")
                for item in report.comparisons
                for when, place in (("before", item.before), ("after", item.after))
            ],
        )  # fmt: skip
    tell()
    for note in report.notes:
        tell(f"note: {note}")
    failed = [step.title for step in report.steps if not step.holds]
    took = max((step.ended_s for step in report.steps), default=0.0)
    verdict = "The move holds" if report.holds else f"The move does NOT hold: {'; '.join(failed)}"
    tell(f"{verdict}: {len(report.steps) - len(failed)} of {len(report.steps)} steps, {report.mode} in {took:.1f} s.")
    if path:
        tell(f"Report: {path}")
    tell(
        "Next: regauge assess (your current context, reads only), or regauge rehearse DIR with a dump of your cluster."
    )
