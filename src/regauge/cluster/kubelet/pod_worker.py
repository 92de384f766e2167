"""One pod on the node, from its admission to its end: prepare, start, watch, stop, release, report.

Contract: `update` and `wake` may be called at any time; the worker does one thing at a time. Termination cuts short
whatever is going on. Restart: a worker made for a pod that runs already finds its containers in the runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from regauge.base import Machine
from regauge.cluster.kubelet.claims import ClaimTrouble
from regauge.cluster.kubelet.device_manager import PreStartFailed
from regauge.cluster.kubelet.node import NodeParts
from regauge.cluster.kubelet.pod_containers import adopt, request_for
from regauge.cluster.kubelet.pod_plan import (
    ACTIVE,
    POD_STATES,
    ContainerRecord,
    Plan,
    PodEvent,
    PodState,
    Waiting,
    backoff_text,
    note_start,
    plan,
    records_for,
)
from regauge.cluster.kubelet.pod_status import Facts, ended_of, pod_status, shown
from regauge.cluster.runtimes import ContainerState, StartFailed
from regauge.model import Object, view
from regauge.model.core import ENDED_PHASES, Pod


class PodWorker:
    """The worker of one admitted pod. `on_end` is called once, when the pod has ended and its end is in the API."""

    def __init__(self, node: NodeParts, object_: Object, on_end: Callable[[PodWorker], None]) -> None:
        self._node = node
        self._on_end = on_end
        self.object = object_
        self.pod = view(object_, Pod)
        meta = self.pod.metadata
        self.machine: Machine[PodState, PodEvent] = Machine(
            f"pod {meta.namespace}/{meta.name}", POD_STATES, PodState.SEEN
        )
        self.records = records_for(self.pod)
        self._sandbox = False
        self._errors = 0
        self._woken = asyncio.Event()
        self._ending = asyncio.Event()
        self._grace_s: float | None = None
        self._orphaned = False
        self._told: tuple[object, ...] = ()

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def active(self) -> bool:
        """Whether the pod's containers may run, so that its devices count."""
        return self.machine.state in ACTIVE

    @property
    def finished(self) -> bool:
        return self.machine.state in (PodState.FINISHED, PodState.REJECTED, PodState.GONE)

    def adopt_running(self) -> frozenset[str]:
        """Take over what the runtime has of this pod; the names of the containers that run."""
        adopt(self.pod, self.records, self._node.runtime.containers(), self._node.clock.now_s())
        self._sandbox = any(record.running for record in self.records.values())
        return frozenset(name for name, record in self.records.items() if record.running)

    def start(self) -> None:
        """The pod was admitted."""
        self.machine.step(PodEvent.ADMITTED)
        self._node.work.start(self._live(), f"pod {self.pod.metadata.namespace}/{self.pod.metadata.name}")

    def update(self, object_: Object, *, wake: bool) -> None:
        """A newer state of the pod's object."""
        self.object = object_
        self.pod = view(object_, Pod)
        if wake:
            self.wake()

    def wake(self) -> None:
        """Look at the pod again now."""
        self._woken.set()

    def terminate(self, grace_s: float | None) -> None:
        """The pod is to end. `grace_s` None: the pod's own grace period."""
        if not self._ending.is_set():
            self._grace_s = grace_s
            self._ending.set()
        self.wake()

    def orphan(self) -> None:
        """The pod's object is gone before its end: nobody is told any more, and what is left to do is tried often."""
        self._orphaned = True
        gone = self.pod.metadata.deletion_grace_period_seconds
        self.terminate(max(1.0, float(gone or 0)))

    def exited(self, state: ContainerState) -> None:
        """A container of this pod ended."""
        record = self.records.get(state.request.name)
        if record is not None and record.run is not None and record.run.id == state.id:
            record.run = state
            record.ended = ended_of(state)
            self.wake()

    async def _live(self) -> None:
        await self._until_ending(self._keep_up())
        self.machine.step(PodEvent.TERMINATE)
        await self._stop_containers()
        self.machine.step(PodEvent.CONTAINERS_ENDED)
        await self._release()
        self.machine.step(PodEvent.RELEASED)
        await self._insist(lambda: self._report(terminal=True))
        self._on_end(self)

    async def _until_ending(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until it ends by itself or the pod is to end, which cuts it short."""
        task = asyncio.ensure_future(work)
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            ending.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _keep_up(self) -> None:
        while not self._ending.is_set():
            self._woken.clear()
            pause_s = await self._sync()
            if pause_s is None:
                return
            await self._wait(pause_s)

    async def _wait(self, pause_s: float) -> None:
        """Until somebody wakes the worker, or `pause_s` seconds."""
        timer = asyncio.ensure_future(self._node.clock.sleep(pause_s))
        timer.add_done_callback(self._over)
        try:
            await self._woken.wait()
        finally:
            timer.remove_done_callback(self._over)
            timer.cancel()

    def _over(self, _timer: object) -> None:
        self._woken.set()

    async def _sync(self) -> float | None:
        """One look at the pod. The seconds until the next one, or None when the pod is at its end.

        Why a container waits is told at the next look, as upstream does: what is gone by then is never seen.
        """
        if plan(self.pod, self.records, self._node.clock.now_s()).terminal:
            return None
        written = self._report()
        timings = self._node.options.timings
        if not self._sandbox and not await self._prepare():
            return timings.pod_sync_s
        self._report()
        step, failed = await self._start_wanted()
        if step.terminal:
            return None
        self._note_waiting(step)
        if self.machine.state is PodState.STARTING and not step.start and not step.wait:
            self.machine.step(PodEvent.STARTED)
        return self._pause(step, failed=failed, written=written)

    async def _start_wanted(self) -> tuple[Plan, bool]:
        """Start what the plan wants, each container at most once. The plan that is left, and whether a start failed.

        Containers that start together are told of together.
        """
        tried: set[str] = set()
        failed = False
        while True:
            step = plan(self.pod, self.records, self._node.clock.now_s())
            names = [name for name in step.start if name not in tried]
            if step.terminal or not names:
                return step, failed
            started = False
            for name in names:
                tried.add(name)
                runs = await self._start(name)
                started, failed = started or runs, failed or not runs
            if started:
                self._report()

    def _pause(self, step: Plan, *, failed: bool, written: bool) -> float:
        timings = self._node.options.timings
        pauses = [timings.pod_retry_s if step.wait else timings.pod_sync_s]
        if failed:
            pauses.append(timings.pod_first_retry_s if self._errors == 1 else timings.pod_retry_s)
        else:
            self._errors = 0
        if not written:
            pauses.append(timings.status_retry_s)
        now_s = self._node.clock.now_s()
        pauses.extend(until_s - now_s for until_s in step.wait.values())
        return max(0.0, min(pauses))

    async def _prepare(self) -> bool:
        try:
            await self._node.dra.prepare(self.pod)
        except ClaimTrouble as error:
            message = f"Failed to prepare dynamic resources: {error}"
            self._node.event(self.object, "Warning", "FailedPrepareDynamicResources", message)
            return False
        self._sandbox = True
        return True

    async def _start(self, name: str) -> bool:
        """Start one container. False when it failed; then its record says why it waits."""
        record = self.records[name]
        timings, now_s = self._node.options.timings, self._node.clock.now_s()
        note_start(record, now_s, timings.crash_backoff_s, timings.crash_backoff_limit_s)
        try:
            allocated = await self._node.devices.before_start(self.pod, record.spec)
            request = request_for(self.pod, record, allocated, self._node.dra.cdi_devices(self.pod, record.spec))
            run = await self._node.runtime.start(request)
        except (PreStartFailed, ClaimTrouble) as error:
            self._fail(record, "CreateContainerConfigError", str(error))
            return False
        except StartFailed as error:
            self._fail(record, error.reason, error.message)
            return False
        self._started(record, run)
        return True

    def _started(self, record: ContainerRecord, run: ContainerState) -> None:
        record.last, record.ended, record.waiting = record.ended, None, None
        record.starts += 1
        record.run = run
        image = record.spec.image
        pulled = f'Container image "{image}" already present on machine and can be accessed by the pod'
        for reason, message in (("Pulled", pulled), ("Created", "Container created"), ("Started", "Container started")):
            self._node.event(self.object, "Normal", reason, message)
        now = next((one for one in self._node.runtime.containers() if one.id == run.id), run)
        if not now.running:
            self.exited(now)

    def _fail(self, record: ContainerRecord, reason: str, message: str) -> None:
        record.waiting = Waiting(reason, message)
        self._errors += 1
        self._node.event(self.object, "Warning", "Failed", f"Error: {message}")

    def _note_waiting(self, step: Plan) -> None:
        for name in step.wait:
            record = self.records[name]
            if record.waiting is None:
                record.waiting = Waiting("CrashLoopBackOff", backoff_text(record, self.pod))
                meta = self.pod.metadata
                message = f"Back-off restarting failed container {name} in pod {meta.name}_{meta.namespace}({meta.uid})"
                self._node.event(self.object, "Warning", "BackOff", message)

    def _report(self, *, terminal: bool = False) -> bool:
        """Write the status as it is. While claims are still held the phase stays as it was.

        Where neither the pod nor what is in the API has changed since, all has been told.
        """
        old = self._node.status_of(self.pod)
        facts = self._facts(terminal)
        made_of = (terminal, facts.sandbox, facts.health, *(shown(record) for record in self.records.values()))
        if self._told and self._told[0] is old and self._told[1:] == made_of:
            return True
        status = pod_status(facts, old)
        ended = status["phase"] in ENDED_PHASES
        if ended and not terminal:
            status["phase"] = old.get("phase", "Pending")
        written = self._node.write_status(self.pod, status)
        self._told = (self._node.status_of(self.pod), *made_of) if written else ()
        return written

    def _facts(self, terminal: bool) -> Facts:
        health = {
            name: [*self._node.devices.health(self.uid, name), *self._node.dra.health(self.pod, record.spec)]
            for name, record in self.records.items()
            if not record.init and not (terminal and not record.starts)
        }
        return Facts(
            pod=self.pod,
            records=self.records,
            sandbox=self._sandbox,
            terminal=terminal,
            now_s=self._node.clock.now_s(),
            runtime=self._node.runtime.version,
            health=health,
        )

    async def _stop_containers(self) -> None:
        for record in self.records.values():
            record.waiting = None
        self._report()
        grace_s = self._grace()
        running = [record for record in self.records.values() if record.running]
        for record in running:
            self._node.event(self.object, "Normal", "Killing", f"Stopping container {record.spec.name}")
        await asyncio.gather(*(self._stop_one(record, grace_s) for record in running))

    async def _stop_one(self, record: ContainerRecord, grace_s: float) -> None:
        if record.run is not None:
            record.run = await self._node.runtime.stop(record.run.id, grace_s)
            record.ended = ended_of(record.run)

    def _grace(self) -> float:
        if self._grace_s is not None:
            return self._grace_s
        own = self.pod.spec.termination_grace_period_seconds
        return float(own) if own is not None else self._node.options.timings.default_grace_s

    async def _release(self) -> None:
        """Give the claims back, however often it takes. Only then the pod may be reported as ended."""
        timings = self._node.options.timings
        pause_s = timings.pod_first_retry_s
        while self._node.dra.holds(self.uid):
            self._woken.clear()
            try:
                await self._node.dra.unprepare(self.pod)
            except ClaimTrouble as error:
                meta = self.pod.metadata
                self._node.options.say(f"Error syncing pod {meta.namespace}/{meta.name}, will retry: {error}")
                self._report()
                await self._wait(timings.housekeeping_s if self._orphaned else pause_s)
                pause_s = timings.pod_retry_s

    async def _insist(self, write: Callable[[], bool]) -> None:
        while not write():
            await self._node.clock.sleep(self._node.options.timings.status_retry_s)


__all__ = ["PodWorker"]
