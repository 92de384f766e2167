"""ReplicaSets: as many pods of a template as are asked for. Source: pkg/controller/replicaset of 1.36."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.controllers.common import WorkloadApi
from regauge.cluster.deletion import timestamp
from regauge.cluster.port import Key
from regauge.kube import ApiError, WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import POD, REPLICA_SET

BURST = 500


class ReplicaSetController:
    """One ReplicaSet a key. Keeps nothing."""

    name = "replicaset-controller"
    watches = (REPLICA_SET, POD)

    def __init__(self, api: WorkloadApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        return common.keys_of(REPLICA_SET, kind, event)

    def reconcile(self, key: Key) -> float | None:
        set_ = self._api.find(REPLICA_SET, key[1], key[0])
        if set_ is None:
            return None
        failure: ApiError | None = None
        pods = [pod for pod in common.owned_pods(self._api, set_) if not common.is_finished(pod)]
        if not common.is_terminating(set_):
            try:
                self._scale(set_, [pod for pod in pods if not common.is_terminating(pod)])
            except ApiError as error:
                failure = error
        # Counted before the pods that were just made: upstream's cache is as far at this point.
        again_s = self._tell(set_, pods, failure)
        if failure is not None:
            raise failure
        return again_s

    def _scale(self, set_: Object, active: list[Object]) -> None:
        missing = set_["spec"].get("replicas", 1) - len(active)
        for _ in range(min(missing, BURST)):
            pod = common.pod_from(set_["spec"]["template"], REPLICA_SET, set_)
            pod["metadata"]["generateName"] = f"{set_['metadata']['name']}-"
            common.create_pod(self._api, set_, pod)
        if missing < 0:
            for pod in common.first_to_go(active)[:-missing]:
                common.delete_pod(self._api, set_, pod)

    def _tell(self, set_: Object, pods: list[Object], failure: ApiError | None) -> float | None:
        now_s = self._clock.now_s()
        active = [pod for pod in pods if not common.is_terminating(pod)]
        delays = [common.available_in_s(pod, set_["spec"].get("minReadySeconds") or 0, now_s) for pod in active]
        wanted = (set_["spec"]["template"].get("metadata") or {}).get("labels") or {}
        labelled = [pod for pod in active if wanted.items() <= (pod["metadata"].get("labels") or {}).items()]
        status: dict[str, Any] = {
            "replicas": len(active),
            "fullyLabeledReplicas": len(labelled),
            "readyReplicas": sum(delay is not None for delay in delays),
            "availableReplicas": sum(delay == 0 for delay in delays),
            "terminatingReplicas": len(pods) - len(active),
            "observedGeneration": set_["metadata"].get("generation", 0),
            "conditions": self._conditions(set_, failure, len(active)),
        }
        common.write_status(
            self._api, REPLICA_SET, set_, common.without_zero(status, "replicas", "terminatingReplicas")
        )
        return common.earliest(*(delay for delay in delays if delay))

    def _conditions(self, set_: Object, failure: ApiError | None, have: int) -> list[dict[str, Any]]:
        conditions = (set_.get("status") or {}).get("conditions") or []
        if failure is None:
            return common.without_condition(conditions, "ReplicaFailure")
        create = set_["spec"].get("replicas", 1) > have
        told = {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": timestamp(self._clock.now_s()),
            "reason": "FailedCreate" if create else "FailedDelete",
            "message": failure.message,
        }
        return common.with_condition(conditions, told)
