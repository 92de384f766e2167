"""`regauge rollout run|status|pause|resume|rollback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from regauge.cli.ending import in_words
from regauge.cli.options import Context, Kubeconfig, Output
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.plan import read_plan_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from regauge.kube import KubeClient
    from regauge.migrate import Plan
    from regauge.migrate.rollout import Holder, Record, Rollout

SCHEMA = "regauge.rollout/v1"
T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Carry a plan out on a cluster, step by step: gates after each, the way back when one fails.",
)

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's file, or - for standard input.")]
Approve = Annotated[
    list[str] | None,
    typer.Option(
        "--approve", metavar="STEP", help="Say yes to the questions of this step; '*' for all. May be repeated."
    ),
]
Space = Annotated[str, typer.Option("--records", metavar="NAMESPACE", help="Where the rollout keeps its records.")]
Poll = Annotated[float, typer.Option("--poll", metavar="SECONDS", min=0.1, help="Time between two looks.")]


def run_command(
    plan: PlanFile,
    approve: Approve = None,
    records: Space = "regauge",
    poll: Poll = 2.0,
    output: Output = Format.table,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Carry the plan out, or go on where it ended. WRITES to the cluster what the plan says, and nothing else.

    \b
    regauge rollout run plan.yaml
    regauge rollout run plan.yaml --approve dependents

    It stops at a step that asks a person, and where it was asked to pause. Killed at any moment it is simply run again.
    Ends with 0 when the plan is done, with 1 when it waits, is paused, or was undone after a gate that failed.
    """
    from regauge.migrate.rollout import RolloutState

    record = _go(plan, approve, records, poll, kubeconfig, context, lambda rollout: rollout.run())
    _print(read_plan_file(plan), record, output)
    raise typer.Exit(0 if record.state is RolloutState.DONE else 1)


def rollback_command(
    plan: PlanFile,
    records: Space = "regauge",
    poll: Poll = 2.0,
    output: Output = Format.table,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Undo every step that was begun, the last one first. WRITES to the cluster."""
    from regauge.migrate.rollout import RolloutState

    record = _go(plan, None, records, poll, kubeconfig, context, lambda rollout: rollout.roll_back())
    _print(read_plan_file(plan), record, output)
    raise typer.Exit(0 if record.state is RolloutState.ROLLED_BACK else 1)


def status_command(
    plan: PlanFile,
    records: Space = "regauge",
    output: Output = Format.table,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell where the rollout of a plan stands. Reads only."""
    from regauge.host import RealClock
    from regauge.migrate.rollout import Ledger

    found = read_plan_file(plan)

    async def look(kube: KubeClient) -> Record | None:
        return await Ledger(kube, RealClock(), found.name, _holder(records)).load()

    record = _with_client(kubeconfig, context, look)
    if record is None:
        tell(f"Plan {found.name} was never begun here.")
        raise typer.Exit(1)
    if record.digest != found.digest:
        say(f"warning: the cluster has the record of another plan of the name {found.name} (digest {record.digest})")
    _print(found, record, output)


def pause_command(
    plan: PlanFile, records: Space = "regauge", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Ask a rollout that runs, anywhere, to stop before its next step."""
    from regauge.host import RealClock
    from regauge.migrate.rollout import PAUSE, Ledger

    found = read_plan_file(plan)
    _with_client(
        kubeconfig, context, lambda kube: Ledger(kube, RealClock(), found.name, _holder(records)).request(PAUSE)
    )
    tell(f"Plan {found.name} stops before its next step; `regauge rollout resume` goes on.")


def _holder(namespace: str) -> Holder:
    import os
    import socket

    from regauge.migrate.rollout import Holder

    return Holder(f"{socket.gethostname()}-{os.getpid()}", namespace)


def _go(
    path: str,
    approve: list[str] | None,
    records: str,
    poll_s: float,
    kubeconfig: str | None,
    context: str | None,
    work: Callable[[Rollout], Awaitable[Record]],
) -> Record:
    from regauge.host import RealClock
    from regauge.migrate.rollout import Options, Rollout

    plan = read_plan_file(path)
    options = Options(_holder(records), frozenset(approve or ()), poll_s)

    async def go(kube: KubeClient) -> Record:
        return await work(Rollout(kube, RealClock(), plan, options, tell=lambda text: say(f"  {text}")))

    return _with_client(kubeconfig, context, go)


def _with_client(kubeconfig: str | None, context: str | None, work: Callable[[KubeClient], Awaitable[T]]) -> T:
    import asyncio
    import os

    from regauge.kube.config import load_connection
    from regauge.kube.http import HttpClient

    async def run() -> T:
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig or "", context=context or ""))
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def _print(plan: Plan, record: Record, output: Format) -> None:
    if output is not Format.table:
        import msgspec

        print_document({"schema": SCHEMA, **msgspec.to_builtins(record)}, output)
        return
    from regauge.migrate.rollout import StepState

    rows = []
    for step in plan.spec.steps:
        own = record.steps.get(step.id)
        if own is None:
            continue
        ended = own.state is StepState.DONE and own.ended_s > own.began_s > 0
        took = f"{own.ended_s - own.began_s:.0f} s" if ended else "-"
        wrong = [f"{item.what}: {item.seen}" for item in own.results if not item.holds]
        rows.append((step.phase.value, step.id, own.state.value, took, "; ".join(wrong) or step.title))
    print_table(("PHASE", "STEP", "STATE", "TOOK", "WHAT"), rows)
    tell()
    tell(f"Plan {plan.name}: {record.state.value}{f': {record.reason}' if record.reason else ''}")


app.command("run")(in_words(run_command))
app.command("status")(in_words(status_command))
app.command("pause")(in_words(pause_command))
app.command("resume")(in_words(run_command))
app.command("rollback")(in_words(rollback_command))
