"""The moment that a dump was taken at, as its objects tell: ages are counted up to it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.model import Document, Snapshot
from regauge.model.kinds import LEASE, NODE, POD, RESOURCE_CLAIM
from regauge.observe.correlation import seconds

_BEATING = ("lastHeartbeatTime", "lastTransitionTime")


def moment_of(snapshot: Snapshot) -> float | None:
    """The latest time that anything in a snapshot tells: heartbeats of nodes and leases first of all; None without any."""
    return max(_times(snapshot), default=None)


def _times(snapshot: Snapshot) -> Iterator[float]:
    told = [
        time for kind in (NODE, POD, RESOURCE_CLAIM, LEASE) for one in snapshot.documents(kind) for time in _of(one)
    ]
    for text in told:
        at_s = seconds(text)
        if at_s is not None:
            yield at_s


def _of(document: Document) -> Iterator[str]:
    metadata = document.metadata
    yield from _texts(metadata, "creationTimestamp")
    spec, status = document.object.get("spec"), document.object.get("status")
    if isinstance(spec, dict):
        yield from _texts(spec, "renewTime")
    if not isinstance(status, dict):
        return
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict):
            yield from _texts(condition, *_BEATING)
    allocation = status.get("allocation")
    if isinstance(allocation, dict):
        yield from _texts(allocation, "allocationTimestamp")


def _texts(values: Mapping[str, Any], *names: str) -> Iterator[str]:
    return (value for name in names if isinstance(value := values.get(name), str))
