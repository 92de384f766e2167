"""The driver in numbers, for Prometheus (needs the extra `driver`)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from regauge.driver.description import Stack
from regauge.driver.notices import Notice, Tell
from regauge.driver.process import Driver

PREFIX = "regauge_driver"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# A no-op takes a millisecond, the kubelet gives up after 45 s.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 45.0)


class Metrics:
    """`Meter`, and a `Tell` that counts notices. Its gauges look at the driver when they are asked for."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._calls = Histogram(
            f"{PREFIX}_call_duration_seconds",
            "Calls of the kubelet, and reconciliations of the slices.",
            ("call", "code"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._requests = Histogram(
            f"{PREFIX}_request_duration_seconds",
            "Requests to the API server; of watches only those that failed.",
            ("verb", "resource", "code"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._notices = Counter(
            f"{PREFIX}_notices", "Notices by their code and level.", ("code", "level"), registry=self._registry
        )

    def took(self, call: str, code: str, duration_s: float) -> None:
        self._calls.labels(call, code).observe(duration_s)

    def asked(self, verb: str, resource: str, code: str, duration_s: float) -> None:
        self._requests.labels(verb, resource, code).observe(duration_s)

    def hear(self, tell: Tell) -> Tell:
        """The same `Tell`, counted."""

        def told(notice: Notice) -> None:
            self._notices.labels(notice.code, notice.level).inc()
            tell(notice)

        return told

    def watch(self, driver: Driver) -> None:
        """Show this driver from now on. Once."""
        self._registry.register(_Gauges(driver))

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _Gauges(Collector):
    """The present state of a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._devices()
        fleet, claims = self._driver.fleet, self._driver.claims.prepared
        tainted = [name for name in fleet.taints if fleet.owners.get(name) is Stack.DRA]
        yield _gauge("tainted_devices", "Devices with a taint from health.", len(tainted))
        yield _gauge("prepared_claims", "Claims that are prepared.", len(claims))
        held = {device.device for claim in claims.values() for device in claim.devices}
        yield _gauge("prepared_devices", "Devices in prepared claims.", len(held))
        if self._driver.publisher is not None:
            yield _gauge("published_devices", "Devices in published slices.", len(self._driver.publisher.published))
            yield _gauge("published_slices", "Published slices.", self._driver.publisher.slices)
            yield _gauge("slice_generation", "Generation of the pool.", self._driver.publisher.generation)

    def _devices(self) -> Iterator[GaugeMetricFamily]:
        fleet = self._driver.fleet
        described = fleet.description
        names = (described.driver, described.resource, fleet.node, fleet.pool)
        labels = ("driver", "resource", "node", "pool")
        info = GaugeMetricFamily(f"{PREFIX}_info", "The names that it goes by; always 1.", labels=labels)
        info.add_metric(names, 1)
        each = GaugeMetricFamily(
            f"{PREFIX}_device_healthy",
            "Each device: 1 if it works, else 0.",
            labels=("device", "stack", "uuid", "pci", "numbers"),
        )
        counts: Tally[tuple[str, str]] = Tally()
        for one in described.devices:
            healthy = fleet.condition(one.name).healthy
            stack, known = str(fleet.owners.get(one.name, "none")), one.identity
            each.add_metric((one.name, stack, known.uuid, known.pci, known.numbers), healthy)
            counts[(stack, "healthy" if healthy else "unhealthy")] += 1
        devices = GaugeMetricFamily(
            f"{PREFIX}_devices", "Devices by the stack that has them and by health.", labels=("stack", "health")
        )
        for counted, count in sorted(counts.items()):
            devices.add_metric(counted, count)
        yield from (info, each, devices)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)
