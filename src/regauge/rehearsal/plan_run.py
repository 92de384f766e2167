"""The rehearsal of a whole plan: the estate as it was, every step with its gates under faults, a gate that fails and undoes
its step, the way back, and the same estate at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from regauge.base import TransientError
from regauge.kube import MemoryClient
from regauge.migrate import Move, Plan, PlanStep, Sight, Switch
from regauge.migrate.rollout import Holder, Options, Record, Rollout, RolloutState, StepRecord, StepState
from regauge.model import Kind, Object, Rules, Snapshot
from regauge.rehearsal.acting import Actor
from regauge.rehearsal.dump import DumpOutcome, set_up_dump
from regauge.rehearsal.faults import Fault, What
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.plan_state import EstateState, differences, state_of
from regauge.rehearsal.plan_world import Daemons, OwnerWatch, more_plugins, served_of, serves_of, switches_of
from regauge.rehearsal.report import Attribution, Check, Comparison, Recorder, Step
from regauge.rehearsal.watching import until

T = TypeVar("T")
ROLLOUT = "rollout"
LEASE_OVER_S = 31.0
SETTLED_WITHIN_S = 600.0
KILL_AT_WRITES = (2, 5)
"""At which of its writes a rollout is killed in each step, if it makes so many: before the first, after the second."""
POLL_S = 2.0
MOST_RUNS = 200


class Died(Exception):
    """The rollout was killed."""


class MortalClient(MemoryClient):
    """The client of a rollout that is killed at its n-th write: before it if `before`, else right after."""

    def __init__(self, api: Any) -> None:
        super().__init__(api)
        self._left = 0
        self._before = False
        self._dead = False
        self.writes = 0

    def kill_at(self, write: int, *, before: bool) -> None:
        """From now, at this write."""
        self._left, self._before = write, before

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        return await self._write(super().create(kind, object_, namespace, subresource=subresource))

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        return await self._write(super().update(kind, object_, namespace, subresource=subresource))

    async def patch(self, kind: Kind, name: str, body: Any, namespace: str = "", **options: Any) -> Object:
        return await self._write(super().patch(kind, name, body, namespace, **options))

    async def delete(self, kind: Kind, name: str, namespace: str = "", **options: Any) -> None:
        return await self._write(super().delete(kind, name, namespace, **options))

    async def _write(self, work: Awaitable[T]) -> T:
        self.writes += 1
        dies = self._left == 1
        self._left -= self._left > 0
        if self._dead or (dies and self._before):
            self._dead = True
            asyncio.ensure_future(work).cancel()
            raise Died
        done = await work
        if dies:
            self._dead = True
            raise Died
        return done


@dataclass(slots=True)
class _Heard:
    """What happened to a step while it was rehearsed."""

    deaths: int = 0
    added: bool = False
    faults: list[str] = field(default_factory=list)


async def rehearse_plan(
    world: NodeWorld, snapshot: Snapshot, rules: Rules, plan: Plan, recorder: Recorder, *, faults: bool = True
) -> DumpOutcome:
    """Run the whole. Every step of the plan becomes a step of the report, its gates the checks."""
    run = _PlanRun(world, snapshot, plan, recorder, faults)
    stands = await set_up_dump(world, snapshot, rules, recorder, run.more)
    await run.start()
    try:
        before = await run.look()
        await run.forward()
        after = await run.look()
        await run.back(before)
        returned = await run.look()
    finally:
        await run.stop()
    return DumpOutcome(
        stands.pods,
        tuple(run.comparisons(before, after, returned)),
        (*stands.notes, *run.notes()),
        tuple(run.attribution(before, after, returned)),
    )


def on_our_nodes(plan: Plan) -> Plan:
    """The plan for nodes whose kubelet and runtime are the rehearsal's own: their versions are not pinned."""
    pins = msgspec.structs.replace(plan.spec.pins, kubelets=(), runtimes=())
    return msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, pins=pins))


