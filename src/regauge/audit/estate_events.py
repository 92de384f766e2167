"""Rules about what was told of pods: claims that are not made, devices that are not prepared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regauge.audit.findings import Evidence
from regauge.audit.ground import GRACE_S, Ground, Spot, at, mapping, seen, some
from regauge.model import Document
from regauge.model.core import Pod
from regauge.model.kinds import POD
from regauge.scheduler import is_terminal

PREPARE = "FailedPrepareDynamicResources"
NOT_MADE = "FailedResourceClaimCreation"
_TIMES = 3
"""From so many failures on it is no accident, however fast they came."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one event tells: how often, from when to when (timestamps as written, "" where not told), and the message."""

    document: Document
    count: int
    first: str
    last: str
    message: str


def told_of(ground: Ground, reason: str, pod: tuple[str, str, str]) -> list[Told]:
    """The events with a reason about a pod (namespace, name, uid), the oldest first."""
    events = ground.events_of_pods.get(reason, {}).get(pod, ())
    return sorted((_told(one, one.object) for one in events), key=lambda one: one.first)


def _told(document: Document, event: dict[str, Any]) -> Told:
    series = mapping(event.get("series"))
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime") or ""
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or first
    count = series.get("count") or event.get("count") or event.get("deprecatedCount") or 1
    message = str(event.get("note") or event.get("message") or "")
    return Told(document, count if isinstance(count, int) else 1, str(first), str(last), message)


def prepare_failing(ground: Ground) -> Iterator[Spot]:
    """PREPARE-FAILING: a pod cannot start because a driver cannot prepare its devices, again and again."""
    for key in sorted(ground.events_of_pods.get(PREPARE, {})):
        (namespace, name, uid), told = key, told_of(ground, PREPARE, key)
        pod = ground.pods.get((namespace, name))
        if ground.has(POD) and (pod is None or (uid and pod.metadata.uid != uid) or _started(pod)):
            continue
        count = sum(one.count for one in told)
        first, last = told[0], max(told, key=lambda one: one.last)
        age = ground.seconds_since(first.first)
        if count < _TIMES and (age is None or age < GRACE_S):
            continue
        what = f"pod {namespace}/{name} does not start: preparing its devices failed {count} times" + (
            f", first at {first.first}, last at {last.last}" if first.first else ""
        )
        same = first.message == last.message
        evidence = [Evidence(at(first.document), f"first: {first.message}")]
        if not same:
            evidence.append(Evidence(at(last.document), f"last: {last.message}"))
        claims = [claim for _, claim in ground.claims if pod is not None and pod in ground.users(claim)]
        devices = tuple(
            f"{one.driver}/{one.pool}/{one.device}"
            for claim in claims
            for one in (claim.status.allocation.devices.results if claim.status.allocation else ())
        )
        why = (
            ""
            if same
            else "The error has changed: something is being tried, or the driver answers by chance of its state."
        )
        yield Spot(f"Pod {namespace}/{name}", what, tuple(evidence), devices, why=why)


def not_created(ground: Ground) -> Iterator[Spot]:
    """CLAIM-NOT-CREATED: a pod names a template, and its claim has not been made."""
    templates = {(one.metadata.namespace, one.metadata.name) for _, one in ground.templates}
    for document, pod in ground.pairs(POD, Pod):
        made = {one.name for one in pod.status.resource_claim_statuses}
        missing = [one for one in pod.spec.resource_claims if one.resource_claim_template_name and one.name not in made]
        stored = bool(pod.metadata.uid)
        if not missing or not stored or is_terminal(pod) or not ground.settled(pod.metadata.creation_timestamp):
            continue
        lost = [one.resource_claim_template_name for one in missing
                if (pod.metadata.namespace, one.resource_claim_template_name) not in templates]  # fmt: skip
        because = f": there is no ResourceClaimTemplate {some(lost)}" if lost else ""
        what = (
            f"{document.title} waits for claims that nobody has made ({some([one.name for one in missing])}){because}"
        )
        events = told_of(ground, NOT_MADE, _key(pod))
        evidence = (seen(document, some([one.name for one in missing]), "spec.resourceClaims"),
                    *(Evidence(at(one.document), f"{one.count} times: {one.message}") for one in events[:3]))  # fmt: skip
        yield Spot(document.title, what, evidence)


def scheduling_events(ground: Ground, pods: list[Pod]) -> tuple[Evidence, ...]:
    """What the scheduler said last of pods that wait."""
    found = []
    for pod in pods[:3]:
        events = told_of(ground, "FailedScheduling", _key(pod))
        if events:
            last = max(events, key=lambda one: one.last)
            found.append(
                Evidence(
                    at(last.document), f"{last.count} times, last at {last.last or 'no time told'}: {last.message}"
                )
            )
    return tuple(found)


def _key(pod: Pod) -> tuple[str, str, str]:
    return (pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def _started(pod: Pod) -> bool:
    return pod.status.phase not in ("", "Pending")
