"""A world in virtual time: no sockets, no child processes, and the same every time for one seed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from regauge.base import BugError, MemoryFiles
from regauge.cdi import HostDevice, RecordedHost
from regauge.cluster import ControlPlane, VirtualClock
from regauge.cluster.kubelet import Kubelet, KubeletOptions
from regauge.cluster.runtimes.virtual import VirtualRuntime
from regauge.driver import Driver, Options
from regauge.kube import KubeClient
from regauge.kube.memory import MemoryClient
from regauge.model import NodeReport, Rules
from regauge.pluginapi.memory import MemoryNet
from regauge.rehearsal.report import Mode
from regauge.rehearsal.world import NodeFacts, Registrations, Seen, container_state, report_of, seen_in_spec

KUBELET_DIR = "/var/lib/kubelet"
CDI_DIR = "/var/run/cdi"
CONFIG = "/etc/regauge/devices.yaml"
BOOT_ID = "11111111-5eed-4000-8000-000000000000"
HOST = RecordedHost(
    {
        "/dev/null": HostDevice(type="c", major=1, minor=3, file_mode=0o666),
        "/dev/zero": HostDevice(type="c", major=1, minor=5, file_mode=0o666),
        "/dev/full": HostDevice(type="c", major=1, minor=7, file_mode=0o666),
    }
)

Plugin = Callable[[MemoryNet, MemoryFiles], Awaitable[None]]
"""Something that runs on a node beside the kubelet until it is cancelled: a driver."""


@dataclass(slots=True)
class SimulatedNode:
    """One node: its own file system and net, a kubelet, and what runs beside it."""

    name: str
    options: KubeletOptions
    files: MemoryFiles
    net: MemoryNet
    runtime: VirtualRuntime
    kubelet: Kubelet
    plugins: Mapping[str, Plugin]
    facts: NodeFacts
    running: dict[str, tuple[MemoryNet, asyncio.Task[None]]] = field(default_factory=dict)


class SimulatedWorld:
    """`World` in one virtual loop."""

    mode = Mode.SIMULATED

    def __init__(self, clock: VirtualClock, rules: Rules, seed: int, wanted_env: Callable[[str], bool]) -> None:
        self.clock = clock
        self.rules = rules
        self.control = ControlPlane(clock, Random(seed), rules)
        self.kube: KubeClient = MemoryClient(self.control.api.as_actor("user"))
        self.nodes: dict[str, SimulatedNode] = {}
        self.registrations = Registrations()
        self._wanted_env = wanted_env

    async def add_node(
        self, options: KubeletOptions, name: str, plugins: Mapping[str, Plugin], facts: NodeFacts
    ) -> SimulatedNode:
        """A node with a kubelet that runs, and `plugins` beside it."""
        files, net = MemoryFiles(), MemoryNet(f"kubelet {name}")
        for directory in (KUBELET_DIR, CDI_DIR, "/etc/cdi", "/etc/regauge"):
            files.make_directory(directory)
        runtime = VirtualRuntime(self.clock, files, HOST, ("/etc/cdi", CDI_DIR))
        api = self.control.api.as_actor(f"kubelet {name}")
        kubelet = Kubelet(name, api, net, files, self.clock, runtime, options)
        node = SimulatedNode(name, options, files, net, runtime, kubelet, plugins, facts)
        self.nodes[name] = node
        await kubelet.start()
        for plugin in plugins:
            self._start_plugin(node, plugin)
        return node

    def _start_plugin(self, node: SimulatedNode, plugin: str) -> None:
        net = node.net.process(f"{plugin} on {node.name}")
        task = asyncio.ensure_future(node.plugins[plugin](net, node.files))
        node.running[plugin] = (net, asyncio.create_task(_wait_for(task), name=f"{plugin} on {node.name}"))

    async def node_reports(self) -> tuple[NodeReport, ...]:
        return tuple(
            [
                await report_of(node.name, f"{KUBELET_DIR}/pod-resources/kubelet.sock", node.net, node.facts)
                for node in self.nodes.values()
            ]
        )

    def seen(self, pod_uid: str, container: str) -> Seen | None:
        found = container_state((node.runtime for node in self.nodes.values()), pod_uid, container)
        return None if found is None else seen_in_spec(found[1], self._wanted_env)

    @property
    def registered(self) -> Mapping[str, int]:
        return dict(self.registrations.counts)

    async def restart_driver(self) -> None:
        for node in self.nodes.values():
            for plugin, (net, task) in tuple(node.running.items()):
                net.kill()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                self._start_plugin(node, plugin)

    def check(self) -> None:
        self.control.check()
        for node in self.nodes.values():
            for plugin, (_, task) in node.running.items():
                if task.done():
                    error = None if task.cancelled() else task.exception()
                    raise BugError(f"{plugin} on node {node.name} ended: {error or 'without an error'}") from error

    async def stop(self) -> None:
        """End everything in order."""
        for node in self.nodes.values():
            for net, task in node.running.values():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                net.kill()
            await node.kubelet.stop()
            await node.runtime.close()
        await self.control.stop()


async def _wait_for(task: Awaitable[None]) -> None:
    await task


def driver_plugin(world: SimulatedWorld, node: str, description: bytes) -> Plugin:
    """Our driver as a plugin of a simulated node, with `description` as its devices.yaml."""

    async def run(net: MemoryNet, files: MemoryFiles) -> None:
        files.write(CONFIG, description)
        options = Options(
            config=CONFIG, node_name=node, host=HOST, boot_id=BOOT_ID, kubelet_dir=KUBELET_DIR, cdi_dir=CDI_DIR
        )
        kube = MemoryClient(world.control.api.as_actor(f"driver on {node}"))
        await Driver(options, net, kube, files, world.clock, world.registrations.hear).run()

    return run
