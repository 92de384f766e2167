"""Devices that are not there: as many as wanted, breaking and recovering by a script. For trials, tests and measurements.

A container gets one variable for each; claims may carry `MockConfig`, to try what opaque parameters do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import msgspec

from regauge.base import InputError
from regauge.cdi import ContainerEdits
from regauge.driver.description import API_VERSION, Description, Device, Identity
from regauge.driver.fields import Fields
from regauge.driver.kinds.found import FoundKind
from regauge.driver.kinds.interface import Bound, ClaimUse, Condition, Configs, Fact, Surroundings
from regauge.driver.reports import Report
from regauge.driver.rules import Found

COUNT_LIMIT = 100_000
NUMA_NODES_LIMIT = 64
SECONDS_LIMIT = 10_000_000


class MockConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Opaque parameters: variables for the container, texts with which prepare and bind fail, and how long a Pod waits."""

    env: dict[str, str] = {}
    fail: str = ""
    bind_fail: str = ""
    bind_after_seconds: int = 0


@dataclass(frozen=True, slots=True)
class _Step:
    """From `after_s` on, the devices of `pattern` are so."""

    after_s: int
    pattern: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class _Settings:
    count: int
    prefix: str
    numa_nodes: int
    steps: tuple[_Step, ...]
    repeat_s: int


class MockKind(FoundKind):
    """`DeviceKind` of imaginary devices."""

    FACTS: ClassVar[Mapping[str, Fact]] = {"index": 0, "numaNode": 0}
    CONFIGS: ClassVar[Configs] = {(API_VERSION, "MockConfig"): MockConfig}

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._start_s = surroundings.clock.monotonic_s()
        self._last: Description | None = None
        self._devices: tuple[Device, ...] = ()
        self._asked_s: dict[str, float] = {}

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only("count", "prefix", "numaNodes", "health", "repeatSeconds")
        steps = tuple(_step(fields) for fields in discover.mappings("health"))
        return _Settings(
            count=_between(discover, "count", 1, 1, COUNT_LIMIT),
            prefix=discover.text("prefix", "mock"),
            numa_nodes=_between(discover, "numaNodes", 1, 1, NUMA_NODES_LIMIT),
            steps=tuple(sorted(steps, key=lambda step: step.after_s)),
            repeat_s=_between(discover, "repeatSeconds", 0, 0, SECONDS_LIMIT),
        )

    async def discover(self, description: Description) -> tuple[Device, ...]:
        if description is not self._last:
            self._devices, self._last = await super().discover(description), description
        return self._devices

    def find(self, description: Description) -> Iterable[Found]:
        settings = description.settings
        assert isinstance(settings, _Settings)
        return _all(settings)

    async def prepare(self, device: Device, use: ClaimUse) -> ContainerEdits:
        self._asked_s.pop(use.uid, None)
        configs = [one for one in use.config if isinstance(one, MockConfig)]
        if failing := next((one.fail for one in reversed(configs) if one.fail), ""):
            raise InputError(failing)
        variables = {name: value for one in configs for name, value in one.env.items()}
        return ContainerEdits(env=tuple(f"{name}={value}" for name, value in variables.items()))

    async def report(self, device: Device, use: ClaimUse) -> Report:
        return Report(data={"device": device.name, "claim": use.name})

    async def bind(self, device: Device, use: ClaimUse) -> Bound | None:
        configs = [one for one in use.config if isinstance(one, MockConfig)]
        first_s = self._asked_s.setdefault(use.uid, self.around.clock.monotonic_s())
        if self.around.clock.monotonic_s() - first_s < max((one.bind_after_seconds for one in configs), default=0):
            return None
        failing = next((one.bind_fail for one in reversed(configs) if one.bind_fail), "")
        return Bound(not failing, failing or "attached")

    async def health(self, devices: Sequence[Device]) -> Mapping[str, Condition]:
        settings = self._last.settings if self._last else None
        if not isinstance(settings, _Settings) or not settings.steps:
            return await super().health(devices) if any(device.health_file for device in devices) else {}
        now_s = self.around.clock.monotonic_s() - self._start_s
        now_s = now_s % settings.repeat_s if settings.repeat_s else now_s
        due = [step for step in settings.steps if step.after_s <= now_s]
        return {device.name: self._by_script(device, due) for device in devices}

    def _by_script(self, device: Device, due: Sequence[_Step]) -> Condition:
        step = next((one for one in reversed(due) if fnmatchcase(device.name, one.pattern)), None)
        return step.condition if step else self.condition(device)


def _all(settings: _Settings) -> Iterator[Found]:
    width = len(str(settings.count - 1))
    for index in range(settings.count):
        name = f"{settings.prefix}-{index:0{width}}"
        numa_node = index % settings.numa_nodes
        yield Found(
            name=name,
            facts={"index": index, "numaNode": numa_node},
            identity=Identity(uuid=f"MOCK-{name}"),
            numa_node=numa_node,
            edits=ContainerEdits(env=(f"MOCK_{index}={name}",)),
        )


def _step(fields: Fields) -> _Step:
    fields.only("afterSeconds", "devices", "healthy", "message")
    healthy = fields.flag("healthy", False)
    message = "" if healthy else fields.text("message", "broken by its script")
    return _Step(
        _between(fields, "afterSeconds", 0, 0, SECONDS_LIMIT), fields.text("devices", "*"), Condition(healthy, message)
    )


def _between(fields: Fields, name: str, default: int, low: int, high: int) -> int:
    value = fields.number(name, default)
    if value is None or not low <= value <= high:
        raise fields.wrong(name, f"{value} is out of range", f"{low} to {high}")
    return value
