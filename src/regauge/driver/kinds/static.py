"""Devices as a file describes them. They need no preparation; they are healthy while their device nodes are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regauge.cdi import ContainerEdits
from regauge.driver.checks import missing_nodes
from regauge.driver.description import Device
from regauge.driver.kinds.interface import ClaimUse, Condition, Surroundings

_NOTHING = ContainerEdits()
_MESSAGE_LIMIT = 256


class StaticKind:
    """`DeviceKind` without any effect on the machine."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._files = surroundings.files
        self._host = surroundings.host

    async def discover(self, described: Sequence[Device]) -> tuple[Device, ...]:
        return tuple(described)

    async def prepare(self, device: Device, use: ClaimUse) -> ContainerEdits:
        return _NOTHING

    async def unprepare(self, device: Device, use: ClaimUse) -> None:
        return None

    async def health(self, devices: Sequence[Device]) -> Mapping[str, Condition]:
        return {device.name: self._condition(device) for device in devices}

    def _condition(self, device: Device) -> Condition:
        reported = self._reported(device.health_file)
        if reported:
            return Condition(False, reported)
        for path, reason in missing_nodes(device, self._host):
            return Condition(False, f"device node {path}: {reason}")
        return Condition()

    def _reported(self, path: str) -> str:
        if not path:
            return ""
        try:
            return self._files.read(path)[:_MESSAGE_LIMIT].decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{path} cannot be read: {error.strerror or error}"
