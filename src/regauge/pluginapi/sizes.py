"""How many bytes a device list takes on the wire, without writing it. Pure.

The kubelet drops a device plugin whose list is larger than its receive limit, so the sender must know beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable

from regauge.pluginapi.messages import PluginDevice


def list_size_bytes(devices: Iterable[PluginDevice]) -> int:
    """The size of the ListAndWatch message with these devices, in protobuf's encoding."""
    return sum(_field(_device(device)) for device in devices)


def _device(device: PluginDevice) -> int:
    size = 0
    for text in (device.id, device.health):
        if text:
            size += _field(len(text.encode()))
    if device.numa_nodes:
        size += _field(sum(_field(_numa_node(node)) for node in device.numa_nodes))
    return size


def _numa_node(node: int) -> int:
    return 0 if node == 0 else 1 + _varint(node)


def _field(length: int) -> int:
    """A field with a length before it and a number below 16."""
    return 1 + _varint(length) + length


def _varint(value: int) -> int:
    if value < 0:
        return 10
    return max(1, (value.bit_length() + 6) // 7)
