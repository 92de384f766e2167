"""What is wrong between devices, and between devices and their host."""

from __future__ import annotations

from collections.abc import Container, Iterator

from regauge.base import InputError, Where
from regauge.cdi import Host, NoHostDevice
from regauge.driver.description import Description, Device, Stack
from regauge.pluginapi import RECEIVE_LIMIT_BYTES, UNHEALTHY, PluginDevice, list_size_bytes


def check_devices(description: Description, file: str) -> None:
    """Raises `InputError` for a device that is there twice, by name or physically, for one that the way of answering cannot
    carry, and for a list too large to send."""
    names: dict[str, Device] = {}
    for device in description.devices:
        old = names.setdefault(device.name, device)
        if old is not device:
            raise _twice(file, device, old, f"the name {device.name} stands twice")
    parts: dict[tuple[str, str], Device] = {}
    for device in description.devices:
        for part in device.identity.parts():
            old = parts.setdefault(part, device)
            if old is not device:
                raise _twice(file, device, old, f"{part[0]} {part[1]} is also {old.name}")
    for device in description.devices:
        if device.stack is Stack.DEVICE_PLUGIN and not description.answer_cdi:
            _check_classic(device, file)
    _check_list_size(description, file)


def _check_classic(device: Device, file: str) -> None:
    """The classic fields of Allocate are variables, mounts and device nodes."""
    edits = device.edits
    parts = (
        ("hooks", edits.hooks),
        ("netDevices", edits.net_devices),
        ("gids", edits.additional_gids),
        ("names in CDI specs of others", device.cdi_names),
    )
    lost = [name for name, part in parts if part]
    if lost:
        raise InputError(
            f"it has {', '.join(lost)}, which the device plugin's classic answer cannot carry",
            where=_where(file, device),
            fix="say devicePlugin: {answer: cdi}, or both where the runtime knows CDI",
        )


def _twice(file: str, device: Device, old: Device, what: str) -> InputError:
    if device.stack is not old.stack:
        what += f": one device in both stacks ({old.stack} and {device.stack})"
        return InputError(what, where=_where(file, device), fix="give every device to exactly one stack")
    return InputError(what, where=_where(file, device), fix="remove or rename one of the two")


def _where(file: str, device: Device, field: str | None = None) -> Where:
    return Where(file=file, line=device.line, object=f"device {device.name}", field=field)


def _check_list_size(description: Description, file: str) -> None:
    devices = [
        PluginDevice(device.name, UNHEALTHY, () if device.numa_node is None else (device.numa_node,))
        for device in description.devices
        if device.stack is Stack.DEVICE_PLUGIN
    ]
    size = list_size_bytes(devices)
    if size > RECEIVE_LIMIT_BYTES:
        raise InputError(
            f"the list of its {len(devices)} device plugin devices takes {size} bytes and the kubelet accepts"
            f" {RECEIVE_LIMIT_BYTES}: it would drop the plugin",
            where=Where(file=file, field="devices"),
            fix="split the devices between several resource names, each with a driver of its own, or use shorter names",
        )


def check_host(description: Description, host: Host, file: str, known: Container[str] = ()) -> None:
    """Raises `InputError` for the first device node that the host does not have.

    Devices in `known` are left out: one that was served before and is gone now is broken, and the others must be served.
    """
    for device in description.devices:
        if device.name in known:
            continue
        for path, reason in missing_nodes(device, host):
            raise InputError(
                f"the device node {path} is not on this host: {reason}",
                where=_where(file, device, "deviceNodes"),
                fix="load the kernel driver, correct the path, or take the device out",
            )


def missing_nodes(device: Device, host: Host) -> Iterator[tuple[str, str]]:
    """The device nodes that the host does not have, and why."""
    for node in device.edits.device_nodes:
        path = node.host_path or node.path
        found = host.device(path)
        if isinstance(found, NoHostDevice):
            yield path, found.reason


def env_conflicts(description: Description) -> Iterator[str]:
    """Environment variables that two devices of one stack set to different values: a container with both sees one."""
    for stack in Stack:
        seen: dict[str, tuple[str, str]] = {}
        told: set[str] = set()
        for device in description.devices:
            if device.stack is not stack:
                continue
            for item in device.edits.env:
                name, _, value = item.partition("=")
                other, old = seen.setdefault(name, (device.name, value))
                if old != value and name not in told:
                    told.add(name)
                    yield (
                        f"{other} and {device.name} set {name} to different values: a container with both of them sees"
                        f" the value of the last one only"
                    )
