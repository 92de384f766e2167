"""Marking a pod as disturbed and deleting it, as both eviction controllers do."""

from __future__ import annotations

from collections.abc import Mapping

from regauge.cluster.controllers.common import condition
from regauge.cluster.deletion import timestamp
from regauge.cluster.port import ClusterApi
from regauge.kube import NotFound
from regauge.model import Object
from regauge.model.kinds import POD

DISRUPTION = "DisruptionTarget"


def disrupt(api: ClusterApi, pod: Object, reason: str, message: str, now_s: float, more: Mapping[str, object]) -> None:
    """Write the condition (with `more` of the status), unless it is there already."""
    old = condition(pod, DISRUPTION)
    if old is not None and (old.get("status"), old.get("reason")) == ("True", reason):
        return
    told = {
        "type": DISRUPTION,
        "status": "True",
        "lastTransitionTime": timestamp(now_s),
        "reason": reason,
        "message": message,
    }
    body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [told], **more}}
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    api.patch(POD, name, body, namespace, patch_type="strategic", subresource="status")


def evict(api: ClusterApi, pod: Object, grace_period_s: int | None = None) -> None:
    """Delete exactly this pod; one that is gone is fine."""
    metadata = pod["metadata"]
    try:
        api.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_period_s=grace_period_s)
    except NotFound:
        return
