"""`regauge plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, ReportOutput, rules_of, tell_skipped
from regauge.cli.output import ReportFormat, print_document, print_report, print_table, say, tell, write_file
from regauge.cli.reading import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.migrate import Plan
    from regauge.model import Snapshot

MAX_BYTES = 64 << 20


Input = Annotated[
    str | None,
    typer.Argument(metavar="INPUT", help="Directory, file or - with a dump; `sample`. Default: the current context."),
]
Pools = Annotated[
    list[str] | None,
    typer.Option(
        "--pool", metavar="POOL", help="This pool, whatever its verdict. In the order given; may be repeated."
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="NAME=NAMESPACE/NAME", help="The DaemonSet behind a counted name or a driver."),
]
UndoAll = Annotated[
    bool, typer.Option("--undo-all", help="A gate that fails undoes the whole plan instead of its step.")
]
Write = Annotated[str | None, typer.Option("--write", metavar="FILE", help="Write the plan to this file.")]
Check = Annotated[
    str | None, typer.Option("--check", metavar="FILE", help="Compare this plan with the cluster as it is now.")
]
Name = Annotated[str, typer.Option("--name", help="The plan's name; a rollout is known by it.")]


def command(
    input_: Input = None,
    name: Name = "move",
    pool: Pools = None,
    source: Sources = None,
    undo_all: UndoAll = False,
    write: Write = None,
    check: Check = None,
    output: ReportOutput = ReportFormat.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Plan the move of node pools from device plugins to DRA: steps, gates, and the way back of each. Reads only.

    \b
    regauge plan --write plan.yaml              the current kube context
    regauge plan DIR --pool a100 --write plan.yaml
    regauge plan DIR -o yaml                    the plan itself
    regauge plan DIR -o markdown                for its reviewers; -o html is a page
    regauge plan --check plan.yaml              does it still fit?

    A plan is a file: review it, edit it, rehearse it (`regauge rehearse DIR --plan plan.yaml`), then run it
    (`regauge rollout run plan.yaml`). The same input gives the same plan, byte for byte.
    """
    from regauge.migrate import OnFailure, PlanOptions, plan, plan_blocks, write_plan

    estate, gap = read_whole(input_, kubeconfig, context, "")
    if gap:
        say(f"warning: {gap}")
    rules = rules_of(estate, kube_version, feature_gates)
    if check:
        _check(check, estate.snapshot, estate.git_version or "")
        return
    failure = OnFailure.ALL if undo_all else OnFailure.STEP
    options = PlanOptions(name, tuple(pool or ()), dict(_pairs(source or ())), failure)
    made = plan(estate.snapshot, rules, options, estate.git_version or "")
    if write:
        write_file(write, write_plan(made))
    if output in (ReportFormat.html, ReportFormat.markdown):
        print_report(f"Plan {made.name}: for review", plan_blocks(made), output)
    elif output is ReportFormat.table:
        tell_skipped(estate)
        _print(made, write)
    elif output is ReportFormat.yaml:
        tell(write_plan(made).rstrip("\n"))
    else:
        import msgspec

        print_document(msgspec.to_builtins(made), output)


def read_plan_file(path: str) -> Plan:
    """The plan in a file, or on standard input for "-". Raises `InputError` for what is none."""
    import sys
    from pathlib import Path

    from regauge.base import InputError, Where
    from regauge.migrate import read_plan
    from regauge.model import read_documents

    try:
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=Where(path), fix="name a plan") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 20} MiB", where=Where(path), fix="make a plan of fewer pools")
    return read_plan(read_documents(data, path))


def _pairs(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    from regauge.base import InputError

    for text in texts:
        name, equals, title = text.partition("=")
        if not (name and equals and title):
            raise InputError(f"--source {text}", fix="write NAME=NAMESPACE/NAME, such as rdma/hca=rdma/shared-plugin")
        yield name, title


def _check(path: str, snapshot: Snapshot, git_version: str) -> None:
    """The differences between a plan and the cluster; ends with 1 when there are any."""
    from regauge.migrate import Sight, plan_differences

    plan_ = read_plan_file(path)
    told = plan_differences(plan_, Sight(snapshot, (), git_version))
    for line in told:
        tell(line)
    if not told:
        tell(f"Plan {plan_.name} fits the cluster: its nodes, devices and workloads are as it saw them.")
    raise typer.Exit(1 if told else 0)


def _print(plan_: Plan, path: str | None) -> None:
    from regauge.migrate import Approve

    rows = [
        (
            step.phase.value,
            step.id,
            step.title,
            ", ".join(type(action).__name__.lower() for action in step.actions) or "-",
            str(len(step.needs) + len(step.gates)),
            _minutes(step.takes_s),
            step.rollback or "nothing to undo",
        )
        for step in plan_.spec.steps
    ]
    print_table(("PHASE", "STEP", "WHAT", "DOES", "GATES", "ABOUT", "ROLLBACK"), rows)
    tell()
    asked = [
        (step.id, action.question)
        for step in plan_.spec.steps
        for action in step.actions
        if isinstance(action, Approve)
    ]
    if asked:
        print_table(("STEP", "A PERSON HAS TO SAY YES TO"), [(id_, question) for id_, question in asked])
        tell()
    if plan_.spec.left:
        print_table(("LEFT AS IT IS", "WHY"), [(item.what, item.why) for item in plan_.spec.left])
        tell()
    total = sum(step.takes_s for step in plan_.spec.steps)
    moved = sum(step.id.startswith("move-") for step in plan_.spec.steps)
    tell(
        f"{len(plan_.spec.nodes)} nodes and {moved} workloads move in {len(plan_.spec.steps)} steps, about {_minutes(total)}."
    )
    place = path or "plan.yaml"
    if path:
        tell(f"Plan: {path}")
    tell(f"Next: regauge rehearse INPUT --plan {place}, then regauge rollout run {place}.")


def _minutes(seconds: int) -> str:
    return "-" if not seconds else f"{max(1, round(seconds / 60))} min"
