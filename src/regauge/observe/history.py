"""What only somebody knows who watched: device-seconds, durations, failures. A value, and its form in a file. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from regauge.base import InputError, Where

FORMAT = "regauge.dev/export-state/v1"
BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, math.inf)


class Consumer(NamedTuple):
    """Who devices are charged to. `stack` is the word of `inventory.Stack`; kind and workload are "" where none is known."""

    namespace: str
    kind: str
    workload: str
    stack: str


class Charge(NamedTuple):
    """Device-seconds, and how far the true number may be from them because a change was seen only at the next look.

    `last_s`: when it last grew, in seconds since 1970.
    """

    device_s: float
    uncertain_s: float
    last_s: float


class Use(NamedTuple):
    """One consumer's part of one device, and since when, if that is known. The parts of a device add up to 1."""

    consumer: Consumer
    part: float
    since_s: float | None


class Tally(NamedTuple):
    """A histogram of durations: how many ended in each bucket of BOUNDS_S, and their sum in seconds."""

    counts: tuple[int, ...] = (0,) * len(BOUNDS_S)
    total_s: float = 0.0

    def with_one(self, duration_s: float) -> Tally:
        place = bisect_left(BOUNDS_S, duration_s)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return Tally(counts, self.total_s + duration_s)


class Timed(NamedTuple):
    """Which of its durations a claim still owes."""

    allocation: bool
    preparation: bool


UseKey = tuple[str, str, str]
"""Node ("" where the physical device is not known), device, and the pod's uid (or the claim's, where no pod has it)."""


@dataclass(frozen=True, slots=True)
class History:
    """What was seen up to `moment_s` (None: nothing yet).

    `uses` are those at that moment. `allocation` and `preparation` are durations by device class, `failures` events by
    namespace and reason; `timed` and `events` say what of each claim and event, by uid, is in them already. `leaks` says when
    a claim that nobody uses, by uid, was first seen so, in seconds since 1970.
    """

    moment_s: float | None = None
    charges: Mapping[Consumer, Charge] = field(default_factory=dict)
    uses: Mapping[UseKey, Use] = field(default_factory=dict)
    allocation: Mapping[str, Tally] = field(default_factory=dict)
    preparation: Mapping[str, Tally] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], int] = field(default_factory=dict)
    timed: Mapping[str, Timed] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    leaks: Mapping[str, float] = field(default_factory=dict)


class _State(msgspec.Struct, forbid_unknown_fields=True):
    """The file: mappings are lists of pairs, because their keys are not text."""

    format: str
    moment_s: float | None
    charges: list[tuple[Consumer, Charge]]
    uses: list[tuple[UseKey, Use]]
    allocation: list[tuple[str, Tally]]
    preparation: list[tuple[str, Tally]]
    failures: list[tuple[tuple[str, str], int]]
    timed: list[tuple[str, Timed]]
    events: list[tuple[str, int]]
    leaks: list[tuple[str, float]]


_PARTS = ("charges", "uses", "allocation", "preparation", "failures", "timed", "events", "leaks")


def to_bytes(history: History) -> bytes:
    """The history as it is written to a file."""
    parts = {name: list(getattr(history, name).items()) for name in _PARTS}
    return msgspec.json.encode(_State(FORMAT, history.moment_s, **parts)) + b"\n"


def from_bytes(data: bytes, file: str) -> History:
    """The history in a file. Raises `InputError` for what is none, or was written by another version."""
    try:
        state = msgspec.json.decode(data, type=_State)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"not a state of the exporter: {error}", where=Where(file), fix="move it away") from None
    if state.format != FORMAT:
        raise InputError(f"its format is {state.format!r}, not {FORMAT!r}", where=Where(file), fix="move it away")
    for tally in (*dict(state.allocation).values(), *dict(state.preparation).values()):
        if len(tally.counts) != len(BOUNDS_S):
            raise InputError("a histogram has other buckets", where=Where(file), fix="move it away")
    return History(state.moment_s, **{name: dict(getattr(state, name)) for name in _PARTS})
