"""A cluster that stays: the API server on TCP for kubectl, controllers, scheduler, nodes with our driver, a store on disk."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from regauge.base import Clock, InputError
from regauge.cdi import HostDevice, RecordedHost
from regauge.cdi.directory import RealHost
from regauge.cluster.access.bootstrap import bootstrap_roles
from regauge.cluster.access.guard import Guard
from regauge.cluster.access.identity import ADMIN, MASTERS, Tokens, authenticated
from regauge.cluster.access.tokens import AccountTokens
from regauge.cluster.controllers.accounts import RootCertificatePublisher, ServiceAccountController
from regauge.cluster.kubelet import KubeletOptions
from regauge.cluster.persistence import DurableStore, backup, restore
from regauge.cluster.queue import ControllerRunner
from regauge.cluster.runtimes.process import ProcessRuntime
from regauge.cluster.server import ApiListener, TlsFiles
from regauge.cluster.serving import Catalog
from regauge.driver import Description, Stack, read_description
from regauge.features import minor_of
from regauge.host import RealClock, file_lock
from regauge.kube import ServerUnavailable
from regauge.model import Rules
from regauge.rehearsal.nodes import HOST, MemoryMachine, NodePlan, NodeRuntime, NodeWorld
from regauge.rehearsal.report import Mode
from regauge.rehearsal.samples import facts_of, sample_devices
from regauge.rehearsal.state_directory import KUBECONFIG, LOCK, NODES, STORE, StateDirectory
from regauge.rehearsal.up_estate import EstateOptions, estate_stands, hold_estate
from regauge.rehearsal.world import container_state
from regauge.scheduler import Topology

FLUSH_EVERY_S = 0.05
REGISTERED_WITHIN_S, REGISTERED_POLL_S = 10.0, 0.02
CHECK_EVERY_S = 1.0
LOCK_WITHIN_S = 0.5
CONTROLLER = "kube-controller-manager"
PLUGIN = "driver"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What is to run. `devices` is the text of the description of every node's devices, by default the sample's.

    `run_commands`: containers are processes of this machine, with the rights of this one. `topology_policy` and
    `topology_scope` are the kubelets'. With an `estate` its nodes are there, instead of `nodes` with `devices`.
    `versions` switches versions of the API on and off (see `Catalog`).
    """

    state: Path
    rules: Rules
    kubeconfig: Path | None = None
    nodes: int = 1
    devices: bytes | None = None
    devices_file: str = "sample/devices.yaml"
    host: str = "127.0.0.1"
    port: int = 0
    exposed: bool = False
    run_commands: bool = False
    topology_policy: str = "none"
    topology_scope: str = "container"
    estate: EstateOptions | None = None
    versions: Mapping[str, bool] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True, slots=True)
class Started:
    """Where the cluster is reached."""

    server: str
    kubeconfig: Path
    nodes: int


@contextlib.contextmanager
def state_lock(state: StateDirectory) -> Iterator[None]:
    """Hold the state directory: one cluster at a time, and no restore below a running one."""
    try:
        with file_lock(state.place(LOCK), LOCK_WITHIN_S):
            yield
    except TimeoutError:
        fix = "stop it, or choose another directory with --state"
        raise InputError(f"a cluster runs on {state.path}", fix=fix) from None


@contextlib.asynccontextmanager
async def cluster_up(options: UpOptions) -> AsyncIterator[tuple[Started, NodeWorld]]:
    """A cluster that answers; everything of it has ended afterwards and every write is on disk."""
    check_address(options)
    description = read_description(options.devices or sample_devices(), options.devices_file)
    state = StateDirectory(options.state)
    with state_lock(state):
        stands = estate_stands(state.path, options.estate.estate if options.estate else None)
        store = DurableStore(state.place(STORE))
        try:
            async with contextlib.AsyncExitStack() as stack:
                yield await _start(options, state, store, description, stack, stands)
        finally:
            store.close()


