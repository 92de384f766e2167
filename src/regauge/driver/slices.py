"""ResourceSlices: what this node's pool should be, what it is, and the writes between the two. Pure.

A pool's slices carry one generation; the scheduler ignores a pool until all slices of its newest generation are there. So a
change of anything gives all slices the next generation, and no change writes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regauge.base import InputError
from regauge.driver.description import Device, NetworkPool
from regauge.model import Object
from regauge.model.kinds import RESOURCE_SLICE
from regauge.model.resource import MAX_DEVICES_PER_SLICE, MAX_DEVICES_PER_SLICE_ADVANCED

MAX_COUNTER_SETS_PER_SLICE = 8
COMBINED_LIMITS = (128, 32, 1024)  # of 1.34: devices, counters of all sets, counters that all devices draw

UUID_ATTRIBUTE = "uuid"
PCI_ATTRIBUTE = "resource.kubernetes.io/pciBusID"
NUMA_ATTRIBUTE = "resource.kubernetes.io/numaNode"
_LISTS = ("ints", "bools", "strings", "versions")
_NAME_LIMIT = 253


@dataclass(frozen=True, slots=True)
class Pool:
    """Whose slices: the driver, and the node with its uid (without one the slices have no owner). A pool that several nodes
    reach has a `name` of its own, and says which nodes: those with all these `labels`, without any all nodes."""

    driver: str
    node_name: str
    node_uid: str = ""
    network: NetworkPool | None = None

    @property
    def name(self) -> str:
        return self.network.name if self.network else self.node_name

    @property
    def reach(self) -> Object:
        """The nodes, as a slice says them."""
        if self.network is None:
            return {"nodeName": self.node_name}
        if not self.network.labels:
            return {"allNodes": True}
        wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in self.network.labels]
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}

    @property
    def field_selector(self) -> str:
        """What the API server may leave out that is not of this pool."""
        nodes = "" if self.network else f",spec.nodeName={self.node_name}"
        return f"spec.driver={self.driver}{nodes}"

    def has(self, slice_: Object) -> bool:
        """Whether a slice is of this pool."""
        spec = slice_.get("spec", {})
        if spec.get("driver") != self.driver:
            return False
        if self.network:
            return bool(spec.get("pool", {}).get("name") == self.name)
        return bool(spec.get("nodeName") == self.node_name)

    def slice_name(self, index: int) -> str:
        """Sorted by name they keep the order of the devices, which is the order in which they are allocated."""
        return f"{index:05x}-{self.driver}-{self.name.replace('/', '.')}"[:_NAME_LIMIT].rstrip("-.")


@dataclass(frozen=True, slots=True)
class Writes:
    """The writes that make the pool what it should be, in this order."""

    creates: tuple[Object, ...] = ()
    updates: tuple[Object, ...] = ()
    deletes: tuple[Object, ...] = ()
    generation: int = 0
    slices: int = 0  # how many there are then

    def __bool__(self) -> bool:
        return bool(self.creates or self.updates or self.deletes)


def device_document(device: Device) -> Object:
    """A device as a ResourceSlice lists it. Its identity is published under the standard names unless described."""
    attributes: dict[str, Mapping[str, Any]] = {}
    if device.identity.uuid and len(device.identity.uuid) <= 64:
        attributes[UUID_ATTRIBUTE] = {"string": device.identity.uuid}
    if device.identity.pci:
        attributes[PCI_ATTRIBUTE] = {"string": device.identity.pci}
    if device.numa_node is not None:
        attributes[NUMA_ATTRIBUTE] = {"int": device.numa_node}
    attributes.update(device.attributes)
    document: Object = {"name": device.name}
    if attributes:
        document["attributes"] = {name: dict(value) for name, value in attributes.items()}
    if device.capacity:
        document["capacity"] = {name: _capacity(device, name, value) for name, value in device.capacity.items()}
    if device.draws:
        document["consumesCounters"] = [
            {"counterSet": draw.set.name, "counters": _counters(draw.counters)} for draw in device.draws
        ]
    if device.taints:
        document["taints"] = [dict(taint) for taint in device.taints]
    if device.binding_conditions:
        document["bindingConditions"] = list(device.binding_conditions)
        document["bindingFailureConditions"] = list(device.binding_failures)
    if device.binds_to_node:
        document["bindsToNode"] = True
    if device.shared:
        document["allowMultipleAllocations"] = True
    return document


def _capacity(device: Device, name: str, value: str) -> Object:
    policy = device.policies.get(name)
    return {"value": value, "requestPolicy": dict(policy)} if policy else {"value": value}


def _counters(counters: Mapping[str, str]) -> Object:
    return {name: {"value": value} for name, value in counters.items()}


def counter_slices(devices: Iterable[Device]) -> tuple[Object, ...]:
    """The counter sets from which the devices draw, in slices without devices: so it is since Kubernetes 1.35."""
    sets = {draw.set.name: draw.set.counters for device in devices for draw in device.draws}
    documents = [{"name": name, "counters": _counters(counters)} for name, counters in sets.items()]
    size = MAX_COUNTER_SETS_PER_SLICE
    return tuple({"sharedCounters": documents[start : start + size]} for start in range(0, len(documents), size))


def split(devices: Sequence[Object]) -> tuple[tuple[Object, ...], ...]:
    """The devices in slices of at most 128, or of 64 where one has taints, counters or list attributes. Never none."""
    slices: list[tuple[Object, ...]] = []
    left = list(devices)
    while left or not slices:
        size = MAX_DEVICES_PER_SLICE
        if any(_advanced(device) for device in left[:size]):
            size = MAX_DEVICES_PER_SLICE_ADVANCED
        slices.append(tuple(left[:size]))
        left = left[size:]
    return tuple(slices)


def _advanced(device: Object) -> bool:
    attributes = device.get("attributes", {}).values()
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(name in attribute for attribute in attributes for name in _LISTS)
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """What this process wrote before: its newest generation, and by slice the resourceVersion that the server answered and
    what was sent (`content`). A server that drops fields of a feature it has off is then not asked again and again."""

    generation: int = 0
    sent: Mapping[str, tuple[str, Object]] = field(default_factory=dict)


def content(spec: Object) -> Object:
    """What a slice holds beside whose it is."""
    return {name: spec[name] for name in ("devices", "sharedCounters") if spec.get(name)}


def contents(devices: Iterable[Device], counters_beside: bool) -> tuple[Object, ...]:
    """What the slices of a pool hold. `counters_beside`: the counters stand in the slice of the devices that draw from them,
    as Kubernetes 1.34 wants it. Raises `InputError` when such devices are too many for one slice."""
    devices = tuple(devices)
    alone = [device for device in devices if not (counters_beside and device.draws)]
    drawing = combined(device for device in devices if device.draws) if counters_beside else counter_slices(devices)
    listed = split([device_document(device) for device in alone]) if alone or not drawing else ()
    return (*({"devices": list(part)} if part else {} for part in listed), *drawing)


def combined(devices: Iterable[Device]) -> tuple[Object, ...]:
    """Devices in slices with all counter sets from which they draw; those that share a set share a slice."""
    slices: list[Object] = []
    room = (0, 0, 0)
    for sets, members in _sharing(devices):
        documents = [device_document(device) for device in members]
        drawn = sum(len(draw.counters) for device in members for draw in device.draws)
        need = (len(members), sum(len(one["counters"]) for one in sets), drawn)
        for what, size, limit in zip(("devices", "counters", "counters drawn"), need, COMBINED_LIMITS, strict=True):
            if size > limit:
                raise InputError(
                    f"{size} {what} belong together by the counters of {sets[0]['name']},"
                    f" and this API server takes {limit} in a slice",
                    fix="offer fewer pieces, or use Kubernetes 1.35",
                )
        if slices and all(have + size <= limit for have, size, limit in zip(room, need, COMBINED_LIMITS, strict=True)):
            slices[-1]["sharedCounters"] += sets
            slices[-1]["devices"] += documents
            room = (room[0] + need[0], room[1] + need[1], room[2] + need[2])
        else:
            slices.append({"sharedCounters": sets, "devices": documents})
            room = need
    return tuple(slices)


def _sharing(devices: Iterable[Device]) -> Iterator[tuple[list[Object], list[Device]]]:
    """Devices that draw from the same counter sets, directly or by way of others, with those sets."""
    groups: list[tuple[dict[str, Object], list[Device]]] = []
    for device in devices:
        sets = {
            draw.set.name: {"name": draw.set.name, "counters": _counters(draw.set.counters)} for draw in device.draws
        }
        touched = [group for group in groups if group[0].keys() & sets.keys()]
        if not touched:
            groups.append((sets, [device]))
            continue
        first, *rest = touched
        for group in rest:
            first[0].update(group[0])
            first[1].extend(group[1])
            groups.remove(group)
        first[0].update(sets)
        first[1].append(device)
    return ((list(sets.values()), members) for sets, members in groups)


def writes(
    pool: Pool,
    devices: Iterable[Device],
    actual: Sequence[Object],
    memory: Memory = Memory(),
    counters_beside: bool = False,
) -> Writes:
    """What to write so that the pool has exactly these devices. `actual` are all slices of this pool; for `counters_beside`
    and what it raises see `contents`.

    Slices that somebody deleted come back with a newer generation than this process ever wrote.
    """
    listed = contents(devices, counters_beside)
    wanted = {pool.slice_name(index): one for index, one in enumerate(listed)}
    there = {slice_["metadata"]["name"]: slice_ for slice_ in actual}
    generations = {_generation(slice_) for slice_ in actual}
    newest = max(generations, default=0)
    if len(generations) == 1 and set(there) == set(wanted):
        desired = {name: _desired(pool, name, held, newest, len(wanted)) for name, held in wanted.items()}
        if all(_same(there[name], desired[name]) or _remembered(there[name], wanted[name], memory) for name in wanted):
            return Writes(generation=newest, slices=len(wanted))
    generation = max(newest, memory.generation) + 1
    desired = {name: _desired(pool, name, held, generation, len(wanted)) for name, held in wanted.items()}
    return Writes(
        creates=tuple(desired[name] for name in wanted if name not in there),
        updates=tuple(_updated(there[name], desired[name]) for name in wanted if name in there),
        deletes=tuple(there[name] for name in sorted(there) if name not in wanted),
        generation=generation,
        slices=len(wanted),
    )


def _generation(slice_: Object) -> int:
    return int(slice_.get("spec", {}).get("pool", {}).get("generation", 0))


def _desired(pool: Pool, name: str, held: Object, generation: int, count: int) -> Object:
    metadata: Object = {"name": name}
    if pool.node_uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": pool.node_name, "uid": pool.node_uid, "controller": True}
        metadata["ownerReferences"] = [owner]
    spec: Object = {
        "driver": pool.driver,
        **pool.reach,
        "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": count},
    }
    spec |= held
    return {"apiVersion": RESOURCE_SLICE.api_version, "kind": RESOURCE_SLICE.kind, "metadata": metadata, "spec": spec}


def _same(actual: Object, desired: Object) -> bool:
    owners = actual["metadata"].get("ownerReferences", [])
    wanted = desired["metadata"].get("ownerReferences", [])
    return dropped(desired["spec"], actual.get("spec", {})) == () and bool(
        [owner.get("uid") for owner in owners] == [owner["uid"] for owner in wanted]
        and _fields(actual.get("spec", {})) == _fields(desired["spec"])
    )


def _remembered(actual: Object, held: Object, memory: Memory) -> bool:
    version = actual["metadata"].get("resourceVersion", "")
    return bool(version) and memory.sent.get(actual["metadata"]["name"]) == (version, held)


def _fields(spec: Object) -> Object:
    """The spec without what means the same as nothing."""
    return {name: value for name, value in spec.items() if value not in (None, [], {}, False)}


def _updated(actual: Object, desired: Object) -> Object:
    """The object as it is there (its resourceVersion guards the write) with the desired spec."""
    result = copy.deepcopy(actual)
    result["spec"] = desired["spec"]
    if "ownerReferences" in desired["metadata"]:
        result["metadata"]["ownerReferences"] = desired["metadata"]["ownerReferences"]
    return result


def dropped(sent: Any, stored: Any, path: str = "") -> tuple[str, ...]:
    """The fields that were sent and are not in what the API server stored: their feature is off there."""
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        found: list[str] = []
        for name, value in sent.items():
            place = f"{path}.{name}" if path else name
            if name not in stored:
                if value not in (None, [], {}, False, 0, ""):
                    found.append(place)
            else:
                found.extend(dropped(value, stored[name], place))
        return tuple(dict.fromkeys(found))
    if isinstance(sent, (list, tuple)) and isinstance(stored, (list, tuple)):
        pairs = zip(sent, stored, strict=False)
        return tuple(dict.fromkeys(place for one, other in pairs for place in dropped(one, other, f"{path}[]")))
    return ()
