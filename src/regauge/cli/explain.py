"""`regauge explain`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.explain_asked import Asked, What, say_source
from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, ReportOutput, rules_of, tell_skipped
from regauge.cli.output import Format, ReportFormat, print_document, print_table, say, tell
from regauge.cli.reading import From, read_whole

if TYPE_CHECKING:
    from regauge.scheduler import ClaimAnswer, PodAnswer, SeveralAnswer

MOST_NODES = 8
MOST_SHOWN = 3


def _print_schema(wanted: bool) -> None:
    if wanted:
        from regauge.cli.explain_schema import json_schema

        print_document(json_schema(), Format.json)
        raise typer.Exit


def command(
    what: Annotated[What, typer.Argument(metavar="claim|pod|layers|failures", help="What to explain.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Its name, or NAMESPACE/NAME; of claims also several."),
    ] = None,
    from_: From = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Its namespace. Default: wherever the name is found.")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="All of them, in all namespaces.")] = False,
    selector: Annotated[
        str | None,
        typer.Option("--selector", "-l", metavar="LABELS", help="Those with these labels: a=b,c in (d,e),!f."),
    ] = None,
    output: ReportOutput = ReportFormat.table,
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
    """Tell why a claim or a pod has its devices, would get them, or does not: per node and per device. Reads only.

    And of no cluster in particular: who is responsible for what (layers), and what to do when something fails (failures).

    \b
    regauge explain pod trainer-0                     the current kube context
    regauge explain pod -A                            all pods, those that wait first
    regauge explain claim -n team-a -l app=serve
    regauge explain claim gpu-pair -n team-a --from DIR
    regauge explain claim gpu-pair --from DIR --kube-version 1.37
    regauge explain claim rank-0 rank-1 --from DIR    one after the other, and all at once
    regauge explain pod trainer-0 --from - -o json    for a program; --schema tells the form
    regauge explain layers                            who does what between a device and a container
    regauge explain failures F-2                      what is seen when it happens, and what to do

    Ends with 0 when there is a place or devices are held, with 1 when there is none.
    """
    _general(what, names or [], output)
    several = everywhere or selector is not None or not names
    if several and names:
        raise typer.BadParameter("give names, or -A or -l, not both")
    if several and not (everywhere or namespace or selector is not None):
        raise typer.BadParameter(f"name a {what}, or say which: -A, -n NAMESPACE, -l LABELS")
    place = "" if everywhere else namespace or ""
    estate, gap = read_whole(from_, kubeconfig, context, place)
    if gap:
        say(f"warning: {gap}")
    asked = Asked(estate, rules_of(estate, kube_version, feature_gates), _format(output))
    if not (_several(what, place, selector or "", asked) if several else _named(what, names or [], place, asked)):
        raise typer.Exit(1)


def _general(what: What, names: list[str], output: ReportFormat) -> None:
    """What is explained without a cluster ends here."""
    from regauge.cli.explain_layers import explain_failures, explain_layers

    if what in (What.layers, What.failures):
        (explain_layers if what is What.layers else explain_failures)(names, output)
        raise typer.Exit


def _several(what: What, place: str, selector: str, asked: Asked) -> bool:
    from regauge.cli.explain_list import explain_list

    return explain_list(what, place, selector, asked)


def _format(output: ReportFormat) -> Format:
    if output in (ReportFormat.html, ReportFormat.markdown):
        raise typer.BadParameter(
            f"{output} is for layers and failures; of a claim or pod there is table, json and yaml"
        )
    return Format(output.value)


def _named(what: What, names: list[str], place: str, asked: Asked) -> bool:
    from regauge.scheduler import State, as_stored, claim_named, explain_claim, explain_claims, explain_pod, find_named

    snapshot = as_stored(asked.estate.snapshot)
    if what is What.pod:
        import random

        if len(names) > 1:
            raise typer.BadParameter("one pod at a time; several with -A, -n or -l")
        with _listing(what):
            pod = find_named("Pod", snapshot.pods, names[0], place)
        return _pod(explain_pod(State.of(snapshot, asked.rules), pod, random.Random(0)), asked)
    with _listing(what):
        claims = [claim_named(snapshot, name, place) for name in names]
    state = State.of(snapshot, asked.rules)
    return (
        _claim(explain_claim(state, claims[0]), asked)
        if len(claims) == 1
        else _claims(explain_claims(state, claims), asked)
    )


@contextmanager
def _listing(what: What) -> Iterator[None]:
    """Whoever gives a name that is not there is told how to see all of them."""
    from regauge.base import InputError

    try:
        yield
    except InputError as error:
        fix = f"{error.fix}; regauge explain {what} -A tells of all" if error.fix else None
        raise InputError(error.what, where=error.where, fix=fix) from None


def _claims(answer: SeveralAnswer, asked: Asked) -> bool:
    if asked.output is not Format.table:
        from regauge.cli.explain_document import claims_document

        print_document(claims_document(answer, asked.estate, asked.rules), asked.output)
        return answer.good
    tell_skipped(asked.estate)
    tell(answer.text)
    for one in answer.one_by_one:
        tell()
        _print_claim(one)
    if answer.together is not None:
        tell()
        tell("All at once:")
        _print_claim(answer.together)
    say_source(asked)
    return answer.good


def _claim(answer: ClaimAnswer, asked: Asked) -> bool:
    if asked.output is not Format.table:
        from regauge.cli.explain_document import claim_document

        print_document(claim_document(answer, asked.estate, asked.rules), asked.output)
        return answer.good
    tell_skipped(asked.estate)
    _print_claim(answer)
    say_source(asked)
    return answer.good


def _print_claim(answer: ClaimAnswer) -> None:
    tell(f"ResourceClaim {answer.claim}: {answer.state}")
    tell(f"  {answer.text}")
    _holding(answer)
    told = f"{answer.text}\n{_cluster(answer)}"
    _notes(tuple(one for one in answer.notes if one not in told))


def _holding(answer: ClaimAnswer) -> None:
    found = answer.holding
    if found is None:
        return
    rows = [
        (
            one.request,
            str(one.device),
            "admin" if one.admin_access else one.share or "whole",
            "; ".join((*(f"{name} {value}" for name, value in one.consumed.items()), *one.remarks)) or "-",
        )
        for one in found.devices
    ]
    print_table(("REQUEST", "DEVICE", "SHARE", "REMARKS"), rows)
    tell(f"used by: {', '.join(found.users) or 'nobody yet'}")
    tell(f"usable on: {', '.join(found.nodes) or 'every node'}")


def _cluster(answer: ClaimAnswer) -> str:
    """The nodes, told. Gives back what was told of the examples."""
    from regauge.allocator import render

    cluster = answer.cluster
    if cluster is None:
        return ""
    if len(cluster.nodes) > 1:
        tell(f"fits on {len(cluster.fitting)} of {len(cluster.nodes)} nodes")
        if cluster.reasons:
            rows = [(str(count), example, reason) for reason, count, example in cluster.reasons[:MOST_NODES]]
            print_table(("NODES", "SUCH AS", "WHY NOT"), rows)
    shown = [*cluster.fitting[:1], *(example for _, _, example in cluster.reasons)]
    nearest = [one for one in answer.order if one in shown]
    texts = [render(cluster.nodes[name]) for name in nearest[:MOST_SHOWN]]
    for text in texts:
        tell()
        tell(text)
    return "\n".join(texts)


def _pod(answer: PodAnswer, asked: Asked) -> bool:
    if asked.output is not Format.table:
        from regauge.cli.explain_document import pod_document

        print_document(pod_document(answer, asked.estate, asked.rules), asked.output)
        return answer.good
    tell_skipped(asked.estate)
    tell(f"Pod {answer.pod}: {answer.state}")
    tell(f"  {answer.text}")
    for claim in answer.claims:
        tell(f"claim {claim.claim}: {claim.state}")
        _holding(claim)
    _nodes(answer)
    _notes(answer.notes)
    say_source(asked)
    return answer.good


def _nodes(answer: PodAnswer) -> None:
    from regauge.allocator import render
    from regauge.scheduler import example_nodes

    fitting = [one for one in answer.nodes if not one.plugin]
    if fitting:
        tell()
        rows = [
            (
                one.node,
                "-" if one.score is None else str(one.score),
                "yes" if one.node in answer.choice else "no",
                "; ".join((*([one.devices.text] if one.devices is not None else []), *one.details)) or "-",
            )
            for one in fitting[:MOST_NODES]
        ]
        print_table(("FITS ON", "SCORE", "MAY BE TAKEN", "DEVICES"), rows)
        if len(fitting) > MOST_NODES:
            tell(f"and {len(fitting) - MOST_NODES} more")
    if answer.reasons:
        tell()
        examples = example_nodes(answer)
        reasons = sorted(answer.reasons, key=lambda one: list(examples).index(one[2]))
        table = [
            (str(count), example, reason, "; ".join(examples[example].details) or "-")
            for reason, count, example in reasons[:MOST_NODES]
        ]
        print_table(("NODES", "SUCH AS", "WHY NOT", "IN NUMBERS THERE"), table)
        missed = [one.devices for one in examples.values() if one.devices is not None]
        for explanation in missed[:MOST_SHOWN]:
            tell()
            tell(render(explanation))


def _notes(notes: tuple[str, ...]) -> None:
    if notes:
        tell()
    for text in notes:
        tell(f"note: {text}")
