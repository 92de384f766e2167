"""The rollout of a plan on a cluster, through its API only: step by step, each with a way back, safe to kill at any write.

Retry: a run that ended for any reason is simply started again; it looks at the record and goes on. Concurrency: one run at
a time, by a Lease. Failure: a gate that does not hold within its time begins the way back, of the step or of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from regauge.base import Clock, InputError, TransientError
from regauge.kube import AlreadyExists, ApiError, KubeClient
from regauge.migrate.plan_gates import Facts, Sight, check, facts_of, name_of, patience_s, plan_differences
from regauge.migrate.plans import (
    Accepted,
    Action,
    Amend,
    Approve,
    Ensure,
    Gate,
    Move,
    OnFailure,
    Plan,
    PlanStep,
    Switch,
    reference_of,
)
from regauge.migrate.rollout.acts import Acts, Saved, StepFailed, kind_of
from regauge.migrate.rollout.daemon_sets import behind, pods_of_daemon_set
from regauge.migrate.rollout.ledger import PAUSE, Holder, Ledger
from regauge.migrate.rollout.looking import Looking, Reports, no_reports
from regauge.migrate.rollout.record import (
    Record,
    Result,
    RolloutEvent,
    RolloutState,
    StepEvent,
    StepRecord,
    StepState,
)
from regauge.migrate.rollout.switching import NodeBefore, Switching
from regauge.migrate.sites import template_kinds
from regauge.model import Object
from regauge.model.kinds import CORE_EVENT, DAEMON_SET

POLL_S = 2.0
FACTS = "facts"

Tell = Callable[[str], None]
Watch = Callable[[PlanStep, StepRecord], None]
"""Hears of a step when it is about to begin, and when it is done and that is written; after a death maybe not."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. `approve` are ids of steps that a person said yes to; "*" is all of them. `poll_s` is between two looks."""

    holder: Holder
    approve: frozenset[str] = frozenset()
    poll_s: float = POLL_S


class _Paused(Exception):
    """Somebody asked the rollout to pause."""


class _Asks(Exception):
    """A step waits for a person."""


