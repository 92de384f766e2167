"""Workloads that Kueue would make: of jobs and pods that name a queue and have none yet, such as those in files. Pure.

Source: Kueue 0.19.0, integrations batch/job, jobset.x-k8s.io/jobset and pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from regauge.model import Document, Object, Snapshot
from regauge.model.kinds import JOB, POD
from regauge.scheduler.gang_parts import label, number
from regauge.scheduler.nodes import TERMINAL
from regauge.scheduler.queue_objects import GROUP, QUEUE_LABEL
from regauge.scheduler.templates import controller, part

JOB_SET = ("jobset.x-k8s.io", "JobSet")
POD_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"


def with_coming(snapshot: Snapshot) -> Snapshot:
    """The snapshot with a Workload for everything that names a queue and has none."""
    known = {
        (one.namespace, owner.get("kind"), owner.get("name"))
        for one in snapshot.documents((GROUP, "Workload"))
        for owner in part(one.object, "metadata").get("ownerReferences") or ()
    }
    made = [
        _workload(one, pod_sets)
        for one, pod_sets in _queued(snapshot)
        if pod_sets and (one.namespace, one.kind, one.name) not in known
    ]
    return Snapshot.of([*snapshot.all_documents(), *made]) if made else snapshot


def _queued(snapshot: Snapshot) -> Iterator[tuple[Document, list[Object]]]:
    """What names a queue, with its pod sets."""
    for job in snapshot.documents(JOB):
        if label(job, QUEUE_LABEL) and controller(job.object) is None and not _has_ended(job):
            spec = part(job.object, "spec")
            yield job, [_pod_set("main", number(spec.get("parallelism"), 1), part(spec, "template"))]
    for set_ in snapshot.documents(JOB_SET):
        if label(set_, QUEUE_LABEL) and not _has_ended(set_):
            jobs = part(set_.object, "spec").get("replicatedJobs") or ()
            yield set_, [_of_job(one) for one in jobs]
    for pod in snapshot.documents(POD):
        ended = part(pod.object, "status").get("phase") in TERMINAL
        alone = controller(pod.object) is None and not label(pod, POD_GROUP_LABEL)
        if label(pod, QUEUE_LABEL) and alone and not ended:
            metadata = {
                key: value for key, value in part(pod.object, "metadata").items() if key in ("labels", "annotations")
            }
            yield pod, [_pod_set("main", 1, {"metadata": metadata, "spec": part(pod.object, "spec")})]


def _has_ended(document: Document) -> bool:
    conditions = part(document.object, "status").get("conditions") or ()
    return any(
        one.get("type") in ("Complete", "Completed", "Failed") and one.get("status") == "True" for one in conditions
    )


def _of_job(job: Object) -> Object:
    spec = part(job, "template", "spec")
    count = number(job.get("replicas"), 1) * number(spec.get("parallelism"), 1)
    return _pod_set(str(job.get("name") or ""), count, part(spec, "template"))


def _pod_set(name: str, count: int, template: Object) -> Object:
    return {"name": name, "count": count, "template": template}


def _workload(owner: Document, pod_sets: list[Object]) -> Document:
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.title}
    metadata = {
        "name": f"{owner.kind.lower()}-{owner.name}",
        "namespace": owner.namespace,
        "ownerReferences": [{**reference, "controller": True}],
    }
    spec = {"queueName": label(owner, QUEUE_LABEL), "podSets": pod_sets}
    head = {"apiVersion": f"{GROUP}/v1beta2", "kind": "Workload", "metadata": metadata}
    return Document({**head, "spec": spec, "status": {}}, owner.where)


__all__ = ["with_coming"]
