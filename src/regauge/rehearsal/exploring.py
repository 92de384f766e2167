"""Exploration: a scenario under random faults in virtual time, its invariants checked all the while.

A schedule is data and comes from one seed, so that a failure can be played again; it is made as small as possible before it
is told. After the last step everything that was broken is mended and must settle; then the scenario's last `expect` holds.

Until its first fault happens, a schedule is like every other in the same world. Seeds share a world by the fifty; it is
played once, and whenever the first fault of a schedule is due, a copy of the process goes on with it. A schedule that is
played from the start goes the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from regauge.base import BugError, Clock, RegaugeError
from regauge.cluster import VirtualLoop, run_virtual
from regauge.cluster.control_plane import PROCESSES
from regauge.features import DEFAULT_MINOR, minor_of, parse_feature_gates, rules
from regauge.rehearsal.forking import CAN_FORK, Forks
from regauge.rehearsal.invariants import Violation
from regauge.rehearsal.looks import describe, look_at
from regauge.rehearsal.nodes import MemoryMachine, NodeWorld
from regauge.rehearsal.playing import EPOCH_S, Stage
from regauge.rehearsal.report import Mode
from regauge.rehearsal.scenario import Scenario, Step
from regauge.rehearsal.schedules import LAST_FAULT_S, Schedule, schedule_of

SEEDS_IN_A_WORLD = 50
BEFORE_FIRST_S = 0.001
WATCH_PERIOD_S = 1.0
SETTLE_S = 400.0
LIMIT_S = 86_400.0
LIVENESS = "everything runs in the end"
CRASH = "nothing ends by a bug"

Branch = Callable[[Stage], Awaitable[None]]
"""Plans the faults of a run at the moment they begin."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A schedule under which something did not hold. `schedule` is as small as it could be made."""

    seed: int
    schedule: Schedule
    violations: tuple[Violation, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.violations[0]}", "schedule:"]
        return "\n  ".join([*lines, *map(str, self.schedule)])


@dataclass(frozen=True, slots=True)
class Exploration:
    """How many schedules were tried from which seed on, and those that failed."""

    scenario: str
    seed: int
    tried: int
    failures: tuple[Failure, ...]

    @property
    def holds(self) -> bool:
        return self.tried > 0 and not self.failures


def explore(
    scenario: Scenario,
    number: int,
    seed: int = 0,
    *,
    stop_at: int = 1,
    go_on: Callable[[int], bool] = lambda _: True,
    processes: int = 1,
) -> Exploration:
    """Try `number` schedules, seeds from `seed` on. Ends after `stop_at` failures, or when `go_on(tried)` says no.

    `processes`: how many schedules are played at a time. What is found does not depend on it.
    """
    failures: list[Failure] = []
    tried = 0
    for seeds in _worlds(range(seed, seed + number)):
        run = _World(scenario, seeds, stop_at - len(failures), _counted_from(tried, go_on))
        found = run.play(processes)
        tried += len(found)
        for one in run.failing(found):
            small, told = _smallest(scenario, schedule_of(scenario, one), one, found[one])
            failures.append(Failure(one, small, told))
        if len(failures) >= stop_at or len(found) < len(seeds):
            break
    return Exploration(scenario.name, seed, tried, tuple(failures))


def _counted_from(start: int, go_on: Callable[[int], bool]) -> Callable[[int], bool]:
    return lambda number: go_on(start + number)


