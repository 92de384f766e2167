"""What the scheduler says about a pod: events and conditions. Failing to say it is never serious."""

from __future__ import annotations

from regauge.base import Clock, RegaugeError
from regauge.cluster.deletion import timestamp
from regauge.cluster.port import ClusterApi
from regauge.model import Object
from regauge.model.core import Pod
from regauge.model.kinds import POD, POD_GROUP

NOTE_LENGTH = 1024
GROUP_SCHEDULED = "PodGroupScheduled"


class Notes:
    """`recorder`: the API as the actor that events come from."""

    def __init__(self, api: ClusterApi, recorder: ClusterApi, clock: Clock) -> None:
        self._api = api
        self._recorder = recorder
        self._clock = clock

    def event(self, pod: Pod, type_: str, reason: str, message: str) -> None:
        """Record an event about a pod, which may be gone already."""
        metadata = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
        text = message if len(message) <= NOTE_LENGTH else message[: NOTE_LENGTH - 4] + " ..."
        try:
            self._recorder.event({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, type_, reason, text)
        except RegaugeError:
            return

    def not_scheduled(self, pod: Pod, reason: str, message: str, nominated: str) -> None:
        """Event and condition; a pod that is gone or bound meanwhile is left alone. `nominated`: the node or ""."""
        current = self._api.find(POD, pod.metadata.name, pod.metadata.namespace)
        if current is None or current["metadata"].get("uid") != pod.metadata.uid or current["spec"].get("nodeName"):
            return
        self.event(pod, "Warning", "FailedScheduling", message)
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        self.condition(pod, condition, nominated)

    def condition(self, pod: Pod, condition: Object, nominated: str | None = None) -> None:
        """Set one condition, and nominatedNodeName unless None; nothing is written when nothing changes."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        try:
            status = self._changes(self._api.get(POD, name, namespace), condition, nominated)
            if status:
                body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
                self._api.patch(POD, name, body, namespace, patch_type="strategic", subresource="status")
        except RegaugeError:
            return

    def group_condition(self, group: tuple[str, str], status: str, reason: str, message: str) -> None:
        """Whether a pod group is scheduled. Once it was, it stays so, whatever becomes of more pods."""
        found = self._api.find(POD_GROUP, group[1], group[0])
        if found is None:
            return
        condition = {"type": GROUP_SCHEDULED, "status": status, "reason": reason, "message": message}
        present = _condition(found, GROUP_SCHEDULED)
        if present is not None and present["status"] == "True" and status != "True":
            return
        changed = self._changes(found, condition, None).get("conditions")
        if not changed:
            return
        new = {key: value for key, value in changed[0].items() if key != "lastProbeTime"}
        others = [one for one in (found.get("status") or {}).get("conditions") or () if one["type"] != GROUP_SCHEDULED]
        body = {"metadata": {"uid": found["metadata"]["uid"]}, "status": {"conditions": [*others, new]}}
        try:
            self._api.patch(POD_GROUP, group[1], body, group[0], subresource="status")
        except RegaugeError:
            return

    def _changes(self, pod: Object, condition: Object, nominated: str | None) -> Object:
        status = pod.get("status") or {}
        generation = pod["metadata"].get("generation")
        wanted = {**condition, **({"observedGeneration": generation} if generation else {})}
        present = _condition(pod, condition["type"])
        changed: Object = {}
        if present is None or any(present.get(key) != value for key, value in wanted.items()):
            moved = present is None or present.get("status") != condition["status"]
            since = timestamp(self._clock.now_s()) if moved or present is None else present.get("lastTransitionTime")
            changed["conditions"] = [{**wanted, "lastProbeTime": None, "lastTransitionTime": since}]
        if nominated is not None and (status.get("nominatedNodeName") or "") != nominated:
            changed["nominatedNodeName"] = nominated or None
        return changed


def _condition(object_: Object, type_: str) -> Object | None:
    conditions = (object_.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item["type"] == type_), None)
