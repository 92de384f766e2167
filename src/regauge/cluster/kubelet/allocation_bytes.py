"""A device plugin's answer as protobuf bytes, the form in which the device checkpoint keeps it. Pure.

Source: ContainerAllocateResponse of deviceplugin/v1beta1. Written by hand because a simulated node loads no gRPC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from regauge.pluginapi import ContainerAllocateResponse, DeviceSpec, Mount

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def encode_allocation(answer: ContainerAllocateResponse) -> bytes:
    """Fields in the order of their numbers, map entries by key."""
    parts = [
        *_encoded_map(1, answer.envs),
        *(_message(2, _encoded_mount(mount)) for mount in answer.mounts),
        *(_message(3, _encoded_device(device)) for device in answer.devices),
        *_encoded_map(4, answer.annotations),
        *(_message(5, _text(1, name)) for name in answer.cdi_devices),
    ]
    return b"".join(parts)


def decode_allocation(raw: bytes) -> ContainerAllocateResponse:
    """Raises `ValueError` for bytes that are no such message. Unknown fields are passed over."""
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: list[Mount] = []
    devices: list[DeviceSpec] = []
    names: list[str] = []
    for number, value in _fields(raw):
        if number in (1, 4):
            key, text = _texts(value, 1, 2)
            (envs if number == 1 else annotations)[key] = text
        elif number == 2:
            container, host = _texts(value, 1, 2)
            mounts.append(Mount(container, host, any(n == 3 and v == 1 for n, v in _fields(_bytes(value)))))
        elif number == 3:
            devices.append(DeviceSpec(*_texts(value, 1, 2, 3)))
        elif number == 5:
            names.extend(_texts(value, 1))
    return ContainerAllocateResponse(envs, tuple(mounts), tuple(devices), annotations, tuple(names))


def _encoded_map(number: int, items: Mapping[str, str]) -> list[bytes]:
    return [_message(number, _text(1, key, always=True) + _text(2, items[key], always=True)) for key in sorted(items)]


def _encoded_mount(mount: Mount) -> bytes:
    flag = b"\x18\x01" if mount.read_only else b""
    return _text(1, mount.container_path) + _text(2, mount.host_path) + flag


def _encoded_device(device: DeviceSpec) -> bytes:
    return _text(1, device.container_path) + _text(2, device.host_path) + _text(3, device.permissions)


def _text(number: int, text: str, *, always: bool = False) -> bytes:
    return _message(number, text.encode()) if text or always else b""


def _message(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(raw):
        tag, position = _read_varint(raw, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _read_varint(raw, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _read_varint(raw, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire} in an allocation answer")
        if position + size > len(raw):
            raise ValueError("an allocation answer is cut off")
        yield number, raw[position : position + size]
        position += size


def _read_varint(raw: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(raw):
            raise ValueError("an allocation answer is cut off")
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number in an allocation answer is too long")


def _texts(value: int | bytes, *numbers: int) -> list[str]:
    found = {number: _bytes(item).decode() for number, item in _fields(_bytes(value)) if number in numbers}
    return [found.get(number, "") for number in numbers]


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where an allocation answer has a text")
    return value
