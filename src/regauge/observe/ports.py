"""What the exporter asks of the world beside the API server: sources of readings. Pure; sources are in `observe.sources`.

A reading names a device as the source knows it. The families join readings with holdings (`observe.correlation`), so a
source needs to know nothing of pods or claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from regauge.model import NodeReport


class Measure(StrEnum):
    """What is measured of a device, in the unit that its name ends in. Each is a family of its own."""

    UTILIZATION = "utilization_ratio"  # 0 to 1, of the whole device or of the share that is told
    MEMORY_USED = "memory_used_bytes"
    MEMORY_TOTAL = "memory_total_bytes"
    POWER = "power_watts"
    TEMPERATURE = "temperature_celsius"


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One measurement of one device on one node.

    The device is told by as much as the source knows: `uuid`, `pci` (as the kernel writes it, `0000:3b:00.0`), or `device`
    (driver/pool/device of a published device, or the id that a device plugin lists). `share_id` where it is of one share,
    `container` (namespace, pod, container) where the source measured one container's part of a device, else None.
    `pod` is whom the source itself names as the holder: "" for nobody, None where it does not speak of pods.
    """

    node: str
    measure: Measure
    value: float
    source: str
    uuid: str = ""
    pci: str = ""
    device: str = ""
    share_id: str = ""
    container: tuple[str, str, str] | None = None
    pod: str | None = None


class Part(StrEnum):
    """The part of a driver that an error or a latency is of."""

    CONTROLLER = "controller"  # reconciles slices
    NODE_PLUGIN = "node-plugin"  # answers the kubelet: prepare, unprepare, allocate
    API = "api"  # requests to the API server
    KUBELET = "kubelet"  # the same calls as NODE_PLUGIN, as the kubelet counts and times them


@dataclass(frozen=True, slots=True)
class ErrorReading:
    """How often one call of a part of a driver has ended with one code since the driver's start. `code` is never OK.

    `call` is what was called: `NodePrepareResources`, `reconcile`, an HTTP verb. Both come from bounded sets.
    """

    driver: str
    node: str
    part: Part
    call: str
    code: str
    count: float


@dataclass(frozen=True, slots=True)
class LatencyReading:
    """The durations of one call of a part of a driver since its start, as a histogram.

    `buckets` are (upper bound in seconds, calls up to it), cumulative, rising, the last bound infinite. Readings with other
    bounds for the same call are shown as they are: nothing is interpolated.
    """

    driver: str
    node: str
    part: Part
    call: str
    buckets: tuple[tuple[float, float], ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class Trouble:
    """A source, or an endpoint of it, that could not be read now; `reason` is one of a few words, `text` for people."""

    source: str
    place: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Readings:
    """What one source told at one time. `reports` are nodes' own views, from the pod resources API."""

    source: str
    devices: tuple[DeviceReading, ...] = ()
    errors: tuple[ErrorReading, ...] = ()
    latencies: tuple[LatencyReading, ...] = ()
    reports: tuple[NodeReport, ...] = ()
    troubles: tuple[Trouble, ...] = ()


class Source(Protocol):
    """Something that tells of devices or drivers: an exporter that is scraped, a library, a file, the pod resources API.

    `read` is called on the exporter's loop, one call at a time, every interval, and is given up after the interval; it
    may be called again after it failed or was cancelled. It raises nothing for what may happen outside: a place that does
    not answer is a `Trouble`, and what the others told is given back all the same. What it reads is bounded.
    """

    @property
    def name(self) -> str:
        """A short name, unique among the sources: a label of the metrics."""

    async def read(self, now_s: float) -> Readings:
        """What holds at `now_s` (seconds since 1970)."""

    async def close(self) -> None: ...
