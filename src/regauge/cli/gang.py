"""`regauge gang check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from regauge.cli.ending import in_words
from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, Output, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import From, Input, read_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.collect import Estate
    from regauge.scheduler import GangAnswer

SCHEMA = "regauge.gang-check/v1"
MOST_HOLDERS = 40

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Gangs: pods that run together or not at all.",
)


def check_command(
    source: Input = None,
    from_: From = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell of each gang whether it can be placed as a whole, and which gangs hold devices while they wait. Reads only.

    \b
    regauge gang check                         the current kube context
    regauge gang check DIR -o json

    Gangs are PodGroups, JobSets, groups of LeaderWorkerSets and Kueue's groups of plain pods. Ends with 1 when one of them
    cannot be placed by the scheduler, or holds devices and cannot run, else with 0.
    """
    estate = read_input(source, from_, kubeconfig, context)
    rules = rules_of(estate, kube_version, feature_gates)
    import random

    from regauge.scheduler import check_gangs

    found = check_gangs(estate.snapshot, rules, random.Random(0))
    if output is Format.table:
        tell_skipped(estate)
        _print(found)
        say(f"{estate.source}: Kubernetes {rules.minor}.")
    else:
        print_document(_document(found, estate, rules.minor), output)
    if not all(one.good for one in found):
        raise typer.Exit(1)


app.command("check")(in_words(check_command))


@app.callback()
def _group() -> None:
    """Gangs: pods that run together or not at all."""


def _print(found: Sequence[GangAnswer]) -> None:
    if not found:
        tell("There are no gangs.")
        return
    print_table(
        ("GANG", "PODS", "LEAST", "PLACED", "ANSWER", "WHY"),
        (
            (one.gang, str(one.pods), str(one.least), str(one.placed), one.state, one.why or "-")
            for one in sorted(found, key=lambda one: one.good)
        ),
    )
    partial = [one for one in found if one.partial]
    holders = [(one.gang, item) for one in partial for item in one.holders]
    if holders:
        tell()
        print_table(
            ("HOLDS AND WAITS", "POD", "NODE", "SINCE", "DEVICES"),
            (
                (gang, one.pod, one.node, one.since or "-", ", ".join("/".join(id_) for id_ in one.devices) or "-")
                for gang, one in holders[:MOST_HOLDERS]
            ),
        )
        if len(holders) > MOST_HOLDERS:
            tell(f"and {len(holders) - MOST_HOLDERS} more; -o json has them all")
    for one in partial:
        held = sum(len(item.devices) for item in one.holders)
        tell()
        more = one.least - one.placed
        tell(
            f"{one.gang} holds {held} devices and cannot run: make room for {more} more of its pods, "
            "or delete those that are placed."
        )
    for one in found:
        for other in one.blocked_by:
            tell()
            tell(f"{one.gang} could be placed if {other} gave back what it holds.{_each_other(one, other, found)}")


def _each_other(one: GangAnswer, other: str, found: Sequence[GangAnswer]) -> str:
    both = any(item.gang == other and one.gang in item.blocked_by for item in found)
    return " They block each other: delete the pods of one." if both else ""


def _document(found: Sequence[GangAnswer], estate: Estate, minor: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": estate.source,
        "kubeVersion": minor,
        "good": all(one.good for one in found),
        "gangs": [
            {
                "gang": one.gang,
                "pods": one.pods,
                "least": one.least,
                "placed": one.placed,
                "answer": one.state,
                "partial": one.partial,
                "why": one.why,
                "places": [{"pod": pod, "node": node} for pod, node in one.places],
                "holders": [
                    {
                        "pod": item.pod,
                        "node": item.node,
                        "since": item.since,
                        "devices": ["/".join(id_) for id_ in item.devices],
                    }
                    for item in one.holders
                ],
                "blockedBy": list(one.blocked_by),
            }
            for one in found
        ],
        "notRead": [{"what": one.what, "why": one.why} for one in estate.skipped],
    }
