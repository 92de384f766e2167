"""Worlds whose nodes are tasks of this process: in virtual time and in memory, or on the clock, sockets and files of the
machine. Which of the two is decided by the machines the nodes are put on, and by nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from regauge.base import BugError, Clock, Files, InputError, MemoryFiles, Randomness
from regauge.cdi import Host, HostDevice, RecordedHost
from regauge.cdi.directory import RealHost
from regauge.cluster import ControlPlane, Killed
from regauge.cluster.kubelet import Kubelet, KubeletOptions
from regauge.cluster.runtimes import Runtime
from regauge.cluster.runtimes.virtual import VirtualRuntime
from regauge.cluster.store import Store
from regauge.driver import Driver, Notice, Options
from regauge.host import FilesBelow, RealFiles
from regauge.kube import KubeClient, MemoryClient
from regauge.model import NodeReport, Rules
from regauge.pluginapi import PluginNet
from regauge.pluginapi.memory import MemoryNet
from regauge.pluginapi.wire import WireNet
from regauge.rehearsal.faulty import FaultyClient, FaultyClock, FaultyFiles, FaultyNet, Process, pass_write
from regauge.rehearsal.injector import LOG_LENGTH, Act, Injector
from regauge.rehearsal.report import Mode
from regauge.rehearsal.world import NodeFacts, Registrations, Seen, container_state, report_of, seen_in_spec

BOOT_ID = "{:08x}-5eed-4000-8000-000000000000"
CORRUPT_PAUSE_S = 5.0
KUBELET = "kubelet"
HOST = RecordedHost(
    {
        "/dev/null": HostDevice(type="c", major=1, minor=3, file_mode=0o666),
        "/dev/zero": HostDevice(type="c", major=1, minor=5, file_mode=0o666),
        "/dev/full": HostDevice(type="c", major=1, minor=7, file_mode=0o666),
    }
)


class NodeRuntime(Runtime, Protocol):
    """A runtime whose machine can go down."""

    def power_off(self) -> None:
        """The machine goes down with all containers."""


class Machine(Protocol):
    """What a node stands on: a file system, a net, and facts of its host. Directories are inside `files`."""

    @property
    def files(self) -> Files: ...

    @property
    def host(self) -> Host: ...

    @property
    def root(self) -> str: ...

    @property
    def directories(self) -> tuple[str, str, str]:
        """The kubelet's, and those of CDI specs: for what drivers write, and for what is configured."""

    def runtime(self, clock: Clock, cdi_directories: Sequence[str]) -> NodeRuntime:
        """What keeps the node's containers. Called once, inside the loop."""

    def net(self, owner: str) -> PluginNet:
        """The net as one process of the node has it."""

    def kill(self, net: PluginNet) -> None:
        """The process that had this net dies."""


class MemoryMachine:
    """A node that exists in memory only; its disk may be a `directory` that outlives this process, containers included."""

    def __init__(self, name: str, directory: Path | None = None) -> None:
        self.files: Files = MemoryFiles() if directory is None else FilesBelow(str(directory), synced=False)
        self.host: Host = HOST
        self.root = ""
        self.directories = ("/var/lib/kubelet", "/var/run/cdi", "/etc/cdi")
        self._stays = directory is not None
        self._net = MemoryNet(name)

    def runtime(self, clock: Clock, cdi_directories: Sequence[str]) -> NodeRuntime:
        keep = "/containers" if self._stays else ""
        return VirtualRuntime(clock, self.files, self.host, cdi_directories, keep=keep)

    def net(self, owner: str) -> MemoryNet:
        return self._net.process(owner)

    def kill(self, net: PluginNet) -> None:
        own = net.inner if isinstance(net, FaultyNet) else net
        if isinstance(own, MemoryNet):
            own.kill()


class DirectoryMachine:
    """A node below a directory of this machine, with real files and unix sockets. Keep `directory` short."""

    def __init__(self, directory: Path) -> None:
        self.files = RealFiles()
        self.host: Host = RealHost()
        self.root = str(directory)
        self.directories = (f"{directory}/k", f"{directory}/cdi", f"{directory}/etc-cdi")

    def runtime(self, clock: Clock, cdi_directories: Sequence[str]) -> NodeRuntime:
        return VirtualRuntime(clock, self.files, self.host, cdi_directories)

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
    clock: Clock
    boot_id: str


