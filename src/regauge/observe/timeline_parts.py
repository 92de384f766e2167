"""A moment in the life of a claim, and how sure it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Step(StrEnum):
    """What happened, in the order of a claim's life."""

    pod_created = "pod created"
    created = "created"
    refused = "not placed"
    allocated = "allocated"
    reserved = "reserved"
    scheduled = "pod placed"
    reported = "reported by the driver"
    trouble = "trouble"
    prepared = "prepared"
    started = "started"
    restarted = "restarted"
    tainted = "device tainted"
    evicted = "eviction"
    pod_deleted = "pod deleted"
    stopped = "stopped"
    unprepared = "unprepared"
    unreserved = "unreserved"
    deleted = "deleted"
    released = "released"
    gone = "gone"

    @property
    def rank(self) -> int:
        """Which comes first among steps with the same time."""
        return _RANKS[self]


_RANKS = {step: rank for rank, step in enumerate(Step)}


class Certainty(StrEnum):
    """How the time of a moment is known."""

    noted = "noted"
    seen = "seen"
    at_most = "at or before"
    between = "between"


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened at `at_s` (seconds since 1970), to `subject`: the claim, `pod NAME`, or `device NAME`.

    `source` is what tells so, such as the field. For `at_most` it happened at `at_s` at the latest, for `between` not before
    `from_s` either.
    """

    at_s: float
    step: Step
    subject: str
    text: str
    source: str
    certainty: Certainty = Certainty.noted
    from_s: float | None = None

    @property
    def inferred(self) -> bool:
        return self.certainty in (Certainty.at_most, Certainty.between)


CLAIM = "claim"
