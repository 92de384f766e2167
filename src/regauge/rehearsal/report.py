"""What a rehearsal did and found: steps with their checks, comparisons, and the verdict. A report is a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA = "regauge.rehearsal/v1"


class Mode(StrEnum):
    """How the cluster runs: on the machine's clock with real sockets and processes, in virtual time, or elsewhere."""

    LIVE = "live"
    SIMULATED = "simulated"
    REAL = "real"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that had to hold, and what was seen."""

    what: str
    holds: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its checks, and when it began and ended in seconds of the cluster's clock since the rehearsal began."""

    name: str
    title: str
    checks: tuple[Check, ...]
    began_s: float
    ended_s: float
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Which stack owns a device, under which name it is advertised, and who holds it."""

    node: str
    device: str
    identity: str
    stacks: tuple[str, ...]
    advertised_as: tuple[str, ...]
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a workload's pod ran and with what, for comparing it before and after a move."""

    pod: str
    stack: str
    node: str
    devices: tuple[str, ...]
    start_s: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A workload before and after its move, and after the way back where there was one."""

    workload: str
    before: Placement
    after: Placement
    returned: Placement | None = None


@dataclass(frozen=True, slots=True)
class Attribution:
    """How many devices a workload has to its name: before the plan, after it, and after the way back."""

    workload: str
    before: int
    after: int
    returned: int


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod of a dump: where the dump has it, where the rehearsal put it, and why they differ if they do."""

    namespace: str
    workload: str
    pod: str
    asks: str
    expected: str
    found: str
    agrees: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The whole rehearsal. `holds` is the verdict; the exit code follows it."""

    source: str
    mode: Mode
    kube_version: str
    seed: int
    steps: tuple[Step, ...]
    ownership: tuple[Ownership, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    pods: tuple[PodRow, ...] = ()
    attribution: tuple[Attribution, ...] = ()
    states: Mapping[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return bool(self.steps) and all(step.holds for step in self.steps)

    def as_document(self) -> dict[str, Any]:
        """The report as a JSON document with a schema name."""
        document = asdict(self)
        document["steps"] = [{**asdict(step), "holds": step.holds} for step in self.steps]
        return {"schema": SCHEMA, "holds": self.holds, **document}


class Recorder:
    """Collects steps while a rehearsal runs. `now_s` is the cluster's clock, `listen` hears of each step as it happens."""

    def __init__(self, now_s: Callable[[], float], listen: Callable[[str, Step | None], None]) -> None:
        self._now_s = now_s
        self._began_s = now_s()
        self._listen = listen
        self.steps: list[Step] = []

    def since_start_s(self) -> float:
        return self._now_s() - self._began_s

    def hear(self, title: str) -> None:
        """Something is under way that will be told as a step when it is over."""
        self._listen(title, None)

    def begin(self, name: str, title: str) -> OpenStep:
        """A step that is under way; end it with `OpenStep.end`."""
        self._listen(title, None)
        return OpenStep(self, name, title, self.since_start_s())

    def add(self, step: Step) -> Step:
        self.steps.append(step)
        self._listen(step.title, step)
        return step


class OpenStep:
    """A step under way."""

    def __init__(self, recorder: Recorder, name: str, title: str, began_s: float) -> None:
        self._recorder = recorder
        self._name = name
        self._title = title
        self._began_s = began_s
        self.checks: list[Check] = []
        self.details: dict[str, Any] = {}

    def check(self, what: str, holds: bool, seen: object) -> bool:
        """Record one check and say whether it holds."""
        self.checks.append(Check(what, holds, str(seen)))
        return holds

    def end(self) -> Step:
        ended_s = self._recorder.since_start_s()
        step = Step(self._name, self._title, tuple(self.checks), self._began_s, ended_s, dict(self.details))
        return self._recorder.add(step)
