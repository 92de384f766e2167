"""Namespaces that end: everything in them is deleted, then they go. Source: pkg/controller/namespace of 1.36."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from regauge.cluster.port import ClusterApi, Key
from regauge.kube import NotFound, WatchEvent
from regauge.model import KINDS, Kind, Object
from regauge.model.kinds import NAMESPACE

LOOK_AGAIN_S = 5.0


class NamespaceController:
    """One namespace a key. Keeps nothing."""

    name = "namespace-controller"
    watches = (NAMESPACE,)

    def __init__(self, api: ClusterApi, kinds: Callable[[], Iterable[Kind]] = lambda: KINDS) -> None:
        """`kinds` are all that may be in a namespace at the moment, custom resources too."""
        self._api = api
        self._kinds = kinds

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        return (("", event.object["metadata"]["name"]),)

    def reconcile(self, key: Key) -> float | None:
        namespace = self._api.find(NAMESPACE, key[1])
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return None
        left = sum(self._empty(kind, key[1]) for kind in self._kinds() if kind.namespaced)
        if left:
            return LOOK_AGAIN_S
        self._finish(namespace)
        return None

    def _empty(self, kind: Kind, namespace: str) -> int:
        """Delete all objects of a kind; how many are still there (finalizers, pods with a grace period)."""
        for object_ in self._api.list(kind, namespace):
            if object_["metadata"].get("deletionTimestamp"):
                continue
            try:
                self._api.delete(kind, object_["metadata"]["name"], namespace, propagation_policy="Background")
            except NotFound:
                continue
        return len(self._api.list(kind, namespace))

    def _finish(self, namespace: Object) -> None:
        spec = namespace.get("spec") or {}
        finalizers = [name for name in spec.get("finalizers") or [] if name != "kubernetes"]
        if finalizers != (spec.get("finalizers") or []):
            changed = {**namespace, "spec": {**spec, "finalizers": finalizers}}
            self._api.update(NAMESPACE, changed, subresource="finalize")
