"""What a DRA driver will publish for devices that are only counted today, as far as labels and other nodes tell. Pure.

For rehearsals and estimates: a real driver says more. What cannot be told is left out, so that a selector for it finds
nothing here either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from regauge.inventory import newest_slices
from regauge.migrate.labels import label_rules
from regauge.migrate.serving import vendor_of
from regauge.model import Object, Snapshot
from regauge.model.core import Node

_EQUALS = re.compile(r'device\.attributes\["(?P<domain>[^"]+)"\]\.(?P<name>\w+) == "(?P<value>[^"\\]*)"')

Identity = Callable[[str, str, int], str]
"""The uuid of the n-th device of a resource on a node: (node, resource name, n)."""


def expected_devices(
    node: Node, resource_name: str, driver: str, count: int, snapshot: Snapshot, identity: Identity
) -> tuple[Object, ...]:
    """The devices of one counted resource as `spec.devices` of a ResourceSlice would have them."""
    attributes: dict[str, Any] = dict(_of_class(resource_name, driver, snapshot))
    capacity: dict[str, Any] = {}
    labels = node.metadata.labels or {}
    parts: dict[str, dict[str, str]] = {}
    for rule in label_rules():
        value = labels.get(rule.label)
        if rule.driver != driver or rule.kind != "device" or value is None:
            continue
        match rule.form:
            case "dashed":
                attributes[rule.attribute] = {"string": value.replace("-", " ")}
            case "underscored":
                attributes[rule.attribute] = {"string": value.replace("_", " ")}
            case "lower":
                attributes[rule.attribute] = {"string": value}
            case "hex":
                attributes[rule.attribute] = {"string": f"0x{value}"}
            case "count":
                capacity[rule.capacity] = {"value": value}
            case "mebibytes":
                capacity[rule.capacity] = {"value": f"{value}Mi"}
            case "major" | "minor":
                parts.setdefault(rule.attribute, {})[rule.form] = value
    for attribute, found in parts.items():
        attributes[attribute] = {"version": f"{found.get('major', '0')}.{found.get('minor', '0')}.0"}
    return tuple(
        {
            "name": f"{resource_name.rpartition('/')[2].replace('.', '-').lower()}-{number}",
            "attributes": {**attributes, "uuid": {"string": identity(node.metadata.name, resource_name, number)}},
            **({"capacity": capacity} if capacity else {}),
        }
        for number in range(count)
    )


def _of_class(resource_name: str, driver: str, snapshot: Snapshot) -> Mapping[str, Any]:
    """What the class asks of its devices, where it says so plainly, and what all devices of the driver have in common."""
    common: dict[str, Any] | None = None
    for slice_ in newest_slices(snapshot.slices):
        if slice_.spec.driver == driver:
            for device in slice_.spec.devices:
                own = {k: v.string_value for k, v in device.attributes.items() if v.string_value}
                common = own if common is None else {k: v for k, v in common.items() if own.get(k) == v}
    found = {name: {"string": value} for name, value in (common or {}).items() if name == "type"}
    for text in _selectors(resource_name, snapshot):
        for match in _EQUALS.finditer(text):
            if match["domain"] == driver:
                found[match["name"]] = {"string": match["value"]}
    return found


def _selectors(resource_name: str, snapshot: Snapshot) -> Iterator[str]:
    vendor = vendor_of(resource_name)
    if vendor is not None:
        yield from vendor.selectors
        yield from _class_selectors(vendor.class_name, snapshot)


def _class_selectors(class_name: str, snapshot: Snapshot) -> Iterable[str]:
    for item in snapshot.device_classes:
        if item.metadata.name == class_name:
            yield from (selector.cel.expression for selector in item.spec.selectors if selector.cel is not None)
