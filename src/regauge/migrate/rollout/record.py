"""What a rollout remembers of itself, and the tables that say how it goes on. Pure.

The record is one JSON text in the cluster. It is written before anything is done and after it; whoever reads it after a
death knows what to do again. Everything that is done may be done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from regauge.base import InputError, Machine
from regauge.migrate.plans import Plan

RECORD_VERSION = 1


class StepState(StrEnum):
    """Where one step stands."""

    PENDING = "pending"
    ACTING = "acting"
    GATING = "gating"
    DONE = "done"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"


class StepEvent(StrEnum):
    """What happens to a step."""

    BEGIN = "begin"
    ACTED = "acted"
    HELD = "held"
    FAIL = "fail"
    UNDO = "undo"
    UNDONE = "undone"


STEP_STATES: Mapping[StepState, Mapping[StepEvent, StepState]] = {
    StepState.PENDING: {StepEvent.BEGIN: StepState.ACTING},
    StepState.ACTING: {
        StepEvent.ACTED: StepState.GATING,
        StepEvent.FAIL: StepState.FAILED,
        StepEvent.UNDO: StepState.UNDOING,
    },
    StepState.GATING: {
        StepEvent.HELD: StepState.DONE,
        StepEvent.FAIL: StepState.FAILED,
        StepEvent.UNDO: StepState.UNDOING,
    },
    StepState.DONE: {StepEvent.UNDO: StepState.UNDOING},
    StepState.FAILED: {StepEvent.UNDO: StepState.UNDOING},
    StepState.UNDOING: {StepEvent.UNDONE: StepState.UNDONE},
    StepState.UNDONE: {StepEvent.BEGIN: StepState.ACTING},
}


class RolloutState(StrEnum):
    """Where the whole stands."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting for approval"
    UNDOING = "rolling back"
    STOPPED = "stopped"
    DONE = "done"
    ROLLED_BACK = "rolled back"


class RolloutEvent(StrEnum):
    """What happens to the whole."""

    RUN = "run"
    PAUSE = "pause"
    ASK = "ask"
    FINISH = "finish"
    UNDO = "undo"
    STEP_UNDONE = "step undone"
    ALL_UNDONE = "all undone"


ROLLOUT_STATES: Mapping[RolloutState, Mapping[RolloutEvent, RolloutState]] = {
    RolloutState.NEW: {RolloutEvent.RUN: RolloutState.RUNNING},
    RolloutState.RUNNING: {
        RolloutEvent.RUN: RolloutState.RUNNING,
        RolloutEvent.PAUSE: RolloutState.PAUSED,
        RolloutEvent.ASK: RolloutState.WAITING,
        RolloutEvent.FINISH: RolloutState.DONE,
        RolloutEvent.UNDO: RolloutState.UNDOING,
    },
    RolloutState.PAUSED: {RolloutEvent.RUN: RolloutState.RUNNING, RolloutEvent.UNDO: RolloutState.UNDOING},
    RolloutState.WAITING: {RolloutEvent.RUN: RolloutState.RUNNING, RolloutEvent.UNDO: RolloutState.UNDOING},
    RolloutState.STOPPED: {RolloutEvent.RUN: RolloutState.RUNNING, RolloutEvent.UNDO: RolloutState.UNDOING},
    RolloutState.DONE: {RolloutEvent.RUN: RolloutState.DONE, RolloutEvent.UNDO: RolloutState.UNDOING},
    RolloutState.UNDOING: {
        RolloutEvent.RUN: RolloutState.UNDOING,
        RolloutEvent.UNDO: RolloutState.UNDOING,
        RolloutEvent.STEP_UNDONE: RolloutState.STOPPED,
        RolloutEvent.ALL_UNDONE: RolloutState.ROLLED_BACK,
    },
    RolloutState.ROLLED_BACK: {
        RolloutEvent.RUN: RolloutState.RUNNING,
        RolloutEvent.UNDO: RolloutState.UNDOING,
    },
}


class Result(msgspec.Struct, frozen=True):
    """One gate or action of a step as it ended."""

    what: str
    holds: bool
    seen: str


class StepRecord(msgspec.Struct):
    """One step. Times are seconds since 1970."""

    state: StepState = StepState.PENDING
    began_s: float = 0.0
    ended_s: float = 0.0
    results: list[Result] = []

    def take(self, id_: str, event: StepEvent) -> None:
        """Go on by the table. Raises `BugError` for an event that cannot be."""
        self.state = Machine(f"step {id_}", STEP_STATES, self.state).step(event)


class Record(msgspec.Struct):
    """The whole rollout. `undo_from` is where the way back began, `undo_all` whether it goes to the start."""

    plan: str
    digest: str
    steps: dict[str, StepRecord]
    state: RolloutState = RolloutState.NEW
    reason: str = ""
    approved: list[str] = []
    undo_all: bool = False
    version: int = RECORD_VERSION

    def take(self, event: RolloutEvent, reason: str = "") -> None:
        """Go on by the table. Raises `BugError` for an event that cannot be."""
        self.state = Machine(f"rollout {self.plan}", ROLLOUT_STATES, self.state).step(event)
        self.reason = reason

    def may(self, event: RolloutEvent) -> bool:
        """Whether the event can be now."""
        return event in ROLLOUT_STATES[self.state]


def new_record(plan: Plan) -> Record:
    """The record of a rollout that has not begun."""
    return Record(plan.name, plan.digest, {step.id: StepRecord() for step in plan.spec.steps})


def write_record(record: Record) -> str:
    """The record as text."""
    return msgspec.json.encode(record).decode()


def read_record(text: str, place: str) -> Record:
    """The record in a text. Raises `InputError` where it cannot be read: then nothing may be done."""
    try:
        record = msgspec.json.decode(text, type=Record)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InputError(
            f"the record of the rollout in {place} cannot be read: {error}",
            fix="look at it; it is kept as it is, and nothing is done until it is mended or removed",
        ) from None
    if record.version != RECORD_VERSION:
        raise InputError(
            f"the record in {place} is of version {record.version}, and {RECORD_VERSION} is known here",
            fix="use the regauge that wrote it",
        )
    return record
