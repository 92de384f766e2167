"""What one node's parts share: the API, the runtime, the managers, and how a pod's status gets into the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regauge.base import Clock, TransientError
from regauge.cluster.kubelet.device_manager import DeviceManager
from regauge.cluster.kubelet.dra_manager import DRAManager
from regauge.cluster.kubelet.options import KubeletOptions
from regauge.cluster.kubelet.work import Work
from regauge.cluster.port import ClusterApi
from regauge.cluster.runtimes import Runtime
from regauge.kube import ApiError
from regauge.model import Object
from regauge.model.core import Pod
from regauge.model.kinds import POD


@dataclass(slots=True)
class NodeParts:
    """Everything a pod worker works with."""

    name: str
    api: ClusterApi
    clock: Clock
    runtime: Runtime
    options: KubeletOptions
    work: Work
    devices: DeviceManager
    dra: DRAManager

    def event(self, pod: Object, type_: str, reason: str, message: str) -> None:
        """Record an Event; one that cannot be written is only said."""
        try:
            self.api.event(pod, type_, reason, message)
        except (ApiError, TransientError) as error:
            self.options.say(f"event {reason} was not written: {error}")

    def write_status(self, pod: Pod, status: Mapping[str, Any]) -> bool:
        """Bring a pod's status into the API. False when it did not get there and is to be tried again; True also when
        the pod is gone or another one has its name."""
        meta = pod.metadata
        try:
            found = self.api.find(POD, meta.name, meta.namespace)
            if found is None or found["metadata"].get("uid") != meta.uid:
                return True
            old = found.get("status", {})
            changed = {key: value for key, value in status.items() if old.get(key) != value}
            if changed:
                self.api.patch(POD, meta.name, {"status": changed}, meta.namespace, subresource="status")
        except (ApiError, TransientError) as error:
            self.options.say(f"status of pod {meta.namespace}/{meta.name} was not written, will retry: {error}")
            return False
        return True

    def delete_finally(self, pod: Pod) -> bool:
        """Remove a pod that has ended and is marked for deletion. False when it is to be tried again."""
        meta = pod.metadata
        try:
            found = self.api.find(POD, meta.name, meta.namespace)
            if found is None or found["metadata"].get("uid") != meta.uid:
                return True
            if found["metadata"].get("deletionTimestamp"):
                self.api.delete(POD, meta.name, meta.namespace, uid=meta.uid, grace_period_s=0)
        except (ApiError, TransientError) as error:
            self.options.say(f"pod {meta.namespace}/{meta.name} was not removed, will retry: {error}")
            return False
        return True

    def status_of(self, pod: Pod) -> Mapping[str, Any]:
        """The pod's status in the API now, empty when it is gone."""
        try:
            found = self.api.find(POD, pod.metadata.name, pod.metadata.namespace)
        except (ApiError, TransientError):
            return {}
        if found is None or found["metadata"].get("uid") != pod.metadata.uid:
            return {}
        status: Mapping[str, Any] = found.get("status", {})
        return status
