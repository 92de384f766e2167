"""The world of a plan's rehearsal: stand-ins of both stacks run where their DaemonSets' pods run, on the same devices."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping

from regauge.inventory import whole
from regauge.kube import KubeClient
from regauge.migrate import Plan, ServedCount, Switch, expected_devices
from regauge.model import Kind, Object, Snapshot, view
from regauge.model.core import Node, Pod
from regauge.model.kinds import DAEMON_SET, NODE, POD, RESOURCE_SLICE
from regauge.model.resource import ResourceSlice
from regauge.pluginapi import PluginNet
from regauge.rehearsal.dump import MorePlugins
from regauge.rehearsal.nodes import NodeWorld, Place, Plugin
from regauge.rehearsal.stand_ins import StandInDriver, StandInPlugin
from regauge.rehearsal.watching import is_ready
from regauge.rehearsal.world import NodeFacts

POOL_GENERATION = 1


def switches_of(plan: Plan) -> tuple[Switch, ...]:
    """The nodes that a plan switches."""
    return tuple(act for step in plan.spec.steps for act in step.actions if isinstance(act, Switch))


def serves_of(plan: Plan) -> Mapping[str, frozenset[str]]:
    """By DaemonSet (namespace/name), the counted names and drivers that it serves."""
    found: dict[str, set[str]] = {}
    for name, title in plan.spec.sources.items():
        found.setdefault(title, set()).add(name)
    return {title: frozenset(names) for title, names in found.items()}


def identity(node: str, resource_name: str, number: int) -> str:
    """The uuid that a rehearsal gives a device: the same whichever stack advertises it."""
    text = hashlib.sha256(f"{node}\0{resource_name}\0{number}".encode()).hexdigest()
    return f"GPU-{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:32]}"


Served = Mapping[str, tuple[ServedCount, ...]]
"""By node, the counted resources that DRA is to serve there one day."""


def served_of(plan: Plan) -> Served:
    """What a plan switches, by node."""
    return {action.node: action.served for action in switches_of(plan)}


def more_plugins(
    served: Served, snapshot: Snapshot, missing: Mapping[str, int] | None = None
) -> Mapping[str, MorePlugins]:
    """For each node that goes to DRA: its drivers, off at first, and who its counted devices are.

    `missing` lets the drivers of a node publish so many devices less than there are.
    """
    nodes = {node.metadata.name: node for node in snapshot.nodes}
    found = {}
    for name, items in served.items():
        node = nodes[name]
        by_driver: dict[str, list[Object]] = {}
        identities: dict[tuple[str, str], dict[str, str]] = {}
        for item in items:
            devices = expected_devices(node, item.resource_name, item.driver, item.devices, snapshot, identity)
            by_driver.setdefault(item.driver, []).extend(devices)
            ids = StandInPlugin(item.resource_name, item.devices).device_ids
            identities |= {
                (item.resource_name, id_): {"uuid": identity(name, item.resource_name, number)}
                for number, id_ in enumerate(ids)
            }
        lacking = (missing or {}).get(name, 0)
        plugins = {
            driver: publishing(driver, (_slice(node, driver, devices[: len(devices) - lacking]),))
            for driver, devices in by_driver.items()
        }
        found[name] = MorePlugins(plugins, NodeFacts(identities=identities))
    return found


def _slice(node: Node, driver: str, devices: list[Object]) -> Object:
    name = node.metadata.name
    return {
        "apiVersion": RESOURCE_SLICE.api_version,
        "kind": RESOURCE_SLICE.kind,
        "metadata": {
            "name": f"{name}-{driver}",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}],
        },
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": POOL_GENERATION, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def publishing(driver: str, slices: tuple[Object, ...]) -> Plugin:
    """The stand-in of a driver that keeps these slices while it runs."""

    async def plugin(net: PluginNet, place: Place) -> None:
        await StandInDriver(driver, place.kube, place.files, place.cdi_dir, slices).run(net, place.kubelet_dir)

    return plugin


class Daemons:
    """Keeps the stand-ins of switched nodes where the pods of their DaemonSets are: a pod that is ready is a running plugin.

    `serves` is by DaemonSet (namespace/name) what it serves: resource names and drivers. `apart` are plugins of nodes
    (node, name) that no DaemonSet is behind; they stay as they are.
    """

    def __init__(
        self,
        world: NodeWorld,
        serves: Mapping[str, frozenset[str]],
        nodes: frozenset[str],
        apart: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self._world = world
        self._apart = apart
        self._serves = serves
        self._nodes = nodes
        self._pods: dict[str, tuple[str, str, bool]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        listed = asyncio.Event()
        self._task = asyncio.create_task(self._follow(listed), name="daemons of the rehearsal")
        await listed.wait()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, listed: asyncio.Event) -> None:
        found = await self._world.kube.list(POD)
        for item in found.items:
            self._note(view(item, Pod), gone=False)
        self._settle()
        listed.set()
        async for event in self._world.kube.watch(POD, resource_version=found.resource_version):
            if event.type != "BOOKMARK":
                self._note(view(event.object, Pod), gone=event.type == "DELETED")
                self._settle()

    def _note(self, pod: Pod, gone: bool) -> None:
        owner = next((item.name for item in pod.metadata.owner_references or () if item.kind == DAEMON_SET.kind), "")
        title = f"{pod.metadata.namespace}/{owner}"
        if title not in self._serves or pod.spec.node_name not in self._nodes:
            return
        ready = not gone and pod.metadata.deletion_timestamp is None and is_ready(pod)
        self._pods[pod.metadata.uid] = (pod.spec.node_name, title, ready)
        if gone:
            del self._pods[pod.metadata.uid]

    def _settle(self) -> None:
        here = {(node, title) for node, title, ready in self._pods.values() if ready}
        for node in sorted(self._nodes):
            machine = self._world.nodes[node]
            for title, names in sorted(self._serves.items()):
                for name in sorted(names & set(machine.plan.plugins)):
                    if (node, name) in self._apart:
                        continue
                    on = (node, title) in here
                    if on != (name not in machine.off):
                        machine.switch_plugin(name, on)


class OwnerWatch:
    """Looks at every change of nodes and slices for a node that both stacks advertise at once."""

    def __init__(self, kube: KubeClient, switches: tuple[Switch, ...]) -> None:
        self._kube = kube
        self._names = {action.node: {item.resource_name for item in action.served} for action in switches}
        self._drivers = {action.node: {item.driver for item in action.served} for action in switches}
        self._counted: dict[str, int] = {}
        self._published: dict[str, dict[str, int]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.told: list[str] = []
        self.looks = 0

    async def start(self) -> None:
        for kind, read in ((NODE, self._node), (RESOURCE_SLICE, self._slice)):
            listed = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._follow(kind, read, listed), name=f"owners of {kind.plural}"))
            await listed.wait()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: Kind, read: Callable[[Object, bool], str], listed: asyncio.Event) -> None:
        found = await self._kube.list(kind)
        for item in found.items:
            read(item, False)
        listed.set()
        async for event in self._kube.watch(kind, resource_version=found.resource_version):
            if event.type != "BOOKMARK":
                self._check(read(event.object, event.type == "DELETED"))

    def _node(self, object_: Object, gone: bool) -> str:
        node = view(object_, Node)
        name = node.metadata.name
        self._counted[name] = sum(whole(node.status.allocatable.get(item, 0)) for item in self._names.get(name, ()))
        return name

    def _slice(self, object_: Object, gone: bool) -> str:
        slice_ = view(object_, ResourceSlice)
        name = slice_.spec.node_name or ""
        if slice_.spec.driver in self._drivers.get(name, ()):
            count = 0 if gone else len(slice_.spec.devices)
            self._published.setdefault(name, {})[slice_.metadata.name] = count
        return name

    def _check(self, node: str) -> None:
        self.looks += 1
        published = sum(self._published.get(node, {}).values())
        if self._counted.get(node, 0) and published:
            self.told.append(f"{node}: {self._counted[node]} counted and {published} published")
