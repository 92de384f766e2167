"""The states of a pod on the node, and what is to be done next with its containers. Pure.

Source: pkg/kubelet/kuberuntime (computePodActions, doBackOff), pkg/kubelet/pod_workers.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from regauge.base import Table
from regauge.cluster.runtimes import ContainerState
from regauge.model.core import Container, Pod


class PodState(Enum):
    """A pod on its node. `RELEASING`: its containers have ended, its claims are being given back."""

    SEEN = "seen"
    REJECTED = "rejected"
    STARTING = "starting"
    RUNNING = "running"
    TERMINATING = "terminating"
    RELEASING = "releasing"
    FINISHED = "finished"
    GONE = "gone"


class PodEvent(Enum):
    REFUSED = "refused"
    ADMITTED = "admitted"
    ADOPTED = "adopted"
    STARTED = "started"
    TERMINATE = "terminate"
    CONTAINERS_ENDED = "containers ended"
    RELEASED = "released"
    DELETED = "deleted"


POD_STATES: Table[PodState, PodEvent] = {
    PodState.SEEN: {
        PodEvent.REFUSED: PodState.REJECTED,
        PodEvent.ADMITTED: PodState.STARTING,
        PodEvent.ADOPTED: PodState.FINISHED,
    },
    PodState.REJECTED: {PodEvent.DELETED: PodState.GONE},
    PodState.STARTING: {PodEvent.STARTED: PodState.RUNNING, PodEvent.TERMINATE: PodState.TERMINATING},
    PodState.RUNNING: {PodEvent.TERMINATE: PodState.TERMINATING},
    PodState.TERMINATING: {PodEvent.CONTAINERS_ENDED: PodState.RELEASING},
    PodState.RELEASING: {PodEvent.RELEASED: PodState.FINISHED},
    PodState.FINISHED: {PodEvent.DELETED: PodState.GONE},
    PodState.GONE: {},
}

ACTIVE = frozenset({PodState.SEEN, PodState.STARTING, PodState.RUNNING, PodState.TERMINATING})


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container last ended. `lost`: nobody knows, the runtime has no trace of it."""

    exit_code: int
    finished_s: float
    started_s: float | None = None
    id: str = ""
    lost: bool = False
    reason: str = ""


@dataclass(slots=True)
class Waiting:
    """Why a container is not running now."""

    reason: str
    message: str = ""


@dataclass(slots=True)
class ContainerRecord:
    """What is known of one container of a pod: its current or last run, the one before, and why it waits."""

    spec: Container
    init: bool
    run: ContainerState | None = None
    ended: Ended | None = None
    last: Ended | None = None
    waiting: Waiting | None = None
    starts: int = 0
    backoff_s: float = 0.0
    backoff_at_s: float = 0.0

    @property
    def sidecar(self) -> bool:
        return self.init and self.spec.restart_policy == "Always"

    @property
    def running(self) -> bool:
        return self.run is not None and self.run.running

    @property
    def done(self) -> bool:
        """An init container that has done its work, or a sidecar that runs."""
        if self.sidecar:
            return self.running
        return self.ended is not None and self.ended.exit_code == 0

    def restarts(self, pod_policy: str) -> bool:
        """Whether this container, having ended, is started again."""
        if self.ended is None:
            return True
        if self.sidecar:
            return True
        if self.init:
            return self.ended.exit_code != 0 and pod_policy != "Never"
        policy = self.spec.restart_policy or pod_policy
        return policy == "Always" or (policy == "OnFailure" and self.ended.exit_code != 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: containers to start now, in order; those that wait and until when; whether the pod is at its end."""

    start: tuple[str, ...] = ()
    wait: Mapping[str, float] = field(default_factory=dict)
    terminal: bool = False


def records_for(pod: Pod) -> dict[str, ContainerRecord]:
    """One record per container, init containers first."""
    init = {one.name: ContainerRecord(one, True) for one in pod.spec.init_containers}
    return init | {one.name: ContainerRecord(one, False) for one in pod.spec.containers}


def plan(pod: Pod, records: Mapping[str, ContainerRecord], now_s: float) -> Plan:
    """The next step of a pod that is not being terminated."""
    policy = pod.spec.restart_policy
    inits = [record for record in records.values() if record.init]
    mains = [record for record in records.values() if not record.init]
    failed = [one for one in inits if one.ended is not None and not one.done and not one.restarts(policy)]
    if failed or all(one.ended is not None and not one.restarts(policy) for one in mains):
        return Plan(terminal=True)
    initialized = any(one.starts for one in mains)
    wanted = _wanted(inits, mains, initialized)
    start: list[str] = []
    wait: dict[str, float] = {}
    for record in wanted:
        if record.running or not record.restarts(policy):
            continue
        until_s = backoff_until(record)
        if until_s > now_s:
            wait[record.spec.name] = until_s
        else:
            start.append(record.spec.name)
    return Plan(tuple(start), wait)


def _wanted(
    inits: Sequence[ContainerRecord], mains: Sequence[ContainerRecord], initialized: bool
) -> list[ContainerRecord]:
    """The containers that may run now: init containers one after the other, then all others."""
    if initialized:
        return [*(one for one in inits if one.sidecar), *mains]
    wanted: list[ContainerRecord] = []
    for record in inits:
        if record.sidecar or not record.done:
            wanted.append(record)
        if not record.done:
            return wanted
    return [*wanted, *mains]


def backoff_until(record: ContainerRecord) -> float:
    """When a container that ended may start again: at once after its first end."""
    if record.ended is None or not record.backoff_s:
        return 0.0
    return record.ended.finished_s + record.backoff_s


def note_start(record: ContainerRecord, now_s: float, first_s: float, limit_s: float) -> None:
    """The container is about to be started again: the next time it waits longer."""
    if record.ended is None:
        return
    quiet = now_s - record.backoff_at_s > 2 * limit_s
    record.backoff_s = first_s if quiet or not record.backoff_s else min(limit_s, record.backoff_s * 2)
    record.backoff_at_s = now_s


def backoff_text(record: ContainerRecord, pod: Pod) -> str:
    """The message of a container in CrashLoopBackOff."""
    meta = pod.metadata
    return (
        f"back-off {go_duration(record.backoff_s)} restarting failed container={record.spec.name}"
        f" pod={meta.name}_{meta.namespace}({meta.uid})"
    )


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: 10s, 1m20s, 5m0s."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
