"""The device manager's state and decisions: which devices there are, who holds them, which ones a container gets. Pure.

Source: pkg/kubelet/cm/devicemanager. Where upstream takes any order of a set, devices go in the order in which the plugin
listed them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from regauge.base import Machine, Table
from regauge.cluster.kubelet.checkpoints import WITHOUT_NUMA, DeviceCheckpoint, DeviceEntry, device_entry
from regauge.pluginapi import HEALTHY, ContainerAllocateResponse, DevicePluginOptions, DeviceSpec, Mount, PluginDevice
from regauge.scheduler import NumaHints, NumaNodes, device_hints


class PluginState(Enum):
    """A device plugin resource's connection. `AWAY` keeps the capacity for the grace period, `FORGOTTEN` is at 0."""

    CONNECTED = "connected"
    AWAY = "away"
    FORGOTTEN = "forgotten"


class PluginEvent(Enum):
    REGISTERED = "registered"
    STREAM_ENDED = "stream ended"
    GRACE_OVER = "grace over"


PLUGIN_STATES: Table[PluginState, PluginEvent] = {
    PluginState.CONNECTED: {
        PluginEvent.REGISTERED: PluginState.CONNECTED,
        PluginEvent.STREAM_ENDED: PluginState.AWAY,
    },
    PluginState.AWAY: {
        PluginEvent.REGISTERED: PluginState.CONNECTED,
        PluginEvent.STREAM_ENDED: PluginState.AWAY,
        PluginEvent.GRACE_OVER: PluginState.FORGOTTEN,
    },
    PluginState.FORGOTTEN: {PluginEvent.REGISTERED: PluginState.CONNECTED},
}


@dataclass(slots=True)
class Endpoint:
    """Who answers for a resource. `away_since_s` is on the monotonic clock."""

    machine: Machine[PluginState, PluginEvent]
    options: DevicePluginOptions = field(default_factory=DevicePluginOptions)
    away_since_s: float = 0.0

    @property
    def connected(self) -> bool:
        return self.machine.state is PluginState.CONNECTED


