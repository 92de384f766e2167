"""ResourceSlices: what this node's pool should be, what it is, and the writes between the two. Pure.

A pool's slices carry one generation; the scheduler ignores a pool until all slices of its newest generation are there. So a
change of anything gives all slices the next generation, and no change writes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regauge.driver.description import Device
from regauge.model import Object
from regauge.model.kinds import RESOURCE_SLICE
from regauge.model.resource import MAX_DEVICES_PER_SLICE, MAX_DEVICES_PER_SLICE_ADVANCED

MAX_COUNTER_SETS_PER_SLICE = 8

UUID_ATTRIBUTE = "uuid"
PCI_ATTRIBUTE = "resource.kubernetes.io/pciBusID"
NUMA_ATTRIBUTE = "resource.kubernetes.io/numaNode"
_LISTS = ("ints", "bools", "strings", "versions")
_NAME_LIMIT = 253


@dataclass(frozen=True, slots=True)
class Pool:
    """Whose slices: the driver, and the node with its uid (without one the slices have no owner)."""

    driver: str
    node_name: str
    node_uid: str = ""

    @property
    def name(self) -> str:
        return self.node_name

    def slice_name(self, index: int) -> str:
        """Sorted by name they keep the order of the devices, which is the order in which they are allocated."""
        return f"{index:05x}-{self.driver}-{self.node_name}"[:_NAME_LIMIT].rstrip("-.")


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


def writes(pool: Pool, devices: Iterable[Device], actual: Sequence[Object], memory: Memory = Memory()) -> Writes:
    """What to write so that the pool has exactly these devices. `actual` are all slices of this driver and node.

    Slices that somebody deleted come back with a newer generation than this process ever wrote.
    """
    devices = tuple(devices)
    listed = split([device_document(device) for device in devices])
    contents = (*({"devices": list(part)} if part else {} for part in listed), *counter_slices(devices))
    wanted = {pool.slice_name(index): one for index, one in enumerate(contents)}
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
        "nodeName": pool.node_name,
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
