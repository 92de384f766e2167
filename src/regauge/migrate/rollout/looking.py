"""What a rollout looks at: the cluster as its gates need it, and parts of it while something is awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from regauge.kube import KubeClient, NotFound, read_snapshot
from regauge.migrate.plan_gates import Sight
from regauge.model import Kind, NodeReport, view
from regauge.model.core import ENDED_PHASES, Node, Pod
from regauge.model.kinds import DEVICE_KINDS, NODE, POD, RESOURCE_CLAIM, RESOURCE_QUOTA, RESOURCE_SLICE, WORKLOAD_KINDS
from regauge.model.resource import ResourceClaim, ResourceSlice

LOOKED_AT: tuple[Kind, ...] = (NODE, POD, *DEVICE_KINDS, RESOURCE_QUOTA, *WORKLOAD_KINDS)

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
        snapshot = await read_snapshot(self._kube, self._kinds)
        version = await self._kube.version()
        return Sight(snapshot, await self._reports(), version.git_version)

    async def node(self, name: str) -> Node | None:
        try:
            return view(await self._kube.get(NODE, name), Node)
        except NotFound:
            return None

    async def pods_on(self, node: str) -> list[Pod]:
        """The pods of a node that have not ended."""
        found = await self._kube.list(POD, field_selector=f"spec.nodeName={node}")
        pods = [view(item, Pod) for item in found.items]
        return [pod for pod in pods if pod.status.phase not in ENDED_PHASES]

    async def slices_on(self, node: str) -> list[ResourceSlice]:
        found = await self._kube.list(RESOURCE_SLICE, field_selector=f"spec.nodeName={node}")
        return [view(item, ResourceSlice) for item in found.items]

    async def claims(self) -> list[ResourceClaim]:
        return [view(item, ResourceClaim) for item in (await self._kube.list(RESOURCE_CLAIM)).items]