@dataclass(frozen=True, slots=True)
class NoNeed:
    """The container has what it needs, or needs nothing."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no devices can be given, in upstream's words."""

    text: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """The devices to ask the plugin for."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """The plugin is to be asked for its preference; then `choose_preferred`. `taken` were given before, `rest` is what may
    be given whatever it answers, in this order.
    """

    pod_uid: str
    container: str
    resource: str
    available: tuple[str, ...]
    taken: tuple[str, ...]
    size: int
    rest: tuple[str, ...] = ()


Choice = NoNeed | Refusal | Chosen | Ask


@dataclass(frozen=True, slots=True)
class Need:
    """One container's wish for one resource. `reusable` are devices of init containers of the pod that ended before,
    `affinity` the NUMA nodes that the topology manager chose for the container.
    """

    pod_uid: str
    container: str
    resource: str
    count: int
    reusable: Collection[str] = ()
    affinity: NumaNodes | None = None


@dataclass(slots=True)
class DeviceTable:
    """All device plugin resources of a node. The caller serialises; nothing here waits."""

    grace_s: float
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    devices: dict[str, dict[str, PluginDevice]] = field(default_factory=dict)
    healthy: dict[str, dict[str, None]] = field(default_factory=dict)
    unhealthy: dict[str, dict[str, None]] = field(default_factory=dict)
    allocated: dict[str, set[str]] = field(default_factory=dict)
    entries: dict[tuple[str, str, str], DeviceEntry] = field(default_factory=dict)

    def connect(self, resource: str, options: DevicePluginOptions) -> None:
        """A plugin registered for `resource`; the last one answers."""
        endpoint = self._endpoint(resource)
        endpoint.machine.step(PluginEvent.REGISTERED)
        endpoint.options = options

    def disconnect(self, resource: str, now_s: float) -> None:
        """The plugin's stream ended: its devices count as unhealthy until it registers again."""
        endpoint = self.endpoints.get(resource)
        if endpoint is None or not endpoint.machine.may(PluginEvent.STREAM_ENDED):
            return
        endpoint.machine.step(PluginEvent.STREAM_ENDED)
        endpoint.away_since_s = now_s
        self.unhealthy.setdefault(resource, {}).update(self.healthy.get(resource, {}))
        self.healthy[resource] = {}

    def listed(self, resource: str, devices: Sequence[PluginDevice]) -> frozenset[str]:
        """The plugin's whole list. Returns the pods (uids) whose devices changed their health or came back."""
        old = self.devices.get(resource, {})
        self.devices[resource] = {device.id: device for device in devices}
        self.healthy[resource] = {}
        self.unhealthy[resource] = {}
        touched: set[str] = set()
        for id_, device in self.devices[resource].items():
            (self.healthy if device.health == HEALTHY else self.unhealthy)[resource][id_] = None
            if id_ not in old or old[id_].health != device.health:
                touched.add(id_)
        return frozenset(
            entry.pod_uid
            for entry in self.entries.values()
            if entry.resource == resource and not touched.isdisjoint(entry.ids)
        )

    def serves(self, resource: str) -> bool:
        """Whether a resource name is a device plugin's: registered, or given to somebody before."""
        return resource in self.healthy or resource in self.allocated

    def capacity(self, now_s: float) -> tuple[dict[str, int], dict[str, int], tuple[str, ...]]:
        """Capacity and allocatable by resource, and the resources whose plugins' grace is over; these are forgotten."""
        known = dict.fromkeys([*self.healthy, *self.unhealthy])
        gone = tuple(resource for resource in known if self._grace_over(resource, now_s))
        for resource in gone:
            self.healthy.pop(resource, None)
            self.unhealthy.pop(resource, None)
            self.endpoints.pop(resource, None)
        allocatable = {resource: len(ids) for resource, ids in self.healthy.items()}
        capacity = {
            resource: allocatable.get(resource, 0) + len(self.unhealthy.get(resource, {})) for resource in self.healthy
        }
        return capacity, allocatable, gone

    def keep_only(self, pod_uids: Collection[str]) -> None:
        """Free what pods hold that are not in `pod_uids`."""
        gone = [key for key in self.entries if key[0] not in pod_uids]
        for key in gone:
            del self.entries[key]
        if gone:
            self.recount()

    def recount(self) -> None:
        """Make the devices in use anew from what containers really hold."""
        self.allocated = {}
        for entry in self.entries.values():
            self.allocated.setdefault(entry.resource, set()).update(entry.ids)

    def held(self, pod_uid: str, container: str) -> list[DeviceEntry]:
        return [entry for (pod, name, _), entry in self.entries.items() if (pod, name) == (pod_uid, container)]

    def choose(self, need: Need, runs_already: bool) -> Choice:
        """What a container gets. `runs_already`: the kubelet has just started and found the container running."""
        entry = self.entries.get((need.pod_uid, need.container, need.resource))
        held = entry.ids if entry is not None else frozenset()
        missing = need.count - len(held)
        if entry is not None and missing:
            return Refusal(
                f'pod "{need.pod_uid}" container "{need.container}" changed request for resource "{need.resource}"'
                f" from {len(held)} to {need.count}"
            )
        if runs_already:
            return NoNeed()
        if need.resource not in self.healthy:
            return Refusal(f"cannot allocate unregistered device {need.resource}")
        healthy = self.healthy[need.resource]
        if not healthy:
            return Refusal(f"no healthy devices present; cannot allocate unhealthy devices {need.resource}")
        if not held <= healthy.keys():
            return Refusal(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {need.resource}"
            )
        return self._choose_new(need, missing) if missing > 0 else NoNeed()

    def _choose_new(self, need: Need, missing: int) -> Choice:
        taken = self._take(need.resource, self._in_order(need.resource, need.reusable), (), missing)
        missing -= len(taken)
        if not missing:
            return Chosen(taken)
        used = self.allocated.setdefault(need.resource, set())
        available = tuple(id_ for id_ in self.healthy[need.resource] if id_ not in used)
        if len(available) < missing:
            return Refusal(
                f"requested number of devices unavailable for {need.resource}."
                f" Requested: {missing}, Available: {len(available)}"
            )
        aligned, others = self._by_affinity(need, available)
        if missing < len(aligned):
            return self._ask_or_take(need, taken, aligned, aligned)
        taken += self._take(need.resource, aligned, taken, missing)
        if len(taken) == need.count:
            return Chosen(taken)
        return self._ask_or_take(need, taken, available, others)

    def _ask_or_take(
        self, need: Need, taken: tuple[str, ...], available: tuple[str, ...], rest: tuple[str, ...]
    ) -> Choice:
        """Give the plugin a say in what else is taken, or take the rest in its order."""
        if self.endpoints[need.resource].options.get_preferred_allocation_available:
            offered = (*available, *(id_ for id_ in taken if id_ not in available))
            return Ask(need.pod_uid, need.container, need.resource, offered, taken, need.count, rest)
        return Chosen((*taken, *self._take(need.resource, rest, taken, need.count - len(taken))))

    def _by_affinity(self, need: Need, available: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The devices on the chosen NUMA nodes, and the others: first those on other nodes, then those without any."""
        places = self._places(need.resource)
        if need.affinity is None or not any(places.values()):
            return (), available
        aligned = tuple(id_ for id_ in available if places[id_] & need.affinity)
        elsewhere = tuple(id_ for id_ in available if places[id_] and not places[id_] & need.affinity)
        return aligned, (*elsewhere, *(id_ for id_ in available if not places[id_]))

    def _places(self, resource: str) -> dict[str, NumaNodes]:
        return {id_: frozenset(device.numa_nodes) for id_, device in self.devices.get(resource, {}).items()}

    def hints(self, need: Need, held: Collection[str], nodes: Collection[int]) -> NumaHints:
        """From which NUMA nodes a resource can come, for a container or a whole pod that holds `held` of it already."""
        places = self._places(need.resource)
        if not any(places.values()):
            return None
        if held:
            return device_hints(places, held, (), need.count, nodes) if len(held) == need.count else []
        used = self.allocated.get(need.resource, set())
        free = [id_ for id_ in self.healthy.get(need.resource, {}) if id_ not in used]
        if len({*free, *need.reusable}) < need.count:
            return []
        return device_hints(places, free, need.reusable, need.count, nodes)

    def choose_preferred(self, ask: Ask, preferred: Sequence[str]) -> Chosen | Refusal:
        """The choice after the plugin was asked: its preference as far as it is free and not too much, then any."""
        used = self.allocated.setdefault(ask.resource, set())
        free = [id_ for id_ in ask.rest if id_ not in used and id_ in self.healthy.get(ask.resource, {})]
        missing = ask.size - len(ask.taken)
        wished = [id_ for id_ in dict.fromkeys(preferred) if id_ in free]
        ids = self._take(ask.resource, [*wished, *free], ask.taken, missing)
        if len(ids) < missing:
            got = len(ask.taken) + len(ids)
            return Refusal(f"unexpectedly allocated less resources than required. Requested: {ask.size}, Got: {got}")
        return Chosen((*ask.taken, *ids))

    def store(self, need: Need, ids: Sequence[str], answer: ContainerAllocateResponse) -> None:
        """The plugin gave its answer for these devices."""
        by_node: dict[int, list[str]] = {}
        known = self.devices.get(need.resource, {})
        for id_ in ids:
            for node in (known[id_].numa_nodes if id_ in known else ()) or (WITHOUT_NUMA,):
                by_node.setdefault(node, []).append(id_)
        nodes = {node: tuple(by_node[node]) for node in sorted(by_node)}
        entry = device_entry(need.pod_uid, need.container, need.resource, nodes, answer)
        self.entries[need.pod_uid, need.container, need.resource] = entry
        self.allocated.setdefault(need.resource, set()).update(ids)

    def checkpoint(self) -> DeviceCheckpoint:
        return DeviceCheckpoint(tuple(self.entries.values()), {name: tuple(ids) for name, ids in self.healthy.items()})

    def restore(self, checkpoint: DeviceCheckpoint, now_s: float) -> None:
        """What a kubelet knew before it stopped. Every resource is at 0 until its plugin registers again."""
        for entry in checkpoint.entries:
            self.entries[entry.pod_uid, entry.container, entry.resource] = entry
        self.recount()
        for resource in checkpoint.registered:
            self.healthy[resource] = {}
            self.unhealthy[resource] = {}
            self._endpoint(resource).away_since_s = now_s

    def _endpoint(self, resource: str) -> Endpoint:
        if resource not in self.endpoints:
            machine = Machine(f"device plugin {resource}", PLUGIN_STATES, PluginState.AWAY)
            self.endpoints[resource] = Endpoint(machine)
        return self.endpoints[resource]

    def _grace_over(self, resource: str, now_s: float) -> bool:
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            return True
        if endpoint.connected or now_s - endpoint.away_since_s <= self.grace_s:
            return False
        endpoint.machine.step(PluginEvent.GRACE_OVER)
        return True

    def _in_order(self, resource: str, ids: Collection[str]) -> list[str]:
        listed = [id_ for id_ in self.devices.get(resource, {}) if id_ in ids]
        return [*listed, *sorted(set(ids) - set(listed))]

    def _take(self, resource: str, ids: Iterable[str], taken: Sequence[str], count: int) -> tuple[str, ...]:
        fresh = [id_ for id_ in dict.fromkeys(ids) if id_ not in taken][: max(0, count)]
        self.allocated.setdefault(resource, set()).update(fresh)
        return tuple(fresh)


def run_options(entries: Iterable[DeviceEntry]) -> ContainerAllocateResponse:
    """What a container's devices of all resources bring together; of two settings of one thing the first stays."""
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, DeviceSpec] = {}
    names: dict[str, None] = {}
    for entry in entries:
        answer = entry.allocation
        _add_new(envs, answer.envs)
        _add_new(annotations, answer.annotations)
        for mount in answer.mounts:
            mounts.setdefault(mount.container_path, mount)
        for device in answer.devices:
            devices.setdefault(device.container_path, device)
        names.update(dict.fromkeys(answer.cdi_devices))
    return ContainerAllocateResponse(envs, tuple(mounts.values()), tuple(devices.values()), annotations, tuple(names))


def _add_new(into: dict[str, str], items: Mapping[str, str]) -> None:
    for key, value in items.items():
        into.setdefault(key, value)
