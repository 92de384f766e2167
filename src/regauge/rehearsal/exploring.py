"""Exploration: a scenario under random faults in virtual time, its invariants checked all the while.

A schedule is data and comes from one seed, so that a failure can be played again; it is made as small as possible before it
is told. After the last step everything that was broken is mended and must settle; then the scenario's last `expect` holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from regauge.base import BugError, Clock, RegaugeError
from regauge.cluster import run_virtual
from regauge.cluster.control_plane import CONTROLLER_MANAGER, PROCESSES, SCHEDULER
from regauge.features import DEFAULT_MINOR, minor_of, parse_feature_gates, rules
from regauge.rehearsal.faults import Fault, What
from regauge.rehearsal.invariants import Violation
from regauge.rehearsal.looks import describe, look_at
from regauge.rehearsal.nodes import MemoryMachine, NodeWorld
from regauge.rehearsal.playing import EPOCH_S, Stage
from regauge.rehearsal.report import Mode
from regauge.rehearsal.scenario import Scenario, Step

MOST_FAULTS = 4
LAST_FAULT_S = 60.0
WATCH_PERIOD_S = 1.0
SETTLE_S = 400.0
LIMIT_S = 86_400.0
LIVENESS = "everything runs in the end"
CRASH = "nothing ends by a bug"

Schedule = tuple[Fault, ...]


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
    scenario: Scenario, number: int, seed: int = 0, *, stop_at: int = 1, go_on: Callable[[int], bool] = lambda _: True
) -> Exploration:
    """Try `number` schedules, seeds from `seed` on. Ends after `stop_at` failures, or when `go_on(tried)` says no."""
    failures: list[Failure] = []
    tried = 0
    while tried < number and len(failures) < stop_at and go_on(tried):
        one = seed + tried
        schedule = schedule_of(scenario, one)
        found = violations(scenario, schedule, one)
        tried += 1
        if found:
            small, told = _smallest(scenario, schedule, one, found)
            failures.append(Failure(one, small, told))
    return Exploration(scenario.name, seed, tried, tuple(failures))


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
    """What does not hold under one schedule; empty when all does."""
    try:
        return run_virtual(lambda clock: _explore(scenario, schedule, seed, clock), epoch_s=EPOCH_S, limit_s=LIMIT_S)
    except (BugError, RegaugeError, OSError) as error:
        return (Violation(CRASH, f"{type(error).__name__}: {error}"),)


async def _explore(scenario: Scenario, schedule: Schedule, seed: int, clock: Clock) -> tuple[Violation, ...]:
    minor = minor_of(scenario.kube_version) if scenario.kube_version else DEFAULT_MINOR
    found = rules(minor, parse_feature_gates(scenario.feature_gates))
    world = NodeWorld(Mode.SIMULATED, clock, found, Random(seed), MemoryMachine)
    stage = Stage(scenario, world)
    seen: list[Violation] = []
    try:
        await stage.build()
        for fault in schedule:
            stage.actor.plan(fault)
        watch = asyncio.create_task(_watch(stage, seen), name="invariants")
        for step in scenario.steps:
            if step.verb not in ("expect", "wait", "table") and not seen:
                await _take(stage, step)
        await _until(clock, LAST_FAULT_S + stage.began_s)
        if not seen:
            await mend(stage)
            await _settle(stage, seen)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        if not seen:
            seen += [*stage.invariants.check(settled=True), *_alive(stage)]
    finally:
        stage.actor.stop()
        await world.stop()
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


# -- random schedules

CONTROL_POINTS = (
    (What.SCHEDULER_KILLED, f"write {SCHEDULER} update ResourceClaim after"),
    (What.SCHEDULER_KILLED, f"write {SCHEDULER} update ResourceClaim/status *"),
    (What.SCHEDULER_KILLED, f"write {SCHEDULER} update Pod/* *"),
    (What.CONTROLLERS_KILLED, f"write {CONTROLLER_MANAGER} create ResourceClaim *"),
    (What.CONTROLLERS_KILLED, "write ResourceClaimController update Pod/status *"),
    (What.CONTROLLERS_KILLED, f"write {CONTROLLER_MANAGER} update ResourceClaim* *"),
    (What.CONTROLLERS_KILLED, f"write {CONTROLLER_MANAGER} * Pod* *"),
)
NODE_POINTS = (
    (What.DRIVER_KILLED, "file {node} driver checkpoint.json *"),
    (What.DRIVER_KILLED, "file {node} driver *.yaml *"),
    (What.DRIVER_KILLED, "file {node} driver *.json after"),
    (What.DRIVER_KILLED, "call {node} *Resources *"),
    (What.DRIVER_KILLED, "write driver on {node} * ResourceSlice *"),
    (What.KUBELET_KILLED, "file {node} kubelet dra_manager_state *"),
    (What.KUBELET_KILLED, "file {node} kubelet kubelet_internal_checkpoint *"),
    (What.KUBELET_KILLED, "call {node} * *"),
    (What.KUBELET_KILLED, "write kubelet {node} update Pod/status *"),
    (What.KUBELET_KILLED, "write kubelet {node} delete Pod *"),
    (What.NODE_REBOOTED, "file {node} driver checkpoint.json *"),
    (What.NODE_REBOOTED, "file {node} kubelet dra_manager_state *"),
)
NODE_TIMES = (
    What.DRIVER_KILLED,
    What.KUBELET_KILLED,
    What.NODE_DOWN,
    What.NODE_REBOOTED,
    What.NODE_DELETED,
    What.DRIVER_STOPPED,
)
LASTING_ONES = (
    What.DRIVER_HUNG,
    What.DRIVER_SLOW,
    What.DRIVER_FAILS,
    What.FILES_FAIL,
    What.TIMERS_LATE,
    What.WATCH_BROKEN,
)
WRITERS = (SCHEDULER, CONTROLLER_MANAGER, "ResourceClaimController", "kubelet *", "driver on *")
WRITE_FAULTS = (What.WRITES_FAIL, What.WRITES_CONFLICT, What.WRITES_SLOW)
DEVICE_FAULTS = (What.DEVICE_UNHEALTHY, What.DEVICE_VANISHED)


def schedule_of(scenario: Scenario, seed: int) -> Schedule:
    """The schedule of a seed: one to four faults that fit the scenario's nodes and devices."""
    chance = Random(seed)
    nodes = [node for node in scenario.nodes if node.devices]
    number = chance.randrange(1, MOST_FAULTS + 1)
    return tuple(_fault(scenario, [node.name for node in nodes], chance) for _ in range(number))


