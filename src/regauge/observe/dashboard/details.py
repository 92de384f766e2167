"""All that is known of one device, for whoever opens it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.inventory import Advertisement, EstateDevice, newest_slices
from regauge.model.resource import Device, DeviceAttribute, ResourceSlice
from regauge.observe.dashboard.devices import device_name, key_of
from regauge.observe.dashboard.looking import Look
from regauge.observe.device_facts import shared_amounts

_NO_VALUE = "(no value)"


def device_details(look: Look, name: str) -> Mapping[str, object] | None:
    """What is published and listed of the device of this row's name; None for a name that no device has."""
    device = next((one for one in look.inventory.devices if device_name(one) == name), None)
    if device is None:
        return None
    found: dict[str, object] = {"advertised": [_advertised(one) for one in device.advertisements]}
    published = _published(look, device)
    if published is not None:
        slice_, one = published
        found["attributes"] = {key: _value(value) for key, value in sorted(one.attributes.items())}
        found["capacity"] = _capacity(look, device, one)
        found["counters"] = _counters(one)
        found["slice"] = slice_.metadata.name
        found["pool"] = f"{slice_.spec.pool.name}, generation {slice_.spec.pool.generation}"
        found["shareable"] = bool(one.allow_multiple_allocations)
    return found


def _capacity(look: Look, device: EstateDevice, one: Device) -> Mapping[str, str]:
    """The capacity of a device; of one that several may use, how much of it they take."""
    if not one.allow_multiple_allocations:
        return {key: str(value.value) for key, value in sorted(one.capacity.items())}
    holders = [holding for item in device.advertisements for holding in look.held.get(key_of(item), ())]
    return {amount.name: f"{amount.used} of {amount.total}" for amount in shared_amounts(one, holders)}


def _published(look: Look, device: EstateDevice) -> tuple[ResourceSlice, Device] | None:
    keys = {key_of(one) for one in device.advertisements}
    for slice_ in newest_slices(look.snapshot.slices):
        for one in slice_.spec.devices:
            if (slice_.spec.driver, slice_.spec.pool.name, one.name) in keys:
                return slice_, one
    return None


def _advertised(one: Advertisement) -> Mapping[str, Any]:
    return {
        "stack": one.stack.value,
        "source": one.source,
        "name": one.name,
        "identity": dict(one.identity),
        "healthy": one.healthy,
    }


def _value(attribute: DeviceAttribute) -> str:
    for value in (attribute.string_value, attribute.version_value, attribute.int_value, attribute.bool_value):
        if value is not None:
            return str(value).lower() if isinstance(value, bool) else str(value)
    lists = (attribute.string_values, attribute.version_values, attribute.int_values, attribute.bool_values)
    return next((", ".join(map(str, values)) for values in lists if values), _NO_VALUE)


def _counters(device: Device) -> Mapping[str, str]:
    return {
        f"{part.counter_set}/{name}": str(counter.value)
        for part in device.consumes_counters
        for name, counter in sorted(part.counters.items())
    }
