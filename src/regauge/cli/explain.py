"""`regauge explain`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, Output, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import From, read_whole

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.scheduler import ClaimAnswer, PodAnswer, SeveralAnswer

MOST_NODES = 8
MOST_SHOWN = 3


class What(StrEnum):
    """What can be explained."""

    claim = "claim"
    pod = "pod"


def command(
    what: Annotated[What, typer.Argument(metavar="claim|pod", help="What to explain.")],
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Its name, or NAMESPACE/NAME; of claims also several.")
    ],
    from_: From = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Its namespace. Default: wherever the name is found.")
    ] = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell why a claim or a pod has its devices, would get them, or does not: per node and per device. Reads only.

    \b
    regauge explain pod trainer-0                     the current kube context
    regauge explain claim gpu-pair -n team-a --from DIR
    regauge explain claim gpu-pair --from DIR --kube-version 1.37
    regauge explain claim rank-0 rank-1 --from DIR    one after the other, and all at once
    regauge explain pod trainer-0 --from - -o json    for a program

    Ends with 0 when there is a place or devices are held, with 1 when there is none.
    """
    estate, gap = read_whole(from_, kubeconfig, context, namespace or "")
    if gap:
        say(f"warning: {gap}")
    rules = rules_of(estate, kube_version, feature_gates)
    from regauge.scheduler import State, as_stored, claim_named, explain_claim, explain_claims, explain_pod, find_named

    snapshot = as_stored(estate.snapshot)
    place = namespace or ""
    if what is What.pod:
        import random

        if len(names) > 1:
            raise typer.BadParameter("one pod at a time")
        pod = find_named("Pod", snapshot.pods, names[0], place)
        good = _pod(explain_pod(State.of(snapshot, rules), pod, random.Random(0)), estate, rules.minor, output)
    elif len(names) == 1:
        claim = claim_named(snapshot, names[0], place)
        good = _claim(explain_claim(State.of(snapshot, rules), claim), estate, rules.minor, output)
    else:
        claims = [claim_named(snapshot, name, place) for name in names]
        good = _claims(explain_claims(State.of(snapshot, rules), claims), estate, rules.minor, output)
    if not good:
        raise typer.Exit(1)


def _claims(answer: SeveralAnswer, estate: Estate, minor: str, output: Format) -> bool:
    if output is not Format.table:
        from regauge.cli.explain_document import claims_document

        print_document(claims_document(answer, estate, minor), output)
        return answer.good
    tell_skipped(estate)
    tell(answer.text)
    for one in answer.one_by_one:
        tell()
        _print_claim(one)
    if answer.together is not None:
        tell()
        tell("All at once:")
        _print_claim(answer.together)
    say(f"{estate.source}: Kubernetes {minor}.")
    return answer.good


def _claim(answer: ClaimAnswer, estate: Estate, minor: str, output: Format) -> bool:
    if output is not Format.table:
        from regauge.cli.explain_document import claim_document

        print_document(claim_document(answer, estate, minor), output)
        return answer.good
    tell_skipped(estate)
    _print_claim(answer)
    say(f"{estate.source}: Kubernetes {minor}.")
    return answer.good


def _print_claim(answer: ClaimAnswer) -> None:
    tell(f"ResourceClaim {answer.claim}: {answer.state}")
    tell(f"  {answer.text}")
    _holding(answer)
    _cluster(answer)
    _notes(answer.notes)


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


def _cluster(answer: ClaimAnswer) -> None:
    from regauge.allocator import render

    cluster = answer.cluster
    if cluster is None:
        return
    if len(cluster.nodes) > 1:
        tell(f"fits on {len(cluster.fitting)} of {len(cluster.nodes)} nodes")
        if cluster.reasons:
            rows = [(str(count), example, reason) for reason, count, example in cluster.reasons[:MOST_NODES]]
            print_table(("NODES", "SUCH AS", "WHY NOT"), rows)
    shown = [*cluster.fitting[:1], *(example for _, _, example in cluster.reasons)]
    nearest = [one for one in answer.order if one in shown]
    for name in nearest[:MOST_SHOWN]:
        tell()
        tell(render(cluster.nodes[name]))


def _pod(answer: PodAnswer, estate: Estate, minor: str, output: Format) -> bool:
    if output is not Format.table:
        from regauge.cli.explain_document import pod_document

        print_document(pod_document(answer, estate, minor), output)
        return answer.good
    tell_skipped(estate)
    tell(f"Pod {answer.pod}: {answer.state}")
    tell(f"  {answer.text}")
    for claim in answer.claims:
        tell(f"claim {claim.claim}: {claim.state}")
        _holding(claim)
    _nodes(answer)
    _notes(answer.notes)
    say(f"{estate.source}: Kubernetes {minor}.")
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
                one.devices.text if one.devices is not None else "-",
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
