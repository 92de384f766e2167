"""Deployments: a new ReplicaSet for each template, rolled out step by step. Source: pkg/controller/deployment of 1.36."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.controllers.common import WorkloadApi
from regauge.cluster.controllers.deployment_status import DeploymentStatus, Limits, limits_of
from regauge.cluster.deletion import timestamp
from regauge.cluster.port import Key
from regauge.kube import WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import DEPLOYMENT, POD, REPLICA_SET

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset({REVISION, DESIRED, MAXIMUM, "kubectl.kubernetes.io/last-applied-configuration"})


def replicas_of(set_: Object) -> int:
    return int(set_["spec"].get("replicas", 1))


def available_of(set_: Object) -> int:
    return int((set_.get("status") or {}).get("availableReplicas", 0))


def bare_template(template: Object) -> Object:
    """A template without the label that tells ReplicaSets apart."""
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != common.POD_TEMPLATE_HASH}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": {**metadata, "labels": labels}}


class DeploymentController:
    """One Deployment a key. Keeps nothing."""

    name = "deployment-controller"
    watches = (DEPLOYMENT, REPLICA_SET, POD)

    def __init__(self, api: WorkloadApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._status = DeploymentStatus(api, clock)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        if kind != POD:
            return common.keys_of(DEPLOYMENT, kind, event)
        # Only Recreate waits for pods, and only for their end.
        owner = common.controller_of(event.object) if event.type == "DELETED" else None
        set_ = self._api.find(REPLICA_SET, owner["name"], event.object["metadata"]["namespace"]) if owner else None
        return common.keys_of(DEPLOYMENT, REPLICA_SET, WatchEvent("MODIFIED", set_)) if set_ else ()

    def reconcile(self, key: Key) -> float | None:
        deployment = self._api.find(DEPLOYMENT, key[1], key[0])
        if deployment is None:
            return None
        sets = list(self._api.owned(REPLICA_SET, deployment["metadata"]["uid"]))
        sets.sort(key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))
        wanted = bare_template(deployment["spec"]["template"])
        new = next((item for item in sets if bare_template(item["spec"]["template"]) == wanted), None)
        old = [item for item in sets if item is not new]
        if common.is_terminating(deployment):
            return self._status.tell(deployment, new, old)
        if deployment["spec"].get("paused"):
            self._scale_active(deployment, new, old)
            return self._status.tell(deployment, *self._fresh(new, old))
        if new is None:
            if _recreates(deployment) and self._end_old(deployment, old):
                return self._status.tell(deployment, new, [self._again(item) for item in old])
            new = self._create(deployment, old, wanted)
            deployment = self._api.get(DEPLOYMENT, key[1], key[0])
        else:
            deployment = self._sync_revision(deployment, new, old)
        self._roll(deployment, new, old)
        new, old = self._again(new), [self._again(item) for item in old]
        again_s = self._status.tell(deployment, new, old)
        self._forget_history(deployment, new, old)
        return again_s

    def _fresh(self, new: Object | None, old: list[Object]) -> tuple[Object | None, list[Object]]:
        return (self._again(new) if new else None), [self._again(item) for item in old]

    def _again(self, set_: Object) -> Object:
        metadata = set_["metadata"]
        return self._api.find(REPLICA_SET, metadata["name"], metadata["namespace"]) or set_

    def _create(self, deployment: Object, old: list[Object], template: Object) -> Object:
        """The ReplicaSet of the present template, with as many pods as the rollout allows at once."""
        metadata = deployment["metadata"]
        hash_ = common.template_hash(template)
        labels = {**(template["metadata"].get("labels") or {}), common.POD_TEMPLATE_HASH: hash_}
        selector = deployment["spec"].get("selector") or {}
        chosen = {**(selector.get("matchLabels") or {}), common.POD_TEMPLATE_HASH: hash_}
        limits = limits_of(deployment)
        count = _new_count(deployment, limits, 0, old)
        revision = str(max([_revision(item) for item in old], default=0) + 1)
        copied = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _NOT_COPIED}
        made = self._api.create(
            REPLICA_SET,
            {
                "metadata": {
                    "name": f"{metadata['name']}-{hash_}",
                    "labels": labels,
                    "annotations": {**copied, **_counts(limits), REVISION: revision},
                    "ownerReferences": [common.owner_reference(DEPLOYMENT, deployment)],
                },
                "spec": {
                    "replicas": count,
                    "selector": {**selector, "matchLabels": chosen},
                    "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
                    **_min_ready(deployment),
                },
            },
            metadata["namespace"],
        )
        name = made["metadata"]["name"]
        if count:
            text = f"Scaled up replica set {name} from 0 to {count}"
            self._api.event(deployment, "Normal", "ScalingReplicaSet", text)
        self._tell_created(deployment, name, revision)
        return made

    def _tell_created(self, deployment: Object, name: str, revision: str) -> None:
        now = timestamp(self._clock.now_s())
        metadata, status = deployment["metadata"], dict(deployment.get("status") or {})
        if deployment["spec"].get("progressDeadlineSeconds") is not None:
            told = {
                "type": "Progressing",
                "status": "True",
                "lastUpdateTime": now,
                "lastTransitionTime": now,
                "reason": "NewReplicaSetCreated",
                "message": f'Created new replica set "{name}"',
            }
            status["conditions"] = common.with_condition(status.get("conditions") or [], told)
        annotations = {**(metadata.get("annotations") or {}), REVISION: revision}
        changed = {**deployment, "metadata": {**metadata, "annotations": annotations}, "status": status}
        self._api.update(DEPLOYMENT, changed, subresource="status")

    def _sync_revision(self, deployment: Object, new: Object, old: list[Object]) -> Object:
        """A template that comes back gets the newest revision, and the Deployment tells it."""
        newest = max([_revision(item) for item in old], default=0)
        if _revision(new) <= newest:
            annotations = {**(new["metadata"].get("annotations") or {}), REVISION: str(newest + 1)}
            new = self._api.update(REPLICA_SET, {**new, "metadata": {**new["metadata"], "annotations": annotations}})
        metadata = deployment["metadata"]
        annotations = dict(metadata.get("annotations") or {})
        if annotations.get(REVISION) == str(_revision(new)):
            return deployment
        annotations[REVISION] = str(_revision(new))
        return self._api.update(
            DEPLOYMENT, {**deployment, "metadata": {**metadata, "annotations": annotations}}, subresource="status"
        )

    def _roll(self, deployment: Object, new: Object, old: list[Object]) -> None:
        """One step of the rollout: first up, then down."""
        limits = limits_of(deployment)
        new = self._again(new)
        count = _new_count(deployment, limits, replicas_of(new), old)
        if count != replicas_of(new) or _annotated(new, limits):
            changed = count != replicas_of(new)
            self._scale(deployment, new, count, limits)
            if changed:
                return
        if _recreates(deployment):
            self._end_old(deployment, old)
        else:
            self._shrink_old(deployment, self._again(new), old, limits)

    def _shrink_old(self, deployment: Object, new: Object, old: list[Object], limits: Limits) -> None:
        everything = [*old, new]
        wanted = sum(map(replicas_of, everything))
        least = limits.replicas - limits.unavailable
        room = wanted - least - (replicas_of(new) - available_of(new))
        if room <= 0 or not any(map(replicas_of, old)):
            return
        for item in old:
            unhealthy = min(room, replicas_of(item) - available_of(item))
            if replicas_of(item) and unhealthy > 0:
                room -= unhealthy
                self._scale(deployment, item, replicas_of(item) - unhealthy, limits)
        old = [self._again(item) for item in old]
        # Upstream takes the first term alone, which goes too far while a status lags behind its spec.
        room = min(sum(map(available_of, everything)) - least, room)
        for item in old:
            step = min(room, replicas_of(item))
            if step > 0:
                room -= step
                self._scale(deployment, item, replicas_of(item) - step, limits)

    def _end_old(self, deployment: Object, old: list[Object]) -> bool:
        """Recreate: all old pods go before a new one comes. Whether some are still there."""
        for item in old:
            if replicas_of(item):
                self._scale(deployment, item, 0, limits_of(deployment))
        return any(not common.is_finished(pod) for item in old for pod in common.owned_pods(self._api, item))

    def _scale_active(self, deployment: Object, new: Object | None, old: list[Object]) -> None:
        """A paused Deployment only follows its number: the one active ReplicaSet takes it over."""
        active = [item for item in [*old, *([new] if new else [])] if replicas_of(item)]
        target = active[0] if len(active) == 1 else new
        limits = limits_of(deployment)
        if target is not None and len(active) <= 1 and replicas_of(target) != limits.replicas:
            self._scale(deployment, target, limits.replicas, limits)

    def _scale(self, deployment: Object, set_: Object, count: int, limits: Limits) -> None:
        set_ = self._again(set_)
        before, metadata = replicas_of(set_), set_["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **_counts(limits)}
        changed = {**set_, "metadata": {**metadata, "annotations": annotations}}
        changed["spec"] = {**set_["spec"], "replicas": count}
        self._api.update(REPLICA_SET, changed)
        if count != before:
            way = "up" if count > before else "down"
            text = f"Scaled {way} replica set {metadata['name']} from {before} to {count}"
            self._api.event(deployment, "Normal", "ScalingReplicaSet", text)

    def _forget_history(self, deployment: Object, new: Object, old: list[Object]) -> None:
        """Old ReplicaSets without pods beyond revisionHistoryLimit are deleted once the rollout is through."""
        if replicas_of(new) != limits_of(deployment).replicas or any(map(replicas_of, old)):
            return
        ended = [item for item in old if not (item.get("status") or {}).get("replicas")]
        ended.sort(key=_revision)
        for item in ended[: max(0, len(ended) - deployment["spec"].get("revisionHistoryLimit", 10))]:
            self._api.delete(REPLICA_SET, item["metadata"]["name"], item["metadata"]["namespace"])


def _recreates(deployment: Object) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "Recreate")


def _new_count(deployment: Object, limits: Limits, have: int, old: list[Object]) -> int:
    """How many pods the new ReplicaSet should have now."""
    if _recreates(deployment) or have >= limits.replicas:
        return limits.replicas
    room = limits.replicas + limits.surge - have - sum(map(replicas_of, old))
    return have + max(0, min(room, limits.replicas - have))


def _revision(set_: Object) -> int:
    text = (set_["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _counts(limits: Limits) -> dict[str, str]:
    return {DESIRED: str(limits.replicas), MAXIMUM: str(limits.replicas + limits.surge)}


def _annotated(set_: Object, limits: Limits) -> bool:
    """Whether the numbers that the ReplicaSet tells are out of date."""
    annotations = set_["metadata"].get("annotations") or {}
    return any(annotations.get(key) != value for key, value in _counts(limits).items())


def _min_ready(deployment: Object) -> dict[str, Any]:
    seconds = deployment["spec"].get("minReadySeconds")
    return {"minReadySeconds": seconds} if seconds else {}
