"""Gangs of operators, queues and other schedulers: JobSet, LeaderWorkerSet, Kueue, coscheduling, Volcano. Pure.

Source: jobset api v1alpha2; lws api v1; Kueue 0.19.0 (pod groups, Workloads v1beta2); scheduler-plugins scheduling/v1alpha1;
Volcano scheduling/v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from regauge.model import Document, Object
from regauge.scheduler.gang_kinds import (
    COSCHEDULING,
    JOB_SET_KIND,
    KUEUE_PODS,
    KUEUE_WORKLOAD,
    LEADER_WORKER_KIND,
    VOLCANO,
    Gang,
    TopologyWish,
)
from regauge.scheduler.gang_parts import MOST_PODS, Members, annotation, created, keys, label, made, number
from regauge.scheduler.nodes import Key
from regauge.scheduler.templates import part

JOB_SET = ("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
KUEUE_WORKLOADS = ("kueue.x-k8s.io", "Workload")
FLAVORS = ("kueue.x-k8s.io", "ResourceFlavor")
COSCHEDULING_GROUP = ("scheduling.x-k8s.io", "PodGroup")
VOLCANO_GROUP = ("scheduling.volcano.sh", "PodGroup")
JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_SET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SET_NAME = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
SET_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
COSCHEDULING_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
VOLCANO_NAME = "scheduling.k8s.io/group-name"
LEAVES = frozenset({"Pod", "ResourceClaim", "ResourceSlice", "Node", "ConfigMap"})
MOST_OWNERS = 8


def of_operators(members: Members) -> Iterator[Gang]:
    """All gangs that something beside Kubernetes makes."""
    yield from _kueue_groups(members)
    for document in members.snapshot.documents(JOB_SET):
        yield from _job_set(document, members)
    for document in members.snapshot.documents(LEADER_WORKER_SET):
        yield from _leader_worker_set(document, members)
    for document in members.snapshot.documents(COSCHEDULING_GROUP):
        yield _coscheduling(document, members)
    for document in members.snapshot.documents(VOLCANO_GROUP):
        yield _volcano(document, members)
    yield from _kueue_workloads(members)


def _kueue_groups(members: Members) -> Iterator[Gang]:
    groups: dict[Key, list[Document]] = {}
    for pod in members.pods:
        if label(pod, KUEUE_GROUP):
            groups.setdefault((pod.namespace, label(pod, KUEUE_GROUP)), []).append(pod)
    for (namespace, name), own in groups.items():
        total = annotation(own[0], KUEUE_TOTAL)
        _, done = members.where(namespace, _kueue_group_of, name)
        yield Gang(
            f"pod group of Kueue {namespace}/{name}",
            KUEUE_PODS,
            namespace,
            name,
            int(total) if total.isdecimal() else len(own) + done,
            keys(own),
            done=done,
            priority=members.priority(own),
            created=min(created(pod) for pod in own),
            topology=members.kueue_wish(part(own[0].object, "metadata", "annotations")),
        )


def _job_set(set_: Document, members: Members) -> Iterator[Gang]:
    own, done = members.where(set_.namespace, _job_set_of, set_.name)
    new: list[Document] = []
    wish = None
    total = 0
    for job in part(set_.object, "spec").get("replicatedJobs") or ():
        name = str(job.get("name") or "")
        spec = part(job, "template", "spec")
        count = number(job.get("replicas"), 1) * number(spec.get("parallelism"), 1)
        total += count
        there = sum(label(one, REPLICATED_JOB) == name for one in own)
        there += members.where(set_.namespace, _job_of, (set_.name, name))[1]
        template = part(spec, "template")
        new += [made(set_, template, f"{name}-{n}") for n in range(there, min(count, MOST_PODS))]
        wish = wish or members.kueue_wish(part(template, "metadata", "annotations"))
    if total:
        gang = _of(set_, JOB_SET_KIND, total, own, members, tuple(new), done)
        exclusive = annotation(set_, JOB_SET_EXCLUSIVE)
        told = f"unsupported: exclusive placement of jobs by {exclusive} ({JOB_SET_EXCLUSIVE})" if exclusive else ""
        yield replace(gang, topology=wish, unsupported=told)


def _job_set_of(pod: Document) -> str:
    return label(pod, JOB_SET_NAME)


def _job_of(pod: Document) -> object:
    """The JobSet and the replicated job of it."""
    return (label(pod, JOB_SET_NAME), label(pod, REPLICATED_JOB)) if label(pod, JOB_SET_NAME) else None


def _set_of(pod: Document) -> str:
    return label(pod, SET_NAME)


def _coscheduling_of(pod: Document) -> str:
    return next((found for one in COSCHEDULING_LABELS if (found := label(pod, one))), "")


def _volcano_of(pod: Document) -> str:
    return annotation(pod, VOLCANO_NAME)


def _kueue_group_of(pod: Document) -> str:
    return label(pod, KUEUE_GROUP)


def _of(
    owner: Document,
    kind: str,
    least: int,
    own: list[Document],
    members: Members,
    new: tuple[Document, ...] = (),
    done: int = 0,
) -> Gang:
    """A gang that an object stands for."""
    return Gang(
        owner.title,
        kind,
        owner.namespace,
        owner.name,
        least,
        keys(own),
        new,
        done,
        members.priority([*own, *new], part(owner.object, "spec").get("priorityClassName")),
        created(owner),
    )


def _leader_worker_set(set_: Document, members: Members) -> Iterator[Gang]:
    spec = part(set_.object, "spec")
    shape = part(spec, "leaderWorkerTemplate")
    worker = part(shape, "workerTemplate")
    leader = part(shape, "leaderTemplate") or worker
    size = number(shape.get("size"), 1)
    own, _ = members.where(set_.namespace, _set_of, set_.name)
    exclusive = annotation(set_, SET_EXCLUSIVE)
    wish = members.kueue_wish(part(worker, "metadata", "annotations"))
    if exclusive:
        wish = TopologyWish((exclusive,), True, f"annotation {SET_EXCLUSIVE}")
    for index in range(min(number(spec.get("replicas"), 1), MOST_PODS)):
        there = [one for one in own if label(one, GROUP_INDEX) == str(index)]
        new = [
            made(set_, leader if n == 0 else worker, f"{index}-{n}") for n in range(len(there), min(size, MOST_PODS))
        ]
        gang = _of(set_, LEADER_WORKER_KIND, size, there, members, tuple(new))
        yield replace(gang, name=f"{set_.title}, group {index}", topology=wish)


def _coscheduling(group: Document, members: Members) -> Gang:
    own, done = members.where(group.namespace, _coscheduling_of, group.name)
    least = number(part(group.object, "spec").get("minMember"), 1)
    gang = _of(group, COSCHEDULING, least, own, members, done=done)
    return replace(gang, name=f"PodGroup of coscheduling {group.namespace}/{group.name}")


def _volcano(group: Document, members: Members) -> Gang:
    own, done = members.where(group.namespace, _volcano_of, group.name)
    spec = part(group.object, "spec")
    gang = _of(group, VOLCANO, number(spec.get("minMember"), 1), own, members, done=done)
    name = f"PodGroup of Volcano {group.namespace}/{group.name}"
    told = "unsupported: least numbers by task (spec.minTaskMember)" if spec.get("minTaskMember") else ""
    return replace(gang, name=name, unsupported=told)


# -- workloads of Kueue


def _kueue_workloads(members: Members) -> Iterator[Gang]:
    """Workloads of more than one pod that no gang above stands for."""
    sets = (*members.snapshot.documents(JOB_SET), *members.snapshot.documents(LEADER_WORKER_SET))
    told = {(one.kind, one.namespace, one.name) for one in sets}
    workloads = members.snapshot.documents(KUEUE_WORKLOADS)
    owned = _by_owner(members) if workloads else {}
    for workload in workloads:
        owners: list[Object] = part(workload.object, "metadata").get("ownerReferences") or []
        owner = owners[0] if owners else {}
        spec, status = part(workload.object, "spec"), part(workload.object, "status")
        ended = any(
            one.get("type") == "Finished" and one.get("status") == "True" for one in status.get("conditions") or ()
        )
        if ended or spec.get("active") is False or _is_told(owner, workload.namespace, told):
            continue
        own = owned.get((workload.namespace, str(owner.get("kind")), str(owner.get("name"))), [])
        gang = _kueue_workload(workload, owner, own, members)
        if gang.least > 1:
            yield gang


def _is_told(owner: Object, namespace: str, told: set[tuple[str, str, str]]) -> bool:
    """Whether the gang is one of those above: of pods, or of an object that is there."""
    return owner.get("kind") == "Pod" or (str(owner.get("kind")), namespace, str(owner.get("name"))) in told


def _by_owner(members: Members) -> dict[tuple[str, str, str], list[Document]]:
    """The pods of everything that owns some, through any number of owners that are there."""
    above: dict[object, Object] = {}
    for document in members.snapshot.all_documents():
        metadata = part(document.object, "metadata") if document.kind not in LEAVES else {}
        if metadata.get("uid"):
            above[metadata["uid"]] = metadata
    found: dict[tuple[str, str, str], list[Document]] = {}
    for pod in members.pods:
        waiting: list[Object] = list(part(pod.object, "metadata").get("ownerReferences") or ())
        seen: set[tuple[str, str, str]] = set()
        while waiting and len(seen) < MOST_OWNERS:
            one = waiting.pop()
            key = (pod.namespace, str(one.get("kind")), str(one.get("name")))
            if key not in seen:
                seen.add(key)
                found.setdefault(key, []).append(pod)
                waiting += above.get(one.get("uid"), {}).get("ownerReferences") or ()
    return found


def _are_ready(workload: Document) -> bool:
    conditions = part(workload.object, "status").get("conditions") or ()
    return any(one.get("type") == "PodsReady" and one.get("status") == "True" for one in conditions)


def _kueue_workload(workload: Document, owner: Object, own: list[Document], members: Members) -> Gang:
    title = f"Workload of Kueue {workload.namespace}/{workload.name}"
    if owner:
        title += f" ({owner.get('kind')} {owner.get('name')})"
    lost = not own and _are_ready(workload)
    told = "its pods are ready and not found: what is between them and their owner is not in the input" if lost else ""
    return replace(workload_gang(workload, own, members), name=title, unsupported=told)


def workload_gang(
    workload: Document, own: list[Document], members: Members, flavors: Mapping[str, str] | None = None
) -> Gang:
    """A Workload of Kueue as a gang: `own` are its pods, the others are made; `flavors` by resource, if not assigned yet."""
    spec, status = part(workload.object, "spec"), part(workload.object, "status")
    # Those that have ended are in reclaimablePods.
    back = {one.get("name"): number(one.get("count"), 0) for one in status.get("reclaimablePods") or ()}
    assigned = {one.get("name"): one for one in part(status, "admission").get("podSetAssignments") or ()}
    least, wish, left = 0, None, len(own)
    new: list[Document] = []
    for pod_set in spec.get("podSets") or ():
        name = pod_set.get("name")
        given = assigned.get(name, {})
        count = max(number(given.get("count"), number(pod_set.get("count"), 1)) - back.get(name, 0), 0)
        least += count
        missing = max(count - left, 0)
        left = max(left - count, 0)
        selector = _flavor_labels(part(given, "flavors") or dict(flavors or {}), members)
        template = part(pod_set, "template")
        new += [made(workload, template, f"{name}-{n}", selector) for n in range(min(missing, MOST_PODS))]
        wish = wish or _wish(pod_set, members)
    gang = _of(workload, KUEUE_WORKLOAD, least, own, members, tuple(new))
    priority = spec.get("priority")
    return replace(gang, topology=wish, priority=priority if isinstance(priority, int) else gang.priority)


def _flavor_labels(flavors: Object, members: Members) -> Mapping[str, str]:
    """The node labels of the flavors that were assigned."""
    found: dict[str, str] = {}
    for document in members.snapshot.documents(FLAVORS):
        if document.name in flavors.values():
            found |= {key: str(value) for key, value in part(document.object, "spec", "nodeLabels").items()}
    return found


def _wish(pod_set: Object, members: Members) -> TopologyWish | None:
    request = part(pod_set, "topologyRequest")
    for name, required in (("required", True), ("preferred", False)):
        if isinstance(request.get(name), str):
            return TopologyWish(members.levels(str(request[name])), required, f"topologyRequest.{name}")
    return members.kueue_wish(part(pod_set, "template", "metadata", "annotations"))


__all__ = ["of_operators", "workload_gang"]
