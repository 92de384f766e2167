"""Admission and allocation as the two steps that they are: whether quota passes, whether devices do, and the gap. Pure.

Kueue gives quota and looks at no node; the scheduler gives devices and looks at no quota.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regauge.base import Randomness
from regauge.model import Document, Rules, Snapshot
from regauge.model.kinds import POD
from regauge.scheduler.gang_checking import BY_CHANCE, IN_ORDER, PLACED, UNKNOWN, GangAnswer, answer
from regauge.scheduler.gang_kinds import Gang
from regauge.scheduler.gang_operators import workload_gang
from regauge.scheduler.gang_parts import Members
from regauge.scheduler.gang_world import GangWorld
from regauge.scheduler.nodes import Key
from regauge.scheduler.queue_objects import Workload

ADMITTED, WOULD, REFUSED = "is admitted", "would be admitted", "is refused"
QUOTA_ONLY = "quota passes, devices do not"
DEVICES_ONLY = "devices would do, quota does not pass"
MOST_WORKLOADS = 200
STEPS = 400


@dataclass(frozen=True, slots=True)
class Admittance:
    """The first step of one workload: one of the words above, why not, and the flavors that it has or would get."""

    word: str
    why: str
    flavors: Mapping[str, str]
    pods: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class WorkloadSteps:
    """Both steps of one workload. `gap` is "" where they agree."""

    workload: str
    queue: str
    quota: str
    quota_why: str
    devices: str
    devices_why: str
    placed: int
    pods: int
    gap: str


def two_steps(
    snapshot: Snapshot,
    rules: Rules,
    random: Randomness,
    workloads: Sequence[tuple[Document, Workload, str]],
    first: Mapping[str, Admittance],
) -> tuple[WorkloadSteps, ...]:
    """Both steps of workloads (with their queues), each as if it were the only one that waits; no more than a bound."""
    members = Members(snapshot)
    pods = {(one.namespace, one.name): one for one in snapshot.documents(POD)}
    gangs: list[Gang] = []
    asked = [item for item in workloads if item[1].title in first][:MOST_WORKLOADS]
    for document, one, _ in asked:
        admittance = first[one.title]
        own = [pods[key] for key in admittance.pods if key in pods]
        gangs.append(workload_gang(document, own, members, admittance.flavors))
    world = GangWorld.of(snapshot, rules, random, STEPS, gangs)
    return tuple(
        _steps(one.title, queue, first[one.title], answer(world, gang))
        for (_, one, queue), gang in zip(asked, gangs, strict=True)
    )


def _steps(workload: str, queue: str, quota: Admittance, devices: GangAnswer) -> WorkloadSteps:
    passes = quota.word != REFUSED
    can = devices.state in (PLACED, IN_ORDER, BY_CHANCE)
    gap = ""
    if devices.state != UNKNOWN:
        gap = QUOTA_ONLY if passes and not can else DEVICES_ONLY if can and not passes else ""
    return WorkloadSteps(
        workload,
        queue,
        quota.word,
        quota.why,
        devices.state,
        devices.conflict or devices.why,
        devices.placed + devices.done,
        devices.least,
        gap,
    )


__all__ = ["Admittance", "WorkloadSteps", "two_steps"]
