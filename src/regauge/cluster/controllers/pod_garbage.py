"""Collecting pods that nobody ends: those of nodes that are gone, and those that were deleted before they had a node. Source:
pkg/controller/podgc of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.controllers.evicting import disrupt, evict
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import NODE, POD

ROUND: Key = ("", "")
PERIOD_S = 20.0
QUARANTINE_S = 40.0
MOST_FINISHED = 12_500
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@dataclass(slots=True)
class PodGarbageCollector:
    """One key: a round over all pods every 20 s. A node must be missing for 40 s before its pods are given up."""

    api: ClusterApi
    clock: Clock
    _missing_s: dict[str, float] = field(default_factory=dict)
    _begun: bool = False

    name = "pod-garbage-collector"
    watches = (POD,)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        first, self._begun = not self._begun, True
        return (ROUND,) if first else ()

    def reconcile(self, key: Key) -> float | None:
        pods, now_s = self.api.list(POD), self.clock.now_s()
        nodes = {node["metadata"]["name"]: node for node in self.api.list(NODE)}
        placed = {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        missing = placed - nodes.keys()
        self._missing_s = {name: self._missing_s.get(name, now_s) for name in sorted(missing)}
        given_up = {name for name, since_s in self._missing_s.items() if now_s - since_s >= QUARANTINE_S}
        for pod in pods:
            self._look(pod, given_up, nodes)
        self._finished(pods)
        return PERIOD_S

    def _look(self, pod: Object, given_up: set[str], nodes: dict[str, Object]) -> None:
        node = pod["spec"].get("nodeName", "")
        if node in given_up:
            self._fail(pod, "DeletionByPodGC", "PodGC: node no longer exists")
        elif common.is_terminating(pod) and (not node or _out_of_service(nodes.get(node))):
            self._fail(pod, "", "")

    def _fail(self, pod: Object, reason: str, message: str) -> None:
        if not common.is_finished(pod):
            if reason:
                disrupt(self.api, pod, reason, message, self.clock.now_s(), {"phase": "Failed"})
            else:
                name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
                body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"phase": "Failed"}}
                self.api.patch(POD, name, body, namespace, subresource="status")
        evict(self.api, pod, 0)

    def _finished(self, pods: tuple[Object, ...]) -> None:
        """The oldest of too many pods that have ended."""
        ended = [pod for pod in pods if common.is_finished(pod) and not common.is_terminating(pod)]
        ended.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
        for pod in ended[: max(0, len(ended) - MOST_FINISHED)]:
            evict(self.api, pod, 0)


def _out_of_service(node: Object | None) -> bool:
    """Whether an operator said that a node which is not ready will not come back as it was."""
    if node is None or (common.condition(node, "Ready") or {}).get("status") == "True":
        return False
    return any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ())