class Rollout:
    """One plan on one cluster. Make one per run; `run` and `roll_back` may be called again after anything."""

    def __init__(
        self,
        kube: KubeClient,
        clock: Clock,
        plan: Plan,
        options: Options,
        reports: Reports = no_reports,
        tell: Tell = lambda _: None,
        watch: Watch = lambda _step, _record: None,
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._plan = plan
        self._options = options
        self._tell = tell
        self._watch = watch
        moves = [act for step in plan.spec.steps for act in step.actions if isinstance(act, Move)]
        own = {(item.group, item.kind) for item in template_kinds()}
        more = tuple(
            dict.fromkeys(
                kind_of(act.reference)
                for act in moves
                if (act.reference.api_version.rpartition("/")[0], act.reference.kind) in own
            )
        )
        self._looking = Looking(kube, reports, more)
        self._acts = Acts(kube, plan.name)
        self._switching = Switching(kube, clock, self._looking, self._acts, plan.spec.stack_label, tell)
        self._ledger = Ledger(kube, clock, plan.name, options.holder)

    async def run(self) -> Record:
        """Go on with the plan until it is done, waits for a person, is paused, or was undone after a failure.

        Raises `TransientError` while somebody else runs it or the server does not answer, `InputError` for another plan's
        record.
        """
        record = await self._open()
        try:
            await self._check_basis(record)
            await self._set(record, RolloutEvent.RUN)
            if record.state is RolloutState.UNDOING:
                await self._undo(record)
            elif record.state is RolloutState.RUNNING:
                await self._ledger.request(None)
                await self._forward(record)
        finally:
            await self._close()
        return record

    async def roll_back(self) -> Record:
        """Undo every step that was begun, the last one first, until the cluster is as it was. Raises as `run` does."""
        record = await self._open()
        try:
            if record.may(RolloutEvent.UNDO):
                record.undo_all = True
                await self._set(record, RolloutEvent.UNDO, "asked to roll back")
                await self._undo(record)
        finally:
            await self._close()
        return record

    async def _open(self) -> Record:
        await self._ledger.acquire()
        return await self._ledger.open(self._plan)

    async def _close(self) -> None:
        try:
            await self._ledger.release()
        except (ApiError, TransientError):
            return  # it ends by itself

    async def _set(self, record: Record, event: RolloutEvent, reason: str = "") -> None:
        record.take(event, reason)
        await self._ledger.save(record)

    async def _check_basis(self, record: Record) -> None:
        """A plan that has not begun has to fit the cluster. Raises `InputError` with every difference."""
        if record.state is not RolloutState.NEW:
            return
        told = await self.differences()
        if told:
            raise InputError(
                f"the cluster is not as plan {self._plan.name} saw it: {'; '.join(told)}", fix="plan again, and compare"
            )

    async def sight(self) -> Sight:
        """The cluster as the gates see it now."""
        return await self._looking.sight()

    async def differences(self) -> tuple[str, ...]:
        """Where the cluster is not as the plan saw it: nodes, devices, workloads."""
        return plan_differences(self._plan, await self._looking.sight())

    # -- forward

    async def _forward(self, record: Record) -> None:
        for step in self._plan.spec.steps:
            own = record.steps[step.id]
            if own.state is StepState.DONE:
                continue
            try:
                await self._step(record, step, own)
            except _Asks as asks:
                await self._set(record, RolloutEvent.ASK, str(asks))
                return
            except _Paused:
                await self._set(record, RolloutEvent.PAUSE, "asked to pause")
                return
            except StepFailed as failed:
                await self._fail(record, step, own, str(failed))
                return
        await self._set(record, RolloutEvent.FINISH)

    async def _step(self, record: Record, step: PlanStep, own: StepRecord) -> None:
        self._approve(record, step)
        if await self._ledger.requested() == PAUSE:
            raise _Paused
        if own.state in (StepState.PENDING, StepState.UNDONE):
            await self._begin(record, step, own)
        facts = msgspec.json.decode((await self._ledger.remembered(step.id))[FACTS], type=Facts)
        if own.state is StepState.ACTING:
            for number, action in enumerate(step.actions):
                await self._do(step, number, action)
            own.take(step.id, StepEvent.ACTED)
            await self._ledger.save(record)
        for gate in step.gates:
            own.results.append(await self._gate(step, gate, facts))
            self._tell(f"{step.id}: {own.results[-1].what}: {own.results[-1].seen}")
            if not own.results[-1].holds:
                raise StepFailed(f"{own.results[-1].what}: {own.results[-1].seen}")
        own.take(step.id, StepEvent.HELD)
        own.ended_s = self._clock.now_s()
        await self._ledger.save(record)
        await self._note_on_nodes(step, "DeviceStackChanged", f"{step.title} (plan {self._plan.name})")
        self._tell(f"{step.id}: done")
        self._watch(step, own)

    def _approve(self, record: Record, step: PlanStep) -> None:
        questions = [action.question for action in step.actions if isinstance(action, Approve)]
        given = self._options.approve
        if not questions or step.id in record.approved:
            return
        if not given & {step.id, "*"}:
            raise _Asks(f"{step.id}: {' '.join(questions)}")
        record.approved.append(step.id)

    async def _begin(self, record: Record, step: PlanStep, own: StepRecord) -> None:
        """Preconditions, then what has to be remembered; only then the step counts as begun."""
        self._tell(f"{step.id}: {step.title}")
        self._watch(step, own)
        own.results.clear()
        await self._ledger.forget(step.id)
        sight = await self._looking.sight()
        facts = facts_of(self._plan, step, sight)
        for gate in step.needs:
            result = await self._gate(step, gate, facts)
            own.results.append(Result(f"needs {result.what}", result.holds, result.seen))
            if not result.holds:
                raise StepFailed(f"before it began, {result.what}: {result.seen}")
        await self._ledger.remember(step.id, FACTS, msgspec.json.encode(facts).decode())
        own.began_s = self._clock.now_s()
        own.take(step.id, StepEvent.BEGIN)
        await self._ledger.save(record)

    async def _fail(self, record: Record, step: PlanStep, own: StepRecord, why: str) -> None:
        self._tell(f"{step.id}: failed: {why}")
        if own.state in (StepState.ACTING, StepState.GATING):
            own.take(step.id, StepEvent.FAIL)
        own.results.append(Result("step", False, why))
        own.ended_s = self._clock.now_s()
        record.undo_all = self._plan.spec.on_failure is OnFailure.ALL
        await self._set(record, RolloutEvent.UNDO, f"{step.id}: {why}")
        await self._undo(record)

    # -- gates

    async def _gate(self, step: PlanStep, gate: Gate, facts: Facts) -> Result:
        """One gate, looked at until it holds or its time is over."""
        if isinstance(gate, Accepted):
            return await self._accepted(step)
        began_s = self._clock.monotonic_s()
        seen = ""
        while True:
            found = check(gate, self._plan, facts, await self._looking.sight())
            if found.holds or self._clock.monotonic_s() - began_s > patience_s(gate):
                return Result(found.gate, found.holds, found.seen)
            if found.seen != seen:
                seen = found.seen
                self._tell(f"{step.id} waits: {found.gate}: {seen}")
            await self._pause()

    async def _accepted(self, step: PlanStep) -> Result:
        """Every object of the step, under a name that nobody has, in a dry run."""
        count = 0
        for action in step.actions:
            objects: tuple[Object, ...] = ()
            if isinstance(action, Ensure):
                objects = action.objects
            elif isinstance(action, Move):
                objects = (*action.objects, action.workload)
            for object_ in objects:
                reference = reference_of(object_)
                metadata = {key: value for key, value in object_["metadata"].items() if key != "name"}
                tried = {**object_, "metadata": {**metadata, "generateName": "regauge-check-"}}
                try:
                    await self._kube.try_create(kind_of(reference), tried, reference.namespace)
                except ApiError as error:
                    return Result(name_of(Accepted()), False, f"{reference} is refused: {error.message}")
                count += 1
        return Result(name_of(Accepted()), True, f"{count} objects are accepted in a dry run")

    async def _pause(self) -> None:
        """Until the next look. The lease is kept; losing it ends the run."""
        await self._clock.sleep(self._options.poll_s)
        await self._ledger.renew()

    # -- actions

    async def _saved(self, step: PlanStep, number: int) -> str | None:
        return (await self._ledger.remembered(step.id)).get(f"action.{number}")

    async def _save(self, step: PlanStep, number: int, value: object) -> None:
        await self._ledger.remember(step.id, f"action.{number}", msgspec.json.encode(value).decode())

    async def _do(self, step: PlanStep, number: int, action: Action) -> None:
        """What undoing needs is written before anything is done; after a death it is not written again."""
        await self._ledger.renew()
        saved = await self._saved(step, number)
        match action:
            case Approve():
                return
            case Ensure():
                if saved is None:
                    await self._save(step, number, Saved(made=await self._acts.look_at(action)))
                await self._acts.ensure(action.objects)
            case Amend():
                await self._amend(step, number, action, saved)
            case Switch():
                if saved is None:
                    await self._save(step, number, await self._switching.before(action))
                    saved = await self._saved(step, number)
                await self._switching.do(action, msgspec.json.decode(saved or "", type=NodeBefore), self._pause)
            case Move():
                if saved is None:
                    before = await self._acts.look_at_workload(action)
                    await self._save(step, number, Saved(await self._acts.look_at(action), before))
                await self._acts.ensure(action.objects)
                await self._acts.put(action.workload, action.recreate, lambda: self._pods_gone(action))

    async def _amend(self, step: PlanStep, number: int, action: Amend, saved: str | None) -> None:
        nodes, pods = frozenset(self._plan.spec.nodes), 0
        spec = action.patch.get("spec")
        rolls = action.object.kind == DAEMON_SET.kind and isinstance(spec, dict) and "template" in spec
        if saved is None:
            if rolls:
                pods = len(pods_of_daemon_set(action.object, nodes, await self._looking.sight()))
            before = Saved(before=await self._acts.look_at_patch(action), pods=pods)
            await self._save(step, number, before)
        else:
            pods = msgspec.json.decode(saved, type=Saved).pods
        await self._acts.patch(action.object, action.patch)
        began_s = self._clock.monotonic_s()
        while rolls and (told := behind(action.object, nodes, pods, await self._looking.sight())):
            if self._clock.monotonic_s() - began_s > action.rolled_out_within_s:
                raise StepFailed(f"{told} after {action.rolled_out_within_s} s")
            await self._pause()

    async def _pods_gone(self, action: Move) -> None:
        """Until no object and no pod of a deleted workload is left."""
        reference = action.reference
        began_s = self._clock.monotonic_s()
        while True:
            sight = await self._looking.sight()
            there = await self._acts.find(reference)
            pods = [
                pod
                for pod in sight.snapshot.pods
                if pod.metadata.namespace == reference.namespace
                and any(
                    owner.kind == reference.kind and owner.name == reference.name
                    for owner in pod.metadata.owner_references or ()
                )
            ]
            if there is None and not pods:
                return
            if self._clock.monotonic_s() - began_s > action.gone_within_s:
                raise StepFailed(f"{reference} is not gone within {action.gone_within_s} s")
            await self._pause()

    # -- back

    async def _undo(self, record: Record) -> None:
        """The steps that were begun, the last one first. Where only a step is undone, the others stay done."""
        for step in reversed(self._plan.spec.steps):
            own = record.steps[step.id]
            begun = own.state in (StepState.ACTING, StepState.GATING, StepState.FAILED, StepState.UNDOING)
            if begun or (record.undo_all and own.state is StepState.DONE):
                try:
                    await self._undo_step(record, step, own)
                except StepFailed as failed:
                    record.reason = f"{step.id} cannot be undone yet: {failed}"
                    await self._ledger.save(record)
                    self._tell(record.reason)
                    return
        event = RolloutEvent.ALL_UNDONE if record.undo_all else RolloutEvent.STEP_UNDONE
        await self._set(record, event, record.reason)

    async def _undo_step(self, record: Record, step: PlanStep, own: StepRecord) -> None:
        self._tell(f"{step.id}: undone")
        if own.state is not StepState.UNDOING:
            own.take(step.id, StepEvent.UNDO)
            await self._ledger.save(record)
        for number, action in reversed(list(enumerate(step.actions))):
            saved = await self._saved(step, number)
            if saved is not None:
                await self._ledger.renew()
                await self._take_back(action, saved)
        own.take(step.id, StepEvent.UNDONE)
        own.ended_s = self._clock.now_s()
        await self._ledger.save(record)
        await self._note_on_nodes(step, "DeviceStackRolledBack", f"undone: {step.title} (plan {self._plan.name})")

    async def _take_back(self, action: Action, text: str) -> None:
        match action:
            case Approve():
                return
            case Ensure():
                await self._acts.remove_made(msgspec.json.decode(text, type=Saved))
            case Amend():
                await self._acts.patch(action.object, msgspec.json.decode(text, type=Saved).before)
            case Switch():
                await self._switching.undo(action, msgspec.json.decode(text, type=NodeBefore), self._pause)
            case Move():
                saved = msgspec.json.decode(text, type=Saved)
                await self._acts.put(saved.before, action.recreate, lambda: self._pods_gone(action))
                await self._acts.remove_made(saved)

    # -- events

    async def _note_on_nodes(self, step: PlanStep, reason: str, message: str) -> None:
        """An event on each node that a step switched. One that cannot be written changes nothing."""
        for action in step.actions:
            if not isinstance(action, Switch):
                continue
            now = _time(self._clock.now_s())
            event = {
                "metadata": {"name": f"{action.node}.{self._plan.digest}.{step.id}.{reason.lower()}"[:253]},
                "involvedObject": {"kind": "Node", "apiVersion": "v1", "name": action.node, "uid": action.node},
                "reason": reason,
                "message": message[:1024],
                "type": "Normal",
                "source": {"component": "regauge"},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
            try:
                await self._kube.create(CORE_EVENT, event, "default")
            except AlreadyExists:
                continue
            except ApiError as error:
                self._tell(f"no event on {action.node}: {error.message}")


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
