"""Metrics of claims: their states, why they wait, what failed, how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate

from regauge.audit import Layer
from regauge.model.resource import ResourceClaim
from regauge.observe.advancing import class_label
from regauge.observe.correlation import seconds
from regauge.observe.families import Buckets, Family, Series, Type
from regauge.observe.history import BOUNDS_S, Tally
from regauge.observe.metric_moment import Moment

STATES = ("pending", "allocated", "reserved", "deleting")


def state_of(claim: ResourceClaim) -> str:
    """One of STATES: deleting first, then by what it has. A reserved claim is allocated, too, and counted once."""
    if claim.metadata.deletion_timestamp:
        return "deleting"
    if claim.status.allocation is None:
        return "pending"
    return "reserved" if claim.status.reserved_for else "allocated"


def claims(moment: Moment) -> Iterator[Series]:
    found = Counter((one.metadata.namespace, class_label(one), state_of(one)) for _, one in moment.ground.claims)
    yield from sorted(found.items())


def pending(moment: Moment) -> Iterator[Series]:
    found = Counter((namespace, reason.value) for (namespace, _), reason in moment.pending.items())
    yield from sorted(found.items())


def oldest(moment: Moment) -> Iterator[Series]:
    found: dict[tuple[str, str], float] = {}
    for _, claim in moment.ground.claims:
        reason = moment.pending.get((claim.metadata.namespace, claim.metadata.name))
        made_s = seconds(claim.metadata.creation_timestamp)
        if reason is not None and made_s is not None:
            key = (claim.metadata.namespace, reason.value)
            found[key] = max(found.get(key, 0.0), moment.now_s - made_s)
    yield from sorted(found.items())


def pods(moment: Moment) -> Iterator[Series]:
    found = Counter((pod.metadata.namespace, stack.value, reason.value) for pod, stack, reason in moment.pending_pods)
    yield from sorted(found.items())


def failures(moment: Moment) -> Iterator[Series]:
    yield from sorted(moment.history.failures.items())


def allocation(moment: Moment) -> Iterator[Series]:
    yield from _histograms(moment.history.allocation)


def preparation(moment: Moment) -> Iterator[Series]:
    yield from _histograms(moment.history.preparation)


def _histograms(tallies: Mapping[str, Tally]) -> Iterator[Series]:
    for name, tally in sorted(tallies.items()):
        yield (name,), Buckets(tuple(zip(BOUNDS_S, accumulate(tally.counts), strict=True)), tally.total_s)


FAMILIES = (
    Family(
        "resourceclaims", Type.GAUGE,
        "ResourceClaims by state: pending, allocated (reserved by nobody), reserved, deleting.",
        ("namespace", "deviceclass", "state"), Layer.SCHEDULING, claims,
    ),
    Family(
        "resourceclaims_pending", Type.GAUGE, "ResourceClaims without devices, by the reason that the scheduler has.",
        ("namespace", "reason"), Layer.SCHEDULING, pending,
    ),
    Family(
        "resourceclaims_pending_age_seconds", Type.GAUGE, "How long the oldest of these has been waiting.",
        ("namespace", "reason"), Layer.SCHEDULING, oldest, "seconds",
    ),
    Family(
        "pods_waiting_for_devices", Type.GAUGE,
        "Pods without a node that ask for devices, by the stack that they ask and the first reason that is known. A pod that"
        " asks both counts for each.",
        ("namespace", "stack", "reason"), Layer.SCHEDULING, pods,
    ),
    Family(
        "resourceclaim_failures", Type.COUNTER,
        "Events that say that a pod did not get its devices: claims not made or not prepared, devices of device plugins"
        " not admitted.",
        ("namespace", "reason"), Layer.INJECTION, failures,
    ),
    Family(
        "resourceclaim_allocation_duration_seconds", Type.HISTOGRAM,
        "Time from the creation of a ResourceClaim to its allocation.",
        ("deviceclass",), Layer.SCHEDULING, allocation, "seconds",
    ),
    Family(
        "resourceclaim_preparation_duration_seconds", Type.HISTOGRAM,
        "Time from the allocation of a ResourceClaim until its devices were ready: by the driver's word in its status, else"
        " when the sandbox of its first pod was ready.",
        ("deviceclass",), Layer.INJECTION, preparation, "seconds",
    ),
)  # fmt: skip
