"""Worlds whose nodes are tasks of this process: in virtual time and in memory, or on the clock, sockets and files of the
machine. Which of the two is decided by the machines the nodes are put on, and by nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from regauge.base import BugError, Clock, Files, MemoryFiles, Randomness
from regauge.cdi import Host, HostDevice, RecordedHost
from regauge.cdi.directory import RealHost
from regauge.cluster import ControlPlane
from regauge.cluster.kubelet import Kubelet, KubeletOptions
from regauge.cluster.runtimes.virtual import VirtualRuntime
from regauge.driver import Driver, Options
from regauge.host import RealFiles
from regauge.kube import KubeClient, MemoryClient
from regauge.model import NodeReport, Rules
from regauge.pluginapi import PluginNet
from regauge.pluginapi.memory import MemoryNet
from regauge.pluginapi.wire import WireNet
from regauge.rehearsal.report import Mode
from regauge.rehearsal.world import NodeFacts, Registrations, Seen, container_state, report_of, seen_in_spec

BOOT_ID = "11111111-5eed-4000-8000-000000000000"
HOST = RecordedHost(
    {
        "/dev/null": HostDevice(type="c", major=1, minor=3, file_mode=0o666),
        "/dev/zero": HostDevice(type="c", major=1, minor=5, file_mode=0o666),
        "/dev/full": HostDevice(type="c", major=1, minor=7, file_mode=0o666),
    }
)


class Machine(Protocol):
    """What a node stands on: a file system, a net, and facts of its host. Directories are inside `files`."""

    @property
    def files(self) -> Files: ...

    @property
    def host(self) -> Host: ...

    @property
    def root(self) -> str: ...

    def net(self, owner: str) -> PluginNet:
        """The net as one process of the node has it."""

    def kill(self, net: PluginNet) -> None:
        """The process that had this net dies."""


class MemoryMachine:
    """A node that exists in memory only."""

    def __init__(self, name: str) -> None:
        self.files = MemoryFiles()
        self.host: Host = HOST
        self.root = ""
        self._net = MemoryNet(name)

    def net(self, owner: str) -> MemoryNet:
        return self._net.process(owner)

    def kill(self, net: PluginNet) -> None:
        if isinstance(net, MemoryNet):
            net.kill()


class DirectoryMachine:
    """A node below a directory of this machine, with real files and unix sockets. Keep `directory` short."""

    def __init__(self, directory: Path) -> None:
        self.files = RealFiles()
        self.host: Host = RealHost()
        self.root = str(directory)

    def net(self, owner: str) -> WireNet:
        return WireNet()

    def kill(self, net: PluginNet) -> None:
        """Its tasks are cancelled, which closes its sockets."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a plugin runs: the machine's files and host, the node's directories, the API as the plugin reaches it."""

    node: str
    files: Files
    host: Host
    kube: KubeClient
    kubelet_dir: str
    cdi_dir: str


Plugin = Callable[[PluginNet, Place], Awaitable[None]]
"""Something that runs on a node beside the kubelet until it is cancelled: a driver."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to be: what its kubelet is told, what runs beside it, what is known of its devices."""

    name: str
    options: KubeletOptions
    plugins: Mapping[str, Plugin]
    facts: NodeFacts = field(default_factory=NodeFacts)


@dataclass(slots=True)
class _Node:
    plan: NodePlan
    machine: Machine
    place: Place
    net: PluginNet
    runtime: VirtualRuntime
    kubelet: Kubelet
    running: dict[str, tuple[PluginNet, asyncio.Task[None]]] = field(default_factory=dict)


