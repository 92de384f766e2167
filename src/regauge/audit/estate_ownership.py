"""Rules about who owns a device: one physical device, one stack, one name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, Spot, at, seen, some
from regauge.base import Where
from regauge.inventory import Advertisement, EstateDevice, Stack
from regauge.model.kinds import NODE
from regauge.scheduler import ClassResolver


def two_owners(ground: Ground) -> Iterator[Spot]:
    """OWN-TWICE: one physical device is advertised by several sources, told by uuid or PCI address, not by its number."""
    by_node: dict[str, list[tuple[EstateDevice, tuple[Advertisement, ...]]]] = defaultdict(list)
    for device in ground.inventory.doubly_owned:
        live = tuple(one for one in device.advertisements if _is_live(ground, one))
        if len({one.source for one in live}) > 1:
            by_node[device.node].append((device, live))
    for node, found in sorted(by_node.items()):
        yield _twice(node, found)


def _is_live(ground: Ground, one: Advertisement) -> bool:
    """A kubelet remembers the devices of a plugin that is gone: such a name has no capacity any more."""
    if one.stack is Stack.DRA or one.node not in ground.node_names:
        return True
    return (one.node, one.source) in _capacities(ground)


def _capacities(ground: Ground) -> dict[tuple[str, str], int]:
    return {(one.node, one.resource_name): one.capacity for one in ground.inventory.counted if one.capacity}


def _twice(node: str, found: list[tuple[EstateDevice, tuple[Advertisement, ...]]]) -> Spot:
    now: list[str] = []
    risk: list[str] = []
    free: list[str] = []
    evidence: list[Evidence] = []
    for device, live in found:
        holding = {one.source for one in live if one.holders}
        (now if len(holding) > 1 else risk if holding else free).append(device.identity)
        for one in live:
            told = f"{device.identity} is {one.name} of {one.source} ({one.stack.value})"
            held = f", held by {some(one.holders)}" if one.holders else ", free"
            evidence.append(Evidence(Where(object=f"Node {node}"), told + held))
    parts = ((now, "used twice now"), (risk, "held under one name and free under another"), (free, "free under both"))
    told = "; ".join(f"{words}: {some(names)}" for names, words in parts if names)
    count = f"{len(found)} device{'s' if len(found) > 1 else ''}"
    return Spot(f"Node {node}", f"{count} of node {node} advertised by several sources: {told}", tuple(evidence),
                (*now, *risk, *free))  # fmt: skip


def same_name(ground: Ground) -> Iterator[Spot]:
    """OWN-SAME-NAME: one extended resource name is served on one node by a device plugin and by a class."""
    named = [(document, one) for document, one in ground.classes if one.spec.extended_resource_name]
    nodes = {document.name: document for document in ground.snapshot.documents(NODE)}
    for (node, resource), count in _capacities(ground).items():
        for document, one in named:
            if one.spec.extended_resource_name != resource:
                continue
            devices = [name for name, place in ground.matched(one).devices if place == node]
            if devices:
                yield Spot(
                    f"Node {node}",
                    f"{resource} is served on node {node} by a device plugin ({count}) and by DeviceClass"
                    f" {one.metadata.name} ({len(devices)} devices)",
                    (
                        seen(nodes[node], f"capacity {count}", f"status.capacity[{resource}]"),
                        seen(document, f"extendedResourceName {resource}", "spec.extendedResourceName"),
                        Evidence(at(document), f"it matches on the node: {some(devices)}"),
                    ),
                    tuple(devices),
                )


def shared_class_name(ground: Ground) -> Iterator[Spot]:
    """CLASS-SHARED-NAME: several classes have one extendedResourceName; the scheduler takes one of them."""
    by_name = defaultdict(list)
    for document, one in ground.classes:
        if one.spec.extended_resource_name:
            by_name[one.spec.extended_resource_name].append((document, one))
    for name, found in sorted(by_name.items()):
        if len(found) < 2:
            continue
        resolver = ClassResolver()
        for _, one in found:
            resolver.put(one, None)
        taken = resolver.find(name)
        told = taken.metadata.name if taken else "none"
        classes = sorted(document.name for document, _ in found)
        yield Spot(
            some([f"DeviceClass {one}" for one in classes]),
            f"{', '.join(classes)} all have extendedResourceName {name}; the scheduler takes {told}",
            tuple(
                seen(document, f"extendedResourceName {name}, made {one.metadata.creation_timestamp or 'at no time told'}",
                     "spec.extendedResourceName")
                for document, one in found
            ),
        )  # fmt: skip
