"""The node's object: made or updated at start, its capacity, its conditions and its lease kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regauge.base import TransientError
from regauge.cluster.kubelet.node import NodeParts
from regauge.cluster.kubelet.work import micro_timestamp, timestamp
from regauge.kube import ApiError
from regauge.model import Object, Quantity
from regauge.model.kinds import LEASE, NODE

LEASE_NAMESPACE = "kube-node-lease"
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


Counts = tuple[Mapping[str, int], Mapping[str, int]]


@dataclass(slots=True)
class NodeReporter:
    """Keeps one node's object. Resources whose plugin is gone for good stay at 0 for ever, as upstream keeps them."""

    node: NodeParts
    _zeroed: set[str] = field(default_factory=set)
    _told_s: float = float("-inf")
    _told_of: tuple[object, Counts] = (None, ({}, {}))

    def start(self) -> None:
        """Report at once, then again and again."""
        self.report()
        self.renew()
        self.node.work.start(self._keep_reporting(), "node status")
        self.node.work.start(self._keep_renewing(), "node lease")

    def report(self) -> bool:
        """Write the node's status when it changed or was not told for long. False when the API did not take it."""
        name = self.node.name
        try:
            found = self.node.api.find(NODE, name)
            if found is None:
                found = self.node.api.create(NODE, self._new())
            counts = self._counts()
            now_s = self.node.clock.monotonic_s()
            due = now_s - self._told_s >= self.node.options.timings.node_report_s
            if not due and self._told_of[0] is found and self._told_of[1] == counts:
                return True
            self._label(found)
            old = found.get("status", {})
            status = self._status(old, counts)
            if due or not _same(old, status):
                self.node.api.patch(NODE, name, {"status": status}, subresource="status")
                self._told_s = now_s
            self._told_of = (found, counts)
        except (ApiError, TransientError) as error:
            self.node.options.say(f"node status was not written, will retry: {error}")
            return False
        return True

    def renew(self) -> None:
        """Renew the node's lease, the sign of life that the control plane watches."""
        now = micro_timestamp(self.node.clock.now_s())
        spec = {"holderIdentity": self.node.name, "leaseDurationSeconds": 40, "renewTime": now}
        try:
            if self.node.api.find(LEASE, self.node.name, LEASE_NAMESPACE) is not None:
                self.node.api.patch(LEASE, self.node.name, {"spec": spec}, LEASE_NAMESPACE)
                return
            lease = {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.kind,
                "metadata": {"name": self.node.name, "namespace": LEASE_NAMESPACE},
                "spec": spec,
            }
            self.node.api.create(LEASE, lease, LEASE_NAMESPACE)
        except (ApiError, TransientError) as error:
            self.node.options.say(f"node lease was not renewed, will retry: {error}")

    async def _keep_reporting(self) -> None:
        while True:
            await self.node.clock.sleep(self.node.options.timings.node_status_s)
            self.report()

    async def _keep_renewing(self) -> None:
        while True:
            await self.node.clock.sleep(self.node.options.timings.lease_s)
            self.renew()

    def _new(self) -> Object:
        return {
            "apiVersion": NODE.api_version,
            "kind": NODE.kind,
            "metadata": {"name": self.node.name, "labels": self._labels()},
            "spec": {},
        }

    def _labels(self) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": self.node.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.node.options.labels,
        }

    def _label(self, found: Object) -> None:
        """Set the labels that are the kubelet's on a node that was there before."""
        have: Mapping[str, str] = found["metadata"].get("labels") or {}
        missing = {key: value for key, value in self._labels().items() if have.get(key) != value}
        if missing:
            self.node.api.patch(NODE, self.node.name, {"metadata": {"labels": missing}})

    def _counts(self) -> Counts:
        """Devices by resource: capacity and allocatable."""
        capacity, allocatable, gone = self.node.devices.capacity()
        self._zeroed |= set(gone)
        self._zeroed -= set(capacity)
        zero = dict.fromkeys(sorted(self._zeroed), 0)
        return {**zero, **capacity}, {**zero, **allocatable}

    def _status(self, old: Mapping[str, Any], counts: Counts) -> dict[str, Any]:
        own = dict(self.node.options.capacity)
        capacity, allocatable = map(_quantities, counts)
        return {
            "capacity": {**own, **capacity},
            "allocatable": {**own, **allocatable},
            "conditions": _conditions(old, self.node.clock.now_s()),
            "nodeInfo": self._info(),
        }

    def _info(self) -> dict[str, str]:
        options = self.node.options
        return {
            "architecture": "amd64",
            "bootID": options.boot_id,
            "containerRuntimeVersion": self.node.runtime.version,
            "kernelVersion": "",
            "kubeProxyVersion": "",
            "kubeletVersion": options.kubelet_version,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "regauge",
            "systemUUID": "",
        }


def _quantities(counts: Mapping[str, int]) -> dict[str, str]:
    return {resource: str(Quantity.of(count)) for resource, count in counts.items()}


def _conditions(old: Mapping[str, Any], now_s: float) -> list[dict[str, str]]:
    """The kubelet's conditions in its order, those of others kept; a condition whose status stays keeps its time."""
    before = {one.get("type"): one for one in old.get("conditions", ())}
    now = timestamp(now_s)
    made: list[dict[str, str]] = []
    for type_, status, reason, message in _CONDITIONS:
        was = before.pop(type_, {})
        since = was.get("lastTransitionTime", now) if was.get("status") == status else now
        made.append(
            {
                "type": type_,
                "status": status,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )
    return [*(dict(one) for one in before.values()), *made]


def _same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two statuses say the same, whenever they were said."""
    return all(_timeless(old.get(key)) == _timeless(value) for key, value in new.items())


def _timeless(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [{key: item for key, item in one.items() if key != "lastHeartbeatTime"} for one in value]
