"""An estate from a live cluster, by reading only. What may not be read is named with the missing permission."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files

import msgspec

from regauge.collect.estate import Estate, Skipped
from regauge.kube import Forbidden, KubeClient, NotFound, ObjectList, listed_documents
from regauge.model import Document, Kind, Snapshot
from regauge.model.kinds import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CORE_EVENT,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    JOB,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    PRIORITY_CLASS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    ROLE,
    ROLE_BINDING,
    RUNTIME_CLASS,
    SERVICE,
    STATEFUL_SET,
    WORKLOAD,
)

LIVE_KINDS: tuple[Kind, ...] = (
    NODE,
    NAMESPACE,
    POD,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    CRON_JOB,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    DEVICE_TAINT_RULE,
    RESOURCE_QUOTA,
    LIMIT_RANGE,
    RUNTIME_CLASS,
    PRIORITY_CLASS,
    SERVICE,
    REPLICATION_CONTROLLER,
    POD_DISRUPTION_BUDGET,
    CONFIG_MAP,
)
AUDIT_KINDS: tuple[Kind, ...] = (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, WORKLOAD, POD_GROUP)
"""What an audit looks at besides: who has which rights, and objects that an upgrade may leave behind."""
TOLD_REASONS = (
    "FailedPrepareDynamicResources",
    "FailedResourceClaimCreation",
    "FailedScheduling",
    "UnexpectedAdmissionError",
)
"""The events that tell of devices: the others are not read."""


class _Kind(msgspec.Struct, frozen=True):
    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool


class _Table(msgspec.Struct):
    kinds: tuple[_Kind, ...]


@cache
def operator_kinds() -> tuple[Kind, ...]:
    """Kinds of operators that a move depends on. A cluster that does not serve one of them simply has none."""
    data = files("regauge.collect").joinpath("data/kinds.json").read_bytes()
    table = msgspec.json.decode(data, type=_Table).kinds
    return tuple(
        Kind(item.group, item.versions[0], item.kind, item.plural, item.namespaced, item.versions[1:]) for item in table
    )


async def list_newest(
    client: KubeClient, kind: Kind, namespace: str, field_selector: str = ""
) -> tuple[Kind, ObjectList]:
    """The objects of a kind in the newest version that is served, and that version. Raises `NotFound` when none is."""
    *newer, oldest = (replace(kind, version=version) for version in (kind.version, *kind.others))
    for served in newer:
        with contextlib.suppress(NotFound):
            return served, await client.list(served, namespace, field_selector=field_selector)
    return oldest, await client.list(oldest, namespace, field_selector=field_selector)


async def collect_live(
    client: KubeClient,
    namespace: str = "",
    progress: Callable[[str], None] = lambda _: None,
    more: tuple[Kind, ...] = (),
) -> Estate:
    """Everything the assessment looks at, one list per kind; `namespace` limits the namespaced kinds ("" is all).

    `more` are kinds to read beside them: one that is not served is simply not there; of events only `TOLD_REASONS` are read.

    Only `list` is used. A kind that is forbidden or not served is left out and told in `Estate.skipped`. Raises
    `ServerUnavailable` when the cluster does not answer.
    """
    version = await client.version()
    documents: list[Document] = []
    skipped: list[Skipped] = []
    optional = (*operator_kinds(), *(kind for kind in more if kind is not CORE_EVENT))
    for listed in (*LIVE_KINDS, *optional):
        kind = listed
        progress(kind.plural)
        scope = namespace if kind.namespaced else ""
        try:
            kind, found = await list_newest(client, kind, scope)
        except Forbidden as error:
            where = f" in namespace {scope}" if scope else " in the whole cluster"
            skipped.append(
                Skipped(kind.resource, f"the verb list on {kind.resource}{where} is missing ({error.message})")
            )
            continue
        except NotFound:
            if listed not in optional:
                skipped.append(Skipped(kind.resource, f"no version of {kind.kind} is served by this cluster"))
            continue
        documents += listed_documents(kind, found)
    documents += await _events(client, namespace, skipped) if CORE_EVENT in more else []
    return Estate(
        snapshot=Snapshot.of(documents),
        source="the current context",
        git_version=version.git_version,
        skipped=tuple(skipped),
        whole=not namespace,
    )


async def _events(client: KubeClient, namespace: str, skipped: list[Skipped]) -> list[Document]:
    """What was told of devices that could not be had. The server picks them out: a cluster has many others."""
    found: list[Document] = []
    try:
        for reason in TOLD_REASONS:
            listed = await client.list(CORE_EVENT, namespace, field_selector=f"reason={reason}")
            found += listed_documents(CORE_EVENT, listed)
    except Forbidden as error:
        where = f" in namespace {namespace}" if namespace else " in the whole cluster"
        skipped.append(Skipped("events", f"the verb list on events{where} is missing ({error.message})"))
    return found
