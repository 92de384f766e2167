"""The world a rehearsal runs in: a cluster with its nodes and drivers, live or in virtual time, behind one face."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from regauge.base import Clock
from regauge.cluster import ControlPlane
from regauge.cluster.kubelet import Timings
from regauge.cluster.runtimes import ContainerState, Runtime
from regauge.driver import Notice
from regauge.kube import KubeClient
from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport
from regauge.pluginapi import PluginNet
from regauge.rehearsal.report import Mode

TIMINGS = Timings(node_status_s=1.0, pod_sync_s=10.0)
"""A kubelet that tells its node's devices every second instead of every ten, and looks at its pods again after ten
seconds instead of a minute (its syncFrequency); all else as on a real node."""

DevicesSeen = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a container was given: environment variables, and device nodes as path to `major:minor`."""

    env: Mapping[str, str]
    devices: DevicesSeen


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the rehearsal knows of a node's devices from their description, because no kubelet tells it.

    `identities` by device plugin id; `published` by (driver, pool, device).
    """

    identities: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    published: Mapping[tuple[str, str, str], Mapping[str, str]] = field(default_factory=dict)


class World(Protocol):
    """A running cluster. Everything a scenario does goes through `kube`, as it would on a real cluster."""

    @property
    def mode(self) -> Mode: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def kube(self) -> KubeClient: ...

    @property
    def control(self) -> ControlPlane: ...

    async def node_reports(self) -> tuple[NodeReport, ...]:
        """What the kubelets tell of their devices, read through their pod resources API."""

    def seen(self, pod_uid: str, container: str) -> Seen | None:
        """What a container was given; None when it never started, or has not told yet."""

    async def restart_driver(self) -> None:
        """Kill the drivers as `kill -9` does, and start them again."""

    @property
    def registered(self) -> Mapping[str, int]:
        """How often each driver and resource name was registered with a kubelet, by the drivers' own word."""

    def check(self) -> None:
        """Raises the error of any part that died by a bug."""


class Registrations:
    """Counts the registrations that drivers tell of."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def hear(self, notice: Notice) -> None:
        if notice.code == "registered":
            self.counts[notice.about] = self.counts.get(notice.about, 0) + 1


async def report_of(node: str, address: str, net: PluginNet, facts: NodeFacts) -> NodeReport:
    """One node's report, from its kubelet's pod resources API and the facts of the description."""
    channel = await net.connect(address)
    try:
        lister = channel.pod_resources()
        allocatable = await lister.get_allocatable_resources()
        pods = await lister.list()
    finally:
        await channel.close()
    devices = {
        (entry.resource_name, device_id): PluginDeviceReport(
            entry.resource_name, device_id, True, facts.identities.get((entry.resource_name, device_id), {})
        )
        for entry in allocatable
        for device_id in entry.device_ids
    }
    holders = tuple(
        PluginDeviceHolder(pod.namespace, pod.name, container.name, entry.resource_name, entry.device_ids)
        for pod in pods
        for container in pod.containers
        for entry in container.devices
        if entry.device_ids
    )
    return NodeReport(node, tuple(devices.values()), holders, facts.published)


def container_state(runtimes: Iterable[Runtime], pod_uid: str, container: str) -> tuple[Runtime, ContainerState] | None:
    """The latest start of a container, and the runtime it is in."""
    found = None
    for runtime in runtimes:
        for state in runtime.containers():
            if (state.request.pod_uid, state.request.name) == (pod_uid, container):
                found = (runtime, state)
    return found


def seen_in_spec(state: ContainerState, wanted: Callable[[str], bool]) -> Seen:
    """What the OCI configuration of a container gives it. `wanted` picks the environment variables by name."""
    process, linux = state.spec.get("process", {}), state.spec.get("linux", {})
    env = dict(item.partition("=")[::2] for item in process.get("env", ()))
    devices = {node["path"]: f"{node.get('major', 0)}:{node.get('minor', 0)}" for node in linux.get("devices", ())}
    return Seen({name: value for name, value in env.items() if wanted(name)}, devices)


def seen_in_log(log: bytes) -> Seen | None:
    """What a container of the sample printed, once it has printed `ready`."""
    env: dict[str, str] = {}
    devices: dict[str, str] = {}
    for line in log.decode(errors="replace").splitlines():
        word, _, rest = line.partition(" ")
        if word == "env":
            name, _, value = rest.partition("=")
            env[name] = value
        elif word == "device":
            path, _, numbers = rest.partition(" ")
            major, _, minor = numbers.partition(":")
            devices[path] = f"{int(major, 16)}:{int(minor, 16)}"
        elif word == "ready":
            return Seen(env, devices)
    return None
