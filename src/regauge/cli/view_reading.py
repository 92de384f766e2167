"""Reading what the views show: a dump, or of the current context only the kinds that a view needs, all lists at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.output import say
from regauge.cli.view_output import ViewFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.collect import Estate, Skipped
    from regauge.kube import KubeClient
    from regauge.kube.http import HttpClient
    from regauge.model import Document, Kind

NodesDir = Annotated[
    str | None,
    typer.Option("--nodes", metavar="DIR", help="Records that `regauge collect node` wrote, NODE.json each."),
]
ViewOutput = Annotated[ViewFormat, typer.Option("--output", "-o", help="table, wide, name, json or yaml.")]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Without the line of headers.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")]
InNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="One namespace. Default: the context's; of a dump all."),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """Where to read: a dump (`source`, `from_`) or a context; which namespace; records of nodes besides.

    `within`: nothing of other namespaces is needed, unless all are meant.
    """

    source: str | None = None
    from_: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    everywhere: bool = False
    nodes: str | None = None
    within: bool = False

    @property
    def place(self) -> str | None:
        if self.source is not None and self.from_ is not None:
            raise typer.BadParameter("give either INPUT or --from, not both")
        return self.source if self.source is not None else self.from_


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read. `namespace` is the one that is meant ("" for all); ages are counted up to `now_s`, where it is known."""

    estate: Estate
    namespace: str
    now_s: float | None
    live: bool


def read_seen(
    asked: Asked, kinds: tuple[Kind, ...], *, only: Mapping[Kind, str] | None = None, gates_if_pending: bool = False
) -> Seen:
    """What a view shows. `gates_if_pending`: ask the server for its feature gates where a claim waits; `only`: field

    selectors of kinds of which not all objects are wanted.

    Of a cluster, kinds that may only be read in one namespace are read there; what could not be read is in `skipped`.
    """
    if asked.place is not None:
        from regauge.cli.collect import with_records
        from regauge.collect import load_estate
        from regauge.observe.dump_time import moment_of

        estate = with_records(load_estate(asked.place), asked.nodes)
        namespace = "" if asked.everywhere else asked.namespace or ""
        return Seen(estate, namespace, moment_of(estate.snapshot), live=False)
    import asyncio

    return asyncio.run(_live(asked, kinds, only or {}, gates_if_pending))


async def _live(asked: Asked, kinds: tuple[Kind, ...], only: Mapping[Kind, str], gates_if_pending: bool) -> Seen:
    import time

    from regauge.cli.collect import with_records
    from regauge.cli.reading import with_gates

    client, own = connect(asked)
    namespace = "" if asked.everywhere else asked.namespace or own
    try:
        estate = await collect_kinds(client, kinds, namespace, only, within=asked.within)
        if gates_if_pending and any(one.status.allocation is None for one in estate.snapshot.claims):
            estate = await with_gates(client, estate)
    finally:
        await client.close()
    return Seen(with_records(estate, asked.nodes), namespace, time.time(), live=True)


def connect(asked: Asked) -> tuple[HttpClient, str]:
    """A client of the context, and the context's namespace. Close the client."""
    import os

    from regauge.kube.config import load_connection
    from regauge.kube.http import HttpClient

    connection = load_connection(os.environ, kubeconfig=asked.kubeconfig or "", context=asked.context or "")
    return HttpClient(connection), connection.namespace


async def collect_kinds(
    client: KubeClient, kinds: Iterable[Kind], namespace: str, only: Mapping[Kind, str], *, within: bool
) -> Estate:
    """These kinds of a cluster, some `only` by a field selector; `within` the namespace alone, if one is named.

    Raises `ServerUnavailable` when the cluster does not answer.
    """
    import asyncio

    from regauge.collect import Estate
    from regauge.model import Snapshot

    version = await client.version()
    found = await asyncio.gather(
        *(_listed(client, kind, namespace, only.get(kind, ""), within=within) for kind in kinds)
    )
    return Estate(
        snapshot=Snapshot.of(document for documents, _ in found for document in documents),
        source="the current context",
        git_version=version.git_version,
        skipped=tuple(one for _, skipped in found for one in skipped),
    )


async def _listed(
    client: KubeClient, kind: Kind, namespace: str, selector: str, *, within: bool
) -> tuple[list[Document], list[Skipped]]:
    """All objects of a kind, or those of the namespace where no more may be read; and what is missing."""
    from regauge.collect import Skipped, list_newest
    from regauge.kube import Forbidden, NotFound, listed_documents

    first = namespace if within and kind.namespaced else ""
    try:
        served, found = await list_newest(client, kind, first, selector)
        return list(listed_documents(served, found)), []
    except NotFound:
        return [], [] if kind.kind in MAY_BE_MISSING else [Skipped(kind.resource, "is not served by this cluster")]
    except Forbidden as error:
        place = f"namespace {first}" if first else "the whole cluster"
        missing = Skipped(kind.resource, f"the verb list in {place} is missing ({error.message})")
    if first or not (kind.namespaced and namespace):
        return [], [missing]
    try:
        served, found = await list_newest(client, kind, namespace, selector)
    except (Forbidden, NotFound):
        return [], [missing]
    only = replace(missing, why=f"only those of namespace {namespace} could be read")
    return list(listed_documents(served, found)), [only]


MAY_BE_MISSING = ("DeviceTaintRule", "PodGroup", "Workload")


def tell_gaps(seen: Seen) -> None:
    """What is not known goes to stderr: what could not be read, and up to when the ages of a dump count."""
    for one in seen.estate.skipped:
        say(f"not read: {one.what}: {one.why}")
    if not seen.live and seen.now_s is not None:
        from regauge.cli.devices_document import moment

        say(f"{seen.estate.source}: ages are up to {moment(seen.now_s)}, the latest time that it tells.")
