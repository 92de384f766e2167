"""Devices as a file describes them. They need no preparation; they are healthy while their device nodes are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from regauge.cdi import ContainerEdits
from regauge.driver.checks import missing_nodes
from regauge.driver.description import Description, Device
from regauge.driver.fields import Fields
from regauge.driver.kinds.interface import ClaimUse, Condition, Configs, Fact, Surroundings

_NOTHING = ContainerEdits()
_MESSAGE_LIMIT = 256


class StaticKind:
    """`DeviceKind` without any effect on the machine; other kinds begin with it and add what they know better."""

    FACTS: ClassVar[Mapping[str, Fact]] = {}
    CONFIGS: ClassVar[Configs] = {}

    def __init__(self, surroundings: Surroundings) -> None:
        self.around = surroundings

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only()
        return None

    async def discover(self, description: Description) -> tuple[Device, ...]:
        return description.devices

    async def prepare(self, device: Device, use: ClaimUse) -> ContainerEdits:
        return _NOTHING

    async def unprepare(self, device: Device, use: ClaimUse) -> None:
        return None

    async def health(self, devices: Sequence[Device]) -> Mapping[str, Condition]:
        return {device.name: self.condition(device) for device in devices}

    def condition(self, device: Device) -> Condition:
        """One device: what its health file says, then whether its device nodes are there."""
        reported = self._reported(device.health_file)
        if reported:
            return Condition(False, reported)
        for path, reason in missing_nodes(device, self.around.host):
            return Condition(False, f"device node {path}: {reason}")
        return Condition()

    def _reported(self, path: str) -> str:
        if not path:
            return ""
        try:
            return self.around.files.read(path)[:_MESSAGE_LIMIT].decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{path} cannot be read: {error.strerror or error}"
