"""What a conversion stands on: the classes and devices of an estate, or without one the vendors' table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regauge.inventory import newest_slices
from regauge.migrate.matching import ExpressionMatcher, compile_error, device_matcher, expression_matcher
from regauge.migrate.move import Target
from regauge.migrate.names import partition_selectors, shared_why
from regauge.migrate.serving import DeviceMatcher, find_serving, vendor_drivers, vendor_of
from regauge.model import Rules, Snapshot
from regauge.model.resource import DEVICE_CLASS_PREFIX, Device, DeviceClass


@dataclass(frozen=True, slots=True)
class Found:
    """A device of the estate and the node it is on ("" where it is not on one)."""

    driver: str
    node: str
    device: Device


@dataclass(frozen=True, slots=True)
class Chosen:
    """What serves a resource: the target with its driver ("" when unknown), or `why` not. `notes` are for the reader."""

    target: Target | None
    driver: str = ""
    notes: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ground:
    """Made by `ground_of`. `snapshot` is None without an estate; `classes` is what the user says: resource to class."""

    rules: Rules
    snapshot: Snapshot | None
    classes: Mapping[str, str]
    matches: DeviceMatcher
    accepts: ExpressionMatcher
    devices: tuple[Found, ...] = field(default=())
    _chosen: dict[str, Chosen] = field(default_factory=dict, compare=False, repr=False)
    _matching: dict[tuple[str, tuple[str, ...]], list[Found]] = field(default_factory=dict, compare=False, repr=False)

    _published: dict[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)
    _known: set[str] = field(default_factory=set, compare=False, repr=False)

    def choose(self, resource_name: str) -> Chosen:
        """The class that serves a counted resource, by the user's word, the estate, or the vendors' table."""
        if resource_name not in self._chosen:
            self._chosen[resource_name] = self._choose(resource_name)
        return self._chosen[resource_name]

    def _choose(self, resource_name: str) -> Chosen:
        selectors = partition_selectors(resource_name)
        shared = shared_why(resource_name)
        class_name, how, driver = self._class_for(resource_name)
        if class_name is None:
            return Chosen(None, why=f"{resource_name}: {shared or how}")
        if shared is not None and not self._all_shareable(class_name):
            return Chosen(
                None, why=f"{resource_name}: {shared} (class {class_name} has no such devices that are known)"
            )
        notes = (f"{resource_name} is served by class {class_name}: {how}",)
        if selectors and self.snapshot is not None and self._missing(class_name, selectors):
            return Chosen(
                None, why=f"{resource_name}: no published device of class {class_name} offers such a partition"
            )
        return Chosen(Target(resource_name, class_name, selectors), driver, notes)

    def resource_for(self, class_name: str) -> str | None:
        """The name that a device plugin counts for what a class offers; None where nobody says."""
        said = [name for name, given in self.classes.items() if given == class_name]
        if said:
            return said[0]
        known = self._device_class(class_name)
        if known is not None and known.spec.extended_resource_name:
            return known.spec.extended_resource_name
        plain = [item for item in vendor_drivers() if item.class_name == class_name]
        literal = [item.pattern.replace("\\.", ".") for item in plain if not set(item.pattern) & set("[](|)+*?")]
        return literal[0] if len(literal) == 1 else None

    def matching(self, class_name: str, selectors: Iterable[str]) -> list[Found]:
        """The devices of the estate that a request for a class with selectors could get, taken or not."""
        device_class = self._device_class(class_name)
        if device_class is None:
            return []
        key = class_name, tuple(selectors)
        if key not in self._matching:
            self._matching[key] = [
                item
                for item in self.devices
                if self.matches(device_class, item.driver, item.device)
                and all(self.accepts(text, item.driver, item.device) for text in key[1])
            ]
        return self._matching[key]

    def publishes(self, driver: str, name: str) -> bool | None:
        """Whether any device of a driver has an attribute or capacity; None where there are no such devices."""
        if driver not in self._published:
            own = [item.device for item in self.devices if item.driver == driver]
            self._published[driver] = frozenset(key for device in own for key in (*device.attributes, *device.capacity))
            self._known.update([driver] if own else [])
        if driver not in self._known:
            return None
        return bool({name, f"{driver}/{name}"} & self._published[driver])

    def _class_for(self, resource_name: str) -> tuple[str | None, str, str]:
        vendor = vendor_of(resource_name)
        driver = vendor.driver if vendor else ""
        if resource_name in self.classes:
            class_name = self.classes[resource_name]
            return class_name, "as asked", self._driver_of(class_name) or driver
        if self.snapshot is not None:
            serving = find_serving(resource_name, self.snapshot, self.matches)
            own = {item.driver for item in serving.devices}
            return serving.device_class, serving.how or serving.why, own.pop() if len(own) == 1 else driver
        if resource_name.startswith(DEVICE_CLASS_PREFIX):
            return resource_name.removeprefix(DEVICE_CLASS_PREFIX), "the name is the class's own", ""
        if vendor is None:
            return None, "no DRA driver is known for it; name a class for it, or give the estate", ""
        how = f"vendor's driver {vendor.driver} ({vendor.source}); not checked against a cluster"
        return vendor.class_name, how, driver

    def _device_class(self, name: str) -> DeviceClass | None:
        classes = self.snapshot.device_classes if self.snapshot is not None else ()
        return next((item for item in classes if item.metadata.name == name), None)

    def _driver_of(self, class_name: str) -> str:
        drivers = {item.driver for item in self.matching(class_name, ())}
        return drivers.pop() if len(drivers) == 1 else ""

    def _all_shareable(self, class_name: str) -> bool:
        found = self.matching(class_name, ())
        return bool(found) and all(item.device.allow_multiple_allocations for item in found)

    def _missing(self, class_name: str, selectors: tuple[str, ...]) -> bool:
        return not self.matching(class_name, selectors)


def ground_of(rules: Rules, snapshot: Snapshot | None = None, classes: Mapping[str, str] | None = None) -> Ground:
    """The ground for conversions under `rules`, with an estate or without."""
    devices = [
        Found(slice_.spec.driver, device.node_name or slice_.spec.node_name or "", device)
        for slice_ in (newest_slices(snapshot.slices) if snapshot is not None else ())
        for device in slice_.spec.devices
    ]
    return Ground(rules, snapshot, classes or {}, device_matcher(rules), expression_matcher(rules), tuple(devices))


def compiles(ground: Ground, expression: str) -> str | None:
    """Why an expression is no selector on the target; None when it is one."""
    return compile_error(ground.rules)(expression)


def value_of(driver: str, device: Device, attribute: str) -> object:
    """The value of an attribute under its full name (`domain/name`); None where the device has none."""
    own = attribute.removeprefix(f"{driver}/")
    found = device.attributes.get(attribute) or device.attributes.get(own)
    if found is None:
        return None
    values = (found.int_value, found.bool_value, found.string_value, found.version_value)
    return next((value for value in values if value is not None), None)


def shared_value(groups: Iterable[tuple[list[Found], int]], attribute: str) -> bool:
    """Whether some node has, at one value of an attribute, as many devices of each group as are asked for."""
    counts: list[dict[tuple[str, object], int]] = []
    wanted = []
    for found, count in groups:
        by_value: dict[tuple[str, object], int] = {}
        for item in found:
            value = value_of(item.driver, item.device, attribute)
            if value is not None and item.node:
                by_value[item.node, value] = by_value.get((item.node, value), 0) + 1
        counts.append(by_value)
        wanted.append(count)
    places = set.intersection(*(set(item) for item in counts)) if counts else set()
    return any(all(by_value[place] >= count for by_value, count in zip(counts, wanted)) for place in places)


def newer_or_same(minor: str, than: str) -> bool:
    """Whether a minor ("1.36") is `than` or newer."""
    return [int(part) for part in minor.split(".")] >= [int(part) for part in than.split(".")]
