"""What admits the pods of a workload together: queues and gang schedulers, seen by labels, annotations and fields. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.migrate.workloads import Workload

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
COSCHEDULING = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO = "volcano"
YUNIKORN = ("yunikorn.apache.org/task-group-name", "yunikorn.apache.org/task-groups")


def groups_of(workload: Workload) -> tuple[str, ...]:
    """Each way in which the pods of a workload are admitted as a group, in words; empty where they go one by one."""
    return tuple(dict.fromkeys(_groups(workload)))


def _groups(workload: Workload) -> Iterator[str]:
    spec = workload.template.spec
    own = workload.document.metadata
    places = (own, {"labels": workload.template.metadata.labels, "annotations": workload.template.metadata.annotations})
    labels, annotations = ({**(a.get(key) or {}), **(b.get(key) or {})} for a, b in [places] for key in _FIELDS)
    if KUEUE_QUEUE in labels:
        yield f"Kueue queue {labels[KUEUE_QUEUE]}"
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        yield f"PodGroup {spec.scheduling_group.pod_group_name}"
    for label in COSCHEDULING:
        if label in labels:
            yield f"coscheduling group {labels[label]}"
    if VOLCANO_GROUP in annotations:
        yield f"Volcano group {annotations[VOLCANO_GROUP]}"
    elif spec.scheduler_name == VOLCANO or workload.document.api_version.startswith("batch.volcano.sh/"):
        yield "Volcano"
    if any(name in annotations for name in YUNIKORN):
        yield "YuniKorn task group"


_FIELDS = ("labels", "annotations")
