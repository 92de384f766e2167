"""What events tell of the life of a claim: those about it, and those about its pods that have to do with devices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regauge.model import Snapshot
from regauge.model.core import Pod
from regauge.model.kinds import CORE_EVENT, EVENT
from regauge.model.resource import ResourceClaim
from regauge.observe.correlation import seconds
from regauge.observe.timeline_parts import CLAIM, Moment, Step

_POD_STEPS: Mapping[str, Step] = {
    "FailedScheduling": Step.refused,
    "Scheduled": Step.scheduled,
    "FailedPrepareDynamicResources": Step.trouble,
    "FailedResourceClaimCreation": Step.trouble,
    "UnexpectedAdmissionError": Step.trouble,
    "Failed": Step.trouble,
    "BackOff": Step.trouble,
    "NodeNotReady": Step.trouble,
    "Started": Step.started,
    "Killing": Step.evicted,
    "Preempted": Step.evicted,
    "Evicted": Step.evicted,
    "DeviceTaintManagerEviction": Step.evicted,
    "TaintManagerEviction": Step.evicted,
}
"""Reasons of events about pods that are told, and the step of the claim's life they belong to."""
MOST_TEXT = 300


def event_moments(claim: ResourceClaim, pods: Iterable[Pod], snapshot: Snapshot) -> Iterator[Moment]:
    """The moments that events tell of. What fields of the pod tell better is left to them."""
    by_uid = {pod.metadata.uid: pod for pod in pods if pod.metadata.uid}
    by_name = {pod.metadata.name: pod for pod in by_uid.values()}
    seen: set[str] = set()
    for document in (*snapshot.documents(CORE_EVENT), *snapshot.documents(EVENT)):
        event = document.object
        uid = str(document.metadata.get("uid") or f"{document.namespace}/{document.name}")
        about: Any = event.get("involvedObject") or event.get("regarding")
        if uid in seen or document.namespace != claim.metadata.namespace or not isinstance(about, dict):
            continue
        if _is(about, "ResourceClaim", claim.metadata.name, claim.metadata.uid):
            seen.add(uid)
            yield from _told(event, CLAIM, Step.trouble if event.get("type") == "Warning" else Step.reported)
        elif about.get("kind") == "Pod":
            named = by_uid if about.get("uid") else by_name
            pod = named.get(str(about.get("uid") or about.get("name", "")))
            step = _POD_STEPS.get(str(event.get("reason")))
            if pod is not None and step is not None and not _by_fields(pod, str(event.get("reason"))):
                seen.add(uid)
                yield from _told(event, f"pod {pod.metadata.name}", step)


def _is(about: Mapping[str, Any], kind: str, name: str, uid: str) -> bool:
    same = about.get("uid") in (uid, None, "")
    return about.get("kind") == kind and about.get("name") == name and same


def _by_fields(pod: Pod, reason: str) -> bool:
    """Whether the pod's own status tells the same, container by container."""
    return reason == "Started" and any(one.state for one in pod.status.container_statuses)


def _told(event: Mapping[str, Any], subject: str, step: Step) -> Iterator[Moment]:
    series = _mapping(event.get("series"))
    first = _first(event, "firstTimestamp", "eventTime", "deprecatedFirstTimestamp")
    at_s = first if first is not None else _first(_mapping(event.get("metadata")), "creationTimestamp")
    if at_s is None:
        return
    count = next((one for one in (series.get("count"), event.get("count"), event.get("deprecatedCount")) if one), 1)
    last = _first(series, "lastObservedTime") or _first(event, "lastTimestamp", "deprecatedLastTimestamp")
    text = str(event.get("message") or event.get("note") or event.get("reason") or "")
    text = text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
    often = isinstance(count, int) and count > 1 and last is not None and last > at_s
    again = f" ({count} times in {(last or at_s) - at_s:.0f} s)" if often else ""
    reporter = event.get("reportingComponent") or event.get("reportingController")
    by = reporter or _mapping(event.get("source")).get("component") or "somebody"
    yield Moment(at_s, step, subject, f"{text}{again}", f"event {event.get('reason', '')} of {by}")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(event: Mapping[str, Any], *names: str) -> float | None:
    return next((at_s for name in names if (at_s := seconds(event.get(name))) is not None), None)
