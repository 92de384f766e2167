"""The status of disruption budgets: how many pods may go now. Source: pkg/controller/disruption of 1.36."""

from __future__ import annotations

from collections.abc import Iterable

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.deletion import seconds_of, timestamp
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import WatchEvent
from regauge.model import Kind, LabelSelector, Object, find_kind, matches_labels, view
from regauge.model.kinds import POD, POD_DISRUPTION_BUDGET

DELETION_TIMEOUT_S = 120.0


class DisruptionController:
    """One budget a key. Keeps nothing."""

    name = "disruption-controller"
    watches = (POD_DISRUPTION_BUDGET, POD)

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        if kind == POD_DISRUPTION_BUDGET:
            return ((metadata["namespace"], metadata["name"]),)
        budgets = self._api.list(POD_DISRUPTION_BUDGET, metadata["namespace"])
        return [(metadata["namespace"], budget["metadata"]["name"]) for budget in budgets]

    def reconcile(self, key: Key) -> float | None:
        budget = self._api.find(POD_DISRUPTION_BUDGET, key[1], key[0])
        if budget is None:
            return None
        selector = view((budget.get("spec") or {}).get("selector") or {}, LabelSelector)
        pods = [
            pod
            for pod in self._api.list(POD, key[0])
            if not common.is_finished(pod) and matches_labels(selector, pod["metadata"].get("labels") or {})
        ]
        disrupted = self._disrupted(budget, pods)
        healthy = sum(
            common.is_ready(pod) and not common.is_terminating(pod) and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        expected, desired = self._expected(budget, pods)
        allowed = max(0, healthy - desired) if expected else 0
        status = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            **({"disruptedPods": disrupted} if disrupted else {}),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": self._conditions(budget, allowed),
        }
        common.write_status(self._api, POD_DISRUPTION_BUDGET, budget, status)
        return DELETION_TIMEOUT_S if disrupted else None

    def _disrupted(self, budget: Object, pods: list[Object]) -> dict[str, str]:
        """Evicted pods whose deletion is not seen yet; after two minutes an eviction counts as come to nothing."""
        told = (budget.get("status") or {}).get("disruptedPods") or {}
        waiting = {pod["metadata"]["name"] for pod in pods if not common.is_terminating(pod)}
        now_s = self._clock.now_s()
        fresh = {name: at for name, at in told.items() if seconds_of(at) + DELETION_TIMEOUT_S > now_s}
        return {name: at for name, at in fresh.items() if name in waiting}

    def _expected(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """How many pods there should be, and how many of them must stay healthy."""
        spec = budget.get("spec") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is not None:
            expected = self._scale(pods)
            return expected, max(0, expected - common.scaled(most, expected, up=True))
        if isinstance(least, str):
            expected = self._scale(pods)
            return expected, common.scaled(least, expected, up=True)
        return len(pods), int(least or 0)

    def _scale(self, pods: list[Object]) -> int:
        """The sum of the replicas of all controllers of the pods; a ReplicaSet's Deployment speaks for it."""
        counts: dict[str, int] = {}
        for pod in pods:
            owner = self._owner(pod)
            above = self._owner(owner) if owner is not None else None
            top = above or owner
            if top is not None:
                counts[top["metadata"]["uid"]] = int((top.get("spec") or {}).get("replicas") or 0)
        return sum(counts.values())

    def _owner(self, object_: Object) -> Object | None:
        reference = common.controller_of(object_)
        kind = find_kind(reference.get("apiVersion", ""), reference.get("kind", "")) if reference else None
        if reference is None or kind is None:
            return None
        return self._api.find(kind, reference["name"], object_["metadata"]["namespace"])

    def _conditions(self, budget: Object, allowed: int) -> list[dict[str, object]]:
        told = {
            "type": "DisruptionAllowed",
            "status": str(allowed > 0),
            "observedGeneration": budget["metadata"].get("generation", 0),
            "lastTransitionTime": timestamp(self._clock.now_s()),
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
        }
        return list(common.with_condition((budget.get("status") or {}).get("conditions") or [], told))
