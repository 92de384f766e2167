"""The taints of devices: those that are published, and those that DeviceTaintRules add."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from regauge.model.resource import Device, DeviceTaint, DeviceTaintRule, ResourceSlice


def tainted_slice(slice_: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """The slice with the taints that rules, in the order given, add to its devices."""
    known = tuple(rules)
    devices = []
    for device in slice_.spec.devices:
        added = tuple(rule.spec.taint for rule in known if taint_rule_selects(rule, slice_, device))
        devices.append(replace(device, taints=(*device.taints, *added)) if added else device)
    return replace(slice_, spec=replace(slice_.spec, devices=tuple(devices)))


def taint_rule_selects(rule: DeviceTaintRule, slice_: ResourceSlice, device: Device) -> bool:
    """Whether a rule is for this device."""
    selector = rule.spec.device_selector
    if selector is None:
        return True
    return (
        selector.driver in (None, slice_.spec.driver)
        and selector.pool in (None, slice_.spec.pool.name)
        and selector.device in (None, device.name)
    )


def taint_text(taint: DeviceTaint) -> str:
    """A taint as people write it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
