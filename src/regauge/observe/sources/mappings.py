"""Which metrics of which exporters tell what, as data: `observe/data/exporters.json`, and what a user adds in a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from regauge.base import InputError, Where
from regauge.model.manifest_yaml import read_yaml
from regauge.observe.ports import Measure, Part


class DeviceMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A metric that measures a device: `value * scale` is in the unit of the measure.

    `uuid`, `pci`, `device` and `node` are the labels that name it; at least one of the first three is told. Samples that
    have one of the labels `without` are of a part of the device, which the exporter does not name: they are left out.
    `pod` is the label in which the exporter itself names the pod that holds the device, if it does. `of` is the exporter,
    for people. Of several metrics with one measure of one device the first in the list counts.
    """

    metric: str
    measure: Measure
    of: str = ""
    scale: float = 1.0
    uuid: str = ""
    uuid_prefix: str = ""
    pci: str = ""
    device: str = ""
    node: str = ""
    pod: str = ""
    where: Mapping[str, str] = {}
    without: tuple[str, ...] = ()


class CallMetric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A metric that tells of the calls of a driver.

    `type`: a `histogram` of durations, whose counts by `code` are errors too, a `counter` by `code`, or a counter of
    `errors` alone. `call` is the label with the name of the call, or it is `named` so; `driver` the label with the driver,
    where the metric tells of several.
    """

    metric: str
    type: str
    part: Part
    of: str = ""
    call: str = ""
    named: str = ""
    code: str = ""
    driver: str = ""
    where: Mapping[str, str] = {}
    unless: Mapping[str, str] = {}


class Mappings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is understood."""

    devices: tuple[DeviceMetric, ...] = ()
    calls: tuple[CallMetric, ...] = ()

    def names(self) -> frozenset[str]:
        """The metrics that are looked at."""
        return frozenset((*(one.metric for one in self.devices), *(one.metric for one in self.calls)))

    def __add__(self, other: Mappings) -> Mappings:
        return Mappings(devices=(*self.devices, *other.devices), calls=(*self.calls, *other.calls))


@cache
def known_mappings() -> Mappings:
    """What ships with regauge."""
    data = files("regauge.observe").joinpath("data/exporters.json").read_bytes()
    return msgspec.json.decode(data, type=Mappings)


def read_mappings(data: bytes, file: str) -> Mappings:
    """A user's own, in the form of the shipped ones, YAML or JSON. Raises `InputError` that names file and field."""
    documents = [document for document, _, _ in read_yaml(data, file) if document is not None]
    if len(documents) != 1:
        raise InputError("one document with devices or calls was expected", where=Where(file), fix="see docs/export.md")
    try:
        found = msgspec.convert(documents[0], Mappings)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=Where(file), fix="see docs/export.md") from None
    for number, one in enumerate(found.devices):
        if not (one.uuid or one.pci or one.device):
            place = Where(file, field=f"devices[{number}]")
            raise InputError(
                f"{one.metric} names no device", where=place, fix="say the label of its uuid, pci or device"
            )
    return found
