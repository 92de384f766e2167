"""`regauge gang check` and `regauge gang whatif`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.ending import in_words
from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, Output, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import From, Input
from regauge.cli.whatif import Applies, Deletes, Drains, Likes, Scales, Taints, changes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.collect import Estate
    from regauge.model import Rules
    from regauge.scheduler import Contest, Deadlock, GangAnswer, GangCheck, GangWhatIf, Turn

MOST_HOLDERS = 40
MOST_DOMAINS = 24
MOST_GANGS = 60

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Gangs: pods that run together or not at all.",
)


def _printing(make: str) -> Any:
    def callback(wanted: bool) -> None:
        if wanted:
            from regauge.cli import gang_document

            print_document(getattr(gang_document, make)(), Format.json)
            raise typer.Exit

    return typer.Option("--schema", help="Print the JSON Schema of -o json, and end.", is_eager=True, callback=callback)


def check_command(
    source: Input = None,
    from_: From = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    schema: Annotated[bool, _printing("check_schema")] = False,
) -> None:
    """Tell of each gang whether it can be placed as a whole, and which gangs hold devices while they wait. Reads only.

    \b
    regauge gang check                         the current kube context
    regauge gang check DIR -o json

    Gangs are PodGroups, JobSets, groups of LeaderWorkerSets, Workloads and pod groups of Kueue, and the PodGroups of
    coscheduling and of Volcano. Ends with 1 when one of them cannot be placed by the scheduler, or holds devices and cannot
    run, else with 0.
    """
    estate = _read(source, from_, kubeconfig, context)
    rules = rules_of(estate, kube_version, feature_gates)
    import random

    from regauge.scheduler import check_gangs, known_gang_kinds

    found = check_gangs(estate.snapshot, rules, random.Random(0))
    now_s = _now_s() if source is None and from_ is None else None
    if output is Format.table:
        tell_skipped(estate)
        _print(found, rules, now_s)
        say(f"{estate.source}: Kubernetes {rules.minor}.")
    else:
        from regauge.cli.gang_document import check_document

        kept = {name: kind.is_kept_together(rules) for name, kind in known_gang_kinds().items()}
        print_document(check_document(found, estate, rules.minor, kept, now_s), output)
    if not found.good:
        raise typer.Exit(1)


def _read(source: str | None, from_: str | None, kubeconfig: str | None, context: str | None) -> Estate:
    """The estate with the kinds that make gangs."""
    from dataclasses import replace

    from regauge.cli.reading import read_input
    from regauge.model.kinds import POD_GROUP, WORKLOAD

    older = replace(WORKLOAD, version="v1alpha1", others=())
    return read_input(source, from_, kubeconfig, context, more=(WORKLOAD, older, POD_GROUP))


def _now_s() -> float:
    import time

    return time.time()


def whatif_command(
    source: Input = None,
    from_: From = None,
    first: Annotated[
        list[str] | None,
        typer.Option("--first", metavar="GANG", help="This gang goes before all others. In the order they are given."),
    ] = None,
    priority: Annotated[
        list[str] | None, typer.Option("--priority", metavar="GANG=N", help="A gang gets this priority.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="GANG", help="A gang goes, with all that it holds.")
    ] = None,
    add_node_like: Likes = None,
    drain: Drains = None,
    taint_device: Taints = None,
    apply: Applies = None,
    delete: Deletes = None,
    replicas: Scales = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    schema: Annotated[bool, _printing("whatif_schema")] = False,
) -> None:
    """Tell what becomes of gangs that compete, in which order, and after a change. Reads only.

    \b
    regauge gang whatif                                    who gets what, as it is
    regauge gang whatif DIR --first team/train --without team/old
    regauge gang whatif DIR --priority team/train=100 --add-node-like gpu-node-3=2

    A gang is named as `gang check` names it, or by NAMESPACE/NAME. Ends with 1 when a gang that would be placed before is
    not after, or when gangs would wait for each other for good, else with 0.
    """
    estate = _read(source, from_, kubeconfig, context)
    rules = rules_of(estate, kube_version, feature_gates)
    import random

    from regauge.scheduler import GangChange, gang_what_if

    change = GangChange(
        tuple(first or ()),
        dict(map(_priority, priority or ())),
        tuple(without or ()),
        tuple(changes_of(add_node_like, drain, taint_device, apply, delete, replicas)),
    )
    found = gang_what_if(estate.snapshot, rules, change, random.Random(0))
    if output is Format.table:
        tell_skipped(estate)
        _print_whatif(found)
        say(f"{estate.source}: Kubernetes {rules.minor}.")
    else:
        from regauge.cli.gang_document import whatif_document

        print_document(whatif_document(found, estate, rules.minor), output)
    if found.lost or found.after.deadlocks or found.after.at_once_deadlocks:
        raise typer.Exit(1)


def _priority(text: str) -> tuple[str, int]:
    name, _, value = text.rpartition("=")
    if not name or not value.lstrip("-").isdecimal() or len(value) > 11:
        raise typer.BadParameter(f"{text}: write GANG=NUMBER")
    return name, int(value)


app.command("check")(in_words(check_command))
app.command("whatif")(in_words(whatif_command))


# -- gang check, for people


def _print(found: GangCheck, rules: Rules, now_s: float | None) -> None:
    if not found.gangs:
        tell("There are no gangs.")
        return
    gangs = sorted(found.gangs, key=lambda one: one.good)
    print_table(
        ("GANG", "PODS", "LEAST", "PLACED", "ANSWER", "WHY"),
        (
            (one.gang, str(one.pods), str(one.least), str(one.placed + one.done), one.state, one.why or "-")
            for one in gangs[:MOST_GANGS]
        ),
    )
    if len(gangs) > MOST_GANGS:
        tell(f"and {len(gangs) - MOST_GANGS} more; -o json has them all")
    _print_domains(gangs)
    _print_holders([one for one in gangs if one.partial], now_s)
    for one in gangs:
        _print_way(one, found)
    _print_deadlocks(found.deadlocks)
    _print_kinds(found.gangs, rules)


def _print_domains(gangs: Iterable[GangAnswer]) -> None:
    rows = [
        (one.gang, one.topology, item.name, str(item.nodes), _domain_word(item.fits, item.in_order), item.why or "-",
         "-" if item.without_devices is None else "would fit" if item.without_devices else "no")
        for one in gangs
        if not one.good
        for item in one.domains
    ]  # fmt: skip
    if rows:
        tell()
        print_table(("TOPOLOGY OF", "LABEL", "DOMAIN", "NODES", "FITS", "WHY", "WITHOUT DEVICES"), rows[:MOST_DOMAINS])
        if len(rows) > MOST_DOMAINS:
            tell(f"and {len(rows) - MOST_DOMAINS} more; -o json has them all")


def _domain_word(fits: bool, in_order: bool) -> str:
    return "yes" if in_order else "together only" if fits else "no"


def _print_holders(partial: Sequence[GangAnswer], now_s: float | None) -> None:
    from regauge.cli.gang_document import age, age_s

    holders = [(one.gang, item) for one in partial for item in one.holders]
    if not holders:
        return
    tell()
    print_table(
        ("HOLDS AND WAITS", "POD", "NODE", "SINCE", "AGE", "DEVICES"),
        (
            (
                gang,
                one.pod,
                one.node,
                one.since or "-",
                age(age_s(one.since, now_s)),
                ", ".join("/".join(id_) for id_ in one.devices) or "-",
            )
            for gang, one in holders[:MOST_HOLDERS]
        ),
    )
    if len(holders) > MOST_HOLDERS:
        tell(f"and {len(holders) - MOST_HOLDERS} more; -o json has them all")


def _print_way(one: GangAnswer, found: GangCheck) -> None:
    """What is in the way of one gang, what it holds, what to do."""
    if one.partial:
        tell()
        stuck = any(one.gang in item.gangs for item in found.deadlocks)
        what = "it is in the deadlock below" if stuck else one.advice
        tell(f"{one.gang} holds {one.devices} devices and cannot run: {what}")
    elif one.would_hold:
        tell()
        held = f"{one.would_hold} of the {one.least} pods it needs would get places"
        tell(f"{one.gang}: if it started now, {held}. {one.kind.hold[:1].upper()}{one.kind.hold[1:]}.")
    if one.blocked_by:
        tell()
        names = " and ".join(one.blocked_by) if one.jointly else " or ".join(one.blocked_by)
        both = any(one.gang in item.blocked_by and item.gang in one.blocked_by for item in found.gangs)
        tell(f"{one.gang} could be placed if {names} gave back what {'they hold' if one.jointly else 'it holds'}."
             + (" They block each other." if both else ""))  # fmt: skip
    for pod in one.freed_by:
        tell(f"{one.gang} could be placed if pod {pod} left, which is of no gang.")


def _print_deadlocks(deadlocks: Iterable[Deadlock]) -> None:
    for one in deadlocks:
        tell()
        way = " -> ".join((*one.circle, one.circle[0])) if one.circle else ", ".join(one.gangs)
        tell(f"deadlock: {way}")
        tell(f"  {one.advice}" if one.advice else "  no single one of them is enough: pause all but one")


def _print_kinds(gangs: Iterable[GangAnswer], rules: Rules) -> None:
    """Who keeps them together, once for each kind."""
    tell()
    for kind in {one.kind.kind: one.kind for one in gangs}.values():
        kept = "placed as a whole" if kind.is_kept_together(rules) else "not kept together"
        why = ""
        if kind.gate and not rules.on(kind.gate):
            why = f"; the gate {kind.gate} is off in {rules.minor}"
        tell(f"{kind.says} [{kind.versions}; {kind.stage}]: {kept}{why}")


# -- gang whatif, for people


def _print_whatif(found: GangWhatIf) -> None:
    before = {one.gang: one for one in found.before.turns}
    if not found.after.turns and not before:
        tell("There are no gangs.")
        return
    at_once = {one.gang: one for one in found.after.at_once}
    print_table(
        ("ORDER", "GANG", "BEFORE", "AFTER", "IF ALL COME AT ONCE", "WHY"),
        (
            (
                str(number),
                one.gang,
                _turn(before.get(one.gang)),
                _turn(one),
                _turn(at_once.get(one.gang)),
                one.why or "-",
            )
            for number, one in enumerate(found.after.turns[:MOST_GANGS], 1)
        ),
    )
    for text in found.notes:
        tell(f"note: {text}")
    tell()
    tell(f"{len(found.gained)} gangs find a place, {len(found.lost)} lose theirs.")
    _print_contest(found.after)


def _turn(one: Turn | None) -> str:
    return "-" if one is None else f"{one.outcome} ({one.placed} of {one.least} pods, {one.devices} devices)"


def _print_contest(after: Contest) -> None:
    for one in after.contention:
        tell(f"{one.taker} takes what {one.loser} needs: not both can be placed.")
    if after.best_count > after.count:
        tell(
            f"{after.best_count} gangs instead of {after.count} are placed in the order: {', '.join(after.best)} "
            f"({after.orders} orders tried)"
        )
    _print_deadlocks(after.deadlocks)
    if after.at_once_deadlocks and not after.deadlocks:
        tell()
        tell("If their pods come at the same time, they wait for each other for good:")
        _print_deadlocks(after.at_once_deadlocks)
