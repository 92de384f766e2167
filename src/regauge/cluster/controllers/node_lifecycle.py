"""Nodes that do not report: their conditions become Unknown, they are tainted, their pods are told. Source:
pkg/controller/nodelifecycle of 1.36.

NoSchedule taints follow the conditions at once. NoExecute taints come at the next round, a node every ten seconds, and never
while all nodes of all zones are unwell, because then it is more likely that the control plane is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.deletion import timestamp
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import Conflict, WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import LEASE, NODE, POD

MONITOR: Key = ("", "")
MONITOR_PERIOD_S = 5.0
GRACE_S = 50.0
STARTUP_GRACE_S = 60.0
EVICTION_PERIOD_S = 10.0
UNHEALTHY_SHARE = 0.55
SMALL_ZONE = 50
LEASES = "kube-node-lease"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OWN = frozenset({NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})
_ZONE_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


@dataclass(slots=True)
class _Health:
    """When a node was last heard of, and by what."""

    heard_s: float
    heartbeat: str
    renewed: str


@dataclass(slots=True)
class NodeLifecycle:
    """The key ("", "") is the round over all nodes, any other one node. Without memory of what it saw before, a node is as
    if it had been heard of just now.
    """

    api: ClusterApi
    clock: Clock
    recorder: ClusterApi
    grace_s: float = GRACE_S
    _health: dict[str, _Health] = field(default_factory=dict)
    _known: dict[str, Object] = field(default_factory=dict)
    _tainted_s: dict[str, float] = field(default_factory=dict)

    name = "node-controller"
    watches = (NODE,)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        name = event.object["metadata"]["name"]
        if event.type == "DELETED":
            self._known.pop(name, None)
            self._health.pop(name, None)
            return (("", name),)
        first = not self._known
        self._known[name] = event.object
        return (MONITOR, ("", name)) if first else (("", name),)

    def reconcile(self, key: Key) -> float | None:
        if key == MONITOR:
            for name in sorted(self._known):
                self._monitor(name)
            self._evict_round()
            return MONITOR_PERIOD_S if self._known else None
        node = self.api.find(NODE, key[1])
        if node is not None:
            self._no_schedule(node)
        return None

    # -- heartbeats

    def _monitor(self, name: str) -> None:
        node = self.api.find(NODE, name)
        if node is None:
            return
        now_s, ready = self.clock.now_s(), common.condition(node, "Ready")
        lease = self.api.find(LEASE, name, LEASES)
        renewed = str(((lease or {}).get("spec") or {}).get("renewTime") or "")
        heartbeat = str((ready or {}).get("lastHeartbeatTime") or "")
        health = self._health.get(name)
        if health is None:
            health = self._health[name] = _Health(now_s, heartbeat, renewed)
        if (heartbeat, renewed) != (health.heartbeat, health.renewed):
            health.heard_s, health.heartbeat, health.renewed = now_s, heartbeat, renewed
        grace_s = self.grace_s if ready is not None else max(self.grace_s, STARTUP_GRACE_S)
        if now_s - health.heard_s > grace_s and (ready is None or ready.get("status") != "Unknown"):
            self._lost(node)
        self._pods_not_ready(name)

    def _lost(self, node: Object) -> None:
        now = timestamp(self.clock.now_s())
        conditions = [dict(one) for one in (node.get("status") or {}).get("conditions") or ()]
        for type_ in _REPORTED:
            found = next((one for one in conditions if one.get("type") == type_), None)
            if found is None:
                never = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
                beat = node["metadata"].get("creationTimestamp")
                times = {"lastHeartbeatTime": beat, "lastTransitionTime": now}
                conditions.append({"type": type_, "status": "Unknown", **times, **never})
            elif found.get("status") != "Unknown":
                found.update(
                    status="Unknown",
                    lastTransitionTime=now,
                    reason="NodeStatusUnknown",
                    message="Kubelet stopped posting node status.",
                )
        status = {**(node.get("status") or {}), "conditions": conditions}
        self.api.update(NODE, {**node, "status": status}, subresource="status")
        name = node["metadata"]["name"]
        self.recorder.event(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")

    def _pods_not_ready(self, name: str) -> None:
        """Pods of a node that is not ready are not ready either; tried again at every round."""
        node = self.api.find(NODE, name)
        ready = common.condition(node, "Ready") if node is not None else None
        if ready is None or ready.get("status") == "True" or ready.get("reason") != "NodeStatusUnknown":
            return
        for pod in self.api.list(POD):
            if pod["spec"].get("nodeName") != name or not common.is_ready(pod):
                continue
            now = timestamp(self.clock.now_s())
            told = {"type": "Ready", "status": "False", "lastTransitionTime": now}
            body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [told]}}
            place = pod["metadata"]["namespace"]
            self.api.patch(POD, pod["metadata"]["name"], body, place, patch_type="strategic", subresource="status")
            self.recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")

    # -- taints

    def _no_schedule(self, node: Object) -> None:
        wanted = _wanted(node)
        taints = list((node.get("spec") or {}).get("taints") or ())
        have = {one["key"] for one in taints if one["effect"] == "NoSchedule" and one["key"] in _OWN}
        if have == set(wanted):
            return
        kept = [
            one for one in taints if one["effect"] != "NoSchedule" or one["key"] not in _OWN or one["key"] in wanted
        ]
        now = timestamp(self.clock.now_s())
        added = [{"key": key, "effect": "NoSchedule", "timeAdded": now} for key in wanted if key not in have]
        self._write_taints(node, [*kept, *added])

    def _write_taints(self, node: Object, taints: list[Any]) -> None:
        spec = {key: value for key, value in (node.get("spec") or {}).items() if key != "taints"}
        try:
            self.api.update(NODE, {**node, "spec": {**spec, **({"taints": taints} if taints else {})}})
        except Conflict:
            return  # the change that was quicker brings the node back

    def _evict_round(self) -> None:
        nodes = [node for name in sorted(self._known) if (node := self.api.find(NODE, name)) is not None]
        zones: dict[tuple[str, ...], list[Object]] = {}
        for node in nodes:
            labels = node["metadata"].get("labels") or {}
            zones.setdefault(tuple(labels.get(label, "") for label in _ZONE_LABELS), []).append(node)
        all_down = all(_is_lost(members) for members in zones.values())
        for zone, members in zones.items():
            for node in members:
                effect_key = _execute_key(node)
                if not effect_key or all_down:
                    self._execute(node, "")
                elif self._may_evict("/".join(zone), members, node, effect_key):
                    self._execute(node, effect_key)

    def _may_evict(self, zone: str, members: list[Object], node: Object, key: str) -> bool:
        """Whether another node may be tainted now; one that has the other of the two taints has its turn already."""
        if _execute_taints(node):
            return _execute_taints(node) != [key]
        unwell = sum(1 for one in members if _execute_key(one))
        partial = unwell > 2 and unwell / len(members) >= UNHEALTHY_SHARE
        if partial and len(members) <= SMALL_ZONE:
            return False
        now_s = self.clock.now_s()
        if now_s - self._tainted_s.get(zone, float("-inf")) < EVICTION_PERIOD_S:
            return False
        self._tainted_s[zone] = now_s
        return True

    def _execute(self, node: Object, key: str) -> None:
        """Exactly this NoExecute taint of ours, or none."""
        if _execute_taints(node) == ([key] if key else []):
            return
        taints = [
            one
            for one in (node.get("spec") or {}).get("taints") or ()
            if one["effect"] != "NoExecute" or one["key"] not in (NOT_READY, UNREACHABLE)
        ]
        if key:
            taints.append({"key": key, "effect": "NoExecute", "timeAdded": timestamp(self.clock.now_s())})
        self._write_taints(node, taints)


def _execute_taints(node: Object) -> list[str]:
    return [
        one["key"]
        for one in (node.get("spec") or {}).get("taints") or ()
        if one["effect"] == "NoExecute" and one["key"] in (NOT_READY, UNREACHABLE)
    ]


def _execute_key(node: Object) -> str:
    """The taint for the state of the node, "" when it is ready or has not told."""
    ready: Mapping[str, Any] | None = common.condition(node, "Ready")
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(str((ready or {}).get("status")), "")


def _is_lost(members: list[Object]) -> bool:
    return all(_execute_key(node) for node in members)


def _wanted(node: Object) -> list[str]:
    """The NoSchedule taints that the node's conditions ask for."""
    found = [key] if (key := _execute_key(node)) else []
    for type_, taint in _PRESSURES.items():
        if (common.condition(node, type_) or {}).get("status") == "True":
            found.append(taint)
    return [*found, *([_UNSCHEDULABLE] if (node.get("spec") or {}).get("unschedulable") else [])]
