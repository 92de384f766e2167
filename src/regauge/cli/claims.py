"""`regauge claims`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion
from regauge.cli.output import say, tell
from regauge.cli.reading import From, Input
from regauge.cli.view_output import ViewFormat, print_columns, print_view_document
from regauge.cli.view_reading import Asked, Everywhere, InNamespace, NoHeaders, ViewOutput, read_seen, tell_gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.cli.view_reading import Seen
    from regauge.model import Kind
    from regauge.observe.claims_view import ClaimLine


def command(
    source: Input = None,
    from_: From = None,
    namespace: InNamespace = None,
    everywhere: Everywhere = False,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="LABELS", help="With these labels: a=b,c in (d,e),!f.")
    ] = None,
    output: ViewOutput = ViewFormat.table,
    no_headers: NoHeaders = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on: each claim again whenever it changes.")] = False,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show claims with what kubectl does not tell: pods, node, devices, since when, and why they wait. Reads only.

    \b
    regauge claims                        the context's namespace
    regauge claims -A -o wide             all, with requests, owners and the whole reason
    regauge claims -A -w                  each again whenever it changes
    regauge claims estate.zip -l app=serve -o json

    STATE has kubectl's words; SINCE is how long it has been so. WHY is in short what `regauge explain claim` tells at length.
    """
    asked = Asked(source, from_, kubeconfig, context, namespace, everywhere)
    chosen = _Chosen(selector or "", kube_version, feature_gates)
    if watch:
        if asked.place is not None:
            raise typer.BadParameter("a dump does not change: --watch is for a cluster")
        _watch(asked, chosen, output, no_headers)
        return
    kinds, only = claim_kinds()
    seen = read_seen(asked, kinds, only=only, gates_if_pending=True)
    lines = chosen.of(seen)
    if output is ViewFormat.name:
        for line in lines:
            tell(f"resourceclaim.resource.k8s.io/{line.name}")
        return
    if not output.is_table:
        from regauge.cli.claims_table import claims_document

        print_view_document(claims_document(lines, seen), output)
        return
    tell_gaps(seen)
    if not lines:
        say(f"No claims found{f' in {seen.namespace} namespace' if seen.namespace else ''}.")
        return
    _print(lines, seen, output, headers=not no_headers)


def claim_kinds() -> tuple[tuple[Kind, ...], dict[Kind, str]]:
    """What is read of a cluster to tell of claims and why they wait; of events only those that tell of devices."""
    from regauge.model.kinds import (
        CORE_EVENT,
        DEVICE_CLASS,
        DEVICE_TAINT_RULE,
        NAMESPACE,
        NODE,
        POD,
        POD_GROUP,
        RESOURCE_CLAIM,
        RESOURCE_CLAIM_TEMPLATE,
        RESOURCE_SLICE,
    )
    from regauge.observe.claims_view import NOT_PREPARED

    devices = (DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, DEVICE_TAINT_RULE)
    told = {CORE_EVENT: f"reason={NOT_PREPARED}"}
    return (NODE, NAMESPACE, POD, POD_GROUP, *devices, *told), told


class _Chosen:
    """Which claims are meant, and by which rules it is told why they wait."""

    def __init__(self, selector: str, kube_version: str | None, feature_gates: str | None) -> None:
        from regauge.model import parse_label_selector

        self._selector = parse_label_selector(selector)
        self._version = (kube_version, feature_gates)

    def of(self, seen: Seen) -> tuple[ClaimLine, ...]:
        import random

        from regauge.cli.options import rules_of
        from regauge.model import matches_requirement
        from regauge.observe.claims_view import view_claims

        rules = rules_of(seen.estate, *self._version)
        return view_claims(
            seen.estate.snapshot,
            rules,
            lambda one: (
                seen.namespace in ("", one.namespace)
                and all(matches_requirement(item, one.labels or {}) for item in self._selector)
            ),
            random.Random(0),
        )


def _print(lines: Sequence[ClaimLine], seen: Seen, output: ViewFormat, *, headers: bool) -> None:
    from regauge.cli.claims_table import claim_columns, claim_row

    wide = output is ViewFormat.wide
    columns = claim_columns(everywhere=not seen.namespace, wide=wide)
    rows = [claim_row(line, seen.now_s, everywhere=not seen.namespace, wide=wide) for line in lines]
    print_columns(columns, rows, headers=headers)


def _watch(asked: Asked, chosen: _Chosen, output: ViewFormat, no_headers: bool) -> None:
    import asyncio

    asyncio.run(_follow(asked, chosen, output, headers=not no_headers))


async def _follow(asked: Asked, chosen: _Chosen, output: ViewFormat, *, headers: bool) -> None:
    from contextlib import aclosing

    from regauge.cli.claims_table import Told
    from regauge.cli.view_following import followed

    told = Told(output, headers=headers)
    async with aclosing(followed(asked, *claim_kinds())) as views:
        async for seen in views:
            told.tell(chosen.of(seen), seen)
