"""The status of a Deployment: counts, Available, Progressing with its deadline. Source: deployment/{sync,progress}.go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.deletion import seconds_of, timestamp
from regauge.cluster.port import ClusterApi
from regauge.model import Object
from regauge.model.kinds import DEPLOYMENT

_NO_DEADLINE = 2147483647


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a rollout may go beyond and below the wanted number of pods."""

    replicas: int
    surge: int
    unavailable: int


def limits_of(deployment: Object) -> Limits:
    """maxSurge rounds up, maxUnavailable down; when both are nothing, one pod may be away."""
    spec = deployment["spec"]
    replicas = spec.get("replicas", 1)
    strategy = spec.get("strategy") or {}
    if strategy.get("type") != "RollingUpdate" or not replicas:
        return Limits(replicas, 0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = common.scaled(rolling.get("maxSurge"), replicas, up=True)
    unavailable = min(common.scaled(rolling.get("maxUnavailable"), replicas, up=False), replicas)
    return Limits(replicas, surge, unavailable if surge or unavailable else 1)


class DeploymentStatus:
    """Writes the status of Deployments."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def tell(self, deployment: Object, new: Object | None, old: list[Object]) -> float | None:
        """Bring the status up to date. Seconds until the deadline of the rollout, None when none runs."""
        sets = [*old, *([new] if new else [])]
        before = deployment.get("status") or {}
        available = _sum(sets, "availableReplicas")
        wanted = sum(int(item["spec"].get("replicas", 1)) for item in sets)
        status: dict[str, Any] = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "replicas": _sum(sets, "replicas"),
            "updatedReplicas": _sum([new] if new else [], "replicas"),
            "readyReplicas": _sum(sets, "readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(0, wanted - available),
            "terminatingReplicas": _sum(sets, "terminatingReplicas"),
            "collisionCount": before.get("collisionCount"),
            "conditions": list(before.get("conditions") or []),
        }
        status["conditions"] = common.with_condition(status["conditions"], self._available(deployment, available))
        deadline = deployment["spec"].get("progressDeadlineSeconds")
        if deadline in (None, _NO_DEADLINE):
            status["conditions"] = common.without_condition(status["conditions"], "Progressing")
        else:
            status["conditions"] = self._progress(deployment, status, new)
        status["conditions"] = _failures(status["conditions"], sets)
        common.write_status(self._api, DEPLOYMENT, deployment, common.without_zero(status, "terminatingReplicas"))
        return self._deadline_in_s(status["conditions"], deadline)

    def _condition(self, type_: str, status: bool, reason: str, message: str) -> dict[str, Any]:
        now = timestamp(self._clock.now_s())
        return {
            "type": type_,
            "status": str(status),
            "lastUpdateTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    def _available(self, deployment: Object, available: int) -> dict[str, Any]:
        if available >= deployment["spec"].get("replicas", 1) - limits_of(deployment).unavailable:
            text = "Deployment has minimum availability."
            return self._condition("Available", True, "MinimumReplicasAvailable", text)
        text = "Deployment does not have minimum availability."
        return self._condition("Available", False, "MinimumReplicasUnavailable", text)

    def _progress(self, deployment: Object, status: dict[str, Any], new: Object | None) -> list[dict[str, Any]]:
        conditions: list[dict[str, Any]] = status["conditions"]
        present = common.condition(deployment, "Progressing")
        if (
            status["replicas"] == status["updatedReplicas"]
            and present
            and present["reason"] == "NewReplicaSetAvailable"
        ):
            return conditions
        name = f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
        if _complete(deployment, status):
            text = f"{name} has successfully progressed."
            told = self._condition("Progressing", True, "NewReplicaSetAvailable", text)
            return common.with_condition(conditions, told)
        if _moved(deployment.get("status") or {}, status):
            told = self._condition("Progressing", True, "ReplicaSetUpdated", f"{name} is progressing.")
            if present and present.get("status") == "True":
                told["lastTransitionTime"] = present["lastTransitionTime"]
            return [*common.without_condition(conditions, "Progressing"), told]
        if self._timed_out(deployment, present):
            text = f"{name} has timed out progressing."
            told = self._condition("Progressing", False, "ProgressDeadlineExceeded", text)
            return common.with_condition(conditions, told)
        return conditions

    def _timed_out(self, deployment: Object, present: Any) -> bool:
        if not present or present["reason"] == "NewReplicaSetAvailable":
            return False
        if present["reason"] == "ProgressDeadlineExceeded":
            return True
        since_s = seconds_of(present["lastUpdateTime"])
        return bool(since_s + deployment["spec"]["progressDeadlineSeconds"] < self._clock.now_s())

    def _deadline_in_s(self, conditions: list[dict[str, Any]], deadline: int | None) -> float | None:
        present = next((item for item in conditions if item["type"] == "Progressing"), None)
        if deadline in (None, _NO_DEADLINE) or present is None:
            return None
        if present["reason"] in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
            return None
        return max(0.0, seconds_of(present["lastUpdateTime"]) + (deadline or 0) - self._clock.now_s()) + 1.0


def _sum(sets: list[Object], field: str) -> int:
    return sum(int((item.get("status") or {}).get(field) or 0) for item in sets)


def _complete(deployment: Object, status: dict[str, Any]) -> bool:
    counts = {status["updatedReplicas"], status["replicas"], status["availableReplicas"]}
    return counts == {deployment["spec"].get("replicas", 1)}


def _moved(before: dict[str, Any], now: dict[str, Any]) -> bool:
    def old_pods(status: dict[str, Any]) -> int:
        return int(status.get("replicas") or 0) - int(status.get("updatedReplicas") or 0)

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return any(now[field] > (before.get(field) or 0) for field in grown) or old_pods(now) < old_pods(before)


def _failures(conditions: list[dict[str, Any]], sets: list[Object]) -> list[dict[str, Any]]:
    """A ReplicaSet that cannot make its pods is told by its Deployment too; the newest one's words."""
    for set_ in reversed(sets):
        failure = common.condition(set_, "ReplicaFailure")
        if failure is not None:
            told = {**failure, "lastUpdateTime": failure["lastTransitionTime"]}
            return common.with_condition(conditions, told)
    return common.without_condition(conditions, "ReplicaFailure")
