"""What `regauge gang check -o json` and `regauge gang whatif -o json` print, and their form as JSON Schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from regauge.cli.explain_schema import NotRead, Part

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.scheduler import Contest, Deadlock, GangAnswer, GangCheck, GangWhatIf, Turn

CHECK = "regauge.gang-check/v1"
WHAT_IF = "regauge.gang-whatif/v1"
_ANSWERS = (
    "is placed",
    "can be placed",
    "may be placed, by chance",
    "can be placed together only",
    "cannot be placed",
    "not determined",
)
_OUTCOMES = ("is placed", "is placed then", "holds and waits", "waits", "not determined")


class PlaceOfPod(Part, frozen=True):
    """Where a pod would go."""

    pod: str
    node: str


class Holder(Part, frozen=True):
    """A pod of a gang that is placed."""

    pod: str
    node: str
    since: Annotated[str | None, Meta(description="when it started; null where that is not noted")]
    devices: Annotated[list[str], Meta(description="driver, pool and name")]


class Chance(Part, frozen=True):
    """The scheduler asked several times: the order of like pods and the choice among like nodes are drawn."""

    places: Annotated[int, Meta(description="draws in which it finds places")]
    draws: int


class Domain(Part, frozen=True):
    """A domain of the topology that the gang asks for."""

    name: Annotated[str, Meta(description="the values of the labels")]
    nodes: int
    fits: bool
    in_order: Annotated[bool, Meta(description="the scheduler finds it, pod by pod")]
    why: str
    without_devices: Annotated[bool | None, Meta(description="its pods would fit without devices; null where they fit")]


class KeptTogether(Part, frozen=True):
    """Who makes it a gang, in which version."""

    kind: str
    says: str
    versions: str
    stage: str
    together: Annotated[bool, Meta(description="nothing of it is placed before enough of it can be, here and now")]
    hold: Annotated[str, Meta(description="how a part of it comes to hold devices")]
    source: str


class GangPart(Part, frozen=True):
    """One gang."""

    gang: str
    kept: KeptTogether
    pods: int
    least: int
    placed: int
    done: Annotated[int, Meta(description="pods that ended well and are not needed again")]
    answer: Annotated[str, Meta(extra_json_schema={"enum": list(_ANSWERS)})]
    partial: Annotated[bool, Meta(description="it holds and waits")]
    why: str
    places: list[PlaceOfPod]
    chance: Chance
    would_hold: Annotated[int, Meta(description="pods that would get places while the rest waits, if it started now")]
    since: str | None
    age_seconds: Annotated[float | None, Meta(description="since the first of its pods started; null for a dump")]
    holders: list[Holder]
    topology: str
    domains: list[Domain]
    conflict: Annotated[str, Meta(description="how topology and devices are in each other's way")]
    blocked_by: list[str]
    jointly: Annotated[bool, Meta(description="all of those it is blocked by have to give back, not just one")]
    freed_by: Annotated[list[str], Meta(description="pods of no gang, each of which is enough")]
    advice: str


class DeadlockPart(Part, frozen=True):
    """Gangs that wait for each other for good."""

    gangs: list[str]
    circle: Annotated[list[str], Meta(description="each waits for the next, the last for the first")]
    pause: Annotated[str, Meta(description="the one that should give back what it holds")]
    advice: str
    goes: Annotated[list[str], Meta(description="those that are placed then, in their order")]


class GangCheckDocument(Part, frozen=True):
    """What is so for all gangs."""

    schema: Annotated[str, Meta(extra_json_schema={"enum": [CHECK]})]
    source: str
    kube_version: str
    good: bool
    gangs: list[GangPart]
    deadlocks: list[DeadlockPart]
    not_read: list[NotRead]


class TurnPart(Part, frozen=True):
    """What becomes of one gang."""

    gang: str
    outcome: Annotated[str, Meta(extra_json_schema={"enum": list(_OUTCOMES)})]
    why: str
    placed: int
    least: int
    devices: int
    places: list[PlaceOfPod]


class ContentionPart(Part, frozen=True):
    """Either can be placed, but not one after the other."""

    taker: str
    loser: str


class ContestPart(Part, frozen=True):
    """What becomes of all gangs."""

    order: list[TurnPart]
    at_once: Annotated[list[TurnPart], Meta(description="if their pods come at the same time")]
    placed: Annotated[int, Meta(description="gangs that are placed in this order")]
    best_order: list[str]
    best_placed: int
    orders: Annotated[int, Meta(description="orders that were tried")]
    contention: list[ContentionPart]
    deadlocks: Annotated[list[DeadlockPart], Meta(description="in this order")]
    at_once_deadlocks: Annotated[list[DeadlockPart], Meta(description="if their pods come at the same time")]


class GangWhatIfDocument(Part, frozen=True):
    """All gangs before and after a change."""

    schema: Annotated[str, Meta(extra_json_schema={"enum": [WHAT_IF]})]
    source: str
    kube_version: str
    gained: list[str]
    lost: list[str]
    before: ContestPart
    after: ContestPart
    notes: list[str]
    not_read: list[NotRead]


def check_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `regauge gang check` prints."""
    return _schema(GangCheckDocument, CHECK)


