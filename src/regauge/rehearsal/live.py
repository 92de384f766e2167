"""A live world: real sockets with gRPC, real files, a driver process, containers as processes, the wall clock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from random import Random

import msgspec

from regauge.base import InputError, TransientError
from regauge.cdi.directory import RealHost
from regauge.cluster import ControlPlane
from regauge.cluster.kubelet import Kubelet, KubeletOptions
from regauge.cluster.runtimes import Runtime
from regauge.cluster.runtimes.oci import OciOptions, OciRuntime
from regauge.cluster.runtimes.process import ProcessRuntime
from regauge.cluster.server import ApiSocket
from regauge.driver import Notice
from regauge.host import RealClock, RealFiles, bound_command
from regauge.kube.config import Connection
from regauge.kube.http import HttpClient
from regauge.model import NodeReport, Rules
from regauge.pluginapi.wire import WireNet
from regauge.rehearsal.report import Mode
from regauge.rehearsal.runs import RUN_VARIABLE, run_directory, told_of
from regauge.rehearsal.world import TIMINGS, NodeFacts, Registrations, Seen, container_state, report_of, seen_in_log

STOP_WITHIN_S = 5.0
DRIVER_LOG_LINES = 20
RESTARTS = 3


class LiveWorld:
    """`World` on this machine. One node; its driver is a process of its own."""

    mode = Mode.LIVE

    def __init__(self, rules: Rules, directory: Path, runtime: str, facts: NodeFacts, node: str) -> None:
        self.clock = RealClock()
        self.control = ControlPlane(self.clock, Random(secrets.randbits(64)), rules)
        self._server = ApiSocket(self.control.api, f"{directory}/api.sock")
        self.kube = HttpClient(Connection(server=f"unix:{directory}/api.sock"), {}, user_agent="user")
        self._directory = directory
        self._facts = facts
        self._node = node
        self._net = WireNet()
        files = RealFiles()
        self._runtime = make_runtime(runtime, self.clock, files, directory)
        options = KubeletOptions(rules=rules, directory=f"{directory}/k", timings=TIMINGS)
        self._kubelet = Kubelet(
            node, self.control.api.as_actor(f"kubelet {node}"), self._net, files, self.clock, self._runtime, options
        )
        self._registrations = Registrations()
        self._driver: asyncio.subprocess.Process | None = None
        self._driver_log: asyncio.Task[None] | None = None
        self._driver_said: list[str] = []
        self._keeper: asyncio.Task[None] | None = None
        self._gave_up = ""
        self.notes: list[str] = []

    async def start(self, devices: bytes) -> None:
        """Everything up; the driver serves the description in `devices`."""
        for name in ("cdi", "etc-cdi"):
            (self._directory / name).mkdir(mode=0o700)
        (self._directory / "devices.yaml").write_bytes(devices)
        self.control.start()
        await self._server.start()
        await self._kubelet.start()
        await self._run_driver()

    async def _run_driver(self) -> None:
        await self._start_driver()
        self._keeper = asyncio.create_task(self._keep_driver(), name="driver keeper")

    async def _keep_driver(self) -> None:
        """Start the driver again when it ends on its own, as a DaemonSet would, but not for ever."""
        for left in range(RESTARTS, -1, -1):
            assert self._driver is not None and self._driver_log is not None
            code = await self._driver.wait()
            await self._driver_log
            said = "; ".join(self._driver_said[-3:]) or "nothing"
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            if not left:
                self._gave_up = f"the driver ended {how} for the {RESTARTS + 1}th time; it said: {said}"
                return
            self.notes.append(f"the driver ended {how} and was started again; it had said: {said}")
            await self._start_driver()

    async def _start_driver(self) -> None:
        directory = self._directory
        command = [sys.executable, "-m", "regauge", "driver", "--config", f"{directory}/devices.yaml"]
        command += ["--kubelet-dir", f"{directory}/k", "--cdi-dir", f"{directory}/cdi", "--node", self._node]
        command += ["--api", f"unix:{directory}/api.sock", "--log", "json"]
        self._driver = await asyncio.create_subprocess_exec(
            *bound_command(command),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, RUN_VARIABLE: str(directory)},
            start_new_session=True,
        )
        self._driver_log = asyncio.create_task(self._listen(self._driver), name="driver log")

    async def _listen(self, driver: asyncio.subprocess.Process) -> None:
        assert driver.stderr is not None
        async for line in driver.stderr:
            self._driver_said.append(line.decode(errors="replace").rstrip())
            del self._driver_said[:-DRIVER_LOG_LINES]
            with contextlib.suppress(msgspec.DecodeError):
                self._registrations.hear(msgspec.json.decode(line, type=Notice))

    @property
    def registered(self) -> Mapping[str, int]:
        return dict(self._registrations.counts)

    async def node_reports(self) -> tuple[NodeReport, ...]:
        address = f"{self._directory}/k/pod-resources/kubelet.sock"
        return (await report_of(self._node, address, self._net, self._facts),)

    def seen(self, pod_uid: str, container: str) -> Seen | None:
        found = container_state([self._runtime], pod_uid, container)
        return None if found is None else seen_in_log(self._runtime.logs(found[1].id))

    async def restart_driver(self) -> None:
        await self._end_driver(signal.SIGKILL)
        await self._run_driver()

    async def _end_driver(self, number: signal.Signals) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._driver is None or self._driver_log is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._driver.send_signal(number)
        try:
            await asyncio.wait_for(self._driver.wait(), STOP_WITHIN_S)
        except TimeoutError:
            self._driver.kill()
            await self._driver.wait()
        await self._driver_log

    def check(self) -> None:
        self.control.check()
        if self._gave_up:
            raise TransientError(self._gave_up)

    async def stop(self) -> None:
        """End everything in order, whatever has failed."""
        await self._end_driver(signal.SIGTERM)
        await self._kubelet.stop()
        await self._runtime.close()
        await self.kube.close()
        await self._server.stop()
        await self.control.stop()


def make_runtime(name: str, clock: RealClock, files: RealFiles, directory: Path) -> Runtime:
    """The runtime of this name below a run's directory. Raises `InputError` when the machine cannot run it."""
    cdi = (f"{directory}/etc-cdi", f"{directory}/cdi")
    if name == "process":
        return ProcessRuntime(clock, files, RealHost(), cdi, f"{directory}/c")
    program = low_level_runtime()
    if program is None:
        raise InputError("neither runc nor crun is on this machine", fix="install one, or take --runtime process")
    return OciRuntime(clock, files, RealHost(), cdi, OciOptions(program, f"{directory}/c"))


def low_level_runtime() -> str | None:
    """The program that runs OCI containers on this machine."""
    return shutil.which("runc") or shutil.which("crun")


def remove_containers(directory: Path) -> None:
    """Remove the containers of a dead run with their control groups, as far as this machine can."""
    program, state = low_level_runtime(), directory / "c" / "state"
    if program is None or not state.is_dir():
        return
    for container in sorted(state.iterdir()):
        command = [program, "--root", str(state), "delete", "--force", container.name]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=STOP_WITHIN_S)


@contextlib.asynccontextmanager
async def live_world(
    rules: Rules, runtime: str, node: str, devices: bytes, facts: NodeFacts
) -> AsyncIterator[LiveWorld]:
    """A live world in a directory of its own; everything of it is gone afterwards."""
    with run_directory(sweep=remove_containers) as (directory, leftovers):
        world = LiveWorld(rules, directory, runtime, facts, node)
        world.notes.extend(told_of(leftovers))
        try:
            await world.start(devices)
            yield world
        finally:
            await world.stop()