def check_address(options: UpOptions) -> None:
    """Raises `InputError` for an address that is none, or that others reach when that was not asked for."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if options.host == "localhost" else options.host)
    except ValueError:
        raise InputError(f"--listen: {options.host} is no IP address", fix="give ADDRESS:PORT") from None
    if not address.is_loopback and not options.exposed:
        fix = "listen on 127.0.0.1, or say --expose: whoever has a credential of it then reaches it over the network"
        raise InputError(f"--listen: {options.host} is reached from other machines", fix=fix)


async def _start(
    options: UpOptions,
    state: StateDirectory,
    store: DurableStore,
    description: Description,
    stack: contextlib.AsyncExitStack,
    stands: bool,
) -> tuple[Started, NodeWorld]:
    clock = RealClock()
    credentials = state.credentials(clock.now_s())
    state.server(credentials.authority, [options.host, "127.0.0.1", "::1"], clock.now_s())
    world = NodeWorld(
        Mode.LIVE,
        clock,
        options.rules,
        Random(secrets.randbits(64)),
        lambda name: _machine(name, description, state, options),
        store=store,
        git_version=_version(options),
    )
    api = world.control.api
    api.state.catalog = Catalog(store, options.rules, options.versions)
    api.state.knows_programs = True
    api.state.tokens = AccountTokens(state.accounts_key(), clock)
    bootstrap_roles(api)
    api.state.pod_logs = lambda uid, container: _log(world, uid, container)
    stack.push_async_callback(world.stop)
    if options.estate is None:
        world.control.start()
    manager = api.as_actor(CONTROLLER)
    certificate = credentials.authority.certificate.decode()
    for controller in (ServiceAccountController(manager), RootCertificatePublisher(manager, certificate)):
        runner = ControllerRunner(manager, controller)
        runner.start()
        _background(stack, runner.run(), controller.name)
        stack.callback(runner.stop)
    _background(stack, _keep_flushing(store), "store")
    if options.estate is not None:
        daemons = await hold_estate(world, options.estate, state.path, stands)
        stack.push_async_callback(daemons.stop)
    guard = Guard(store, Tokens({credentials.token: authenticated(ADMIN, [MASTERS])}), api.state.tokens)
    tls = TlsFiles(state.place("server.crt"), state.place("server.key"), state.place("ca.crt"))
    listener = ApiListener(api, guard, options.host, options.port, tls)
    await listener.start()
    stack.push_async_callback(listener.stop)
    if options.estate is None:
        await _add_nodes(options, world, description)
    store.flush()
    kubeconfig = options.kubeconfig or Path(state.place(KUBECONFIG))
    named = f"[{options.host}]" if ":" in options.host else options.host
    server = f"https://{named}:{listener.port}"
    state.write_kubeconfig(kubeconfig, server, credentials)
    return Started(server, kubeconfig, len(world.nodes)), world


def _version(options: UpOptions) -> str:
    """What the server says that it is: as in the estate, unless another minor was asked for."""
    told = options.estate.estate.git_version if options.estate is not None else ""
    return told if told and minor_of(told) == options.rules.minor else ""


def _background(stack: contextlib.AsyncExitStack, work: Coroutine[Any, Any, None], name: str) -> None:
    task = asyncio.create_task(work, name=name)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


async def _keep_flushing(store: DurableStore) -> None:
    """What nobody waits for is on disk soon, too."""
    while True:
        await asyncio.sleep(FLUSH_EVERY_S)
        with contextlib.suppress(ServerUnavailable):  # told to whoever waits for a write; tried again here
            store.flush()


class CommandMachine(MemoryMachine):
    """A node whose containers are processes of this machine, with its real device nodes."""

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(name, directory)
        self.host = RealHost()
        self._processes = directory / "c"

    def runtime(self, clock: Clock, cdi_directories: Sequence[str]) -> NodeRuntime:
        shutil.rmtree(self._processes, ignore_errors=True)  # the processes of an earlier run ended with it
        return ProcessRuntime(clock, self.files, self.host, cdi_directories, str(self._processes))


def _machine(name: str, description: Description, state: StateDirectory, options: UpOptions) -> MemoryMachine:
    """A node with its disk below the state directory; without commands to run, on whose host every device node of the
    description is there.
    """
    directory = Path(state.place(NODES), name)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if options.run_commands:
        return CommandMachine(name, directory)
    machine = MemoryMachine(name, directory)
    nodes = {path: HostDevice(type="c", major=1, minor=3, file_mode=0o666) for path in _paths(description)}
    machine.host = RecordedHost({**nodes, **HOST.devices})
    return machine


def _paths(description: Description) -> Iterator[str]:
    for device in description.devices:
        for node in device.edits.device_nodes:
            yield node.host_path or node.path


async def _add_nodes(options: UpOptions, world: NodeWorld, description: Description) -> None:
    data = options.devices or sample_devices()
    kubelet = KubeletOptions(
        rules=options.rules,
        kubelet_version=world.control.api.state.git_version,
        topology=_topology(options, description),
        say=options.say,
    )
    for number in range(1, options.nodes + 1):
        name = f"node-{number}"
        plugins = {PLUGIN: world.driver_plugin(data)}
        await world.add_node(NodePlan(name, kubelet, plugins, facts_of(description, name)))
    await _registered(world, description, options.nodes)


async def _registered(world: NodeWorld, description: Description, nodes: int) -> None:
    """Until every kubelet knows its driver: a pod that came before would wait for the kubelet's next look, 90 s later."""
    names = {
        description.driver if device.stack is Stack.DRA else description.resource for device in description.devices
    }
    began_s = world.clock.monotonic_s()
    while any(world.registered.get(name, 0) < nodes for name in names):
        if world.clock.monotonic_s() - began_s > REGISTERED_WITHIN_S:
            return  # it is served all the same: the drivers tell what keeps them
        await world.clock.sleep(REGISTERED_POLL_S)


def _topology(options: UpOptions, description: Description) -> Topology:
    """The topology manager of every node. Its NUMA nodes are those that the description names, and node 0."""
    nodes = {0, *(device.numa_node for device in description.devices if device.numa_node is not None)}
    return Topology(options.topology_policy, options.topology_scope, tuple(sorted(nodes)))


def _log(world: NodeWorld, uid: str, container: str) -> tuple[bytes, bool] | None:
    found = container_state((node.runtime for node in world.nodes.values()), uid, container)
    if found is None:
        return None
    runtime, state = found
    return runtime.logs(state.id), state.running


async def run_until_stopped(options: UpOptions, ready: Callable[[Started], None]) -> None:
    """A cluster until SIGINT or SIGTERM. `ready` is called once it answers. Raises what a part of it ended by."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        async with cluster_up(options) as (started, world):
            ready(started)
            while not stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), CHECK_EVERY_S)
                world.check()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def backup_state(state: Path, file: str) -> int:
    """Write a consistent copy of the store of a cluster, running or not. Returns the revision it is at."""
    return backup(str(state / STORE), file)


def restore_state(state: Path, file: str) -> int:
    """Put a backup in the place of the store of a cluster that does not run. Returns the revision it is at."""
    directory = StateDirectory(state)
    with state_lock(directory):
        return restore(file, directory.place(STORE))
