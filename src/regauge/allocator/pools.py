"""Which device pools a node sees, in which order, and which of them are incomplete or invalid.

Source: GatherPools in k8s.io/dynamic-resource-allocation/structured/internal/*/pools_*.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from regauge.allocator.inventory import CounterKey, DeviceEntry, Inventory, SliceEntry
from regauge.allocator.nodes import SelectorError, node_matches
from regauge.allocator.outcome import Abort
from regauge.allocator.settings import Settings
from regauge.allocator.usage import PoolId
from regauge.model.core import Node

COMPLETE, INCOMPLETE, INVALID = "complete", "incomplete", "invalid"
_Slices = tuple[SliceEntry, ...]


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool as one node sees it: `seen` of `announced` slices of `generation` are there.

    `broken`: the pool is incomplete as well as invalid. `present`: of an incomplete pool the slices that are there, which
    offer nothing, and `past` those of older generations; of an invalid one those whose place it keeps among the pools.

    `elsewhere` holds slices that do not concern the node, if the pool has counters: their devices may use the same.
    """

    id: PoolId
    state: str
    generation: int
    announced: int
    seen: int
    reason: str = ""
    slices: tuple[SliceEntry, ...] = ()
    elsewhere: tuple[SliceEntry, ...] = ()
    counters: dict[CounterKey, int] = field(default_factory=dict)
    broken: bool = False
    present: tuple[SliceEntry, ...] = ()
    past: tuple[SliceEntry, ...] = ()

    @property
    def binding(self) -> bool:
        seen = self.present if self.state == INVALID else self.slices
        return any(one.traits.binding for one in seen)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many devices each slice has."""
        return tuple(len(one.view.spec.devices) for one in self.slices)


@dataclass(frozen=True, eq=False)
class NodeView:
    """What one node offers: its pools in search order, and the devices of the usable ones, in search order.

    `stale` are pools that are ignored because a
    newer generation exists elsewhere. `barrier`: a search that comes to this device ends with this error.
    """

    node: Node
    pools: tuple[PoolView, ...]
    stale: tuple[PoolId, ...] = ()
    barrier: tuple[int, str] | None = None

    @cached_property
    def devices(self) -> tuple[DeviceEntry, ...]:
        """The devices in search order. Raises `InputError` for a counter that is no quantity."""
        return tuple(device for pool in self.pools for entry in pool.slices for device in entry.devices)

    @cached_property
    def pool_of(self) -> tuple[int, ...]:
        """For each device the place of its pool in `pools`."""
        return tuple(place for place, pool in enumerate(self.pools) for _ in range(sum(pool.sizes)))

    @cached_property
    def plain(self) -> bool:
        """Whether each device can be judged alone, by its own values and whether it is in use.

        Devices that share counters, may be allocated several times, choose their own nodes or restrict the node in
        more than one term depend on more than the answers about each of them.
        """
        for pool in self.pools:
            for entry in pool.slices:
                if not entry.traits.plain:
                    return False
        return True

    @cached_property
    def shape(self) -> tuple[object, ...]:
        """What the search sees of a plain view apart from what it asks of each device."""
        return tuple((pool.state, sum(pool.sizes)) for pool in self.pools)

    @property
    def invalid(self) -> bool:
        return any(pool.state == INVALID for pool in self.pools)


def view(inventory: Inventory, node: Node, settings: Settings) -> NodeView | Abort:
    """The pools and devices of `inventory` for `node`; `Abort` where a node selector cannot be parsed."""
    try:
        relevant = _relevant(inventory, node, settings)
    except SelectorError as error:
        return Abort(f"gather pool information: {error}", node=node.metadata.name)
    pools, stale = [], []
    for pool, slices in relevant.items():
        built = _built(inventory, pool, slices, settings)
        if built is None:
            stale.append(pool)
        else:
            pools.append(built)
    if len(pools) > 1:
        if not _unsorted(settings):
            pools.sort(key=lambda one: (one.binding, one.id))
        elif not settings.basic:
            pools.sort(key=lambda one: one.binding)
    barrier = _barrier(pools) if settings.quirk("invalid-pools-end-search") else None
    return NodeView(node, tuple(pools), tuple(stale), barrier)


def _barrier(pools: list[PoolView]) -> tuple[int, str] | None:
    place = 0
    for pool in pools:
        if pool.state == INVALID:
            return place, f"pool {pool.id.pool} is invalid: {pool.reason}"
        place += sum(pool.sizes)
    return None


def _unsorted(settings: Settings) -> bool:
    return settings.stable or settings.quirk("pools-unsorted")


def _everywhere(settings: Settings) -> bool:
    """Whether slices with shared counters count as relevant for every node."""
    everywhere = settings.quirk("counter-slices-everywhere") or settings.stable
    return everywhere and not settings.quirk("counters-by-slice")


def _relevant(inventory: Inventory, node: Node, settings: Settings) -> dict[PoolId, list[SliceEntry]]:
    found: dict[PoolId, list[SliceEntry]] = {}
    for entry in _found(inventory, node, settings):
        kept = found.setdefault(entry.pool, [])
        if not kept or entry.generation == kept[0].generation:
            kept.append(entry)
        elif entry.generation > kept[0].generation:
            found[entry.pool] = [entry]
    return found


def _found(inventory: Inventory, node: Node, settings: Settings) -> list[SliceEntry]:
    """The slices that concern the node, in upstream's order."""
    found: list[SliceEntry] = []
    name, groupless, partitionable = node.metadata.name, _ignores_groups(settings), settings.partitionable
    counters_stay = settings.quirk("counters-by-slice") or settings.stable_quirk("sees-counter-slices")
    for entry in _walked(inventory, node, settings):
        spec = entry.view.spec
        if not partitionable:
            if spec.per_device_node_selection is not None:
                continue
            if entry.has_counters and not counters_stay:
                continue
        if groupless and entry.traits.groups:
            continue
        named = spec.node_name and spec.node_name == name
        if named or (entry.has_counters and partitionable and _everywhere(settings)) or _concerns(entry, node):
            found.append(entry)
    if settings.quirk("binding-slices-last") and not settings.basic:
        found.sort(key=lambda one: one.traits.binding and not one.has_counters)
    return found