Plugin = Callable[[PluginNet, Place], Awaitable[None]]
"""Something that runs on a node beside the kubelet until it is cancelled: a driver."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to be: what its kubelet is told, what runs beside it, what is known of its devices.

    `off` are plugins that do not run before they are switched on.
    """

    name: str
    options: KubeletOptions
    plugins: Mapping[str, Plugin]
    facts: NodeFacts = field(default_factory=NodeFacts)
    off: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Running:
    """A plugin that runs: its process, its net, its task."""

    process: Process
    net: PluginNet
    task: asyncio.Task[None]


class RehearsedNode:
    """One node of a world: its kubelet and plugins, each a process that can be killed and started again."""

    def __init__(self, world: NodeWorld, plan: NodePlan, machine: Machine) -> None:
        self.world = world
        self.plan = plan
        self.name = plan.name
        self.machine = machine
        self.kubelet_dir, self.cdi_dir, self.etc_cdi = machine.directories
        self.runtime = machine.runtime(world.clock, (self.etc_cdi, self.cdi_dir))
        self.kubelet: Kubelet | None = None
        self.net: PluginNet | None = None
        self.powered = True
        self.boots = 1
        self.running: dict[str, _Running] = {}
        self.off = set(plan.off)
        self._chores: set[asyncio.Task[None]] = set()

    def make_directories(self) -> None:
        for directory in (self.kubelet_dir, self.cdi_dir, self.etc_cdi, f"{self.machine.root}/etc"):
            self.machine.files.make_directory(directory)

    def _process(self, name: str) -> Process:
        return Process(self.world.injector, self.name, name, title(name, self.name))

    @property
    def boot_id(self) -> str:
        return BOOT_ID.format(0x11111110 + self.boots)

    # -- the kubelet

    async def start_kubelet(self) -> None:
        """Raises `InputError` when what the kubelet finds on its disk does not let it start."""
        process = self._process(KUBELET)
        world = self.world
        world.injector.raise_up(process.title)
        net = FaultyNet(self.machine.net(process.title), process, world.clock)
        options = replace(self.plan.options, directory=self.kubelet_dir)
        api = world.control.api.as_actor(process.title)
        files, clock = FaultyFiles(self.machine.files, process), FaultyClock(world.clock, process)
        kubelet = Kubelet(self.name, api, net, files, clock, self.runtime, options)
        try:
            self.kubelet, self.net = kubelet, net
            await kubelet.start()
        except InputError:
            self.kubelet = self.net = None
            await kubelet.kill()
            raise

    def kill_kubelet(self, away_s: float | None) -> None:
        """At once and without a word. It is started again after `away_s` seconds, or never with None."""
        kubelet, net = self.kubelet, self.net
        if kubelet is None or net is None:
            return
        self.kubelet = self.net = None
        self.world.injector.bury(title(KUBELET, self.name))
        self.machine.kill(net)
        self._do(self._bury_kubelet(kubelet, away_s, self.boots))

    async def _bury_kubelet(self, kubelet: Kubelet, away_s: float | None, boots: int) -> None:
        await kubelet.kill()
        if away_s is not None:
            await self.world.clock.sleep(away_s)
            if self.powered and self.boots == boots:
                await self._revive_kubelet()

    async def _revive_kubelet(self) -> None:
        """As a service manager does it: what does not start is tried again, and told."""
        while self.powered and self.kubelet is None:
            try:
                await self.start_kubelet()
            except InputError as error:
                self.world.injector.note(f"kubelet {self.name} does not start: {error}")
                await self.world.clock.sleep(CORRUPT_PAUSE_S)
            except Killed:
                return

    # -- plugins

    def start_plugin(self, plugin: str) -> None:
        if not self.powered or plugin in self.running or plugin in self.off:
            return
        process = self._process(plugin)
        world = self.world
        world.injector.raise_up(process.title)
        net = FaultyNet(self.machine.net(process.title), process, world.clock)
        place = Place(
            node=self.name,
            files=FaultyFiles(self.machine.files, process),
            host=self.machine.host,
            kube=FaultyClient(world.control.api.as_actor(process.title), process),
            kubelet_dir=self.kubelet_dir,
            cdi_dir=self.cdi_dir,
            clock=FaultyClock(world.clock, process),
            boot_id=self.boot_id,
        )
        work = _run(self.plan.plugins[plugin], net, place)
        self.running[plugin] = _Running(process, net, asyncio.create_task(work, name=process.title))

    def kill_plugin(self, plugin: str, away_s: float | None) -> asyncio.Task[None] | None:
        """The same for a plugin. Returns the task that is ending."""
        running = self.running.pop(plugin, None)
        if running is None:
            return None
        self.world.injector.bury(running.process.title)
        self.machine.kill(running.net)
        running.task.cancel()
        if away_s is not None:
            self._do(self._bring_back(plugin, running.task, away_s, self.boots))
        return running.task

    async def _bring_back(self, plugin: str, old: asyncio.Task[None], away_s: float, boots: int) -> None:
        await asyncio.gather(old, return_exceptions=True)
        await self.world.clock.sleep(away_s)
        if self.boots == boots:
            self.start_plugin(plugin)

    def switch_plugin(self, plugin: str, on: bool) -> None:
        """A plugin that is on runs, also after the node was away; one that is off does not."""
        if on:
            self.off.discard(plugin)
            self.start_plugin(plugin)
        else:
            self.off.add(plugin)
            self.kill_plugin(plugin, None)

    def replace_plugin(self, plugin: str, by: Plugin) -> None:
        """Another program in the place of a plugin; it runs from the next start on."""
        self.plan = replace(self.plan, plugins={**self.plan.plugins, plugin: by})

    # -- the machine

    def power_off(self) -> None:
        """Everything on it ends at once. What is on its disk stays."""
        self.powered = False
        self.boots += 1
        self.kill_kubelet(None)
        for plugin in tuple(self.running):
            self.kill_plugin(plugin, None)
        self.runtime.power_off()

    def power_on(self, after_s: float = 0.0) -> None:
        self._do(self._boot(after_s))

    async def _boot(self, after_s: float) -> None:
        await self.world.clock.sleep(after_s)
        if self.powered:
            return
        self.powered = True
        await self._revive_kubelet()
        for plugin in self.plan.plugins:
            self.start_plugin(plugin)

    def mend(self) -> None:
        """Whatever is off is on again, and whatever does not run is started."""
        if not self.powered:
            self.power_on()
            return
        if self.kubelet is None and not self._chores:
            self._do(self._revive_kubelet())
        for plugin in self.plan.plugins:
            self.start_plugin(plugin)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"chore of {self.name}")
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def check(self) -> None:
        """Raises the error of a plugin that ended by itself."""
        for plugin, running in self.running.items():
            if running.task.done():
                error = None if running.task.cancelled() else running.task.exception()
                raise BugError(f"{plugin} on node {self.name} ended: {error or 'no error'}") from error

    async def stop(self) -> None:
        """End everything in order."""
        self.powered = False
        for task in tuple(self._chores):
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        ended = [self.kill_plugin(plugin, None) for plugin in tuple(self.running)]
        await asyncio.gather(*(task for task in ended if task is not None), return_exceptions=True)
        if self.kubelet is not None:
            await self.kubelet.stop()
        await self.runtime.close()


