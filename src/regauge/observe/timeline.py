"""The life of one claim: made, allocated, reserved, prepared, in use, given back; each moment with where it is known from.

Pure. Moments are noted (the API or a program wrote the time down), seen (while following), or inferred: then the time is an
upper bound or an interval, and it is said from what. What nothing tells of is listed as not known, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from regauge.model import Snapshot
from regauge.model.core import ENDED_PHASES, Pod
from regauge.model.node_files import NodeFiles
from regauge.model.resource import ResourceClaim
from regauge.observe.claims_view import claim_state, node_of
from regauge.observe.timeline_claim import claim_moments, device_moments
from regauge.observe.timeline_events import event_moments
from regauge.observe.timeline_nodes import checkpoint_moments
from regauge.observe.timeline_parts import Certainty, Moment, Step
from regauge.observe.timeline_pods import pod_moments, pods_of

__all__ = ["Certainty", "Moment", "Period", "PeriodKind", "Step", "Timeline", "in_order", "timeline_of"]


_Told = tuple[str, Step, str]


class PeriodKind(StrEnum):
    """What a stretch of time was spent with."""

    waiting = "waiting for devices"
    placing = "waiting for a node"
    allocated = "allocated"
    starting = "starting"
    running = "running"
    ending = "ending"
    tainted = "tainted"


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time of the claim, a pod or a device; `to_s` None while it lasts."""

    subject: str
    kind: PeriodKind
    from_s: float
    to_s: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Moments in order; what lasted; and which steps nothing tells of, with the reason.

    `state` is the claim's in kubectl's words; `now_s` is the moment up to which the objects tell.
    """

    namespace: str
    claim: str
    uid: str
    state: str
    node: str
    devices: tuple[str, ...]
    moments: tuple[Moment, ...]
    periods: tuple[Period, ...]
    not_known: tuple[str, ...]
    now_s: float | None


def timeline_of(
    claim: ResourceClaim, snapshot: Snapshot, nodes: Mapping[str, NodeFiles], now_s: float | None
) -> Timeline:
    """The life of a claim, as far as an estate tells. `nodes` are files of nodes, for the checkpoints in them."""
    pods = pods_of(claim, snapshot)
    told = tuple(event_moments(claim, pods, snapshot))
    placed_s: dict[str, float] = {}
    for one in told:
        if one.step is Step.scheduled:
            placed_s[one.subject] = min(one.at_s, placed_s.get(one.subject, one.at_s))
    found = [
        *claim_moments(claim, snapshot),
        *device_moments(claim, snapshot),
        *chain.from_iterable(pod_moments(claim, pod, placed_s.get(f"pod {pod.metadata.name}")) for pod in pods),
        *(one for one in told if one.step is not Step.scheduled),
        *checkpoint_moments(claim, nodes),
    ]
    moments = in_order(found)
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    on_nodes = {pod.spec.node_name for pod in pods if pod.spec.node_name and pod.status.phase not in ENDED_PHASES}
    return Timeline(
        namespace=claim.metadata.namespace,
        claim=claim.metadata.name,
        uid=claim.metadata.uid,
        state=claim_state(claim),
        node=node_of(claim) or (on_nodes.pop() if len(on_nodes) == 1 else ""),
        devices=tuple(dict.fromkeys(f"{one.driver}/{one.pool}/{one.device}" for one in results)),
        moments=moments,
        periods=tuple(periods_of(moments, pods)),
        not_known=tuple(_not_known(claim, pods, moments, nodes)),
        now_s=now_s,
    )


def in_order(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """By time, and where times are the same by what comes first in the life of a claim; each once, as surely as it is known.

    What is noted is not also told as seen, and neither as inferred; of several bounds the tightest stays.
    """
    by_rank: dict[_Told, dict[int, list[Moment]]] = {}
    for one in dict.fromkeys(moments):
        rank = 2 if one.inferred else int(one.certainty is Certainty.seen)
        by_rank.setdefault((one.subject, one.step, one.text), {}).setdefault(rank, []).append(one)
    kept: list[Moment] = []
    for ranks in by_rank.values():
        best = min(ranks)
        kept += ranks[best] if best < 2 else [min(ranks[best], key=lambda one: one.at_s)]
    return tuple(sorted(kept, key=lambda one: (one.at_s, one.step.rank, one.subject, one.text)))


def periods_of(moments: Iterable[Moment], pods: Iterable[Pod]) -> Iterable[Period]:
    """What lasted, from the moments."""
    first: dict[tuple[str, Step], float] = {}
    for one in moments:
        first.setdefault((one.subject, one.step), one.at_s)
    yield from _of_claim(first)
    for pod in pods:
        yield from _of_pod(f"pod {pod.metadata.name}", first)
    for (subject, step), at_s in first.items():
        if step is Step.tainted:
            yield Period(subject, PeriodKind.tainted, at_s, None)


def _of_claim(first: Mapping[tuple[str, Step], float]) -> Iterable[Period]:
    created, allocated = first.get(("claim", Step.created)), first.get(("claim", Step.allocated))
    ended = first.get(("claim", Step.released), first.get(("claim", Step.gone)))
    if created is not None:
        yield Period("claim", PeriodKind.waiting, created, allocated if allocated is not None else ended)
    if allocated is not None:
        yield Period("claim", PeriodKind.allocated, allocated, ended)


def _of_pod(subject: str, first: Mapping[tuple[str, Step], float]) -> Iterable[Period]:
    def at(step: Step) -> float | None:
        return first.get((subject, step))

    created, scheduled, started = at(Step.pod_created), at(Step.scheduled), at(Step.started)
    ending, ended = at(Step.pod_deleted), at(Step.stopped)
    if created is not None:
        yield Period(subject, PeriodKind.placing, created, scheduled if scheduled is not None else ended)
    if scheduled is not None:
        yield Period(subject, PeriodKind.starting, scheduled, started if started is not None else ended)
    if started is not None:
        until = ended if ended is not None else ending
        yield Period(subject, PeriodKind.running, started, until)
    if ending is not None and (ended is None or ended > ending):
        yield Period(subject, PeriodKind.ending, ending, ended)


def _not_known(
    claim: ResourceClaim, pods: tuple[Pod, ...], moments: Iterable[Moment], nodes: Mapping[str, NodeFiles]
) -> Iterable[str]:
    """The steps that must have been taken, and that nothing tells of."""
    steps = {one.step for one in moments}
    if claim.status.allocation is not None and Step.allocated not in steps:
        yield "when it was allocated: no allocationTimestamp, and no managedFields with the allocation"
    if claim.status.reserved_for and Step.reserved not in steps:
        yield "when it was reserved: no managedFields, and no pod of it that was placed"
    for pod in pods:
        started = any(one.step is Step.started and one.subject == f"pod {pod.metadata.name}" for one in moments)
        prepared = any(one.step is Step.prepared and one.subject == f"pod {pod.metadata.name}" for one in moments)
        if pod.spec.node_name and started and not prepared:
            where = "" if pod.spec.node_name in nodes else f", no record of node {pod.spec.node_name}"
            yield f"when it was prepared for pod {pod.metadata.name}: no condition PodReadyToStartContainers{where}"