def _walked(inventory: Inventory, node: Node, settings: Settings) -> tuple[SliceEntry, ...]:
    """The slices to look at, in upstream's order."""
    if _unsorted(settings):
        return inventory.slices
    local = inventory.on_node.get(node.metadata.name, ())
    if not _everywhere(settings):
        return (*local, *inventory.shared_for(node))
    return (*(one for one in local if not one.has_counters), *inventory.shared_for(node, counting=True))


def _ignores_groups(settings: Settings) -> bool:
    return not settings.compatibility_groups and not settings.quirk("groups-unknown")


def _concerns(entry: SliceEntry, node: Node) -> bool:
    spec = entry.view.spec
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        try:
            return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
        except SelectorError as error:
            raise SelectorError(f"failed to perform node selection for slice {entry.name}: {error}") from None
    if not spec.per_device_node_selection:
        return False
    for device in spec.devices:
        try:
            if node_matches(node, device.node_name, device.all_nodes, device.node_selector):
                return True
        except SelectorError as error:
            raise SelectorError(
                f"failed to perform node selection for device {device.name} in slice {entry.name}: {error}"
            ) from None
    return False


def _built(inventory: Inventory, pool: PoolId, slices: list[SliceEntry], settings: Settings) -> PoolView | None:
    """The pool of these slices; None where a newer generation hides it."""
    first = slices[0]
    if settings.quirk("pools-by-node"):
        return _by_node(pool, slices)
    facts = (first.generation, first.announced, len(slices))
    others: _Slices = ()
    if len(slices) != first.announced:
        everywhere = inventory.generation(pool, first.generation, groupless=_ignores_groups(settings))
        if not everywhere.newest:
            return None
        everything = everywhere.slices
        facts = (first.generation, first.announced, len(everything))
        if len(everything) != first.announced:
            if settings.stable_quirk("checks-incomplete-pools") and (reason := _duplicate_device(tuple(slices))):
                return PoolView(pool, INVALID, *facts, reason=reason, broken=True)
            past = tuple(one for one in inventory.by_pool[pool] if one.generation < first.generation)
            return PoolView(pool, INCOMPLETE, *facts, present=everything, past=past)
        if everywhere.counting:
            names = {one.name for one in slices}
            others = tuple(one for one in everything if one.name not in names)
    if len(slices) > 1 and not _unsorted(settings):
        slices = sorted(slices, key=lambda one: one.name)
    return _validated(pool, facts, tuple(slices), others, settings)


