"""Every namespace has a service account named default. Source: pkg/controller/serviceaccount of 1.36."""

from __future__ import annotations

from collections.abc import Iterable

from regauge.cluster.port import ClusterApi, Key
from regauge.kube import AlreadyExists, WatchEvent
from regauge.model import Kind
from regauge.model.kinds import NAMESPACE, SERVICE_ACCOUNT

DEFAULT = "default"


class ServiceAccountController:
    """One namespace a key. Keeps nothing."""

    name = "serviceaccount-controller"
    watches = (NAMESPACE, SERVICE_ACCOUNT)

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        if kind == NAMESPACE:
            return (("", metadata["name"]),)
        gone = metadata["name"] == DEFAULT and event.type == "DELETED"
        return (("", metadata["namespace"]),) if gone else ()

    def reconcile(self, key: Key) -> float | None:
        namespace = self._api.find(NAMESPACE, key[1])
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        if self._api.find(SERVICE_ACCOUNT, DEFAULT, key[1]) is None:
            try:
                self._api.create(SERVICE_ACCOUNT, {"metadata": {"name": DEFAULT}}, key[1])
            except AlreadyExists:
                return None
        return None
