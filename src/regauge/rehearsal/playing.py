"""Plays scenarios: builds the world, takes the steps, checks the invariants after each, and tells what was seen."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from regauge.base import Clock, InputError, RegaugeError, canonical_json
from regauge.cluster import run_virtual
from regauge.cluster.kubelet import KubeletOptions
from regauge.collect import Diagnosed, Diagnosis, collect_live
from regauge.driver import Description, read_description
from regauge.features import DEFAULT_MINOR, minor_of, parse_feature_gates, rules
from regauge.host import RealClock
from regauge.kube import ApiError, NotFound
from regauge.model import Kind, Object, find_kind
from regauge.model.kinds import NODE
from regauge.rehearsal.acting import Actor
from regauge.rehearsal.findings import findings
from regauge.rehearsal.invariants import Invariants
from regauge.rehearsal.looks import check_words, describe, look_at
from regauge.rehearsal.nodes import DirectoryMachine, Machine, MemoryMachine, NodePlan, NodeWorld
from regauge.rehearsal.report import Check, Mode
from regauge.rehearsal.samples import facts_of
from regauge.rehearsal.scenario import Deletion, Look, Patch, Scenario, Step
from regauge.rehearsal.stopping import run_live
from regauge.rehearsal.tables import Table, Timeline, table_of, timeline_of
from regauge.rehearsal.world import TIMINGS, NodeFacts

EPOCH_S = 1_800_000_000.0
LIMIT_S = 30 * 86_400.0
START_WITHIN_S = 60.0
POLL_S = 0.5
DIAGNOSIS_EVERY_S = 5.0
SETTLED = "everything has settled: API, checkpoints and containers tell the same"


@dataclass(frozen=True, slots=True)
class Done:
    """One step and what was seen. `left_out`: what could not be done or seen of it on this cluster, and why."""

    title: str
    verb: str
    checks: tuple[Check, ...]
    began_s: float
    ended_s: float
    left_out: str = ""

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario as it went. `log` is what went wrong on purpose, `timelines` who wrote what when."""

    name: str
    title: str
    rows: tuple[int | str, ...]
    mode: Mode
    kube_version: str
    seed: int
    steps: tuple[Done, ...]
    tables: tuple[Table, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    log: tuple[tuple[float, str], ...] = ()
    findings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Every step does. Where steps were left out, something must have been checked all the same."""
        seen = any(step.checks for step in self.steps) or not any(step.left_out for step in self.steps)
        return bool(self.steps) and seen and all(step.holds for step in self.steps)

    @property
    def in_part(self) -> bool:
        """Whether steps were left out as a whole: what they ask is not answered."""
        return any(step.left_out and not step.checks for step in self.steps)

    @property
    def took_s(self) -> float:
        return self.steps[-1].ended_s if self.steps else 0.0


Listen = Callable[[str, Done | None], None]


def _deaf(_scenario: str, _step: Done | None) -> None:
    """Nobody listens."""


def play(scenario: Scenario, *, mode: Mode = Mode.SIMULATED, seed: int = 0, listen: Listen = _deaf) -> Played:
    """Play one scenario to its end. Raises `InputError` for what the scenario has wrong."""
    for step in scenario.steps:
        for look in step.looks:
            check_words(look)
    if mode is Mode.SIMULATED:
        return run_virtual(
            lambda clock: _play(scenario, clock, MemoryMachine, mode, seed, listen), epoch_s=EPOCH_S, limit_s=LIMIT_S
        )
    with _directories() as machine:
        return run_live(_play(scenario, RealClock(), machine, mode, seed, listen))


@contextlib.contextmanager
def _directories() -> Iterator[Callable[[str], Machine]]:
    """Directories for nodes that are not simulated; their paths are short, as sockets want it."""
    numbers = count()
    with tempfile.TemporaryDirectory(prefix="rg-") as directory:
        yield lambda _name: DirectoryMachine(Path(directory) / str(next(numbers)))


async def _play(
    scenario: Scenario,
    clock: Clock,
    machine: Callable[[str], Machine],
    mode: Mode,
    seed: int,
    listen: Listen,
) -> Played:
    minor = minor_of(scenario.kube_version) if scenario.kube_version else DEFAULT_MINOR
    found = rules(minor, parse_feature_gates(scenario.feature_gates))
    world = NodeWorld(mode, clock, found, Random(seed), machine)
    stage = Stage(scenario, world, listen)
    try:
        await stage.build()
        for step in scenario.steps:
            await stage.take(step)
        await stage.close()
    finally:
        await stage.stop()
        await world.stop()
    story = stage.story()
    return Played(
        name=scenario.name,
        title=scenario.title,
        rows=scenario.rows,
        mode=mode,
        kube_version=minor,
        seed=seed,
        steps=tuple(stage.done),
        tables=tuple(stage.tables),
        timelines=story,
        log=tuple((round(at_s - stage.began_s, 3), text) for at_s, text in world.injector.log),
        findings=tuple(stage.found),
    )


class Stage:
    """One scenario under way in one world."""

    def __init__(self, scenario: Scenario, world: NodeWorld, listen: Listen = _deaf) -> None:
        self.scenario = scenario
        self.world = world
        self.actor = Actor(world)
        self.invariants = Invariants(world)
        self.done: list[Done] = []
        self.tables: list[Table] = []
        self.found: list[str] = []
        self._diagnosis: asyncio.Task[None] | None = None
        self.began_s = world.clock.monotonic_s()
        self._epoch_s = world.clock.now_s()
        self._listen = listen
        self._since = 0

    def story(self) -> tuple[Timeline, ...]:
        return timeline_of(self.world, self._since, self._epoch_s)

    async def build(self) -> None:
        """Nodes with their drivers, then the objects of the setup. Raises `InputError` when they do not come up."""
        world, scenario = self.world, self.scenario
        world.control.start()
        described = {name: canonical_json(document) for name, document in scenario.devices.items()}
        for plan in scenario.nodes:
            options = KubeletOptions(rules=world.control.rules, timings=TIMINGS, labels=plan.labels)
            data = described.get(plan.devices)
            plugins = {} if data is None else {"driver": world.driver_plugin(data)}
            facts = NodeFacts() if data is None else facts_of(_description(data, plan.devices), plan.name)
            await world.add_node(NodePlan(plan.name, options, plugins, facts))
        for told in scenario.setup:
            await self._create(scenario.object(told))
        await self._published()
        if scenario.diagnosis:
            self._diagnosis = asyncio.create_task(self._diagnose(), name="diagnosis")
        self.began_s, self._epoch_s = world.clock.monotonic_s(), world.clock.now_s()
        self._since = len(world.control.api.state.story)

    async def _diagnose(self) -> None:
        """What `regauge collect watch` does; bundles stay in the world's memory."""
        world = self.world

        def keep(found: Diagnosed) -> None:
            world.bundles[found.name] = found.data

        await Diagnosis(world.kube, world.clock, lambda: collect_live(world.kube), keep).run(DIAGNOSIS_EVERY_S)

    async def stop(self) -> None:
        """Nothing goes wrong any more, and nobody looks."""
        self.actor.stop()
        if self._diagnosis is not None:
            self._diagnosis.cancel()
            await asyncio.gather(self._diagnosis, return_exceptions=True)

    async def _published(self) -> None:
        """Wait until every node is ready and every driver has been registered."""
        expected = sum(1 for node in self.world.nodes.values() if node.plan.plugins)
        deadline_s = self.world.clock.monotonic_s() + START_WITHIN_S
        while True:
            self.world.check()
            ready = all(look_at(self.world, Look(node=name, is_="ready"))[0] for name in self.world.nodes)
            if ready and sum(self.world.registered.values()) >= expected and self.world.control.idle:
                await self.world.clock.sleep(2.0)
                return
            if self.world.clock.monotonic_s() > deadline_s:
                raise InputError(
                    f"the cluster of scenario {self.scenario.name} is not ready within {START_WITHIN_S:g} s",
                    fix="check its nodes and devices",
                )
            await self.world.clock.sleep(POLL_S)

    def _now_s(self) -> float:
        return round(self.world.clock.monotonic_s() - self.began_s, 3)

    async def take(self, step: Step) -> None:
        """One step, and the invariants after it."""
        began_s = self._now_s()
        title = step.title or title_of(step, self.scenario)
        self._listen(title, None)
        checks = await self.attempt(step)
        self.world.check()
        if self.scenario.checked:
            broken = self.invariants.check(settled=False)
            checks += [Check(item.invariant, False, item.seen) for item in broken]
        self._add(Done(title, step.verb, tuple(checks), began_s, self._now_s()))

    def _add(self, done: Done) -> None:
        self.done.append(done)
        self._listen(done.title, done)

    async def close(self) -> None:
        """Let everything settle, and look for what is left over."""
        if self.scenario.settle and self.scenario.checked:
            began_s = self._now_s()
            self._listen(SETTLED, None)
            self.world.injector.clear()
            await self.world.clock.sleep(self.scenario.settle)
            self.world.check()
            broken = self.invariants.check(settled=True)
            checks = [Check(item.invariant, False, item.seen) for item in broken] or [Check(SETTLED, True, "yes")]
            self._add(Done(SETTLED, "settle", tuple(checks), began_s, self._now_s()))
        self.found = [str(item) for item in findings(self.world)]

    async def attempt(self, step: Step) -> list[Check]:
        """Do what a step says, and nothing more. What was checked."""
        match step.verb:
            case "apply" | "delete" | "patch":
                return await self._write(step)
            case "sleep":
                await self.world.clock.sleep(step.sleep or 0.0)
            case "fault":
                assert step.fault is not None
                self.actor.plan(step.fault.fault())
            case "table":
                self.tables.append(await table_of(self.world, str(step.table), step.title or str(step.table)))
            case "wait":
                return await self._wait(step)
            case _:
                return [_checked(look, look_at(self.world, look, self._since)) for look in step.looks]
        return []

    async def _wait(self, step: Step) -> list[Check]:
        deadline_s = self.world.clock.monotonic_s() + step.within
        while True:
            self.world.check()
            seen = [look_at(self.world, look, self._since) for look in step.looks]
            if all(holds for holds, _ in seen) or self.world.clock.monotonic_s() >= deadline_s:
                return [_checked(look, one) for look, one in zip(step.looks, seen, strict=True)]
            await self.world.clock.sleep(POLL_S)

    async def _write(self, step: Step) -> list[Check]:
        try:
            if step.delete is not None:
                await self._delete(step.delete)
            elif step.patch is not None:
                await self._patch(step.patch)
            else:
                told = step.apply if isinstance(step.apply, tuple) else (step.apply,)
                for one in told:
                    assert one is not None
                    await self._create(self.scenario.object(one))
        except ApiError as error:
            if step.refused:
                return [Check(f"refused with {step.refused!r}", step.refused in error.message, error.message)]
            return [Check("the API takes it", False, error.message)]
        except RegaugeError as error:
            return [Check("it can be done", False, str(error))]
        return [Check(f"refused with {step.refused!r}", False, "it was taken")] if step.refused else []

    async def _create(self, object_: Object) -> None:
        kind = _kind(str(object_.get("apiVersion")), str(object_.get("kind")))
        namespace = (object_.get("metadata") or {}).get("namespace", "default") if kind.namespaced else ""
        try:
            await self.world.kube.create(kind, object_, namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists" or kind == NODE:
                raise
            current = await self.world.kube.get(kind, object_["metadata"]["name"], namespace)
            metadata = {**current["metadata"], **object_["metadata"]}
            await self.world.kube.update(kind, {**current, **object_, "metadata": metadata}, namespace)

    async def _delete(self, told: Deletion) -> None:
        kind = _kind(told.api_version, told.kind)
        namespace = told.namespace if kind.namespaced else ""
        if told.force:
            body = {"metadata": {"finalizers": None}}
            await self.world.kube.patch(kind, told.name, body, namespace)
        with contextlib.suppress(NotFound):
            await self.world.kube.delete(kind, told.name, namespace, grace_period_s=0 if told.force else told.grace)

    async def _patch(self, told: Patch) -> None:
        kind = _kind(told.api_version, told.kind)
        namespace = told.namespace if kind.namespaced else ""
        await self.world.kube.patch(kind, told.name, told.body, namespace, subresource=told.subresource)


def _kind(api_version: str, kind: str) -> Kind:
    found = find_kind(api_version, kind)
    if found is None:
        raise InputError(f"{api_version} {kind} is not a kind that scenarios know")
    return found


def _description(data: bytes, name: str) -> Description:
    return read_description(data, f"devices {name}")


def _checked(look: Look, seen: tuple[bool, str]) -> Check:
    return Check(describe(look), *seen)


def title_of(step: Step, scenario: Scenario) -> str:
    """What a step is called in a report that has no title of its own."""
    match step.verb:
        case "apply":
            told = step.apply if isinstance(step.apply, tuple) else (step.apply,)
            objects = [scenario.object(one) for one in told if one is not None]
            return "apply " + ", ".join(
                f"{one.get('kind')} {(one.get('metadata') or {}).get('name')}" for one in objects
            )
        case "delete":
            assert step.delete is not None
            return f"delete {step.delete.kind} {step.delete.name}"
        case "patch":
            assert step.patch is not None
            return f"patch {step.patch.kind} {step.patch.name}"
        case "fault":
            assert step.fault is not None
            return f"fault {step.fault.fault()}"
        case "sleep":
            return f"sleep {step.sleep:g} s"
        case "table":
            return f"table of {step.table}"
        case _:
            return f"{step.verb}: " + "; ".join(describe(look) for look in step.looks)
