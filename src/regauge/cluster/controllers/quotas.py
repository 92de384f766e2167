"""The status of quotas: what is allowed and what is used. Source: pkg/controller/resourcequota of 1.36."""

from __future__ import annotations

from collections.abc import Iterable

from regauge.cluster.admission.quota import used_by
from regauge.cluster.controllers.common import write_status
from regauge.cluster.port import ClusterApi, Key
from regauge.cluster.store import Store
from regauge.kube import WatchEvent
from regauge.model import Kind
from regauge.model.kinds import POD, RESOURCE_CLAIM, RESOURCE_QUOTA


class QuotaController:
    """One quota a key. Counts from the store what its admission counts."""

    name = "resourcequota-controller"
    watches = (RESOURCE_QUOTA, POD, RESOURCE_CLAIM)

    def __init__(self, api: ClusterApi, store: Store) -> None:
        self._api = api
        self._store = store

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        namespace = metadata.get("namespace", "")
        if kind == RESOURCE_QUOTA:
            return ((namespace, metadata["name"]),)
        return [(namespace, quota["metadata"]["name"]) for quota in self._api.list(RESOURCE_QUOTA, namespace)]

    def reconcile(self, key: Key) -> float | None:
        quota = self._api.find(RESOURCE_QUOTA, key[1], key[0])
        if quota is None:
            return None
        hard = (quota.get("spec") or {}).get("hard") or {}
        used = {name: str(amount) for name, amount in used_by(self._store, quota).items()}
        write_status(self._api, RESOURCE_QUOTA, quota, {"hard": dict(hard), "used": used} if hard else {})
        return None
