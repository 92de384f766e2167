"""Every device with its state, health, what is used of it and by whom: pools of nodes, nodes, devices, holders. Pure.

What a device plugin counts on a node without a record stays a count: which device is whose is decided by the node's kubelet
and not visible from the API.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from regauge.inventory import (
    Advertisement,
    CountedResource,
    EstateDevice,
    Stack,
    pod_ask,
    pool_of,
    taint_text,
    take_inventory,
)
from regauge.model import NodeReport, Rules, Snapshot
from regauge.model.core import ENDED_PHASES
from regauge.observe.correlation import Correlation, Holding, correlate
from regauge.observe.device_facts import (
    Amount,
    DraKey,
    Published,
    Room,
    published_devices,
    shared_amounts,
    told_conditions,
    told_health,
)

NO_NODE = "(no node)"
NOT_VISIBLE = "device decided by kubelet, not visible from the API"


class DeviceState(StrEnum):
    """Whether a device can be had.

    `shared`: it is held in part, and more may come; `blocked`: nobody holds it, but devices that are held use up counters
    that it would need; `gone`: a claim holds it, and no slice publishes it any more.
    """

    free = "free"
    held = "held"
    shared = "shared"
    blocked = "blocked"
    gone = "gone"


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """One device as one stack advertises it.

    `name` is driver/pool/device, or the resource name and the plugin's id; `driver` is the resource name for device plugins.
    `trouble` says in words what is the matter with it; nothing for a healthy one. `also` are the names under which others
    advertise the same physical device. `admins` are holders with admin access: they look on and take nothing.
    """

    stack: Stack
    node_pool: str
    node: str
    name: str
    driver: str
    pool: str
    device: str
    state: DeviceState
    trouble: tuple[str, ...] = ()
    uuid: str = ""
    pci: str = ""
    capacity: tuple[Amount, ...] = ()
    holders: tuple[Holding, ...] = ()
    admins: tuple[Holding, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def key(self) -> DraKey:
        """As `Holding.key`."""
        dra = self.stack is Stack.DRA
        return (self.driver, self.pool, self.device) if dra else (self.node, self.driver, self.device)

    @property
    def physical_id(self) -> str:
        return self.uuid or self.pci


@dataclass(frozen=True, slots=True)
class Asker:
    """A pod that asks for counted devices of its node."""

    namespace: str
    pod: str
    count: int


@dataclass(frozen=True, slots=True)
class CountedLine:
    """A resource of a device plugin on a node without a record: how many, and who asks for how many."""

    node_pool: str
    node: str
    resource: str
    capacity: int
    allocatable: int
    asked: int
    askers: tuple[Asker, ...]


@dataclass(frozen=True, slots=True)
class DevicesView:
    """Devices by pool of nodes, node and name, and what is only counted. `unknown` says in words what could not be told."""

    devices: tuple[DeviceLine, ...]
    counted: tuple[CountedLine, ...]
    unknown: tuple[str, ...] = ()


def view_devices(
    snapshot: Snapshot, reports: Iterable[NodeReport] = (), rules: Rules | None = None, known: Correlation | None = None
) -> DevicesView:
    """The devices of an estate. `rules`: whether DeviceTaintRules count (they do if None); `known`: `correlate` of it."""
    told = tuple(reports)
    inventory = take_inventory(snapshot, told)
    correlation = correlate(snapshot, told, inventory) if known is None else known
    ground = _Ground(snapshot, rules, correlation)
    lines = [line for device in inventory.devices for line in ground.lines(device)]
    lines += ground.gone(frozenset(line.key for line in lines))
    lines.sort(key=lambda line: (line.node_pool, line.node, line.stack.value, _natural(line.name)))
    return DevicesView(tuple(lines), tuple(ground.counted(correlation.unseen)), correlation.unknown)


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """For an order in which gpu-10 comes after gpu-9."""
    found: list[tuple[int, int, str]] = []
    word = ""
    for char in text:
        if word and word[-1].isdigit() != char.isdigit():
            found.append(_piece(word))
            word = ""
        word += char
    return (*found, _piece(word)) if word else tuple(found)


def _piece(word: str) -> tuple[int, int, str]:
    digits = word.isascii() and word.isdigit()
    return (0, int(word), "") if digits and len(word) < 20 else (1, 0, word)


class _Ground:
    """What is looked up for every device."""

    def __init__(self, snapshot: Snapshot, rules: Rules | None, correlation: Correlation) -> None:
        self._snapshot = snapshot
        self._pools = {node.metadata.name: pool_of(node) for node in snapshot.nodes}
        self._held: dict[DraKey, list[Holding]] = defaultdict(list)
        for holding in correlation.holdings:
            self._held[holding.key].append(holding)
        self._published = published_devices(snapshot, rules)
        self._room = Room(snapshot.slices, self._published, self._held)
        self._health = told_health(snapshot, correlation.holdings)
        self._conditions = told_conditions(snapshot)

    def lines(self, device: EstateDevice) -> Iterator[DeviceLine]:
        for item in device.advertisements:
            others = tuple(_title(one) for one in device.advertisements if one.source != item.source)
            identity = {kind: value for one in device.advertisements for kind, value in one.identity.items()}
            line = self._dra(item) if item.stack is Stack.DRA else self._plugin(item)
            trouble = (*line.trouble, *(("both stacks or two drivers advertise it",) if others else ()))
            yield replace(
                line, uuid=identity.get("uuid", ""), pci=identity.get("pci", ""), also=others, trouble=trouble
            )

    def _dra(self, item: Advertisement) -> DeviceLine:
        driver, pool, device = _parts(item)
        key = (driver, pool, device)
        found = self._published.get(key)
        holders, admins = _apart(self._held.get(key, ()))
        shareable = found is not None and bool(found.device.allow_multiple_allocations)
        blocked = "" if holders or found is None else self._room.missing(found)
        state = DeviceState.blocked if blocked else _state(holders, shareable)
        return DeviceLine(
            stack=Stack.DRA,
            node_pool=self.pool(item.node),
            node=item.node,
            name=item.name,
            driver=driver,
            pool=pool,
            device=device,
            state=state,
            trouble=(*_taints(found), *self._told(key), *((blocked,) if blocked else ())),
            capacity=shared_amounts(found.device, (*holders, *admins)) if found is not None and shareable else (),
            holders=holders,
            admins=admins,
        )

    def _plugin(self, item: Advertisement) -> DeviceLine:
        key = (item.node, item.source, item.name)
        holders = tuple(self._held.get(key, ()))
        told = self._told(key)
        return DeviceLine(
            stack=Stack.DEVICE_PLUGIN,
            node_pool=self.pool(item.node),
            node=item.node,
            name=f"{item.source} {item.name}",
            driver=item.source,
            pool="",
            device=item.name,
            state=_state(holders, shareable=False),
            trouble=told if told or item.healthy else ("unhealthy",),
            holders=holders,
        )

    def gone(self, there: frozenset[DraKey]) -> Iterator[DeviceLine]:
        """Devices that claims hold and nobody publishes."""
        for key, held in self._held.items():
            if key in there or held[0].stack is not Stack.DRA:
                continue
            driver, pool, device = key
            holders, admins = _apart(held)
            node = next((one.node for one in held if one.node), "")
            yield DeviceLine(
                stack=Stack.DRA,
                node_pool=self.pool(node),
                node=node,
                name="/".join(key),
                driver=driver,
                pool=pool,
                device=device,
                state=DeviceState.gone,
                trouble=("no slice publishes it any more",),
                holders=holders,
                admins=admins,
            )

    def counted(self, unseen: Sequence[CountedResource]) -> Iterator[CountedLine]:
        wanted = {(item.node, item.resource_name) for item in unseen}
        asking = askers(self._snapshot, wanted)
        for item in unseen:
            key = (item.node, item.resource_name)
            yield CountedLine(
                self.pool(item.node), *key, item.capacity, item.allocatable, item.requested, tuple(asking[key])
            )

    def pool(self, node: str) -> str:
        return self._pools.get(node, pool_of_nothing(node))

    def _told(self, key: DraKey) -> tuple[str, ...]:
        return (*self._health.get(key, ()), *self._conditions.get(key, ()))


def pool_of_nothing(node: str) -> str:
    """What stands for the pool of a node that is not there, or of devices that are on no single node."""
    return "(unknown node)" if node else NO_NODE


def _title(item: Advertisement) -> str:
    return item.name if item.stack is Stack.DRA else f"{item.source} {item.name}"


def _parts(item: Advertisement) -> tuple[str, str, str]:
    """Driver, pool and device: pools may have slashes in their names, devices and drivers have none."""
    pool, _, device = item.name.removeprefix(f"{item.source}/").rpartition("/")
    return item.source, pool, device


def _apart(held: Iterable[Holding]) -> tuple[tuple[Holding, ...], tuple[Holding, ...]]:
    everybody = tuple(held)
    return tuple(h for h in everybody if not h.admin_access), tuple(h for h in everybody if h.admin_access)


def _state(holders: tuple[Holding, ...], shareable: bool) -> DeviceState:
    if not holders:
        return DeviceState.free
    return DeviceState.shared if shareable else DeviceState.held


def _taints(found: Published | None) -> tuple[str, ...]:
    return tuple(f"tainted {taint_text(taint)}" for taint in found.device.taints) if found is not None else ()


def askers(snapshot: Snapshot, wanted: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], list[Asker]]:
    """The pods that ask device plugins for resources (node, name), those of the most devices first.

    What a claim serves for a pod (the bridge from counted names) is not asked of a plugin.
    """
    found: dict[tuple[str, str], list[Asker]] = defaultdict(list)
    nodes = {node for node, _ in wanted}
    for pod in snapshot.pods if nodes else ():
        if pod.spec.node_name not in nodes or pod.status.phase in ENDED_PHASES:
            continue
        bridged = pod.status.extended_resource_claim_status
        served = {one.resource_name for one in bridged.request_mappings} if bridged else set()
        for name, count in pod_ask(pod.spec.containers, pod.spec.init_containers).items():
            if name not in served and (pod.spec.node_name, name) in wanted:
                asker = Asker(pod.metadata.namespace, pod.metadata.name, count)
                found[(pod.spec.node_name, name)].append(asker)
    for asking in found.values():
        asking.sort(key=lambda one: (-one.count, one.namespace, one.pod))
    return found
