"""Eviction of pods from tainted devices, by taints in slices and by DeviceTaintRules, whose status it keeps.

Source: pkg/controller/devicetainteviction of 1.36. A toleration counts only when it names the effect NoExecute, although
the scheduler takes one without; up to 1.36 pods that got a device by an extended resource are left alone. Both are as
upstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from regauge.allocator import tolerates
from regauge.base import Clock
from regauge.cluster import claim_decisions as decide
from regauge.cluster.controllers import common
from regauge.cluster.controllers.evicting import disrupt, evict
from regauge.cluster.deletion import seconds_of, timestamp
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import WatchEvent
from regauge.model import Kind, Object, view
from regauge.model.kinds import DEVICE_TAINT_RULE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.resource import DeviceTaint, ResourceClaim

RULE_STATUS_PERIOD_S = 10.0
CONDITION = "EvictionInProgress"
NO_EXECUTE = "NoExecute"
RULES, PODS = "rule:", "pod:"
Pool = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Eviction:
    """When a pod has to go, and the rules that are a reason."""

    at_s: float
    rules: frozenset[str]


@dataclass(slots=True)
class DeviceTaintEviction:
    """Keys are (namespace, "pod:NAME") and ("", "rule:NAME"). `status_api`: the API as the writer of rules' status.
    `extended`: pods whose extended resources are devices have to go, too.
    """

    api: ClusterApi
    status_api: ClusterApi
    clock: Clock
    extended: bool = False
    _due: dict[str, float] = field(default_factory=dict)
    _evicted: dict[str, int] = field(default_factory=dict)
    _slices: dict[str, Object] = field(default_factory=dict)
    _tainted: set[str] = field(default_factory=set)
    _rules: dict[str, Object] = field(default_factory=dict)
    _users: dict[Key, set[Key]] = field(default_factory=dict)

    name = "device-taint-eviction-controller"
    watches = (RESOURCE_SLICE, DEVICE_TAINT_RULE, RESOURCE_CLAIM, POD)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        gone = event.type == "DELETED"
        if kind == POD:
            return self._pod_keys(event.object, gone)
        if kind == RESOURCE_CLAIM:
            return self._claim_keys(event.object, gone)
        known = self._slices if kind == RESOURCE_SLICE else self._rules
        old = known.pop(metadata["name"], None)
        if not gone:
            known[metadata["name"]] = event.object
        if kind == RESOURCE_SLICE:
            return self._slice_keys(metadata["name"], event.object, gone)
        if not gone and not _respecified(old, event.object):
            return ()
        own = () if gone else (("", RULES + metadata["name"]),)
        return (*own, *self._all_pods())

    def _slice_keys(self, name: str, slice_: Object, gone: bool) -> Iterable[Key]:
        had = name in self._tainted
        if _taints(slice_) and not gone:
            self._tainted.add(name)
        else:
            self._tainted.discard(name)
        return self._all_pods() if had or _taints(slice_) else ()

    def _pod_keys(self, pod: Object, gone: bool) -> list[Key]:
        special = decide.special_name(pod) if self.extended else None
        if not decide.entries(pod) and not special:
            return []
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        for claim in (special, *(decide.claim_name(pod, entry) for entry in decide.entries(pod))):
            if claim:
                users = self._users.setdefault((key[0], claim), set())
                users.discard(key) if gone else users.add(key)
        return [(key[0], PODS + key[1])] if self._tainted_somewhere() or pod["metadata"]["uid"] in self._due else []

    def _claim_keys(self, claim: Object, gone: bool) -> list[Key]:
        key = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        users = sorted(self._users.get(key, ()))
        if gone:
            self._users.pop(key, None)
        return [(name[0], PODS + name[1]) for name in users] if self._tainted_somewhere() or self._due else []

    def _tainted_somewhere(self) -> bool:
        return bool(self._rules) or bool(self._tainted)

    def _all_pods(self) -> list[Key]:
        return sorted({(pod[0], PODS + pod[1]) for users in self._users.values() for pod in users})

    def reconcile(self, key: Key) -> float | None:
        if key[1].startswith(RULES):
            return self._sync_rule(key[1].removeprefix(RULES))
        return self._sync_pod(key[0], key[1].removeprefix(PODS))

    # -- pods

    def _sync_pod(self, namespace: str, name: str) -> float | None:
        pod = self.api.find(POD, name, namespace)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        uid, eviction = pod["metadata"]["uid"], self._eviction(pod, self._rules.values())
        if eviction is None:
            if self._due.pop(uid, None) is not None:
                self.api.event(pod, "Normal", "DeviceTaintManagerEviction", "Cancelling deletion")
            return None
        self._due[uid] = eviction.at_s
        left_s = eviction.at_s - self.clock.now_s()
        if left_s > 0:
            return left_s
        self._tell_of(eviction)
        self.api.event(pod, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
        message = "Device Taint manager: deleting due to NoExecute taint"
        disrupt(self.api, pod, "DeletionByDeviceTaintManager", message, self.clock.now_s(), {})
        evict(self.api, pod)
        self._due.pop(uid, None)
        for rule in eviction.rules:
            self._evicted[rule] = self._evicted.get(rule, 0) + 1
        return None

    def _tell_of(self, eviction: _Eviction) -> None:
        """A rule says that there is something to evict before it is done."""
        for rule in self._rules.values():
            if rule["metadata"]["uid"] in eviction.rules and self._status(rule) is None:
                self._sync_rule(rule["metadata"]["name"])

    def _eviction(self, pod: Object, rules: Iterable[Object]) -> _Eviction | None:
        if not pod["spec"].get("nodeName"):
            return None
        found: list[_Eviction] = []
        named = [(decide.claim_name(pod, one), one.get("resourceClaimName") is None) for one in decide.entries(pod)]
        if self.extended:
            named.append((decide.special_name(pod), True))
        for name, own in named:
            claim = self.api.find(RESOURCE_CLAIM, name, pod["metadata"]["namespace"]) if name else None
            if claim is None or not decide.is_reserved_for(claim, pod):
                continue
            if own and not decide.owned_by(claim, pod):
                continue
            found += self._of_claim(view(claim, ResourceClaim), tuple(rules))
        if not found:
            return None
        return _Eviction(min(one.at_s for one in found), frozenset().union(*(one.rules for one in found)))

    def _of_claim(self, claim: ResourceClaim, rules: tuple[Object, ...]) -> Iterator[_Eviction]:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation else ():
            for taint, rule in self._taints_on((result.driver, result.pool), result.device, rules):
                limits = [
                    one.toleration_seconds
                    for one in result.tolerations
                    if one.effect == NO_EXECUTE and tolerates(one, taint)
                ]
                if any(limit is None for limit in limits):
                    continue
                added_s = seconds_of(taint.time_added) if taint.time_added else self.clock.now_s()
                wait_s = min((max(0, limit) for limit in limits if limit is not None), default=0)
                yield _Eviction(added_s + wait_s, frozenset([rule] if rule else []))

    def _taints_on(self, pool: Pool, device: str, rules: tuple[Object, ...]) -> Iterator[tuple[DeviceTaint, str]]:
        for one in self._devices(pool):
            if one["name"] == device:
                for taint in one.get("taints") or ():
                    if taint.get("effect") == NO_EXECUTE:
                        yield view(taint, DeviceTaint), ""
        for rule in rules:
            if rule["spec"]["taint"].get("effect") == NO_EXECUTE and _selects(rule, pool, device):
                yield view(rule["spec"]["taint"], DeviceTaint), rule["metadata"]["uid"]

    def _devices(self, pool: Pool) -> list[Any]:
        """The devices of a pool's newest generation."""
        slices = [one["spec"] for one in self._slices.values() if _pool(one) == pool]
        newest = max((spec["pool"].get("generation", 0) for spec in slices), default=0)
        return [
            device
            for spec in slices
            if spec["pool"].get("generation", 0) == newest
            for device in spec.get("devices") or ()
        ]

    # -- rules

    def _status(self, rule: Object) -> Any:
        return common.condition(rule, CONDITION)

    def _sync_rule(self, name: str) -> float | None:
        rule = self.api.find(DEVICE_TAINT_RULE, name)
        if rule is None:
            return None
        now_s, old = self.clock.now_s(), self._status(rule)
        generation = rule["metadata"].get("generation", 0)
        if old is not None and old.get("observedGeneration") == generation:
            since_s = now_s - seconds_of(old["lastTransitionTime"])
            if since_s < RULE_STATUS_PERIOD_S:
                return RULE_STATUS_PERIOD_S - since_s
        status, reason, message = self._progress(rule)
        new = {
            "type": CONDITION,
            "status": status,
            "observedGeneration": generation,
            "lastTransitionTime": timestamp(now_s),
            "reason": reason,
            "message": message,
        }
        if old is None or any(old.get(key) != value for key, value in new.items() if key != "lastTransitionTime"):
            others = common.without_condition((rule.get("status") or {}).get("conditions") or (), CONDITION)
            body = {**rule, "status": {**(rule.get("status") or {}), "conditions": [*others, new]}}
            self.status_api.update(DEVICE_TAINT_RULE, body, subresource="status")
        return RULE_STATUS_PERIOD_S if rule["spec"]["taint"].get("effect") == NO_EXECUTE else None

    def _progress(self, rule: Object) -> tuple[str, str, str]:
        """Status, reason and message of the condition, in upstream's words."""
        effect = rule["spec"]["taint"].get("effect")
        evicted = self._evicted.get(rule["metadata"]["uid"], 0)
        after = (
            f"{evicted} {'pod' if evicted == 1 else 'pods'} evicted since starting the controller." if evicted else ""
        )
        if effect == "None":
            return "False", "NoEffect", _joined(self._simulated(rule), after)
        if effect != NO_EXECUTE:
            return "False", "OtherEffect", _joined("Eviction only happens for the NoExecute effect.", after)
        pods = self._pending(rule)
        if pods:
            verb = "pod needs" if len(pods) == 1 else "pods need"
            return (
                "True",
                "PodsPendingEviction",
                _joined(f"{len(pods)} {verb} to be evicted in {_spread(pods)}.", after),
            )
        return "False", "Completed" if evicted else "NotStarted", after

    def _simulated(self, rule: Object) -> str:
        as_if = {**rule, "spec": {**rule["spec"], "taint": {**rule["spec"]["taint"], "effect": NO_EXECUTE}}}
        pods = self._pending(as_if)
        pools = dict.fromkeys(map(_pool, self._slices.values()))
        published = sum(_selects(rule, pool, one["name"]) for pool in pools for one in self._devices(pool))
        allocated = sum(
            _selects(rule, (one["driver"], one["pool"]), one["device"])
            for claim in self.api.list(RESOURCE_CLAIM)
            for one in (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
        )
        return (
            f"{_count(published, 'published device')} selected. {_count(allocated, 'allocated device')} selected. "
            f"{_count(len(pods), 'pod')} would be evicted in {_spread(pods)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )

    def _pending(self, rule: Object) -> list[Object]:
        uid = rule["metadata"]["uid"]
        others = [one for one in self._rules.values() if one["metadata"]["uid"] != uid]
        found = []
        for pod in self.api.list(POD):
            if not pod["metadata"].get("deletionTimestamp"):
                eviction = self._eviction(pod, (*others, rule))
                if eviction is not None and uid in eviction.rules:
                    found.append(pod)
        return found


def _taints(slice_: Object) -> bool:
    return any(device.get("taints") for device in slice_["spec"].get("devices") or ())


def _pool(slice_: Object) -> Pool:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _respecified(old: Object | None, new: Object) -> bool:
    return old is None or old["metadata"]["uid"] != new["metadata"]["uid"] or old["spec"] != new["spec"]


def _selects(rule: Object, pool: Pool, device: str) -> bool:
    selector = rule["spec"].get("deviceSelector")
    if selector is None:
        return False
    wanted = (("driver", pool[0]), ("pool", pool[1]), ("device", device))
    return all(selector.get(name) in (None, value) for name, value in wanted)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _spread(pods: list[Object]) -> str:
    namespaces = len({pod["metadata"]["namespace"] for pod in pods})
    return "1 namespace" if namespaces == 1 else f"{namespaces} different namespaces"


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
