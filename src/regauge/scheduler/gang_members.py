"""Which pods make a gang: pod groups of Kubernetes, JobSets, LeaderWorkerSets, and Kueue's groups of plain pods. Pure.

Pods that a controller has not made yet are made here from its templates, as it would make them.
Source: KEP-4671; jobset api v1alpha2; lws api v1; kueue's pod groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regauge.model import Document, Object, Snapshot
from regauge.model.kinds import POD, POD_GROUP
from regauge.scheduler.nodes import TERMINAL, Key
from regauge.scheduler.templates import part

JOB_SET = ("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
SET_NAME = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
MOST_PODS = 10_000


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang: `least` of its pods run together or none should. `made`: pods that are not there yet."""

    name: str
    least: int
    pods: tuple[Key, ...]
    made: tuple[Document, ...] = ()


def find_gangs(snapshot: Snapshot) -> tuple[Gang, ...]:
    """All gangs. Pods that have ended do not count as members."""
    pods = [one for one in snapshot.documents(POD) if part(one.object, "status").get("phase") not in TERMINAL]
    found = [*_pod_groups(snapshot, pods), *_kueue_groups(pods)]
    found += [gang for one in snapshot.documents(JOB_SET) for gang in _job_set(one, pods)]
    found += [gang for one in snapshot.documents(LEADER_WORKER_SET) for gang in _leader_worker_set(one, pods)]
    return tuple(found)


def _keys(pods: Iterable[Document]) -> tuple[Key, ...]:
    return tuple((one.namespace, one.name) for one in pods)


def _label(pod: Document, name: str) -> str:
    return str(part(pod.object, "metadata", "labels").get(name) or "")


def _pod_groups(snapshot: Snapshot, pods: list[Document]) -> Iterator[Gang]:
    for group in snapshot.documents(POD_GROUP):
        gang = part(group.object, "spec", "schedulingPolicy", "gang")
        if gang:
            named = [
                one
                for one in pods
                if one.namespace == group.namespace
                and part(one.object, "spec", "schedulingGroup").get("podGroupName") == group.name
            ]
            yield Gang(group.title, _number(gang.get("minCount"), 1), _keys(named))


def _kueue_groups(pods: list[Document]) -> Iterator[Gang]:
    groups: dict[Key, list[Document]] = {}
    for pod in pods:
        if _label(pod, KUEUE_GROUP):
            groups.setdefault((pod.namespace, _label(pod, KUEUE_GROUP)), []).append(pod)
    for (namespace, name), members in groups.items():
        total = part(members[0].object, "metadata", "annotations").get(KUEUE_TOTAL)
        least = int(total) if isinstance(total, str) and total.isdecimal() else len(members)
        yield Gang(f"pod group of Kueue {namespace}/{name}", least, _keys(members))


def _job_set(set_: Document, pods: list[Document]) -> Iterator[Gang]:
    own = [one for one in pods if one.namespace == set_.namespace and _label(one, JOB_SET_NAME) == set_.name]
    made: list[Document] = []
    total = 0
    for job in part(set_.object, "spec").get("replicatedJobs") or ():
        name = str(job.get("name") or "")
        spec = part(job, "template", "spec")
        count = _number(job.get("replicas"), 1) * _number(spec.get("parallelism"), 1)
        total += count
        there = sum(_label(one, REPLICATED_JOB) == name for one in own)
        template = part(spec, "template")
        made += [_made(set_, template, f"{name}-{number}") for number in range(there, min(count, MOST_PODS))]
    if total:
        yield Gang(set_.title, total, _keys(own), tuple(made))


def _leader_worker_set(set_: Document, pods: list[Document]) -> Iterator[Gang]:
    spec = part(set_.object, "spec")
    shape = part(spec, "leaderWorkerTemplate")
    worker = part(shape, "workerTemplate")
    leader = part(shape, "leaderTemplate") or worker
    size = _number(shape.get("size"), 1)
    own = [one for one in pods if one.namespace == set_.namespace and _label(one, SET_NAME) == set_.name]
    for index in range(min(_number(spec.get("replicas"), 1), MOST_PODS)):
        there = [one for one in own if _label(one, GROUP_INDEX) == str(index)]
        made = [
            _made(set_, leader if number == 0 else worker, f"{index}-{number}")
            for number in range(len(there), min(size, MOST_PODS))
        ]
        yield Gang(f"{set_.title}, group {index}", size, _keys(there), tuple(made))


def _made(owner: Document, template: Object, name: str) -> Document:
    metadata = part(template, "metadata")
    new: Object = {"name": f"{owner.name}-{name}", "namespace": owner.namespace}
    new |= {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    spec = {key: value for key, value in part(template, "spec").items() if key != "nodeName"}
    return Document({"apiVersion": POD.api_version, "kind": POD.kind, "metadata": new, "spec": spec}, owner.where)


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) and value >= 0 else default


__all__ = ["Gang", "find_gangs"]
