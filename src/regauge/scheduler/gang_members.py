"""Which pods make a gang: pod groups of Kubernetes, and those of operators, queues and other schedulers. Pure.

Source: KEP-4671, k8s.io/api scheduling of 0.35.10, 0.36.6 and 0.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from regauge.model import Document, Object, Snapshot
from regauge.model.kinds import JOB, POD_GROUP, WORKLOAD
from regauge.scheduler.gang_kinds import POD_GROUP_KIND, WORKLOAD_GROUP, Gang, TopologyWish
from regauge.scheduler.gang_operators import of_operators
from regauge.scheduler.gang_parts import Members, created, keys, made, number
from regauge.scheduler.templates import part

COMPOSITE = (POD_GROUP.group, "CompositePodGroup")
MOST_REPLICAS = 1_000


def find_gangs(snapshot: Snapshot) -> tuple[Gang, ...]:
    """All gangs. Pods that have ended do not count as members; those that ended well are not needed again."""
    members = Members(snapshot)
    found = [*_pod_groups(members), *_workloads(members), *_composites(snapshot), *of_operators(members)]
    return tuple(found)


def _pod_groups(members: Members) -> Iterator[Gang]:
    for group in members.snapshot.documents(POD_GROUP):
        if part(group.object, "spec", "schedulingPolicy", "gang"):
            yield _pod_group(members, group)


def _pod_group(members: Members, group: Document) -> Gang:
    spec = part(group.object, "spec")
    own, done = members.where(group.namespace, _group_of, group.name)
    priority = spec.get("priority")
    return Gang(
        group.title,
        POD_GROUP_KIND,
        group.namespace,
        group.name,
        number(part(spec, "schedulingPolicy", "gang").get("minCount"), 1),
        keys(sorted(own, key=lambda pod: (created(pod), pod.name))),
        done=done,
        priority=priority if isinstance(priority, int) else members.priority(own, spec.get("priorityClassName")),
        created=created(group),
        topology=_constraint(spec),
    )


def _group_of(pod: Document) -> object:
    return part(pod.object, "spec", "schedulingGroup").get("podGroupName")


def _reference(pod: Document) -> Object:
    return part(pod.object, "spec", "workloadRef")


def _inline_group_of(pod: Document) -> object:
    """The Workload and the group inside of it."""
    found = _reference(pod)
    return (found.get("name"), found.get("podGroup")) if found else None


def _constraint(spec: Object) -> TopologyWish | None:
    topology = part(spec, "schedulingConstraints").get("topology")
    labels = [str(one.get("key")) for one in topology or () if isinstance(one, dict) and one.get("key")]
    # The scheduler reads the first and no other.
    return TopologyWish((labels[0],), True, "spec.schedulingConstraints.topology") if labels else None


def _workloads(members: Members) -> Iterator[Gang]:
    """Groups that are parts of a Workload (1.35), and templates of a Workload of which no PodGroup was made yet."""
    for workload in members.snapshot.documents(WORKLOAD):
        spec = part(workload.object, "spec")
        for group in spec.get("podGroups") or ():
            yield from _inline(members, workload, group)
        for template in spec.get("podGroupTemplates") or ():
            yield from _template(members, workload, template)


def _inline(members: Members, workload: Document, group: Object) -> Iterator[Gang]:
    """A group of the form of 1.35: each replica of it is a gang of its own."""
    gang = part(group, "policy", "gang")
    if not gang:
        return
    name = str(group.get("name") or "")
    own, _ = members.where(workload.namespace, _inline_group_of, (workload.name, name))
    replicas = dict.fromkeys(str(_reference(pod).get("podGroupReplicaKey") or "") for pod in own)
    for replica in list(replicas)[:MOST_REPLICAS]:
        there = [pod for pod in own if str(_reference(pod).get("podGroupReplicaKey") or "") == replica]
        yield Gang(
            f"{workload.title}, group {name}" + (f", replica {replica}" if replica else ""),
            WORKLOAD_GROUP,
            workload.namespace,
            workload.name,
            number(gang.get("minCount"), 1),
            keys(there),
            priority=members.priority(there),
            created=created(workload),
        )


def _template(members: Members, workload: Document, template: Object) -> Iterator[Gang]:
    """A template whose group is not there: with the pods that the Job it is for would make."""
    gang = part(template, "schedulingPolicy", "gang")
    name = str(template.get("name") or "")
    if not gang or any(_is_from(one, workload.name, name) for one in members.snapshot.documents(POD_GROUP)):
        return
    owner = part(workload.object, "spec", "controllerRef")
    job = next(
        (
            one
            for one in members.snapshot.documents(JOB)
            if owner.get("kind") == JOB.kind and (one.namespace, one.name) == (workload.namespace, owner.get("name"))
        ),
        None,
    )
    least = number(gang.get("minCount"), 1)
    count = 0 if job is None else number(part(job.object, "spec").get("parallelism"), 1)
    pods = [] if job is None else [made(job, part(job.object, "spec", "template"), str(n)) for n in range(count)]
    yield Gang(
        f"{workload.title}, template {name}",
        POD_GROUP_KIND,
        workload.namespace,
        workload.name,
        least,
        (),
        tuple(pods),
        priority=members.priority(pods, template.get("priorityClassName")),
        created=created(workload),
        topology=_constraint(template),
        unsupported="" if job is not None else "no PodGroup was made of the template yet, and it is for no Job",
    )


def _is_from(group: Document, workload: str, template: str) -> bool:
    """Whether a PodGroup was made from a template, by the reference of 1.36 or of 1.37."""
    spec = part(group.object, "spec")
    older = part(spec, "podGroupTemplateRef", "workload")
    newer = part(spec, "workloadRef")
    return (workload, template) in (
        (older.get("workloadName"), older.get("podGroupTemplateName")),
        (newer.get("workloadName"), newer.get("templateName")),
    )


def _composites(snapshot: Snapshot) -> Iterator[Gang]:
    for group in snapshot.documents(COMPOSITE):
        least = number(part(group.object, "spec", "schedulingPolicy", "gang").get("minGroupCount"), 1)
        unsupported = "unsupported: CompositePodGroup (alpha in 1.37); its groups are told one by one"
        yield Gang(group.title, POD_GROUP_KIND, group.namespace, group.name, least, (), unsupported=unsupported)


__all__ = ["find_gangs"]
