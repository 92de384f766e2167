"""A pod's status as the kubelet reports it: phase, conditions, container statuses. Pure.

Source: pkg/kubelet/kubelet_pods.go (getPhase), pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regauge.cluster.kubelet.pod_plan import ContainerRecord, Ended
from regauge.cluster.kubelet.work import timestamp
from regauge.cluster.runtimes import ContainerState
from regauge.model.core import ENDED_PHASES, Pod

Status = dict[str, Any]

LOST_TEXT = "The container could not be located when the pod was terminated"
LOST_EXIT_CODE = 137
KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a status is made of. `health` is allocatedResourcesStatus by container; `terminal`: nothing starts any more."""

    pod: Pod
    records: Mapping[str, ContainerRecord]
    sandbox: bool
    terminal: bool
    now_s: float
    runtime: str = ""
    host_ip: str = ""
    health: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def pod_status(facts: Facts, old: Mapping[str, Any]) -> Status:
    """The status to report, given the one in the API (conditions of others and times of changes are kept)."""
    statuses = {name: _container_status(facts, record) for name, record in facts.records.items()}
    phase = pod_phase(facts)
    status: Status = {
        "phase": phase,
        "conditions": _merged(_conditions(facts, statuses, phase), old, facts.now_s),
        "startTime": old.get("startTime") or timestamp(facts.now_s),
    }
    inits = [statuses[name] for name, record in facts.records.items() if record.init]
    mains = [statuses[name] for name, record in facts.records.items() if not record.init]
    status["containerStatuses"] = mains
    if inits:
        status["initContainerStatuses"] = inits
    return status


def shown(record: ContainerRecord) -> tuple[object, ...]:
    """What a status tells of a container, to be compared."""
    return record.run, record.ended, record.last, record.waiting, record.starts


def rejected_status(reason: str, message: str, old: Mapping[str, Any], now_s: float) -> Status:
    """The status of a pod that was not admitted: only the verdict is left of it."""
    kept = [one for one in old.get("conditions", ()) if one.get("type") not in KUBELET_CONDITIONS]
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": old.get("startTime") or timestamp(now_s),
        "conditions": kept,
        "containerStatuses": None,
        "initContainerStatuses": None,
    }


def pod_phase(facts: Facts) -> str:
    """Pending, Running, Succeeded or Failed."""
    policy = facts.pod.spec.restart_policy
    records = facts.records.values()
    inits = [record for record in records if record.init and not record.sidecar]
    mains = [record for record in records if not record.init]
    ended = [_end(facts, record) for record in mains]
    started = any(record.starts for record in mains)
    if any((end := _end(facts, one)) and end.exit_code and not one.restarts(policy) for one in inits):
        return "Failed"
    pending = any(not record.done for record in facts.records.values() if record.init) and not started
    if not facts.terminal and (pending or any(not one.running and end is None for one, end in zip(mains, ended))):
        return "Pending"
    running = [record for record in records if record.running and (not record.init or record.sidecar)]
    if running:
        return "Running"
    stopped = [end for end in ended if end is not None]
    if facts.terminal or not any(record.restarts(policy) for record in mains):
        return "Succeeded" if stopped and all(end.exit_code == 0 for end in stopped) else "Failed"
    return "Running"


def _end(facts: Facts, record: ContainerRecord) -> Ended | None:
    """How a container ended; one that never ran counts as lost once the pod is at its end."""
    if record.running:
        return None
    if record.ended is None and facts.terminal:
        return Ended(LOST_EXIT_CODE, facts.now_s, lost=True)
    return record.ended


def _container_status(facts: Facts, record: ContainerRecord) -> Status:
    end = _end(facts, record)
    run = record.run
    last = record.ended if record.waiting is not None and record.ended is not None else record.last
    status: Status = {
        "name": record.spec.name,
        "image": record.spec.image,
        "imageID": "",
        "ready": record.running if not record.init or record.sidecar else record.done,
        "started": record.running,
        "restartCount": max(0, record.starts - 1),
        "state": _state(facts, record, end),
        "lastState": {"terminated": _terminated(facts, last)} if last is not None else {},
    }
    if run is not None:
        status["containerID"] = _container_id(facts, run.id)
    health = facts.health.get(record.spec.name)
    if health:
        status["allocatedResourcesStatus"] = [dict(item) for item in health]
    return status


