"""What the pods of a claim tell of its life: when they were placed, started, stopped, and what that says of the claim. Pure.

Source of what is inferred: the scheduler reserves a claim before it binds the pod (plugins/dynamicresources PreBind); the
kubelet prepares claims before it makes the sandbox and takes them back before it reports the end (kuberuntime SyncPod,
kubelet SyncTerminatingPod), all of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.inventory import claim_names
from regauge.model import Snapshot
from regauge.model.core import ENDED_PHASES, ContainerStatus, Pod, PodCondition
from regauge.model.resource import ResourceClaim
from regauge.observe.correlation import seconds
from regauge.observe.timeline_parts import CLAIM, Certainty, Moment, Step

_SANDBOX = "PodReadyToStartContainers"


def pods_of(claim: ResourceClaim, snapshot: Snapshot) -> tuple[Pod, ...]:
    """The pods that reserve a claim, name it, or own it, by name; also those that have ended."""
    uids = {one.uid for one in claim.status.reserved_for} | {one.uid for one in claim.metadata.owner_references}
    uids.discard("")
    return tuple(
        sorted(
            (
                pod
                for pod in snapshot.pods
                if pod.metadata.namespace == claim.metadata.namespace
                and (pod.metadata.uid in uids or claim.metadata.name in claim_names(pod))
            ),
            key=lambda pod: pod.metadata.name,
        )
    )


def pod_moments(claim: ResourceClaim, pod: Pod, placed_s: float | None) -> Iterator[Moment]:
    """What one pod tells. `placed_s` is when an event says that it was placed: the condition may have been written anew."""
    subject = f"pod {pod.metadata.name}"
    created = seconds(pod.metadata.creation_timestamp)
    if created is not None:
        yield Moment(created, Step.pod_created, subject, "created", "pod metadata.creationTimestamp")
    told = _true(pod, "PodScheduled")
    placed = min((at_s for at_s in (told, placed_s) if at_s is not None), default=None)
    if placed is not None and pod.spec.node_name:
        source = "event Scheduled" if placed != told else "pod condition PodScheduled"
        yield Moment(placed, Step.scheduled, subject, f"placed on {pod.spec.node_name}", source)
        yield from _reserved(claim, pod, placed)
    yield from _prepared(pod, placed)
    yield from _containers(pod)
    yield from _disrupted(pod)
    yield from _deleted(pod)


def _true(pod: Pod, type_: str) -> float | None:
    return next((seconds(one.last_transition_time) for one in _conditions(pod, type_) if one.status == "True"), None)


def _conditions(pod: Pod, type_: str) -> Iterator[PodCondition]:
    return (one for one in pod.status.conditions if one.type == type_)


def _reserved(claim: ResourceClaim, pod: Pod, placed: float) -> Iterator[Moment]:
    if not any(one.uid == pod.metadata.uid for one in claim.status.reserved_for):
        return
    source = f"pod {pod.metadata.name} was placed, and the scheduler reserves before it binds"
    allocation = claim.status.allocation
    told = (
        seconds(claim.metadata.creation_timestamp),
        seconds(pod.metadata.creation_timestamp),
        seconds(allocation.allocation_timestamp) if allocation is not None else None,
    )
    since_s = max((at_s for at_s in told if at_s is not None and at_s <= placed), default=None)
    certainty = Certainty.at_most if since_s is None else Certainty.between
    yield Moment(placed, Step.reserved, CLAIM, f"reserved for pod {pod.metadata.name}", source, certainty, since_s)


def _prepared(pod: Pod, placed: float | None) -> Iterator[Moment]:
    """The devices were prepared before the sandbox was there; without its condition, before the first container ran."""
    subject, at_s = f"pod {pod.metadata.name}", _true(pod, _SANDBOX)
    source = f"pod condition {_SANDBOX}: the kubelet prepares claims before it makes the sandbox"
    if at_s is None:
        starts = [moment for status in _statuses(pod) for moment in _starts(status)]
        at_s = min(starts, default=None)
        source = "a container of it ran: the kubelet prepares claims before that"
    if at_s is not None:
        certainty = Certainty.at_most if placed is None else Certainty.between
        yield Moment(at_s, Step.prepared, subject, f"prepared on {pod.spec.node_name}", source, certainty, placed)


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _starts(status: ContainerStatus) -> list[float]:
    told = (_part(status.state, "running"), _part(status.state, "terminated"), _part(status.last_state, "terminated"))
    return [at_s for part in told if (at_s := seconds(part.get("startedAt"))) is not None]


def _part(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = state.get(name)
    return part if isinstance(part, dict) else {}


def _containers(pod: Pod) -> Iterator[Moment]:
    subject = f"pod {pod.metadata.name}"
    ends: list[float] = []
    for status in _statuses(pod):
        running, ended = _part(status.state, "running"), _part(status.state, "terminated")
        earlier = _part(status.last_state, "terminated")
        field = "pod status, container state"
        for number, part in enumerate((earlier, running or ended)):
            at_s = seconds(part.get("startedAt"))
            if at_s is not None:
                again = number == 1 and status.restart_count > 0
                text = f"container {status.name} started" + (f" (restart {status.restart_count})" if again else "")
                yield Moment(at_s, Step.restarted if again else Step.started, subject, text, f"{field} startedAt")
        for part, last in ((earlier, False), (ended, True)):
            at_s = seconds(part.get("finishedAt"))
            if at_s is not None:
                ends += [at_s] if last else []
                code = part.get("exitCode")
                text = f"container {status.name} ended with {code}"
                yield Moment(at_s, Step.stopped if last else Step.trouble, subject, text, f"{field} finishedAt")
    if pod.status.phase in ENDED_PHASES and ends:
        yield from _given_back(pod, max(ends))


def _given_back(pod: Pod, ended: float) -> Iterator[Moment]:
    """The kubelet takes claims back before it reports the end of a pod."""
    ready = (seconds(one.last_transition_time) for one in _conditions(pod, _SANDBOX) if one.status == "False")
    told = next(ready, None)
    source = f"pod phase {pod.status.phase}: the kubelet unprepares before it reports the end"
    text = f"unprepared on {pod.spec.node_name}"
    subject = f"pod {pod.metadata.name}"
    if told is not None and told >= ended:
        yield Moment(told, Step.unprepared, subject, text, source, Certainty.between, ended)


def _disrupted(pod: Pod) -> Iterator[Moment]:
    for one in _conditions(pod, "DisruptionTarget"):
        at_s = seconds(one.last_transition_time)
        if at_s is not None and one.status == "True":
            text = f"to be evicted: {one.message or one.reason}"
            source = f"pod condition DisruptionTarget ({one.reason})"
            yield Moment(at_s, Step.evicted, f"pod {pod.metadata.name}", text, source)


def _deleted(pod: Pod) -> Iterator[Moment]:
    """A pod's deletionTimestamp is when its time is up: the deletion was asked for a grace period earlier."""
    until = seconds(pod.metadata.deletion_timestamp)
    if until is None:
        return
    grace = pod.metadata.deletion_grace_period_seconds or 0
    text = f"deletion asked for, with {grace} s to end"
    source = "pod metadata.deletionTimestamp less its grace period"
    yield Moment(until - grace, Step.pod_deleted, f"pod {pod.metadata.name}", text, source)
