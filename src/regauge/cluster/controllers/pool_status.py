"""Answers ResourcePoolStatusRequests: how many devices of which pools are there, and how many of them allocated.

Each request is answered once. Source: pkg/controller/resourcepoolstatusrequest of 1.36; KEP-5677.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regauge.base import Clock, TransientError
from regauge.cluster.deletion import seconds_of, timestamp
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import RESOURCE_CLAIM, RESOURCE_POOL_STATUS_REQUEST, RESOURCE_SLICE

MOST_TRIES = 5
DEFAULT_LIMIT = 100
ANSWERED_TTL_S = 3600.0
PENDING_TTL_S = 86_400.0


class PoolsIncomplete(TransientError):
    """A pool that the request asks for is being published; tried again."""


@dataclass(slots=True)
class PoolStatusController:
    """Keys are ("", name). Requests are deleted an hour after their answer, or a day after they were made."""

    api: ClusterApi
    clock: Clock
    _tries: dict[str, int] = field(default_factory=dict)

    name = "resourcepoolstatusrequest-controller"
    watches = (RESOURCE_POOL_STATUS_REQUEST,)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        if event.type == "DELETED":
            self._tries.pop(event.object["metadata"]["uid"], None)
            return ()
        return (("", event.object["metadata"]["name"]),)

    def reconcile(self, key: Key) -> float | None:
        request = self.api.find(RESOURCE_POOL_STATUS_REQUEST, key[1])
        if request is None:
            return None
        left_s = self._left_s(request)
        if left_s <= 0:
            self.api.delete(RESOURCE_POOL_STATUS_REQUEST, key[1], uid=request["metadata"]["uid"])
            return None
        if request.get("status"):
            return left_s
        pools = self._pools(request)
        if any("validationError" in pool for pool in pools[: _limit(request)]):
            return self._again(request, left_s)
        body = {**request, "status": self._answer(request, pools)}
        self.api.update(RESOURCE_POOL_STATUS_REQUEST, body, subresource="status")
        return ANSWERED_TTL_S

    def _again(self, request: Object, left_s: float) -> float:
        """An incomplete pool may become complete; after some tries the request is left alone, without an answer."""
        uid = request["metadata"]["uid"]
        self._tries[uid] = self._tries.get(uid, 0) + 1
        if self._tries[uid] <= MOST_TRIES:
            raise PoolsIncomplete("incomplete pools detected, requeueing")
        return left_s

    def _left_s(self, request: Object) -> float:
        now_s = self.clock.now_s()
        for condition in (request.get("status") or {}).get("conditions") or ():
            if condition["type"] in ("Complete", "Failed"):
                return seconds_of(condition["lastTransitionTime"]) + ANSWERED_TTL_S - now_s
        ttl_s = ANSWERED_TTL_S if request.get("status") else PENDING_TTL_S
        return seconds_of(request["metadata"]["creationTimestamp"]) + ttl_s - now_s

    def _answer(self, request: Object, pools: list[Object]) -> Object:
        shown = pools[: _limit(request)]
        condition = {
            "type": "Complete",
            "status": "True",
            "lastTransitionTime": timestamp(self.clock.now_s()),
            "reason": "CalculationComplete",
            "message": f"Calculated status for {len(shown)} pools",
        }
        told = {"pools": shown} if shown else {}
        return {"poolCount": len(pools), **told, "conditions": [condition]}

    def _pools(self, request: Object) -> list[Object]:
        """The pools that are asked for, by name, as far as they are complete with their counts."""
        driver, wanted = request["spec"]["driver"], request["spec"].get("poolName")
        found: dict[str, list[Object]] = {}
        for slice_ in self.api.list(RESOURCE_SLICE):
            spec = slice_["spec"]
            if spec["driver"] == driver and wanted in (None, "", spec["pool"]["name"]):
                found.setdefault(spec["pool"]["name"], []).append(spec)
        allocated = self._allocated(driver)
        return [_pool(driver, name, specs, allocated) for name, specs in sorted(found.items())]

    def _allocated(self, driver: str) -> dict[str, int]:
        """How many results name each pool; uses for administration count, too."""
        counts: dict[str, int] = {}
        for claim in self.api.list(RESOURCE_CLAIM):
            devices = (((claim.get("status") or {}).get("allocation") or {}).get("devices")) or {}
            for result in devices.get("results") or ():
                if result["driver"] == driver:
                    counts[result["pool"]] = counts.get(result["pool"], 0) + 1
        return counts


def _limit(request: Object) -> int:
    limit = request["spec"].get("limit")
    return DEFAULT_LIMIT if limit is None else int(limit)


def _pool(driver: str, name: str, specs: list[Object], allocated: Mapping[str, int]) -> Object:
    newest = max(spec["pool"].get("generation", 0) for spec in specs)
    current = [spec for spec in specs if spec["pool"].get("generation", 0) == newest]
    pool: Object = {"driver": driver, "poolName": name, "generation": newest}
    nodes = {spec.get("nodeName") for spec in current}
    if len(nodes) == 1 and None not in nodes:
        pool["nodeName"] = nodes.pop()
    expected = current[0]["pool"].get("resourceSliceCount", 0)
    if len(current) < expected:
        seen = f"observed {len(current)}/{expected} slices at generation {newest}"
        pool["validationError"] = f"pool {driver}/{name} is incomplete: {seen}"[:256]
        return pool
    total, used = sum(len(spec.get("devices") or ()) for spec in current), allocated.get(name, 0)
    return {
        **pool,
        "resourceSliceCount": len(current),
        "totalDevices": total,
        "allocatedDevices": used,
        "availableDevices": max(0, total - used),
        "unavailableDevices": 0,
    }
