"""Reading a cluster for verbs that ask about it: a dump, standard input, or the current kube context."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.collect import Estate
    from regauge.kube.http import HttpClient
    from regauge.model import Kind

From = Annotated[
    str | None,
    typer.Option("--from", metavar="PATH", help="Directory, file or - with a dump. Default: the current kube context."),
]

Input = Annotated[
    str | None,
    typer.Argument(metavar="[INPUT]", help="Directory, file, bundle or - with a dump; `sample`. Default: the context."),
]

# A large cluster is millions of values that all stay: looking for garbage among them costs a third of the time.
_SELDOM = (500_000, 20, 100)


def read_estate(
    place: str | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str = "",
    progress: Callable[[str], None] = lambda _: None,
    more: tuple[Kind, ...] = (),
    records_alone: bool = False,
) -> Estate:
    """The estate at `place`, or else of the cluster that the context names: `namespace` limits what is read of it,

    and kinds in `more` are read besides. `records_alone`: a record of a node is enough.
    """
    gc.set_threshold(*_SELDOM)
    if place is not None:
        from regauge.collect import load_estate

        return load_estate(place, records_alone=records_alone)
    import asyncio
    import os

    from regauge.collect import collect_live
    from regauge.kube.config import load_connection
    from regauge.kube.http import HttpClient

    async def collect() -> Estate:
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig or "", context=context or ""))
        try:
            return await with_gates(client, await collect_live(client, namespace, progress, more))
        finally:
            await client.close()

    return asyncio.run(collect())


async def with_gates(client: HttpClient, estate: Estate) -> Estate:
    """The estate with the feature gates that the API server says it has; its scheduler is taken to have the same."""
    from dataclasses import replace

    from regauge.base import InputError
    from regauge.collect import Skipped
    from regauge.features import KNOWN_MINORS, gates_from_prometheus, minor_of, rules
    from regauge.kube import Forbidden, NotFound

    try:
        minor = minor_of(estate.git_version or "")
        gates = gates_from_prometheus(await client.metrics())
        rules(minor if minor in KNOWN_MINORS else KNOWN_MINORS[-1], gates)
    except NotFound:
        return estate
    except Forbidden as error:
        why = f"the right to get the path /metrics is missing ({error.message})"
    except InputError as error:
        why = str(error)
    else:
        return replace(estate, gates=gates)
    told = Skipped("feature gates", f"{why}; the defaults of the version are gone by, --feature-gates says otherwise")
    return replace(estate, skipped=(*estate.skipped, told))


def unread(estate: Estate) -> tuple[str, ...]:
    """The kinds that decide about pods and devices and could not be read of a live cluster, by resource."""
    from regauge.model.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE

    deciding = {kind.resource for kind in (NODE, POD, DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE)}
    return tuple(item.what for item in estate.skipped if item.what in deciding)


def read_whole(
    place: str | None, kubeconfig: str | None, context: str | None, namespace: str, more: tuple[Kind, ...] = ()
) -> tuple[Estate, str]:
    """The estate of all namespaces, or of `namespace` alone where no more may be read; and what that means, if anything.

    Kinds in `more` are read besides.
    """
    estate = read_estate(place, kubeconfig, context, more=more)
    gaps = unread(estate)
    only = ""
    if place is None and namespace and gaps:
        estate = read_estate(place, kubeconfig, context, namespace, more=more)
        gaps = unread(estate)
        only = f"only namespace {namespace} could be read: what pods and claims of others hold is not known"
    missing = f"{', '.join(gaps)} could not be read" if gaps else ""
    told = "; ".join(part for part in (missing, only) if part)
    return estate, f"{told}: in the cluster the answer may be another" if told else ""


def read_input(
    source: str | None, from_: str | None, kubeconfig: str | None, context: str | None, more: tuple[Kind, ...] = ()
) -> Estate:
    """The whole estate of a verb that takes INPUT or --from, with kinds in `more`; what could not be read is told."""
    if source is not None and from_ is not None:
        raise typer.BadParameter("give either INPUT or --from, not both")
    estate, gap = read_whole(source if source is not None else from_, kubeconfig, context, "", more)
    if gap:
        say(f"warning: {gap}")
    return estate
