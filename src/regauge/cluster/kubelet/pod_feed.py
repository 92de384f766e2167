"""Changes of pods by node: one subscription for all nodes of a process, so that thousands of them cost no more than one."""

from __future__ import annotations

from collections.abc import Callable

from regauge.cluster.port import ClusterApi
from regauge.kube import WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import POD

PodListener = Callable[[WatchEvent], None]


class PodFeed:
    """The pods of a cluster, handed to the nodes they are bound to."""

    def __init__(self, api: ClusterApi) -> None:
        self._pods: dict[str, dict[str, Object]] = {}
        self._listeners: dict[str, list[PodListener]] = {}
        self._end = api.subscribe([POD], self._heard)

    def subscribe(self, node: str, listener: PodListener) -> Callable[[], None]:
        """The pods that are bound to `node` as ADDED, then every change of one. Returns what ends that."""
        for object_ in self._pods.get(node, {}).values():
            listener(WatchEvent("ADDED", object_))
        self._listeners.setdefault(node, []).append(listener)
        return lambda: self._listeners[node].remove(listener)

    def close(self) -> None:
        """Hear no more."""
        self._end()

    def _heard(self, kind: Kind, event: WatchEvent) -> None:
        node = event.object.get("spec", {}).get("nodeName")
        if not node:
            return
        pods = self._pods.setdefault(node, {})
        uid = event.object["metadata"]["uid"]
        if event.type == "DELETED":
            pods.pop(uid, None)
        else:
            pods[uid] = event.object
        for listener in tuple(self._listeners.get(node, ())):
            listener(event)
