"""What a plan's rehearsal compares: everything that people and controllers rely on, without names that are made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.base import canonical_json
from regauge.inventory import newest_slices
from regauge.migrate import Sight, cleaned, devices_of, digest_of, ready_pods, reference_of
from regauge.model import Document, Kind, Object
from regauge.model.core import Pod
from regauge.model.kinds import DAEMON_SET, DEVICE_CLASS, NODE, RESOURCE_CLAIM_TEMPLATE, RESOURCE_QUOTA
from regauge.rehearsal.report import Placement

COMPARED: tuple[Kind, ...] = (DAEMON_SET, DEVICE_CLASS, RESOURCE_CLAIM_TEMPLATE)


@dataclass(frozen=True, slots=True)
class EstateState:
    """What is compared, by what it is about; and the placement of each workload."""

    facts: Mapping[str, str]
    placements: Mapping[str, Placement]


def state_of(sight: Sight) -> EstateState:
    """The state of an estate at one moment."""
    facts = dict(_facts(sight))
    return EstateState(facts, {item.title: _placement(item.title, item.pods, sight) for item in sight.workloads})


def differences(before: EstateState, after: EstateState) -> tuple[str, ...]:
    """What is not as it was."""
    told = []
    for key in sorted({*before.facts, *after.facts}):
        old, new = before.facts.get(key, "not there"), after.facts.get(key, "not there")
        if old != new:
            told.append(f"{key}: {old} before, {new} now")
    return tuple(told)


def _facts(sight: Sight) -> Iterator[tuple[str, str]]:
    snapshot = sight.snapshot
    for document in snapshot.documents(NODE):
        spec, status = document.object.get("spec") or {}, document.object.get("status") or {}
        devices = {k: v for k, v in (status.get("capacity") or {}).items() if "/" in k and str(v) != "0"}
        yield f"{document.name}: labels", _text(document.object["metadata"].get("labels") or {})
        yield f"{document.name}: cordoned", _text(bool(spec.get("unschedulable")))
        yield f"{document.name}: counted devices", _text(devices)
    published: dict[str, int] = {}
    for slice_ in newest_slices(snapshot.slices):
        key = f"{slice_.spec.node_name or slice_.spec.pool.name}: published by {slice_.spec.driver}"
        published[key] = published.get(key, 0) + len(slice_.spec.devices)
    yield from ((key, str(count)) for key, count in published.items())
    for kind in COMPARED:
        for document in snapshot.documents(kind):
            yield document.title, _written(document)
    for document in snapshot.documents(RESOURCE_QUOTA):
        yield f"{document.title}: hard", _text((document.object.get("spec") or {}).get("hard") or {})
        yield f"{document.title}: used", _text((document.object.get("status") or {}).get("used") or {})
    for workload in sight.workloads:
        yield workload.title, _written(workload.document)
        yield f"{workload.title}: ready pods", str(len(ready_pods(workload)))
        yield f"{workload.title}: devices", str(devices_of(reference_of(workload.document.object), sight))


def _written(document: Document) -> str:
    object_: Object = cleaned(document.object)
    object_["metadata"].pop("annotations", None)
    return digest_of(object_)


def _text(value: Any) -> str:
    return canonical_json(value).decode()


def _placement(title: str, pods: tuple[Pod, ...], sight: Sight) -> Placement:
    """Where the pods of a workload are and with which devices, by identity where it is known."""
    names = {f"pod {pod.metadata.namespace}/{pod.metadata.name}" for pod in pods}
    held = [device for device in sight.inventory.devices if names & set(device.holders)]
    stacks = sorted({stack.value for device in held for stack in device.stacks})
    nodes = sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})
    return Placement(
        title, ", ".join(stacks) or "-", ", ".join(nodes) or "-", tuple(sorted(d.identity for d in held)), None
    )