def whatif_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `regauge gang whatif` prints."""
    return _schema(GangWhatIfDocument, WHAT_IF)


def _schema(document: type, title: str) -> dict[str, Any]:
    found = msgspec.json.schema(document)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **found}


def check_document(found: GangCheck, estate: Estate, minor: str, kept: dict[str, bool], now_s: float | None) -> Any:
    """All gangs as JSON. `kept`: by kind, whether it is kept together here; `now_s`: seconds since 1970, None for a dump."""
    return msgspec.to_builtins(
        GangCheckDocument(
            schema=CHECK,
            source=estate.source,
            kube_version=minor,
            good=found.good,
            gangs=[_gang(one, kept[one.kind.kind], now_s) for one in found.gangs],
            deadlocks=[_deadlock(one) for one in found.deadlocks],
            not_read=[NotRead(item.what, item.why) for item in estate.skipped],
        )
    )


def _gang(one: GangAnswer, together: bool, now_s: float | None) -> GangPart:
    kind = one.kind
    return GangPart(
        gang=one.gang,
        kept=KeptTogether(kind.kind, kind.says, kind.versions, kind.stage, together, kind.hold, kind.source),
        pods=one.pods,
        least=one.least,
        placed=one.placed,
        done=one.done,
        answer=one.state,
        partial=one.partial,
        why=one.why,
        places=[PlaceOfPod(pod, node) for pod, node in one.places],
        chance=Chance(*one.chance),
        would_hold=one.would_hold,
        since=one.since,
        age_seconds=age_s(one.since, now_s),
        holders=[
            Holder(item.pod, item.node, item.since, ["/".join(id_) for id_ in item.devices]) for item in one.holders
        ],
        topology=one.topology,
        domains=[
            Domain(item.name, item.nodes, item.fits, item.in_order, item.why, item.without_devices)
            for item in one.domains
        ],
        conflict=one.conflict,
        blocked_by=list(one.blocked_by),
        jointly=one.jointly,
        freed_by=list(one.freed_by),
        advice=one.advice,
    )


def age_s(since: str | None, now_s: float | None) -> float | None:
    """How long ago a time was, in seconds."""
    if since is None or now_s is None:
        return None
    from datetime import datetime

    try:
        then = datetime.fromisoformat(since)
    except ValueError:
        return None
    return max(round(now_s - then.timestamp(), 3), 0.0)


def age(value_s: float | None) -> str:
    """Seconds for people, in one unit."""
    if value_s is None:
        return "-"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if value_s >= 2 * size:
            return f"{int(value_s // size)}{unit}"
    return f"{int(value_s)}s"


def _deadlock(one: Deadlock) -> DeadlockPart:
    return DeadlockPart(list(one.gangs), list(one.circle), one.pause, one.advice, list(one.goes))


def whatif_document(found: GangWhatIf, estate: Estate, minor: str) -> Any:
    """The forecast as JSON."""
    return msgspec.to_builtins(
        GangWhatIfDocument(
            schema=WHAT_IF,
            source=estate.source,
            kube_version=minor,
            gained=list(found.gained),
            lost=list(found.lost),
            before=_contest(found.before),
            after=_contest(found.after),
            notes=list(found.notes),
            not_read=[NotRead(item.what, item.why) for item in estate.skipped],
        )
    )


def _contest(one: Contest) -> ContestPart:
    return ContestPart(
        order=[_turn(item) for item in one.turns],
        at_once=[_turn(item) for item in one.at_once],
        placed=one.count,
        best_order=list(one.best),
        best_placed=one.best_count,
        orders=one.orders,
        contention=[ContentionPart(item.taker, item.loser) for item in one.contention],
        deadlocks=[_deadlock(item) for item in one.deadlocks],
        at_once_deadlocks=[_deadlock(item) for item in one.at_once_deadlocks],
    )


def _turn(one: Turn) -> TurnPart:
    places = [PlaceOfPod(pod, node) for pod, node in one.places]
    return TurnPart(one.gang, one.outcome, one.why, one.placed, one.least, one.devices, places)
