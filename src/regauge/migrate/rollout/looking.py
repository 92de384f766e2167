"""What a rollout looks at: the cluster as its gates need it, and parts of it while something is awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from regauge.base import Where
from regauge.kube import KubeClient, NotFound
from regauge.migrate.plan_gates import Sight
from regauge.model import Document, Kind, NodeReport, Snapshot, view
from regauge.model.core import Node, Pod
from regauge.model.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    STATEFUL_SET,
)
from regauge.model.resource import ResourceClaim, ResourceSlice

LOOKED_AT: tuple[Kind, ...] = (
    NODE,
    POD,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    CRON_JOB,
)

Reports = Callable[[], Awaitable[tuple[NodeReport, ...]]]
"""What the nodes' kubelets tell, as far as somebody can ask them."""


async def no_reports() -> tuple[NodeReport, ...]:
    """Nobody asks the kubelets: identities behind counted resources stay unknown."""
    return ()


class Looking:
    """Reads of one cluster. Kinds of the moved workloads that are not in the list are looked at too."""

    def __init__(self, kube: KubeClient, reports: Reports, more: tuple[Kind, ...] = ()) -> None:
        self._kube = kube
        self._reports = reports
        self._kinds = tuple(dict.fromkeys((*LOOKED_AT, *more)))

    async def sight(self) -> Sight:
        """Everything that gates look at."""
        documents = []
        for kind in self._kinds:
            for item in (await self._kube.list(kind)).items:
                object_ = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
                documents.append(Document(object_, Where(object=kind.plural)))
        version = await self._kube.version()
        return Sight(Snapshot.of(documents), await self._reports(), version.git_version)

    async def node(self, name: str) -> Node | None:
        try:
            return view(await self._kube.get(NODE, name), Node)
        except NotFound:
            return None

    async def pods_on(self, node: str) -> list[Pod]:
        """The pods of a node that have not ended."""
        found = await self._kube.list(POD, field_selector=f"spec.nodeName={node}")
        pods = [view(item, Pod) for item in found.items]
        return [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]

    async def slices_on(self, node: str) -> list[ResourceSlice]:
        found = await self._kube.list(RESOURCE_SLICE, field_selector=f"spec.nodeName={node}")
        return [view(item, ResourceSlice) for item in found.items]

    async def claims(self) -> list[ResourceClaim]:
        return [view(item, ResourceClaim) for item in (await self._kube.list(RESOURCE_CLAIM)).items]
