"""Eviction of pods from nodes with NoExecute taints that they do not tolerate, or no longer.

Source: pkg/controller/tainteviction of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from regauge.base import Clock
from regauge.cluster.controllers.evicting import disrupt, evict
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import WatchEvent
from regauge.model import Kind, Object, view
from regauge.model.core import Node, Pod, Taint
from regauge.model.kinds import NODE, POD
from regauge.scheduler import tolerates

NO_EXECUTE = "NoExecute"


@dataclass(slots=True)
class NodeTaintEviction:
    """One pod a key. What it keeps, since when a pod's time runs, begins anew when it is started again, as upstream."""

    api: ClusterApi
    clock: Clock
    _taints: dict[str, tuple[Taint, ...]] = field(default_factory=dict)
    _pods: dict[str, dict[Key, str]] = field(default_factory=dict)
    _placed: dict[Key, str] = field(default_factory=dict)
    _since_s: dict[str, float] = field(default_factory=dict)

    name = "taint-eviction-controller"
    watches = (NODE, POD)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        if kind == NODE:
            return self._node_keys(event.object, event.type == "DELETED")
        return self._pod_keys(event.object, event.type == "DELETED")

    def _node_keys(self, object_: Object, gone: bool) -> Iterable[Key]:
        name = object_["metadata"]["name"]
        old = self._taints.pop(name, ())
        listed = () if gone or not (object_.get("spec") or {}).get("taints") else view(object_, Node).spec.taints
        new = tuple(taint for taint in listed if taint.effect == NO_EXECUTE)
        if new:
            self._taints[name] = new
        return tuple(self._pods.get(name, ())) if new != old else ()

    def _pod_keys(self, pod: Object, gone: bool) -> Iterable[Key]:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        node = pod["spec"].get("nodeName", "")
        if gone:
            self._pods.get(node, {}).pop(key, None)
            self._placed.pop(key, None)
            return (key,) if self._since_s.get(pod["metadata"]["uid"]) is not None else ()
        if not node:
            return ()
        self._placed[key] = node
        self._pods.setdefault(node, {})[key] = pod["metadata"]["uid"]
        return (key,) if node in self._taints else ()

    def reconcile(self, key: Key) -> float | None:
        object_ = self.api.find(POD, key[1], key[0])
        if object_ is None:
            return None
        uid, node = object_["metadata"]["uid"], object_["spec"].get("nodeName", "")
        taints = self._taints.get(node, ())
        if object_["metadata"].get("deletionTimestamp") or not (taints or uid in self._since_s):
            self._since_s.pop(uid, None)
            return None
        wait_s = _tolerated_s(view(object_, Pod), taints)
        if wait_s is None:
            if self._since_s.pop(uid, None) is not None:
                self._event(object_, "Cancelling deletion of")
            return None
        began_s = self._since_s.setdefault(uid, self.clock.now_s())
        left_s = began_s + wait_s - self.clock.now_s()
        if left_s > 0:
            return left_s
        self._event(object_, "Marking for deletion")
        message = "Taint manager: deleting due to NoExecute taint"
        disrupt(self.api, object_, "DeletionByTaintManager", message, self.clock.now_s(), {})
        evict(self.api, object_)
        self._since_s.pop(uid, None)
        return None

    def _event(self, pod: Object, doing: str) -> None:
        title = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self.api.event(pod, "Normal", "TaintManagerEviction", f"{doing} Pod {title}")


def _tolerated_s(pod: Pod, taints: tuple[Taint, ...]) -> float | None:
    """For how long the pod tolerates the taints: 0 when it does not, None for ever."""
    limits: list[int] = []
    for taint in taints:
        matching = next((one for one in pod.spec.tolerations if tolerates(one, taint)), None)
        if matching is None:
            return 0.0
        if matching.toleration_seconds is not None:
            limits.append(max(0, matching.toleration_seconds))
    return float(min(limits)) if limits else None
