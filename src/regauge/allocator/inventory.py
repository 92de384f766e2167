"""All ResourceSlices, indexed by node and by pool, in input order. Never holds what is in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from regauge.allocator.amounts import nano, read_quantity
from regauge.allocator.nodes import parsed
from regauge.allocator.usage import DeviceId, PoolId
from regauge.model import NodeSelector, Quantity, Semver
from regauge.model.core import Node
from regauge.model.resource import Device, DeviceAttribute, QuantityText, ResourceSlice

CounterKey = tuple[str, str]
Label = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device: its value and policy, read."""

    value: Quantity
    limit: int
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    ranged: bool = False
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None
    policy: bool = False


class DeviceEntry:
    """One device of one slice. `prepared` and `cells` are remembered answers of the CEL room; nothing else changes."""

    __slots__ = (
        "_capacities",
        "_readable",
        "cells",
        "consumes",
        "consumes_any",
        "multiple",
        "name",
        "prepared",
        "slice",
        "view",
    )

    def __init__(self, view: Device, slice: SliceEntry, consumes: tuple[tuple[CounterKey, int], ...]) -> None:
        self.view = view
        self.name = view.name
        self.slice = slice
        self.multiple = bool(view.allow_multiple_allocations)
        self.consumes = consumes
        self.consumes_any = bool(view.consumes_counters)
        self.prepared: object | None = None
        self.cells: dict[object, bool | str] = {}
        self._capacities: dict[str, Capacity] | None = None
        self._readable: bool | None = None

    @property
    def readable(self) -> bool:
        """Whether every attribute is a single value that can be read, and every capacity a quantity."""
        if self._readable is None:
            self._readable = _is_readable(self.view)
        return self._readable

    @property
    def id(self) -> DeviceId:
        return DeviceId(*self.slice.pool, self.name)

    @property
    def driver(self) -> str:
        return self.slice.pool.driver

    @property
    def capacities(self) -> dict[str, Capacity]:
        """The capacities by name, read once. Raises `InputError` for a value that is no quantity."""
        if self._capacities is None:
            self._capacities = _capacities(self)
        return self._capacities


class Traits(NamedTuple):
    """Device names, whether one is there twice, and what any device of a slice has.

    `plain`: each device can be judged alone, by its own values and whether it is in use.
    """

    names: frozenset[str]
    repeated: bool
    groups: bool
    binding: bool
    consuming: bool
    plain: bool


