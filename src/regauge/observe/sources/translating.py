"""From the samples of an exporter or a driver to readings, by what `mappings` says. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from regauge.model import NodeReport, PluginDeviceReport
from regauge.observe.ports import DeviceReading, ErrorReading, LatencyReading, Measure, Part
from regauge.observe.sources.mappings import CallMetric, DeviceMetric, Mappings
from regauge.observe.sources.text import Sample, base_name

DRIVER_INFO, DRIVER_DEVICE = "regauge_driver_info", "regauge_driver_device_healthy"
OF_OUR_DRIVER = frozenset({DRIVER_INFO, DRIVER_DEVICE})
_PCI_LENGTH = len("0000:3b:00.0")
_FINE = ("OK", "ok")


@dataclass(frozen=True, slots=True)
class Place:
    """Where samples come from: the name of the source, the node and the driver that answer there ("" where the samples
    themselves tell it)."""

    source: str
    node: str = ""
    driver: str = ""


def device_readings(samples: Iterable[Sample], mappings: Mappings, place: Place) -> tuple[DeviceReading, ...]:
    """What the samples tell of devices. Infinite values are left out."""
    by_name: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_name[sample.name].append(sample)
    found: dict[tuple[str, str, str, str, Measure], DeviceReading] = {}
    for mapping in mappings.devices:
        for sample in by_name.get(mapping.metric, ()):
            reading = _of_device(sample, mapping, place)
            if reading is not None:
                key = (reading.node, reading.uuid, reading.pci, reading.device, reading.measure)
                found.setdefault(key, reading)
    return tuple(found.values())


def _of_device(sample: Sample, mapping: DeviceMetric, place: Place) -> DeviceReading | None:
    labels = sample.labels
    if any(labels.get(name) for name in mapping.without) or not math.isfinite(sample.value):
        return None
    if any(labels.get(name, "") != value for name, value in mapping.where.items()):
        return None
    uuid = labels.get(mapping.uuid, "")
    if uuid and mapping.uuid_prefix and not uuid.startswith(mapping.uuid_prefix):
        uuid = f"{mapping.uuid_prefix}{uuid}"
    pci, device = pci_address(labels.get(mapping.pci, "")), labels.get(mapping.device, "")
    if not (uuid or pci or device):
        return None
    return DeviceReading(
        node=place.node or labels.get(mapping.node, ""),
        measure=mapping.measure,
        value=sample.value * mapping.scale,
        source=place.source,
        uuid=uuid,
        pci=pci,
        device=device,
        pod=labels.get(mapping.pod) if mapping.pod else None,
    )


def pci_address(text: str) -> str:
    """As the kernel writes it: small letters, and a domain of four digits where more are zero."""
    lower = text.strip().lower()
    longer = len(lower) - _PCI_LENGTH
    return lower[longer:] if longer > 0 and not lower[:longer].strip("0") else lower


@dataclass(slots=True)
class _Durations:
    """The histogram of one call, summed over its codes."""

    buckets: dict[float, float] = field(default_factory=lambda: defaultdict(float))
    sum_s: float = 0.0


_Call = tuple[str, Part, str]


def call_readings(
    samples: Iterable[Sample], mappings: Mappings, place: Place
) -> tuple[tuple[ErrorReading, ...], tuple[LatencyReading, ...]]:
    """What the samples tell of a driver's calls: how often they failed, and how long they took.

    Calls of nobody that is named are left out: a kubelet and every exporter in Go tell of requests of their own.
    """
    errors: dict[tuple[_Call, str], float] = defaultdict(float)
    durations: dict[_Call, _Durations] = defaultdict(_Durations)
    by_metric: dict[str, list[CallMetric]] = defaultdict(list)
    for mapping in mappings.calls:
        by_metric[mapping.metric].append(mapping)
    for sample in samples:
        for mapping in by_metric.get(sample.name, ()) or by_metric.get(base_name(sample.name), ()):
            if _matches(sample.labels, mapping):
                call = _call(sample.labels, mapping, place)
                if call[0]:
                    _add(sample, mapping, call, errors, durations)
    node = place.node
    failed = tuple(
        ErrorReading(driver, node, part, call, code, count) for ((driver, part, call), code), count in errors.items()
    )
    took = tuple(
        LatencyReading(driver, node, part, call, tuple(sorted(one.buckets.items())), one.sum_s)
        for (driver, part, call), one in durations.items()
        if math.inf in one.buckets
    )
    return failed, took


def _matches(labels: Mapping[str, str], mapping: CallMetric) -> bool:
    if any(labels.get(name, "") == value for name, value in mapping.unless.items()):
        return False
    return all(labels.get(name, "") == value for name, value in mapping.where.items())


def _call(labels: Mapping[str, str], mapping: CallMetric, place: Place) -> _Call:
    """A kubelet tells the whole method of gRPC; its last part is the call."""
    name = mapping.named or labels.get(mapping.call, "").rpartition("/")[2]
    return labels.get(mapping.driver) or place.driver, mapping.part, name


def _add(
    sample: Sample,
    mapping: CallMetric,
    call: _Call,
    errors: dict[tuple[_Call, str], float],
    durations: dict[_Call, _Durations],
) -> None:
    code = sample.labels.get(mapping.code, "") if mapping.code else ""
    if mapping.type == "histogram":
        if sample.name.endswith("_bucket"):
            durations[call].buckets[_bound(sample.labels.get("le", ""))] += sample.value
        elif sample.name.endswith("_sum"):
            durations[call].sum_s += sample.value
        elif sample.name.endswith("_count") and code and not fine(code):
            errors[(call, code)] += sample.value
    elif mapping.type == "errors":
        errors[(call, code or "error")] += sample.value
    elif code and not fine(code):
        errors[(call, code)] += sample.value


def fine(code: str) -> bool:
    """Whether a code of gRPC, HTTP or our own says that the call went well."""
    return code in _FINE or (len(code) == 3 and code[0] in "123" and code.isdecimal())


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf


def named(place: Place, samples: Iterable[Sample]) -> Place:
    """The place with what our own driver says of itself: its name, and the node that it serves."""
    for sample in samples:
        if sample.name == DRIVER_INFO:
            return replace(
                place,
                driver=place.driver or sample.labels.get("driver", ""),
                node=sample.labels.get("node", place.node),
            )
    return place


def driver_reports(samples: Iterable[Sample]) -> Iterator[NodeReport]:
    """What our driver tells of its own devices: health and identity, which no kubelet tells."""
    found = tuple(samples)
    info = next((one.labels for one in found if one.name == DRIVER_INFO), None)
    if info is None:
        return
    listed: list[PluginDeviceReport] = []
    identities: dict[tuple[str, str, str], Mapping[str, str]] = {}
    for sample in found:
        if sample.name != DRIVER_DEVICE:
            continue
        name, identity = sample.labels.get("device", ""), _identity(sample.labels)
        if sample.labels.get("stack") == "device-plugin":
            listed.append(PluginDeviceReport(info.get("resource", ""), name, bool(sample.value), identity))
        else:
            identities[(info.get("driver", ""), info.get("pool", ""), name)] = identity
    yield NodeReport(info.get("node", ""), tuple(listed), (), identities)


def _identity(labels: Mapping[str, str]) -> Mapping[str, str]:
    told = {"uuid": labels.get("uuid", ""), "pci": labels.get("pci", ""), "device": labels.get("numbers", "")}
    return {name: value for name, value in told.items() if value}