RELEASES = {"1.36": "v1.36.3", "1.37": "v1.37.2"}


def release_of(minor: str) -> str:
    """What a cluster of a minor says that it is: the release that it was held against, where there is one."""
    return RELEASES.get(minor, f"v{minor}.0")


class NodeWorld:
    """`World` whose kubelets and drivers are tasks, with containers that are records (the `virtual` runtime).

    Server and kubelets say that they are of `git_version`, by default of the release that the rules' minor stands for.

    `injector` makes its ports fail. What happens once (a death, a device that vanishes) is for whoever sets `act`.
    """

    def __init__(
        self,
        mode: Mode,
        clock: Clock,
        rules: Rules,
        randomness: Randomness,
        machine: Callable[[str], Machine],
        wanted_env: Callable[[str], bool] = lambda _: True,
        *,
        store: Store | None = None,
        git_version: str = "",
    ) -> None:
        self.mode = mode
        self.clock = clock
        self.act: Act = lambda _fault, _point: None
        self.injector = Injector(clock, lambda fault, point: self.act(fault, point))
        self.control = ControlPlane(
            clock,
            randomness,
            rules,
            fault=lambda call: pass_write(self.injector, call),
            store=store,
            git_version=git_version or release_of(rules.minor),
        )
        self.kube: KubeClient = MemoryClient(self.control.api.as_actor("user"))
        self.notices: list[tuple[float, str, Notice]] = []
        self.bundles: dict[str, bytes] = {}
        self._registrations = Registrations()
        self.nodes: dict[str, RehearsedNode] = {}
        self._machine = machine
        self._wanted_env = wanted_env

    async def add_node(self, plan: NodePlan) -> RehearsedNode:
        """A node with a kubelet that runs, and its plugins beside it."""
        options = replace(plan.options, kubelet_version=self.control.api.state.git_version)
        plan = replace(plan, options=options)
        node = self.nodes[plan.name] = RehearsedNode(self, plan, self._machine(plan.name))
        node.make_directories()
        await node.start_kubelet()
        for plugin in plan.plugins:
            node.start_plugin(plugin)
        return node

    @property
    def registered(self) -> Mapping[str, int]:
        return dict(self._registrations.counts)

    async def node_reports(self) -> tuple[NodeReport, ...]:
        reports = []
        for name, node in self.nodes.items():
            if node.net is not None:
                address = f"{node.kubelet_dir}/pod-resources/kubelet.sock"
                reports.append(await report_of(name, address, node.net, node.plan.facts))
        return tuple(reports)

    def seen(self, pod_uid: str, container: str) -> Seen | None:
        found = container_state((node.runtime for node in self.nodes.values()), pod_uid, container)
        return None if found is None else seen_in_spec(found[1], self._wanted_env)

    async def restart_driver(self) -> None:
        for node in self.nodes.values():
            for plugin in tuple(node.running):
                task = node.kill_plugin(plugin, None)
                await asyncio.gather(*([task] if task else []), return_exceptions=True)
                node.start_plugin(plugin)

    def check(self) -> None:
        self.control.check()
        for node in self.nodes.values():
            node.check()

    async def stop(self) -> None:
        """End everything in order."""
        self.injector.clear()
        for node in self.nodes.values():
            await node.stop()
        await self.control.stop()

    def hear(self, node: str, notice: Notice) -> None:
        """A driver says something."""
        self._registrations.hear(notice)
        if len(self.notices) < LOG_LENGTH:
            self.notices.append((self.clock.monotonic_s(), node, notice))

    def driver_plugin(self, description: bytes) -> Plugin:
        """Our driver as a plugin, with `description` as its devices.yaml."""

        async def run(net: PluginNet, place: Place) -> None:
            config = f"{place.kubelet_dir}/devices.yaml"
            if not place.files.exists(config):
                place.files.write(config, description)
            options = Options(
                config=config,
                node_name=place.node,
                host=place.host,
                boot_id=place.boot_id,
                kubelet_dir=place.kubelet_dir,
                cdi_dir=place.cdi_dir,
            )
            await Driver(options, net, place.kube, place.files, place.clock, partial(self.hear, place.node)).run()

        return run


def title(process: str, node: str) -> str:
    """What a process of a node is called, also as a writer at the API."""
    return f"{KUBELET} {node}" if process == KUBELET else f"{process} on {node}"


async def _run(plugin: Plugin, net: PluginNet, place: Place) -> None:
    """Made when its task runs: a plugin that is killed before that never was."""
    await plugin(net, place)
