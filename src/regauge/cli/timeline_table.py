"""The life of a claim as rows and documents, and reading what it is told from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regauge.base import InputError, Where, human_duration
from regauge.cli.devices_document import moment, not_read
from regauge.cli.view_reading import Seen
from regauge.inventory import claim_names
from regauge.model import Kind
from regauge.model.kinds import CORE_EVENT, DEVICE_TAINT_RULE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.resource import ResourceClaim
from regauge.observe.timeline import Moment, Timeline, timeline_of
from regauge.observe.timeline_picture import time_text
from regauge.scheduler import find_named

SCHEMA = "regauge.timeline/v1"
COLUMNS = ("TIME", "AFTER", "OF", "WHAT")
TIMELINE_KINDS: tuple[Kind, ...] = (RESOURCE_CLAIM, POD, CORE_EVENT, RESOURCE_SLICE, DEVICE_TAINT_RULE)
"""What is read of a cluster to tell the life of a claim."""


def claim_in(seen: Seen, name: str) -> ResourceClaim:
    """The claim of this name. Raises `InputError` with near names where there is none."""
    return find_named("ResourceClaim", seen.estate.snapshot.claims, name, seen.namespace)


def timelines_in(seen: Seen, name: str, *, of_pod: bool) -> list[Timeline]:
    """The life of the claim of this name, or of each claim `of_pod`. Raises `InputError` where there is none."""
    snapshot = seen.estate.snapshot
    if not of_pod:
        found = [claim_in(seen, name)]
    else:
        pod = find_named("Pod", snapshot.pods, name, seen.namespace)
        names = claim_names(pod)
        found = [one for one in snapshot.claims if _is(one, pod.metadata.namespace, names)]
        if not found:
            title = f"Pod {pod.metadata.namespace}/{pod.metadata.name}"
            named = f"claims that it names: {', '.join(sorted(names))}" if names else "it names no claim"
            raise InputError("has no claim that is there", where=Where(object=title), fix=named)
    return [timeline_of(one, snapshot, seen.estate.nodes, seen.now_s) for one in found]


def _is(claim: ResourceClaim, namespace: str, names: frozenset[str]) -> bool:
    return claim.metadata.namespace == namespace and claim.metadata.name in names


def moment_rows(moments: Iterable[Moment], first_s: float | None = None, *, wide: bool) -> list[tuple[str, ...]]:
    """A row for each moment; `first_s` is the first of all where these go on others."""
    listed = list(moments)
    first = first_s if first_s is not None else min((one.at_s for one in listed), default=0.0)
    return [
        (
            time_text(one),
            f"+{human_duration(one.at_s - first)}",
            one.subject,
            one.text,
            *((f"{one.certainty.value}: {one.source}",) if wide else ()),
        )
        for one in listed
    ]


def timeline_document(found: Timeline, seen: Seen) -> dict[str, Any]:
    """The life as a document."""
    return {
        "schema": SCHEMA,
        "source": seen.estate.source,
        "asOf": moment(found.now_s),
        "claim": {
            "namespace": found.namespace,
            "name": found.claim,
            "uid": found.uid,
            "state": found.state,
            "node": found.node,
            "devices": list(found.devices),
        },
        "moments": [moment_document(one) for one in found.moments],
        "periods": [
            {"of": one.subject, "kind": one.kind.value, "from": moment(one.from_s), "to": moment(one.to_s)}
            for one in found.periods
        ],
        "notKnown": list(found.not_known),
        "notRead": not_read(seen),
    }


def moment_document(one: Moment) -> dict[str, Any]:
    """One moment."""
    return {
        "time": moment(one.at_s),
        "notBefore": moment(one.from_s),
        "certainty": one.certainty.value,
        "of": one.subject,
        "step": one.step.value,
        "text": one.text,
        "source": one.source,
    }
