"""Names: kinds, qualified device names, Kubernetes annotations that ask for devices, names of spec files.

A qualified name is "vendor/class=device". Source: the CDI specification and what its reference library accepts; lengths
are not limited there, and so not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from regauge.base import InputError

ANNOTATION_PREFIX = "cdi.k8s.io/"
ANNOTATION_NAME_LIMIT_BYTES = 63
SPEC_EXTENSIONS = (".json", ".yaml")

_KIND_PART = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_ANNOTATION_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")


class DeviceName(NamedTuple):
    """The parts of a qualified device name. `str()` puts them together."""

    vendor: str
    class_name: str
    device: str

    def __str__(self) -> str:
        return f"{self.vendor}/{self.class_name}={self.device}"


def kind_part_problem(what: str, name: str) -> str | None:
    """Why `name` cannot be a vendor or a class (`what` says which), or None."""
    if _KIND_PART.fullmatch(name):
        return None
    if not name:
        return f"the {what} is missing: a kind is vendor/class"
    return (
        f"{name!r} cannot be a {what}: it starts with a letter, ends with a letter or digit,"
        " and has only A-Z, a-z, 0-9, '_', '.', '-' inside"
    )


def device_problem(name: str) -> str | None:
    """Why `name` cannot be the unqualified name of a device, or None."""
    if _DEVICE.fullmatch(name):
        return None
    if not name:
        return "the device name is empty"
    return (
        f"{name!r} cannot be a device name: it starts and ends with a letter or digit,"
        " and has only A-Z, a-z, 0-9, '_', '.', ':', '-' inside"
    )


def split_kind(kind: str) -> tuple[str, str]:
    """ "vendor/class" as (vendor, class), cut at the first slash; ("", kind) when it is not of that form."""
    vendor, slash, class_name = kind.partition("/")
    if not (vendor and slash and class_name):
        return "", kind
    return vendor, class_name


def split_device(name: str) -> DeviceName:
    """The parts of a device name without looking at their letters; an unqualified name has empty vendor and class."""
    qualifier, equals, device = name.partition("=")
    if name.startswith("/") or not (qualifier and equals and device):
        return DeviceName("", "", name)
    vendor, class_name = split_kind(qualifier)
    return DeviceName(vendor, class_name, device) if vendor else DeviceName("", "", name)


def parse_device(name: str) -> DeviceName:
    """A qualified device name in its parts. Raises `InputError` when it is not qualified or a part has a wrong letter."""
    parts = split_device(name)
    if not parts.vendor:
        raise InputError(f"{name!r} is not a qualified device name", fix="write vendor/class=device")
    problem = (
        kind_part_problem("vendor", parts.vendor)
        or kind_part_problem("class", parts.class_name)
        or device_problem(parts.device)
    )
    if problem:
        raise InputError(f"{name!r} is not a qualified device name: {problem}")
    return parts


def is_qualified(name: str) -> bool:
    """Whether `name` is a valid qualified device name."""
    parts = split_device(name)
    return bool(
        _KIND_PART.fullmatch(parts.vendor)
        and _KIND_PART.fullmatch(parts.class_name)
        and _DEVICE.fullmatch(parts.device)
    )


def annotation_key(plugin: str, device_id: str) -> str:
    """The annotation under which a plugin asks for a device. `plugin` is by custom "vendor.class".

    Raises `InputError` when the name is empty, over 63 bytes or has a letter that Kubernetes refuses.
    """
    if not plugin:
        raise InputError("the plugin name of a CDI annotation is empty")
    if not device_id:
        raise InputError("the device ID of a CDI annotation is empty")
    name = f"{plugin}_{device_id.replace('/', '_')}"
    if len(name.encode()) > ANNOTATION_NAME_LIMIT_BYTES:
        raise InputError(
            f"the annotation name {name!r} is longer than {ANNOTATION_NAME_LIMIT_BYTES} bytes",
            fix="shorten the plugin name or the device ID",
        )
    if not _ANNOTATION_NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be an annotation name: it starts and ends with a letter or digit,"
            " and has only A-Z, a-z, 0-9, '_', '.', '-' inside"
        )
    return ANNOTATION_PREFIX + name


def annotate(annotations: Mapping[str, str], plugin: str, device_id: str, devices: Sequence[str]) -> dict[str, str]:
    """`annotations` and one more that asks for `devices` (qualified names). Raises `InputError`: bad name, key in use."""
    key = annotation_key(plugin, device_id)
    if key in annotations:
        raise InputError(f"the annotation {key!r} is in use", fix="choose another device ID")
    for device in devices:
        parse_device(device)
    return {**annotations, key: ",".join(devices)}


def annotated_devices(annotations: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(keys, devices) of all CDI annotations. Raises `InputError` if any item is not a qualified name, also an empty one."""
    keys: list[str] = []
    devices: list[str] = []
    for key, value in annotations.items():
        if not key.startswith(ANNOTATION_PREFIX):
            continue
        for device in value.split(","):
            if not is_qualified(device):
                raise InputError(
                    f"annotation {key}: {device!r} is not a qualified device name",
                    fix="write vendor/class=device, separated by commas, without spaces",
                )
            devices.append(device)
        keys.append(key)
    return keys, devices


def spec_name(kind: str, transient_id: str = "") -> str:
    """The customary file name, without extension, of a spec of this kind; with an ID, of a transient one.

    Raises `InputError` when the kind is not vendor/class.
    """
    vendor, class_name = split_kind(kind)
    if not vendor:
        raise InputError(f"{kind!r} is not a kind", fix="write vendor/class")
    name = f"{vendor}-{class_name}"
    return f"{name}_{transient_id.replace('/', '_')}" if transient_id else name


def is_spec_file(name: str) -> bool:
    """Whether runtimes read a file of this name in a spec directory: only .json and .yaml, in small letters."""
    return name.endswith(SPEC_EXTENSIONS)


def spec_file_name(name: str) -> str:
    """`name` with .yaml behind it, unless it says .json or .yaml itself. Raises `InputError` if it is a path."""
    if not name or "/" in name or name in (".", ".."):
        raise InputError(f"{name!r} cannot be the name of a spec file", fix="give a name without directories")
    return name if is_spec_file(name) else name + ".yaml"
