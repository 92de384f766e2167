"""Metrics of what devices do: readings of sources, joined with who holds the device, down to the container and the claim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from regauge.audit import Layer
from regauge.inventory import Advertisement, EstateDevice, Stack
from regauge.observe.correlation import Holding
from regauge.observe.families import Family, Scope, Series, Type
from regauge.observe.families_health import key_of
from regauge.observe.metric_moment import Moment
from regauge.observe.ports import DeviceReading, Measure

LABELS = (
    "source",
    "node",
    "uuid",
    "pci_bus_id",
    "stack",
    "driver",
    "pool",
    "device",
    "resource",
    "namespace",
    "pod",
    "container",
    "claim",
    "request",
    "share_id",
)

_TEXTS: Mapping[Measure, str] = {
    Measure.UTILIZATION: "How busy a device is, from 0 to 1",
    Measure.MEMORY_USED: "Memory of a device that is in use",
    Measure.MEMORY_TOTAL: "Memory of a device",
    Measure.POWER: "Power that a device draws",
    Measure.TEMPERATURE: "Temperature of a device",
}
_UNITS: Mapping[Measure, str] = {
    Measure.UTILIZATION: "ratio",
    Measure.MEMORY_USED: "bytes",
    Measure.MEMORY_TOTAL: "bytes",
    Measure.POWER: "watts",
    Measure.TEMPERATURE: "celsius",
}


RIGHT, MISSING, WRONG = "right", "missing", "wrong"
"""What a source says of the holder of a device that is held: one of its pods, nobody, or a pod that does not hold it."""


class _Devices:
    """Devices by what a source may call them."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._by_name: dict[tuple[str, str], EstateDevice] = {}
        for device in moment.devices:
            for one in device.advertisements:
                uuid = one.identity.get("uuid", "")
                for name in (one.name, uuid, one.identity.get("pci", "").lower()):
                    if name:
                        self._by_name[device.node, name] = device
                if uuid:
                    self._by_name["", uuid] = device  # for a source that does not tell the node

    def find(self, reading: DeviceReading) -> EstateDevice | None:
        for name in (reading.uuid, reading.pci.lower(), reading.device):
            found = self._by_name.get((reading.node, name)) if name else None
            if found is not None:
                return found
        return None

    def holdings(self, device: EstateDevice, reading: DeviceReading) -> list[Holding]:
        """Who holds the device, or the part of it that was measured."""
        rows = [row for one in device.advertisements for row in self._moment.holdings_of.get(key_of(one), ())]
        if reading.share_id:
            rows = [row for row in rows if row.share_id == reading.share_id]
        if reading.container is not None:
            rows = [row for row in rows if (row.namespace, row.pod, row.container) == reading.container]
        return rows


def readings_of(measure: Measure) -> Callable[[Moment], Iterator[Series]]:
    """The samples of one measure."""

    def samples(moment: Moment) -> Iterator[Series]:
        wanted = [one for source in moment.readings for one in source.devices if one.measure is measure]
        if not wanted:
            return
        devices = _Devices(moment)
        found: dict[tuple[str, ...], float] = {}
        for reading in wanted:
            device = devices.find(reading)
            for labels in _labels(devices, device, reading):
                found[labels] = reading.value
        yield from sorted(found.items())

    return samples


def _labels(devices: _Devices, device: EstateDevice | None, reading: DeviceReading) -> Iterator[tuple[str, ...]]:
    """One set for each container that holds the device, or one for the device alone."""
    if device is None:
        yield (reading.source, reading.node, reading.uuid, reading.pci, "", "", "", reading.device, *_NOBODY)
        return
    known = {kind: value for one in device.advertisements for kind, value in one.identity.items()}
    head = (
        reading.source,
        reading.node or device.node,
        known.get("uuid", reading.uuid),
        known.get("pci", reading.pci),
    )
    rows = devices.holdings(device, reading)
    if not rows:
        yield (*head, *_advertised(device.advertisements[0]), *_of_container(reading))
    for row in rows:
        place = (row.stack.value, row.driver, row.pool, row.device)
        yield (*head, *place, row.resource, row.namespace, row.pod, row.container, row.claim, row.request, row.share_id)


_NOBODY = ("",) * 7


def _of_container(reading: DeviceReading) -> tuple[str, ...]:
    """A container that the source names and that, by all that is known, does not hold the device: its word is shown."""
    return ("", *(reading.container or ("", "", "")), "", "", reading.share_id)


def _advertised(one: Advertisement) -> tuple[str, str, str, str]:
    if one.stack is Stack.DEVICE_PLUGIN:
        return one.stack.value, "", "", one.name
    driver, pool, device = one.name.split("/", 2)
    return one.stack.value, driver, pool, device


def attribution(moment: Moment) -> Iterator[Series]:
    """Devices that are held, by what the source itself says of the holder: once for each stack that the device is held by.

    A source that speaks of no pod at all is not expected to.
    """
    devices = _Devices(moment)
    found: dict[tuple[str, ...], set[tuple[str, str]]] = defaultdict(set)
    for source in moment.readings:
        speaks = any(one.pod is not None for one in source.devices)
        for reading in source.devices if speaks else ():
            device = devices.find(reading)
            rows = [row for row in devices.holdings(device, reading) if row.pod] if device is not None else []
            for stack in {row.stack for row in rows}:
                pods = {row.pod for row in rows if row.stack is stack}
                word = MISSING if not reading.pod else RIGHT if reading.pod in pods else WRONG
                found[reading.source, stack.value, word].add((reading.node, device.identity if device else ""))
    yield from ((labels, len(held)) for labels, held in sorted(found.items()))


def sources(moment: Moment) -> Iterator[Series]:
    """1 for a source that told what it was asked for; 0 with trouble."""
    for one in moment.readings:
        yield (one.source,), float(not one.troubles)


def troubles(moment: Moment) -> Iterator[Series]:
    found: dict[tuple[str, ...], int] = defaultdict(int)
    for one in moment.readings:
        for trouble in one.troubles:
            found[one.source, trouble.reason] += 1
    yield from sorted(found.items())


FAMILIES = (
    *(
        Family(
            f"device_{measure.value}",
            Type.GAUGE,
            f"{_TEXTS[measure]}, with one series for each container that holds it, and one without a pod where nobody does:"
            " the same value for all who share it, so take max by (uuid), not sum.",
            LABELS,
            Layer.INJECTION,
            readings_of(measure),
            _UNITS[measure],
            Scope.NODE,
        )
        for measure in Measure
    ),
    Family(
        "source_attributed_devices", Type.GAUGE,
        "Devices that are held, by whether the source itself names their pod: right, missing, or wrong. An exporter that asks"
        " the kubelet for counted devices only names nobody for those of claims.",
        ("source", "stack", "attribution"), Layer.INJECTION, attribution, scope=Scope.NODE,
    ),
    Family("source_up", Type.GAUGE, "1 when a source told all it was asked for at the last look.", ("source",),
           Layer.INSTALLATION, sources, scope=Scope.NODE),
    Family("source_troubles", Type.GAUGE, "Places of a source that could not be read at the last look, by reason.",
           ("source", "reason"), Layer.INSTALLATION, troubles, scope=Scope.NODE),
)  # fmt: skip