class _PlanRun:
    """One run: the rollout, what goes wrong in it, and what became of it."""

    def __init__(self, world: NodeWorld, snapshot: Snapshot, plan: Plan, recorder: Recorder, faults: bool) -> None:
        self.world = world
        self.plan = plan = on_our_nodes(plan)
        self.recorder = recorder
        self.faults = faults
        self.whole = more_plugins(served_of(plan), snapshot)
        switches = switches_of(plan)
        self.last = switches[-1].node if switches else ""
        lacking = more_plugins(served_of(plan), snapshot, {self.last: 1} if faults else {})
        self.more = {node: lacking[node] for node in lacking}
        nodes = frozenset(action.node for action in switches)
        self.daemons = Daemons(world, serves_of(plan), nodes)
        self.owners = OwnerWatch(world.kube, switches)
        self.actor = Actor(world)
        self.heard: dict[str, _Heard] = {step.id: _Heard() for step in plan.spec.steps}
        self.step = ""
        self.client: MortalClient | None = None
        self.number = 0

    async def start(self) -> None:
        await self.daemons.start()
        await self.owners.start()

    async def stop(self) -> None:
        self.actor.stop()
        await self.owners.stop()
        await self.daemons.stop()

    async def look(self) -> EstateState:
        return state_of(await self.sight())

    async def sight(self) -> Sight:
        from_api = self._rollout(MemoryClient(self.world.control.api.as_actor("user")))
        return await from_api.sight()

    def _rollout(self, client: MemoryClient) -> Rollout:
        self.number += 1
        options = Options(Holder(f"rehearsal-{self.number}"), frozenset("*"), POLL_S)
        return Rollout(client, self.world.clock, self.plan, options, self.world.node_reports, watch=self.hear)

    # -- what goes wrong

    def hear(self, step: PlanStep, own: StepRecord) -> None:
        """A step is done, or begins: what is to go wrong in it is planned now."""
        if own.state is StepState.DONE:
            self._add(step, own)
            return
        self.step = step.id
        self.recorder.hear(step.title)
        if self.faults and self.client is not None and not self.heard[step.id].deaths:
            self._plan_faults(step)

    def _plan_faults(self, step: PlanStep) -> None:
        heard = self.heard[step.id]
        if self.client is not None and step.actions:
            self.client.kill_at(KILL_AT_WRITES[heard.deaths % 2], before=not heard.deaths)
        planned = [Fault(What.SCHEDULER_KILLED, after_s=3.0), Fault(What.CONTROLLERS_KILLED, after_s=7.0)]
        if not step.actions:
            planned = []
        for fault in planned:
            heard.faults.append(str(fault.what))
            self.actor.plan(fault)

    # -- forward

    async def forward(self) -> None:
        """To the end of the plan: killed and started again, stopped by a gate, mended and resumed."""
        record = await self._run(lambda rollout: rollout.run())
        if self.faults and self.last:
            self._failed_gate(record)
            for driver, plugin in self.whole[self.last].plugins.items():
                self.world.nodes[self.last].replace_plugin(driver, plugin)
            record = await self._run(lambda rollout: rollout.run())
        for step in self.plan.spec.steps:
            self._add(step, record.steps[step.id])
        end = self.recorder.begin("plan", f"Plan {self.plan.name} is carried out")
        end.check("every step is done", record.state is RolloutState.DONE, record.reason or record.state.value)
        self._check_owners(end.check)
        deaths = sum(item.deaths for item in self.heard.values())
        if self.faults:
            end.check("it was killed on the way, and went on", deaths > 0, f"{deaths} times")
        end.details["faults"] = {id_: item.faults for id_, item in self.heard.items() if item.faults}
        end.end()

    def _failed_gate(self, record: Record) -> None:
        step = self.recorder.begin(
            "gate", f"{self.last} lacks a device under DRA: the gate fails and its step is undone"
        )
        failed = next((s for s in self.plan.spec.steps if self._switches(s) == self.last), None)
        state = record.steps[failed.id].state if failed is not None else StepState.PENDING
        step.check("the rollout stopped there", record.state is RolloutState.STOPPED, record.reason)
        step.check("the step was undone", state is StepState.UNDONE, state.value)
        self._check_owners(step.check)
        step.end()

    @staticmethod
    def _switches(step: PlanStep) -> str:
        return next((act.node for act in step.actions if isinstance(act, Switch)), "")

    def _check_owners(self, check: Callable[[str, bool, object], bool]) -> None:
        seen = "; ".join(self.owners.told[:3])
        check("no device had two owners at any moment", not self.owners.told, seen or f"{self.owners.looks} looks")

    async def _run(self, go: Callable[[Rollout], Awaitable[Record]]) -> Record:
        """As long as it is killed, it is started again by somebody else once its lease is over."""
        for _ in range(MOST_RUNS):
            self.client = MortalClient(self.world.control.api.as_actor(ROLLOUT))
            try:
                return await go(self._rollout(self.client))
            except Died:
                if self.step:
                    self.heard[self.step].deaths += 1
                await self.world.clock.sleep(LEASE_OVER_S)
            except TransientError:
                await self.world.clock.sleep(LEASE_OVER_S)
        raise TransientError(f"the rollout did not come to an end in {MOST_RUNS} runs")

    def _add(self, step: PlanStep, own: StepRecord) -> None:
        """The step into the report, once: a rollout that dies as it tells of one does not tell of it again."""
        heard = self.heard[step.id]
        if heard.added:
            return
        heard.added = True
        checks = [Check(item.what, item.holds, item.seen) for item in own.results]
        checks.append(Check("the step is done", own.state is StepState.DONE, own.state.value))
        offset_s = self.world.clock.now_s() - self.recorder.since_start_s()
        details = {"phase": step.phase.value, "killed": heard.deaths, "takes_s": step.takes_s}
        times_s = own.began_s - offset_s, own.ended_s - offset_s
        self.recorder.add(Step(step.id, step.title, tuple(checks), *times_s, details))

    # -- back

    async def back(self, before: EstateState) -> None:
        """The way back, and what is not as it was."""
        step = self.recorder.begin("rollback", "The plan is rolled back; the estate is as it was")
        record = await self._run(lambda rollout: rollout.roll_back())
        step.check(
            "everything is undone", record.state is RolloutState.ROLLED_BACK, record.reason or record.state.value
        )

        async def probe() -> bool:
            return not differences(before, await self.look())

        await until(self.world, probe, SETTLED_WITHIN_S)
        told = differences(before, await self.look())
        step.check("the estate is as it was", not told, "; ".join(told[:4]) or "it is")
        self._check_owners(step.check)
        step.end()

    # -- what is told

    def comparisons(self, before: EstateState, after: EstateState, returned: EstateState) -> list[Comparison]:
        moved = [
            f"{act.reference.kind} {act.reference.namespace}/{act.reference.name}"
            for step in self.plan.spec.steps
            for act in step.actions
            if isinstance(act, Move)
        ]
        found = []
        for title in moved:
            old, new = before.placements.get(title), after.placements.get(title)
            if old is not None and new is not None:
                found.append(Comparison(title, old, new, returned.placements.get(title)))
        return found

    def attribution(self, before: EstateState, after: EstateState, returned: EstateState) -> list[Attribution]:
        key = ": devices"
        names = sorted(
            {name.removesuffix(key) for state in (before, after) for name in state.facts if name.endswith(key)}
        )
        return [
            Attribution(name, *(int(state.facts.get(f"{name}{key}", "0")) for state in (before, after, returned)))
            for name in names
        ]

    def notes(self) -> tuple[str, ...]:
        left = tuple(f"left: {item.what}: {item.why}" for item in self.plan.spec.left)
        guess = "what the drivers publish on these nodes is told by labels and by their other nodes; a real driver says more"
        return (guess, *left)