def _worlds(seeds: range) -> Iterator[Sequence[int]]:
    """The seeds, those of one world together."""
    start = seeds.start
    while start < seeds.stop:
        end = min(seeds.stop, (start // SEEDS_IN_A_WORLD + 1) * SEEDS_IN_A_WORLD)
        yield range(start, end)
        start = end


def _smallest(
    scenario: Scenario, schedule: Schedule, seed: int, found: tuple[Violation, ...]
) -> tuple[Schedule, tuple[Violation, ...]]:
    """Leave out one fault after the other as long as something still fails."""
    index = 0
    while index < len(schedule):
        fewer = (*schedule[:index], *schedule[index + 1 :])
        still = violations(scenario, fewer, seed)
        if still:
            schedule, found = fewer, still
        else:
            index += 1
    return schedule, found


def violations(scenario: Scenario, schedule: Schedule, seed: int) -> tuple[Violation, ...]:
    """What does not hold under one schedule, played from the start; empty when all does."""

    async def branch(stage: Stage) -> None:
        await _begin(stage, schedule)
        _plan(stage, schedule)

    return _outcome(scenario, seed, branch)


def _outcome(scenario: Scenario, seed: int, branch: Branch) -> tuple[Violation, ...]:
    try:
        return run_virtual(
            lambda clock: _explore(scenario, seed // SEEDS_IN_A_WORLD, clock, branch), epoch_s=EPOCH_S, limit_s=LIMIT_S
        )
    except (BugError, RegaugeError, OSError) as error:
        return (Violation(CRASH, f"{type(error).__name__}: {error}"),)


@dataclass
class _World:
    """The schedules of seeds that share a world. `enough` failures end it, and so does `go_on`, told how many were tried."""

    scenario: Scenario
    seeds: Sequence[int]
    enough: int
    go_on: Callable[[int], bool]
    order: list[tuple[float, int, Schedule]] = field(init=False)
    tried: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        schedules = ((seed, schedule_of(self.scenario, seed)) for seed in self.seeds)
        self.order = sorted(
            ((_moment(schedule), seed, schedule) for seed, schedule in schedules), key=lambda item: item[:2]
        )

    def play(self, processes: int) -> dict[int, tuple[Violation, ...]]:
        """What each seed that was tried has found."""
        found = self._play_copies(processes) if CAN_FORK else {}
        for _, seed, schedule in self.order:
            if not self._more(found):
                break
            if seed not in found:
                self.tried.append(seed)
                found[seed] = violations(self.scenario, schedule, seed)
        return found

    def failing(self, found: dict[int, tuple[Violation, ...]]) -> list[int]:
        """The seeds that fail, in the order in which they were tried, and no more than are enough."""
        return [seed for seed in dict.fromkeys(self.tried) if found.get(seed)][: self.enough]

    def _more(self, found: dict[int, tuple[Violation, ...]]) -> bool:
        return sum(map(bool, found.values())) < self.enough and self.go_on(len(found))

    def _play_copies(self, processes: int) -> dict[int, tuple[Violation, ...]]:
        with Forks(processes) as forks:
            ways = _Ways(forks, lambda: self._more(_read(forks)))
            outcome = _outcome(self.scenario, self.seeds[0], lambda stage: ways.begin(stage, self.order))
            if forks.is_copy:
                forks.answer(msgspec.json.encode(outcome))
            forks.wait()
            self.tried += ways.gone
            found = _read(forks)
            if self._more(found):
                self.tried += ways.left
                found |= dict.fromkeys(ways.left, outcome)
            return found


@dataclass
class _Ways:
    """The ways of schedules that share a world: `gone` have their own by now, and `left` have met no fault.

    `more`: whether one more is to be tried.
    """

    forks: Forks
    more: Callable[[], bool]
    gone: list[int] = field(default_factory=list)
    left: dict[int, None] = field(default_factory=dict)
    ended: bool = False

    async def begin(self, stage: Stage, order: Sequence[tuple[float, int, Schedule]]) -> None:
        """Plan the faults of all, each at its moment."""
        loop = _loop()
        stage.world.injector.turn = lambda seed: self._turn(seed, loop)
        for _, seed, schedule in order:
            await _begin(stage, schedule)
            if self.forks.is_copy:
                return
            self.left[seed] = None
            _plan(stage, schedule, seed)

    def _turn(self, seed: int, loop: VirtualLoop) -> bool:
        """The first fault of a schedule is due. True in the copy that goes on with it."""
        self.forks.make_room()
        self.ended = self.ended or not self.more()
        del self.left[seed]
        if self.ended:
            return False
        self.gone.append(seed)
        if not self.forks.fork(seed):
            return False
        loop.carry_on_here()
        return True


def _read(forks: Forks) -> dict[int, tuple[Violation, ...]]:
    return {seed: msgspec.json.decode(said, type=tuple[Violation, ...]) for seed, said in forks.answers.items()}


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def _moment(schedule: Schedule) -> float:
    """Seconds after the beginning until which nothing of a schedule happens."""
    return max(0.0, min((fault.after_s for fault in schedule), default=0.0) - BEFORE_FIRST_S)


async def _begin(stage: Stage, schedule: Schedule) -> None:
    """Wait for the moment of a schedule, and come to it exactly."""
    reached = asyncio.Event()
    _loop().call_at(stage.began_s + _moment(schedule), reached.set)
    await reached.wait()


def _plan(stage: Stage, schedule: Schedule, way: int | None = None) -> None:
    for fault in schedule:
        stage.actor.plan(replace(fault, after_s=max(0.0, fault.after_s - _moment(schedule))), way)


async def _explore(scenario: Scenario, seed: int, clock: Clock, branch: Branch) -> tuple[Violation, ...]:
    minor = minor_of(scenario.kube_version) if scenario.kube_version else DEFAULT_MINOR
    found = rules(minor, parse_feature_gates(scenario.feature_gates))
    world = NodeWorld(Mode.SIMULATED, clock, found, Random(seed), MemoryMachine)
    stage = Stage(scenario, world)
    try:
        await stage.build()
        course = asyncio.create_task(_course(stage), name="course")
        await branch(stage)
        return await course
    finally:
        await stage.stop()
        await world.stop()


async def _course(stage: Stage) -> tuple[Violation, ...]:
    """All steps, whatever goes wrong meanwhile; then everything is mended and has to settle."""
    seen: list[Violation] = []
    watch = asyncio.create_task(_watch(stage, seen), name="invariants")
    for step in stage.scenario.steps:
        if step.verb not in ("expect", "wait", "table") and not seen:
            await _take(stage, step)
    await _until(stage.world.clock, LAST_FAULT_S + stage.began_s)
    if not seen:
        await mend(stage)
        await _settle(stage, seen)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    if not seen:
        seen += [*stage.invariants.check(settled=True), *_alive(stage)]
    return tuple(seen)


async def _take(stage: Stage, step: Step) -> None:
    """One step. What the API refuses because of a fault is tried again, as a user does."""
    for _ in range(10):
        checks = await stage.attempt(step)
        if all(check.holds for check in checks):
            return
        await stage.world.clock.sleep(1.0)


async def _until(clock: Clock, at_s: float) -> None:
    await clock.sleep(max(0.0, at_s - clock.monotonic_s()))


async def _watch(stage: Stage, seen: list[Violation]) -> None:
    """Check what must hold at any moment, again and again."""
    while not seen:
        await stage.world.clock.sleep(WATCH_PERIOD_S)
        seen += stage.invariants.check(settled=False)


async def _settle(stage: Stage, seen: list[Violation]) -> None:
    """Until all is as it should be, or the time is over."""
    deadline_s = stage.world.clock.monotonic_s() + SETTLE_S
    while stage.world.clock.monotonic_s() < deadline_s and not seen:
        await stage.world.clock.sleep(20.0)
        stage.world.check()
        if not _alive(stage) and not stage.invariants.check(settled=True):
            return


def _alive(stage: Stage) -> list[Violation]:
    last = stage.scenario.steps[-1]
    looks = last.looks if last.verb == "expect" else ()
    seen = [(look, look_at(stage.world, look)) for look in looks]
    return [Violation(LIVENESS, f"{describe(look)}: {text}") for look, (holds, text) in seen if not holds]


async def mend(stage: Stage) -> None:
    """Whatever was broken works again: processes run, nodes are up, devices are there and well."""
    world = stage.world
    world.injector.clear()
    for process in PROCESSES:
        world.control.revive(process)
    stage.actor.restore_devices()
    for node in world.nodes.values():
        node.mend()
