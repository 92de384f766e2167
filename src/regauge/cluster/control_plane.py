"""The control plane in one process: the API server, the controllers and the scheduler, each a task of the same loop.

The controllers are one process that can be killed and started again, the scheduler is another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from regauge.base import Clock, Randomness, RegaugeError
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.claims import ResourceClaimController
from regauge.cluster.controllers import GRACE_S, alpha_controllers, node_controllers, workload_controllers
from regauge.cluster.port import Controller, Key
from regauge.cluster.queue import ControllerRunner
from regauge.cluster.scheduling import SchedulingLoop
from regauge.cluster.server_state import Fault, no_fault
from regauge.cluster.store import Store
from regauge.model import Rules

CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
SCHEDULER_EVENTS = "default-scheduler"
CLAIM_EVENTS = "resource_claim"
CLAIM_STATUS_WRITER = "ResourceClaimController"
PROCESSES = (CONTROLLER_MANAGER, SCHEDULER)


def _silent(_controller: str, _key: Key, _error: RegaugeError) -> None:
    """Nobody listens to errors that are tried again."""


@dataclass(slots=True)
class _Process:
    """The controllers of one process while it lives."""

    runners: list[ControllerRunner]
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        for runner in self.runners:
            runner.start()
            self.tasks.append(asyncio.create_task(runner.run(), name=runner.controller.name))

    def end(self) -> None:
        """Nobody of it hears or does anything any more. The task that calls this ends by itself."""
        current = asyncio.current_task()
        for runner in self.runners:
            runner.stop()
        for task in self.tasks:
            if task is not current:
                task.cancel()


class ControlPlane:
    """One control plane. `start` once, `stop` once; what it knows is in `api`, which outlives both.

    `node_grace_s`: how long a node may be silent before it counts as lost. `report` hears of every error of a controller
    that is tried again. An error that is a bug ends the part it happened in and is raised by `stop`, and by `check`.
    """

    def __init__(
        self,
        clock: Clock,
        randomness: Randomness,
        rules: Rules,
        *,
        git_version: str = "v1.36.3",
        fault: Fault = no_fault,
        store: Store | None = None,
        report: Callable[[str, Key, RegaugeError], None] = _silent,
        node_grace_s: float = GRACE_S,
    ) -> None:
        self.rules = rules
        self.api: Api = new_api_server(
            clock, randomness, rules=rules, fault=fault, git_version=git_version, store=store
        )
        self._clock = clock
        self._randomness = randomness
        self._report = report
        self._node_grace_s = node_grace_s
        self.scheduler = self._new_scheduler()
        self._processes: dict[str, _Process] = {}
        self._ended: list[asyncio.Task[None]] = []

    def _new_scheduler(self) -> SchedulingLoop:
        return SchedulingLoop(self.api.as_actor(SCHEDULER, SCHEDULER_EVENTS), self._clock, self._randomness, self.rules)

    def _runners(self, process: str) -> list[ControllerRunner]:
        if process == SCHEDULER:
            return [ControllerRunner(self.api.as_actor(SCHEDULER), self.scheduler, self._report)]
        api = self.api.as_actor(CONTROLLER_MANAGER)
        claims = self.api.as_actor(CONTROLLER_MANAGER, CLAIM_EVENTS)
        pod_status = self.api.as_actor(CLAIM_STATUS_WRITER)
        controllers: list[Controller] = [
            ResourceClaimController(claims, self.rules, status_api=pod_status),
            *workload_controllers(api, self.rules),
            *node_controllers(api, self.rules, self._node_grace_s),
            *alpha_controllers(api, self.rules),
        ]
        return [ControllerRunner(api, controller, self._report) for controller in controllers]

    def start(self) -> None:
        """Begin to work, on everything that is already there too."""
        for process in PROCESSES:
            self._start(process)

    def _start(self, process: str) -> None:
        self._processes[process] = _Process(self._runners(process))
        self._processes[process].start()

    def kill(self, process: str) -> None:
        """End one of `PROCESSES` as `kill -9` does. One that is dead already is fine."""
        found = self._processes.pop(process, None)
        if found is not None:
            found.end()
            self._ended.extend(found.tasks)

    def revive(self, process: str) -> None:
        """Start a killed process anew: it learns everything again from the API. One that lives is fine."""
        if process in self._processes:
            return
        if process == SCHEDULER:
            self.scheduler = self._new_scheduler()
        self._start(process)

    def alive(self, process: str) -> bool:
        return process in self._processes

    @property
    def idle(self) -> bool:
        """Whether no part has anything to do at this moment."""
        return all(runner.idle for process in self._processes.values() for runner in process.runners)

    def check(self) -> None:
        """Raises the error of a part that ended by a bug."""
        for task in [*self._ended, *(task for process in self._processes.values() for task in process.tasks)]:
            if task.done() and not task.cancelled():
                task.result()

    async def stop(self) -> None:
        """End all parts in order. Raises the error of a part that ended by a bug."""
        for process in tuple(self._processes):
            self.kill(process)
        await asyncio.gather(*self._ended, return_exceptions=True)
        self.check()