def _state(facts: Facts, record: ContainerRecord, end: Ended | None) -> Status:
    run = record.run
    if record.running and run is not None:
        return {"running": {"startedAt": timestamp(run.started_s)}}
    if record.waiting is not None and not facts.terminal:
        waiting = {"reason": record.waiting.reason}
        if record.waiting.message:
            waiting["message"] = record.waiting.message
        return {"waiting": waiting}
    if end is not None:
        return {"terminated": _terminated(facts, end)}
    reason = "PodInitializing" if facts.pod.spec.init_containers else "ContainerCreating"
    return {"waiting": {"reason": reason}}


def _terminated(facts: Facts, end: Ended) -> Status:
    if end.lost:
        return {
            "exitCode": end.exit_code,
            "reason": "ContainerStatusUnknown",
            "message": LOST_TEXT,
        }
    told: Status = {
        "exitCode": end.exit_code,
        "reason": end.reason or ("Completed" if end.exit_code == 0 else "Error"),
        "finishedAt": timestamp(end.finished_s),
    }
    if end.started_s is not None:
        told["startedAt"] = timestamp(end.started_s)
    if end.id:
        told["containerID"] = _container_id(facts, end.id)
    return told


def _container_id(facts: Facts, id_: str) -> str:
    return f"{facts.runtime.partition(':')[0] or 'runtime'}://{id_}"


def ended_of(run: ContainerState) -> Ended | None:
    """How a run ended, None while it goes on."""
    if run.exit_code is None:
        return None
    return Ended(run.exit_code, run.finished_s or run.started_s, run.started_s, run.id, reason=run.reason)


def _conditions(facts: Facts, statuses: Mapping[str, Status], phase: str) -> list[Status]:
    ready = _ready(facts, statuses, phase)
    sandbox = facts.sandbox and not facts.terminal
    return [
        {"type": "PodReadyToStartContainers", "status": _truth(sandbox)},
        _initialized(facts, phase),
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **ready},
    ]


def _initialized(facts: Facts, phase: str) -> Status:
    inits = [record for record in facts.records.values() if record.init]
    missing = [record.spec.name for record in inits if not record.done]
    if phase == "Succeeded":
        return {"type": "Initialized", "status": "True", "reason": "PodCompleted"}
    if missing and not any(record.starts for record in facts.records.values() if not record.init):
        return {
            "type": "Initialized",
            "status": "False",
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(missing)}]",
        }
    return {"type": "Initialized", "status": "True"}


def _ready(facts: Facts, statuses: Mapping[str, Status], phase: str) -> Status:
    if phase in ENDED_PHASES:
        return {"status": "False", "reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    asked = [name for name, record in facts.records.items() if not record.init or record.sidecar]
    unready = [name for name in asked if not statuses[name]["ready"]]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return {"status": "False", "reason": "ContainersNotReady", "message": message}
    return {"status": "True"}


def _truth(value: bool) -> str:
    return "True" if value else "False"


def _merged(new: Sequence[Status], old: Mapping[str, Any], now_s: float) -> list[Status]:
    """The kubelet's conditions first, then the others'; a condition whose status stays keeps its time."""
    before = {one.get("type"): one for one in old.get("conditions", ())}
    merged: list[Status] = []
    for condition in new:
        was = before.get(condition["type"])
        same = was is not None and was.get("status") == condition["status"]
        since = was.get("lastTransitionTime") if same and was is not None else None
        merged.append({**condition, "lastTransitionTime": since or timestamp(now_s)})
    told = {condition["type"] for condition in new}
    return [*merged, *(dict(one) for type_, one in before.items() if type_ not in told)]
