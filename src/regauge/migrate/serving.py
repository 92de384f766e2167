"""Which device class can serve what a counted resource stands for, with which devices, and by what evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import msgspec

from regauge.inventory import newest_slices
from regauge.model import Snapshot, matches_node
from regauge.model.core import Node
from regauge.model.resource import DEVICE_CLASS_PREFIX, Device, DeviceClass, ResourceSlice

DeviceMatcher = Callable[[DeviceClass, str, Device], bool]
"""Whether a device of a driver belongs to a class. A selector that errs on the device counts as no."""


class VendorDriver(msgspec.Struct, frozen=True, rename={"class_name": "class"}):
    """What a vendor publishes through DRA for a resource that its device plugin counts.

    `stage` is "released" or "preview", by `support` as of `date`; `kube` the first minor it serves; `selectors` (CEL) say
    which devices of the driver are meant; `network` that they are network interfaces.
    """

    pattern: str
    driver: str
    class_name: str
    source: str
    support: str
    stage: str
    kube: str
    date: str
    selectors: tuple[str, ...] = ()
    network: bool = False


class _Table(msgspec.Struct):
    resources: tuple[VendorDriver, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A device that a driver publishes, and the nodes that can reach it."""

    driver: str
    pool: str
    device: str
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Serving:
    """Who could serve a resource. `device_class` is None where nobody can, and `why` says so; `how` is the evidence.

    `by_node` is how many of the devices each node can reach, `drivers` who publishes them.
    """

    resource_name: str
    device_class: str | None
    how: str
    devices: tuple[Published, ...] = ()
    why: str = ""
    by_node: Mapping[str, int] = field(default_factory=dict)
    drivers: tuple[str, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self.by_node)


@cache
def vendor_drivers() -> tuple[VendorDriver, ...]:
    """The packaged table of vendors' DRA drivers."""
    data = files("regauge.migrate").joinpath("data/drivers.json").read_bytes()
    return msgspec.json.decode(data, type=_Table).resources


def vendor_of(resource_name: str) -> VendorDriver | None:
    """What the table knows of a counted resource; None for a name that is not in it."""
    return next((item for item in vendor_drivers() if re.fullmatch(item.pattern, resource_name)), None)


def find_serving(resource_name: str, snapshot: Snapshot, matches: DeviceMatcher) -> Serving:
    """The class that can serve `resource_name` in this cluster: one that names it, its implicit class, or the vendor's."""
    classes = {item.metadata.name: item for item in snapshot.device_classes}
    named = [item for item in classes.values() if item.spec.extended_resource_name == resource_name]
    if named:
        chosen = max(sorted(named, key=_name), key=lambda item: item.metadata.creation_timestamp or "")
        return _with_devices(resource_name, chosen, "the class carries this extendedResourceName", snapshot, matches)
    if resource_name.startswith(DEVICE_CLASS_PREFIX):
        name = resource_name.removeprefix(DEVICE_CLASS_PREFIX)
        if name in classes:
            return _with_devices(resource_name, classes[name], "the name is the class's own", snapshot, matches)
        return Serving(resource_name, None, "", why=f"the device class {name} does not exist")
    vendor = vendor_of(resource_name)
    if vendor is None:
        return Serving(resource_name, None, "", why="no DRA driver is known for it, and no class names it")
    if vendor.class_name not in classes and vendor.network:
        own = _classes_of_driver(vendor.driver, snapshot, matches)
        if len(own) == 1:
            how = f"the only class whose devices are of {vendor.driver} ({vendor.source})"
            return _with_devices(resource_name, own[0], how, snapshot, matches)
    if vendor.class_name not in classes:
        why = f"its vendor's driver {vendor.driver} would offer it as class {vendor.class_name}, which does not exist here"
        return Serving(resource_name, None, "", why=why)
    how = f"vendor's driver {vendor.driver} ({vendor.source})"
    return _with_devices(resource_name, classes[vendor.class_name], how, snapshot, matches)


def _classes_of_driver(driver: str, snapshot: Snapshot, matches: DeviceMatcher) -> list[DeviceClass]:
    """The classes that have devices, all of one driver. Users name the classes of network drivers themselves."""
    found = []
    for device_class in snapshot.device_classes:
        drivers = {
            slice_.spec.driver
            for slice_ in newest_slices(snapshot.slices)
            for device in slice_.spec.devices
            if matches(device_class, slice_.spec.driver, device)
        }
        if drivers == {driver}:
            found.append(device_class)
    return found


def _name(device_class: DeviceClass) -> str:
    return device_class.metadata.name


def _with_devices(
    resource_name: str, device_class: DeviceClass, how: str, snapshot: Snapshot, matches: DeviceMatcher
) -> Serving:
    found = []
    for slice_ in newest_slices(snapshot.slices):
        for device in slice_.spec.devices:
            if matches(device_class, slice_.spec.driver, device):
                nodes = _reaching(slice_, device, snapshot.nodes)
                found.append(Published(slice_.spec.driver, slice_.spec.pool.name, device.name, nodes))
    why = "" if found else f"class {device_class.metadata.name} matches no published device"
    by_node = Counter(name for device in found for name in device.nodes)
    drivers = tuple(sorted({device.driver for device in found}))
    return Serving(resource_name, device_class.metadata.name, how, tuple(found), why, by_node, drivers)


def _reaching(slice_: ResourceSlice, device: Device, nodes: tuple[Node, ...]) -> frozenset[str]:
    """The nodes that can use a device, by its own words or else by its slice's."""
    for part in (device, slice_.spec):
        if part.node_name:
            return frozenset((part.node_name,))
        if part.all_nodes:
            return frozenset(node.metadata.name for node in nodes)
        if part.node_selector is not None:
            selector = part.node_selector
            return frozenset(node.metadata.name for node in nodes if matches_node(selector, node))
    return frozenset()