def _by_node(pool: PoolId, slices: list[SliceEntry]) -> PoolView:
    """The pool as before 1.35: only what the node sees counts. An incomplete pool offers its devices all the same."""
    first, offering = slices[0], tuple(slices)
    facts = (first.generation, first.announced, len(slices))
    reason = _duplicate_device(offering)
    complete = len(slices) == first.announced
    if reason:
        return PoolView(pool, INVALID, *facts, reason=reason, broken=not complete, present=offering)
    if complete:
        return PoolView(pool, COMPLETE, *facts, slices=offering)
    return PoolView(pool, INCOMPLETE, *facts, slices=offering, present=offering)


def _validated(
    pool: PoolId, facts: tuple[int, int, int], slices: _Slices, others: _Slices, settings: Settings
) -> PoolView:
    counting = [one for one in (*slices, *others) if one.has_counters] if settings.partitionable else []
    offering, elsewhere = slices, others
    if counting:
        offering = tuple(one for one in slices if not one.has_counters)
        elsewhere = tuple(one for one in others if not one.has_counters)
    counters: dict[CounterKey, int] = {}
    reason = _duplicate_device(offering)
    if not reason and settings.partitionable:
        checked = (*(slices if _everywhere(settings) else offering), *elsewhere)
        reason = _read_counters(counting, counters) or _unknown_counter(counting, checked)
    if reason:
        return PoolView(pool, INVALID, *facts, reason=reason)
    return PoolView(pool, COMPLETE, *facts, slices=offering, elsewhere=elsewhere, counters=counters)


def _duplicate_device(slices: tuple[SliceEntry, ...]) -> str:
    """The first device name that is there twice, in the order of the slices."""
    if len(slices) == 1:
        return _repeated(slices) if slices[0].traits.repeated else ""
    names: set[str] = set()
    for entry in slices:
        if entry.traits.repeated or not names.isdisjoint(entry.traits.names):
            return _repeated(slices)
        names |= entry.traits.names
    return ""


def _repeated(slices: tuple[SliceEntry, ...]) -> str:
    names = set()
    for entry in slices:
        for device in entry.view.spec.devices:
            if device.name in names:
                return f"duplicate device name {device.name}"
            names.add(device.name)
    return ""


def _read_counters(slices: list[SliceEntry], counters: dict[CounterKey, int]) -> str:
    names = set()
    for entry in slices:
        for name, values in entry.counters:
            if name in names:
                return f"duplicate counter set name {name}"
            names.add(name)
            counters.update({(name, counter): value for counter, value in values.items()})
    return ""


def _unknown_counter(counting: list[SliceEntry], slices: tuple[SliceEntry, ...]) -> str:
    sets = {name: values for entry in counting for name, values in entry.counters}
    for entry in slices:
        if not entry.traits.consuming:
            continue
        for device in entry.view.spec.devices:
            for part in device.consumes_counters:
                if part.counter_set not in sets:
                    return f"counter set {part.counter_set} not found"
                for name in part.counters:
                    if name not in sets[part.counter_set]:
                        return f"counter {name} not found in counter set {part.counter_set}"
    return ""