class NodeWorld:
    """`World` whose kubelets and drivers are tasks, with containers that are records (the `virtual` runtime)."""

    def __init__(
        self,
        mode: Mode,
        clock: Clock,
        rules: Rules,
        randomness: Randomness,
        machine: Callable[[str], Machine],
        wanted_env: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.mode = mode
        self.clock = clock
        self.control = ControlPlane(clock, randomness, rules)
        self.kube: KubeClient = MemoryClient(self.control.api.as_actor("user"))
        self._registrations = Registrations()
        self._nodes: dict[str, _Node] = {}
        self._machine = machine
        self._wanted_env = wanted_env

    async def add_node(self, plan: NodePlan) -> None:
        """A node with a kubelet that runs, and its plugins beside it."""
        machine = self._machine(plan.name)
        kubelet_dir, cdi_dir, etc_cdi = (f"{machine.root}/{name}" for name in ("k", "cdi", "etc-cdi"))
        for directory in (kubelet_dir, cdi_dir, etc_cdi, f"{machine.root}/etc"):
            machine.files.make_directory(directory)
        runtime = VirtualRuntime(self.clock, machine.files, machine.host, (etc_cdi, cdi_dir))
        api = self.control.api.as_actor(f"kubelet {plan.name}")
        net = machine.net(f"kubelet {plan.name}")
        options = replace(plan.options, directory=kubelet_dir)
        kubelet = Kubelet(plan.name, api, net, machine.files, self.clock, runtime, options)
        kube = MemoryClient(self.control.api.as_actor(f"driver on {plan.name}"))
        place = Place(plan.name, machine.files, machine.host, kube, kubelet_dir, cdi_dir)
        node = _Node(plan, machine, place, net, runtime, kubelet)
        self._nodes[plan.name] = node
        await kubelet.start()
        for plugin in plan.plugins:
            self._start_plugin(node, plugin)

    def _start_plugin(self, node: _Node, plugin: str) -> None:
        name = f"{plugin} on {node.plan.name}"
        net = node.machine.net(name)
        work = node.plan.plugins[plugin](net, node.place)
        node.running[plugin] = (net, asyncio.create_task(_run(work), name=name))

    @property
    def registered(self) -> Mapping[str, int]:
        return dict(self._registrations.counts)

    async def node_reports(self) -> tuple[NodeReport, ...]:
        reports = []
        for name, node in self._nodes.items():
            address = f"{node.place.kubelet_dir}/pod-resources/kubelet.sock"
            reports.append(await report_of(name, address, node.net, node.plan.facts))
        return tuple(reports)

    def seen(self, pod_uid: str, container: str) -> Seen | None:
        found = container_state((node.runtime for node in self._nodes.values()), pod_uid, container)
        return None if found is None else seen_in_spec(found[1], self._wanted_env)

    async def restart_driver(self) -> None:
        for node in self._nodes.values():
            for plugin in tuple(node.running):
                await self._end_plugin(node, plugin)
                self._start_plugin(node, plugin)

    async def _end_plugin(self, node: _Node, plugin: str) -> None:
        net, task = node.running.pop(plugin)
        node.machine.kill(net)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def check(self) -> None:
        self.control.check()
        for node in self._nodes.values():
            for plugin, (_, task) in node.running.items():
                if task.done():
                    error = None if task.cancelled() else task.exception()
                    raise BugError(f"{plugin} on node {node.plan.name} ended: {error or 'no error'}") from error

    async def stop(self) -> None:
        """End everything in order."""
        for node in self._nodes.values():
            for plugin in tuple(node.running):
                await self._end_plugin(node, plugin)
            await node.kubelet.stop()
            await node.runtime.close()
        await self.control.stop()

    def driver_plugin(self, description: bytes) -> Plugin:
        """Our driver as a plugin, with `description` as its devices.yaml."""

        async def run(net: PluginNet, place: Place) -> None:
            config = f"{place.kubelet_dir}/devices.yaml"
            place.files.write(config, description)
            options = Options(
                config=config,
                node_name=place.node,
                host=place.host,
                boot_id=BOOT_ID,
                kubelet_dir=place.kubelet_dir,
                cdi_dir=place.cdi_dir,
            )
            await Driver(options, net, place.kube, place.files, self.clock, self._registrations.hear).run()

        return run


async def _run(work: Awaitable[None]) -> None:
    await work
