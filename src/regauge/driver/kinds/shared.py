"""Devices that several pods use at once: by claims with a part of the capacity each (KEP-5075), by the device plugin as
replicas of one device.

A container is told how much it got: `SHARE_DEVICE_CAPACITY` for each capacity that is given out in parts. Keeping to it is up
to the program, or to what the device enforces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from regauge.base import InputError, Where
from regauge.cdi import ContainerEdits
from regauge.driver.description import Description, Device, Identity, Stack
from regauge.driver.fields import Fields
from regauge.driver.kinds.interface import ClaimUse
from regauge.driver.kinds.static import StaticKind
from regauge.driver.names import device_name_problem

REPLICAS_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class _Settings:
    replicas: int = 1


class SharedKind(StaticKind):
    """`DeviceKind` of shared devices. `discover.replicas` says how often the device plugin offers each of its devices."""

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only("replicas")
        replicas = discover.number("replicas", 1) or 0
        if not 1 <= replicas <= REPLICAS_LIMIT:
            raise discover.wrong("replicas", f"{replicas} is out of range", f"1 to {REPLICAS_LIMIT}")
        return _Settings(replicas)

    async def discover(self, description: Description) -> tuple[Device, ...]:
        assert isinstance(description.settings, _Settings)
        replicas = description.settings.replicas
        return tuple(part for device in description.devices for part in _offered(device, replicas))

    async def prepare(self, device: Device, use: ClaimUse) -> ContainerEdits:
        prefix = _variable("SHARE", device.name)
        return ContainerEdits(env=tuple(f"{prefix}_{_variable(name)}={value}" for name, value in use.consumed.items()))


def _offered(device: Device, replicas: int) -> Iterator[Device]:
    if device.stack is Stack.DRA:
        if not device.shared:
            where = Where(line=device.line, object=f"device {device.name}", field="shared")
            raise InputError("a device of the kind shared is not shared", where=where, fix="add shared: true")
        yield replace(device, part_of=device.name)
        return
    for index in range(replicas):
        name = device.name if replicas == 1 else f"{device.name}-{index}"
        if problem := device_name_problem(name):
            raise InputError(f"{name!r} cannot be the name of a replica: {problem}", fix="use a shorter name")
        yield replace(device, name=name, identity=_identity(device.identity, index), part_of=device.name)


def _identity(identity: Identity, index: int) -> Identity:
    """The first one stands for the device; the others are told apart from it."""
    if index == 0:
        return identity
    return Identity(uuid=f"{identity.uuid}::{index}") if identity.uuid else Identity()


def _variable(*parts: str) -> str:
    return re.sub(r"\W", "_", "_".join(parts)).upper()