def _fault(scenario: Scenario, nodes: list[str], chance: Random) -> Fault:
    node = chance.choice(nodes)
    after_s = round(chance.random() * LAST_FAULT_S * 0.8, 2)
    occurrence = chance.randrange(1, 7)
    match chance.randrange(6):
        case 0:
            what, at = chance.choice(CONTROL_POINTS)
            return Fault(what, at=at, after_s=after_s, occurrence=occurrence, lasts_s=chance.choice((0.5, 3.0, 10.0)))
        case 1 | 2:
            what, at = chance.choice(NODE_POINTS)
            away_s = chance.choice((0.5, 3.0, 20.0))
            return Fault(what, node, at=at.format(node=node), after_s=after_s, occurrence=occurrence, lasts_s=away_s)
        case 3:
            return Fault(chance.choice(NODE_TIMES), node, after_s=after_s, lasts_s=chance.choice((0.5, 5.0, 40.0)))
        case 4:
            what = chance.choice((*LASTING_ONES, *WRITE_FAULTS))
            writer = chance.choice(WRITERS) if what in WRITE_FAULTS else "*"
            times = chance.choice((1, 2, 5, 20))
            return Fault(what, node, actor=writer, after_s=after_s, occurrence=occurrence, times=times, lasts_s=8.0)
        case _:
            described = next(one.devices for one in scenario.nodes if one.name == node)
            names = [str(one["name"]) for one in scenario.devices[described]["devices"]]
            return Fault(chance.choice(DEVICE_FAULTS), node, chance.choice(names), after_s=after_s)
