"""The control plane in one process: the API server, the controllers and the scheduler, each a task of the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from regauge.base import Clock, Randomness, RegaugeError
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.claims import ResourceClaimController
from regauge.cluster.controllers import workload_controllers
from regauge.cluster.port import Controller, Key
from regauge.cluster.queue import ControllerRunner
from regauge.cluster.scheduling import SchedulingLoop
from regauge.cluster.server_state import Fault, no_fault
from regauge.model import Rules

CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
SCHEDULER_EVENTS = "default-scheduler"
CLAIM_EVENTS = "resource_claim"
CLAIM_STATUS_WRITER = "ResourceClaimController"


def _silent(_controller: str, _key: Key, _error: RegaugeError) -> None:
    """Nobody listens to errors that are tried again."""


class ControlPlane:
    """One control plane. `start` once, `stop` once; what it knows is in `api`, which outlives both.

    `report` hears of every error of a controller that is tried again. An error that is a bug ends the part it happened
    in and is raised by `stop`, and by `check`.
    """

    def __init__(
        self,
        clock: Clock,
        randomness: Randomness,
        rules: Rules,
        *,
        git_version: str = "v1.36.3",
        fault: Fault = no_fault,
        report: Callable[[str, Key, RegaugeError], None] = _silent,
    ) -> None:
        self.rules = rules
        self.api: Api = new_api_server(clock, randomness, rules=rules, fault=fault, git_version=git_version)
        controllers = self.api.as_actor(CONTROLLER_MANAGER)
        claims = self.api.as_actor(CONTROLLER_MANAGER, CLAIM_EVENTS)
        pod_status = self.api.as_actor(CLAIM_STATUS_WRITER)
        scheduler = SchedulingLoop(self.api.as_actor(SCHEDULER, SCHEDULER_EVENTS), clock, randomness, rules)
        self.scheduler = scheduler
        parts: Iterable[tuple[Api, Controller]] = [
            (controllers, ResourceClaimController(claims, rules, status_api=pod_status)),
            *((controllers, controller) for controller in workload_controllers(controllers)),
            (self.api.as_actor(SCHEDULER), scheduler),
        ]
        self._runners = [ControllerRunner(api, controller, report) for api, controller in parts]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to work, on everything that is already there too."""
        for runner in self._runners:
            runner.start()
            self._tasks.append(asyncio.create_task(runner.run(), name=runner.controller.name))

    @property
    def idle(self) -> bool:
        """Whether no part has anything to do at this moment."""
        return all(runner.idle for runner in self._runners)

    def check(self) -> None:
        """Raises the error of a part that ended by a bug."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def stop(self) -> None:
        """End all parts in order. Raises the error of a part that ended by a bug."""
        for runner in self._runners:
            runner.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.check()
