"""StatefulSets: pods with a place and a name of their own. Source: pkg/controller/statefulset of 1.36."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.controllers.common import WorkloadApi
from regauge.cluster.port import Key
from regauge.kube import ApiError, WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET

REVISION_LABEL = "controller-revision-hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController:
    """One StatefulSet a key. Keeps nothing: revisions are hashes of the template, told in the status."""

    name = "statefulset-controller"
    watches = (STATEFUL_SET, POD)

    def __init__(self, api: WorkloadApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        return common.keys_of(STATEFUL_SET, kind, event)

    def reconcile(self, key: Key) -> float | None:
        set_ = self._api.find(STATEFUL_SET, key[1], key[0])
        if set_ is None:
            return None
        update = _update_revision(set_)
        current = (set_.get("status") or {}).get("currentRevision") or update
        failure: ApiError | None = None
        pods = list(self._pods(set_).values())
        if not common.is_terminating(set_):
            try:
                self._step(set_, current, update)
            except ApiError as error:
                failure = error
        # Counted before this step: upstream's cache is as far at this point.
        again_s = self._tell(set_, pods, current, update)
        if failure is not None:
            raise failure
        return again_s

    def _pods(self, set_: Object) -> dict[int, Object]:
        name = set_["metadata"]["name"]
        found = {}
        for pod in common.owned_pods(self._api, set_):
            stem, _, ordinal = pod["metadata"]["name"].rpartition("-")
            if stem == name and ordinal.isdigit():
                found[int(ordinal)] = pod
        return found

    def _step(self, set_: Object, current: str, update: str) -> None:
        """Make what is missing, replace what has ended, scale down from the top, then update from the top."""
        spec, pods = set_["spec"], self._pods(set_)
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec.get("replicas", 1))
        ordered = spec.get("podManagementPolicy") != "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is not None and common.is_finished(pod) and not common.is_terminating(pod):
                self._delete(set_, pod)
                pod = pods[ordinal] = self._api.find(POD, pod["metadata"]["name"], pod["metadata"]["namespace"]) or pod
                if self._api.find(POD, pod["metadata"]["name"], pod["metadata"]["namespace"]) is None:
                    pods.pop(ordinal)
                    pod = None
            if pod is None:
                pods[ordinal] = self._create(set_, ordinal, self._revision_for(set_, ordinal, start, current, update))
            if ordered and not self._settled(pods[ordinal], set_):
                return
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        for ordinal in surplus:
            if not common.is_terminating(pods[ordinal]):
                self._delete(set_, pods[ordinal])
            if ordered:
                return
        if spec.get("updateStrategy", {}).get("type") != "OnDelete":
            self._update(set_, pods, start, update)

    def _revision_for(self, set_: Object, ordinal: int, start: int, current: str, update: str) -> str:
        """Below the partition pods keep the revision that they had."""
        partition = ((set_["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition") or 0
        return current if ordinal - start < partition else update

    def _settled(self, pod: Object, set_: Object) -> bool:
        delay = common.available_in_s(pod, set_["spec"].get("minReadySeconds") or 0, self._clock.now_s())
        return delay == 0 and not common.is_terminating(pod)

    def _update(self, set_: Object, pods: Mapping[int, Object], start: int, update: str) -> None:
        """One pod of an old revision at a time, from the top, while all above are well."""
        rolling = (set_["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        away = max(1, common.scaled(rolling.get("maxUnavailable"), len(pods), up=True))
        unwell = sum(not self._settled(pod, set_) for pod in pods.values())
        for ordinal in sorted(pods, reverse=True):
            if ordinal - start < (rolling.get("partition") or 0):
                return
            pod = pods[ordinal]
            if _revision(pod) != update and not common.is_terminating(pod):
                if self._settled(pod, set_):
                    if unwell >= away:
                        return
                    unwell += 1
                self._delete(set_, pod)
                if unwell >= away:
                    return
            elif not self._settled(pod, set_) and unwell >= away:
                return

    def _create(self, set_: Object, ordinal: int, revision: str) -> Object:
        name = f"{set_['metadata']['name']}-{ordinal}"
        pod = common.pod_from(set_["spec"]["template"], STATEFUL_SET, set_)
        labels = {NAME_LABEL: name, INDEX_LABEL: str(ordinal), REVISION_LABEL: revision}
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}
        pod["metadata"]["name"] = name
        pod["spec"]["hostname"] = name
        if set_["spec"].get("serviceName"):
            pod["spec"]["subdomain"] = set_["spec"]["serviceName"]
        self._claim_volumes(set_, pod, name)
        try:
            made = self._api.create(POD, pod, set_["metadata"]["namespace"])
        except ApiError as error:
            self._event(set_, "Create", name, error)
            raise
        self._event(set_, "Create", name, None)
        return made

    def _claim_volumes(self, set_: Object, pod: dict[str, Any], name: str) -> None:
        """Each pod has volumes of its own, which outlive it."""
        volumes = list(pod["spec"].get("volumes") or [])
        for template in set_["spec"].get("volumeClaimTemplates") or []:
            title = template["metadata"]["name"]
            claim = f"{title}-{name}"
            if self._api.find(PERSISTENT_VOLUME_CLAIM, claim, set_["metadata"]["namespace"]) is None:
                labels = ((set_["spec"].get("selector") or {}).get("matchLabels")) or {}
                made = {"metadata": {"name": claim, "labels": dict(labels)}, "spec": template.get("spec") or {}}
                self._api.create(PERSISTENT_VOLUME_CLAIM, made, set_["metadata"]["namespace"])
            volumes = [item for item in volumes if item.get("name") != title]
            volumes.append({"name": title, "persistentVolumeClaim": {"claimName": claim}})
        if volumes:
            pod["spec"]["volumes"] = volumes

    def _delete(self, set_: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        self._api.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        self._event(set_, "Delete", metadata["name"], None)

    def _event(self, set_: Object, verb: str, pod: str, error: ApiError | None) -> None:
        text = f"{verb} Pod {pod} in StatefulSet {set_['metadata']['name']}"
        if error is None:
            self._api.event(set_, "Normal", f"Successful{verb}", f"{text} successful")
        else:
            self._api.event(set_, "Warning", f"Failed{verb}", f"{text} failed error: {error.message}")

    def _tell(self, set_: Object, pods: list[Object], current: str, update: str) -> float | None:
        spec, now_s = set_["spec"], self._clock.now_s()
        pods = [pod for pod in pods if not common.is_finished(pod)]
        delays = [common.available_in_s(pod, spec.get("minReadySeconds") or 0, now_s) for pod in pods]
        living = [pod for pod in pods if not common.is_terminating(pod)]
        updated = [pod for pod in living if _revision(pod) == update]
        if len(updated) == len(pods) == spec.get("replicas", 1) and all(delay == 0 for delay in delays):
            current = update
        status: dict[str, Any] = {
            "observedGeneration": set_["metadata"].get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": sum(delay is not None for delay in delays),
            "currentReplicas": sum(_revision(pod) == current for pod in living),
            "updatedReplicas": len(updated),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": 0,
            "availableReplicas": sum(delay == 0 for delay in delays),
        }
        kept = ("replicas", "collisionCount", "availableReplicas")
        common.write_status(self._api, STATEFUL_SET, set_, common.without_zero(status, *kept))
        return common.earliest(*(delay for delay in delays if delay))


def _update_revision(set_: Object) -> str:
    """The revision of the template: the one that the status tells for this generation, else a hash of the template."""
    status = set_.get("status") or {}
    if status.get("updateRevision") and status.get("observedGeneration") == set_["metadata"].get("generation"):
        return str(status["updateRevision"])
    return f"{set_['metadata']['name']}-{common.template_hash(set_['spec']['template'])}"


def _revision(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))
