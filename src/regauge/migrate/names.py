"""What the name of a counted resource says: a partition of a fixed profile, a share of a device, a network interface."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

from regauge.migrate.labels import attribute_is


class _Partition(msgspec.Struct, frozen=True):
    pattern: str
    selectors: tuple[tuple[str, str, str], ...]
    replace: dict[str, str]
    source: str


class _Shared(msgspec.Struct, frozen=True):
    pattern: str
    why: str
    source: str


class _Network(msgspec.Struct, frozen=True):
    pattern: str
    source: str


class _Table(msgspec.Struct):
    partitions: tuple[_Partition, ...]
    shared: tuple[_Shared, ...]
    network: tuple[_Network, ...]


@cache
def _table() -> _Table:
    return msgspec.json.decode(files("regauge.migrate").joinpath("data/names.json").read_bytes(), type=_Table)


def partition_selectors(resource_name: str) -> tuple[str, ...]:
    """The selectors for the partition that a name stands for; empty for a name that says nothing of partitions."""
    for item in _table().partitions:
        found = re.fullmatch(item.pattern, resource_name)
        if found:
            groups = found.groupdict()
            for old, new in item.replace.items():
                groups = {name: value.replace(old, new) for name, value in groups.items()}
            return tuple(
                attribute_is(driver, attribute, value.format(**groups)) for driver, attribute, value in item.selectors
            )
    return ()


def shared_why(resource_name: str) -> str | None:
    """Why a name that counts shares of devices has no plain equivalent; None for a name that counts whole ones."""
    return next((item.why for item in _table().shared if re.fullmatch(item.pattern, resource_name)), None)


def is_network(resource_name: str) -> bool:
    """Whether a name counts network interfaces."""
    return any(re.fullmatch(item.pattern, resource_name) for item in _table().network)