class SliceEntry:
    """One slice. Its devices are read when they are first looked at."""

    def __init__(self, view: ResourceSlice) -> None:
        spec = view.spec
        self.view = view
        self.name = view.metadata.name
        self.pool = PoolId(spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.announced = spec.pool.resource_slice_count
        self.has_counters = bool(spec.shared_counters)
        self._devices: list[DeviceEntry | None] | None = None

    def device(self, place: int) -> DeviceEntry:
        """The device at one place of the slice. Raises `InputError` for a counter that is no quantity."""
        if self._devices is None:
            self._devices = [None] * len(self.view.spec.devices)
        found = self._devices[place]
        if found is None:
            found = self._devices[place] = self._entry(self.view.spec.devices[place])
        return found

    @cached_property
    def devices(self) -> tuple[DeviceEntry, ...]:
        """The devices in the order of the slice. Raises `InputError` for a counter that is no quantity."""
        return tuple(map(self.device, range(len(self.view.spec.devices))))

    @cached_property
    def traits(self) -> Traits:
        """What there is among the devices, found in one walk."""
        names, groups, binding, consuming, plain = [], False, False, False, True
        for device in self.view.spec.devices:
            names.append(device.name)
            if device.binding_conditions:
                binding = True
            if device.consumes_counters:
                consuming, plain = True, False
                groups = groups or any(part.compatibility_groups for part in device.consumes_counters)
            elif device.allow_multiple_allocations or device.binds_to_node:
                plain = False
        spec = self.view.spec
        several = spec.node_selector is not None and len(spec.node_selector.node_selector_terms) > 1
        if spec.per_device_node_selection or spec.skip_node_operations or several:
            plain = False
        distinct = frozenset(names)
        return Traits(distinct, len(distinct) < len(names), groups, binding, consuming, plain)

    @cached_property
    def counters(self) -> tuple[tuple[str, dict[str, int]], ...]:
        """The shared counter sets: name, and each counter's value in billionths."""
        return tuple(
            (one.name, {name: nano(self._quantity(item.value)) for name, item in one.counters.items()})
            for one in self.view.spec.shared_counters
        )

    def _entry(self, device: Device) -> DeviceEntry:
        if not device.consumes_counters:
            return DeviceEntry(device, self, ())
        consumes = tuple(
            ((part.counter_set, name), nano(self._quantity(item.value)))
            for part in device.consumes_counters
            for name, item in part.counters.items()
        )
        return DeviceEntry(device, self, consumes)

    def _quantity(self, value: str | int | float) -> Quantity:
        return read_quantity(value, object=f"ResourceSlice {self.name}", field="counters")


def _is_readable(device: Device) -> bool:
    for attribute in device.attributes.values():
        if not _single(attribute):
            return False
    return all(_is_quantity(item.value) for item in device.capacity.values())


def _single(attribute: DeviceAttribute) -> bool:
    if attribute.string_value is not None or attribute.int_value is not None or attribute.bool_value is not None:
        several = attribute.int_values or attribute.bool_values or attribute.string_values or attribute.version_values
        return several is None
    return attribute.version_value is not None and _is_version(attribute.version_value)


@lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def _is_quantity(value: QuantityText) -> bool:
    try:
        Quantity.from_document(value)
    except ValueError:
        return False
    return True


def _capacities(entry: DeviceEntry) -> dict[str, Capacity]:
    found = {}
    for name, item in entry.view.capacity.items():

        def read(value: str | int | float | None, name: str = name) -> Quantity | None:
            if value is None:
                return None
            return read_quantity(
                value, object=f"ResourceSlice {entry.slice.name}", field=f"devices.{entry.id.device}.capacity.{name}"
            )

        value, policy = read(item.value) or Quantity(0), item.request_policy
        if policy is None:
            found[name] = Capacity(value, nano(value))
            continue
        span = policy.valid_range
        found[name] = Capacity(
            value,
            nano(value),
            default=read(policy.default),
            valid_values=tuple(one for one in map(read, policy.valid_values) if one is not None),
            ranged=span is not None,
            min=read(span.min) if span else None,
            max=read(span.max) if span else None,
            step=read(span.step) if span else None,
            policy=True,
        )
    return found


class Generation(NamedTuple):
    """The slices of one generation of a pool, of all nodes.

    `newest`: there is no newer one. `counting`: a slice has counters, or a device consumes some.
    """

    slices: tuple[SliceEntry, ...]
    newest: bool
    counting: bool


class Inventory:
    """Frozen. `update` makes a new one that shares every unchanged slice."""

    def __init__(self, slices: tuple[SliceEntry, ...]) -> None:
        self.slices = slices
        self.on_node: Mapping[str, tuple[SliceEntry, ...]]
        self.by_pool: Mapping[PoolId, tuple[SliceEntry, ...]]
        on_node: dict[str, list[SliceEntry]] = {}
        by_pool: dict[PoolId, list[SliceEntry]] = {}
        for entry in slices:
            name = entry.view.spec.node_name
            if name:
                on_node.setdefault(name, []).append(entry)
            by_pool.setdefault(entry.pool, []).append(entry)
        self.on_node = {name: tuple(found) for name, found in on_node.items()}
        self.by_pool = {name: tuple(found) for name, found in by_pool.items()}
        self._generations: dict[tuple[PoolId, int, bool], Generation] = {}

    @staticmethod
    def of(slices: Iterable[ResourceSlice]) -> Inventory:
        """An inventory of `slices`; their order is kept, because upstream's answers can depend on it."""
        return Inventory(tuple(SliceEntry(one) for one in slices))

    def update(self, changed: Iterable[ResourceSlice] = (), removed: Iterable[str] = ()) -> Inventory:
        """With `changed` slices in place of those of the same name (new ones at the end), without those `removed`."""
        fresh = {one.metadata.name: SliceEntry(one) for one in changed}
        gone = frozenset(removed)
        kept = [fresh.pop(one.name, one) for one in self.slices if one.name not in gone]
        return Inventory((*kept, *fresh.values()))

    def generation(self, pool: PoolId, number: int, *, groupless: bool) -> Generation:
        """One generation of a pool. `groupless`: without the slices whose devices belong to compatibility groups."""
        key = (pool, number, groupless)
        known = self._generations.get(key)
        if known is None:
            slices = tuple(
                one for one in self.by_pool[pool] if one.generation == number and not (groupless and one.traits.groups)
            )
            newest = all(one.generation <= number for one in self.by_pool[pool])
            counting = any(one.has_counters or one.traits.consuming for one in slices)
            known = self._generations[key] = Generation(slices, newest, counting)
        return known

    def shared_for(self, node: Node, *, counting: bool = False) -> tuple[SliceEntry, ...]:
        """The slices without a node name that may concern `node`, in input order: an index leaves the others out.

        `counting`: slices with shared counters concern every node, whatever they say.
        """
        entries, indexed, rest = self._shared_and_counting if counting else self._shared
        if not indexed:
            return entries
        labels = node.metadata.labels or {}
        found = [place for label in labels.items() for place in indexed.get(label, ())]
        found += indexed.get(("metadata.name", node.metadata.name), ())
        return tuple(entries[place] for place in sorted({*found, *rest}))

    @cached_property
    def _shared(self) -> _Indexed:
        return _indexed(tuple(one for one in self.slices if not one.view.spec.node_name), counting=False)

    @cached_property
    def _shared_and_counting(self) -> _Indexed:
        entries = tuple(one for one in self.slices if one.has_counters or not one.view.spec.node_name)
        return _indexed(entries, counting=True)


# Slices; their places by a label that their selector needs; the places of those that need none for sure.
_Indexed = tuple[tuple[SliceEntry, ...], dict[Label, list[int]], list[int]]


def _indexed(entries: tuple[SliceEntry, ...], *, counting: bool) -> _Indexed:
    indexed: dict[Label, list[int]] = {}
    rest = []
    for place, entry in enumerate(entries):
        spec = entry.view.spec
        always = spec.node_name or spec.all_nodes or (counting and entry.has_counters)
        labels = [] if always or spec.node_selector is None else _needed(spec.node_selector)
        if not labels:
            rest.append(place)
        for label in labels:
            indexed.setdefault(label, []).append(place)
    return entries, indexed, rest


def _needed(selector: NodeSelector) -> list[Label]:
    """Labels of which a node needs at least one to match; empty if that is not known for sure."""
    terms = selector.node_selector_terms
    if len(terms) != 1 or isinstance(parsed(selector), str):
        return []
    for item in terms[0].match_fields:
        if item.operator == "In" and item.key == "metadata.name":
            return [("metadata.name", item.values[0])]
    for item in terms[0].match_expressions:
        if item.operator == "In":
            return [(item.key, value) for value in dict.fromkeys(item.values)]
    return []
