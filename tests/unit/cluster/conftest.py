"""A small control plane in virtual time: the controllers, and stand-ins for the scheduler and the kubelets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from regauge.base import RegaugeError
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.controllers import workload_controllers
from regauge.cluster.port import Controller, Key
from regauge.cluster.queue import ControllerRunner
from regauge.kube import WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import NODE, POD

EPOCH_S = 1_793_000_000.0
Body = Callable[["Plane"], Awaitable[None]]


class Binder:
    """Binds every pod to the node of its affinity or to n1, and says that it runs and is ready."""

    name = "binder"
    watches = (POD,)

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        return ((metadata["namespace"], metadata["name"]),)

    def reconcile(self, key: Key) -> float | None:
        api = self._plane.user
        pod = api.find(POD, key[1], key[0])
        if pod is None:
            return None
        if pod["metadata"].get("deletionTimestamp"):
            if pod["metadata"].get("deletionGracePeriodSeconds"):
                api.delete(POD, key[1], key[0], grace_period_s=0)
            return None
        if not pod["spec"].get("nodeName"):
            api.bind(key[0], key[1], wanted_node(pod))
        elif pod["status"].get("phase") == "Pending" and self._plane.starts(pod):
            self._plane.set_phase(pod, "Running")
        return None


def wanted_node(pod: Object) -> str:
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            return str(field["values"][0])
    return "n1"


class Plane:
    """What a test of controllers works with."""

    def __init__(self, clock: VirtualClock, seed: int = 3, *, kubelets: bool = True) -> None:
        self.clock = clock
        self.server = new_api_server(clock, random.Random(seed))
        self.user: Api = self.server.as_actor("user")
        self.errors: list[tuple[str, Key, RegaugeError]] = []
        self.starts: Callable[[Object], bool] = lambda pod: True
        self.tasks: list[asyncio.Task[None]] = []
        self._kubelets = kubelets
        self._runners: list[ControllerRunner] = []

    def start(self) -> None:
        """Start all controllers, as if for the first time: nothing is kept from before."""
        manager = self.server.as_actor("kube-controller-manager")
        parts = [*workload_controllers(manager), *([Binder(self)] if self._kubelets else [])]
        self._runners = [self._runner(item) for item in parts]
        for runner in self._runners:
            runner.start()
            self.tasks.append(asyncio.create_task(runner.run(), name=runner.controller.name))

    async def kill(self) -> None:
        """End all controllers where they stand."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for runner in self._runners:
            runner.stop()
        self.tasks.clear()

    def _runner(self, controller: Controller) -> ControllerRunner:
        return ControllerRunner(
            self.server, controller, lambda name, key, error: self.errors.append((name, key, error))
        )

    async def settle(self, seconds: float = 1.0) -> None:
        """Let everything that is due within `seconds` happen."""
        await asyncio.sleep(seconds)

    def node(self, name: str, **metadata: Any) -> Object:
        return self.user.create(NODE, {"metadata": {"name": name, **metadata}, "spec": {}})

    def pods(self, namespace: str = "default") -> list[Object]:
        return list(self.user.list(POD, namespace))

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def events(self, reason: str) -> list[str]:
        from regauge.model.kinds import CORE_EVENT

        return [event["message"] for event in self.user.list(CORE_EVENT) if event["reason"] == reason]

    def set_phase(self, pod: Object, phase: str) -> None:
        now = self.server.state.now()
        ready = {"type": "Ready", "status": str(phase == "Running"), "lastTransitionTime": now}
        status = {"phase": phase, "startTime": now, "conditions": [ready]}
        self.user.patch(
            POD,
            pod["metadata"]["name"],
            {"status": status},
            pod["metadata"]["namespace"],
            patch_type="strategic",
            subresource="status",
        )


def in_virtual_time(body: Body, *, limit_s: float = 100_000.0, seed: int = 3, kubelets: bool = True) -> Plane:
    """Run a body with all controllers at work; the plane as it was at the end."""
    found: list[Plane] = []

    async def main(clock: VirtualClock) -> None:
        plane = Plane(clock, seed, kubelets=kubelets)
        found.append(plane)
        plane.start()
        await body(plane)
        for task in plane.tasks:
            if task.done():
                task.result()

    run_virtual(main, epoch_s=EPOCH_S, limit_s=limit_s)
    return found[0]


@pytest.fixture
def cluster() -> Callable[..., Plane]:
    return in_virtual_time
