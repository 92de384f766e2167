"""Metrics of device classes: what they select, and how much of it is free."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from regauge.audit import Layer
from regauge.base import canonical_json
from regauge.model.resource import DeviceClass
from regauge.observe.families import Family, Series, Type
from regauge.observe.metric_moment import Moment

_HASH_DIGITS = 12


def selectors_hash(one: DeviceClass) -> str:
    """A hash of the expressions of a class in their order: two classes that have it in common select the same devices."""
    expressions = [selector.cel.expression for selector in one.spec.selectors if selector.cel]
    return hashlib.sha256(canonical_json(expressions)).hexdigest()[:_HASH_DIGITS]


def info(moment: Moment) -> Iterator[Series]:
    for _, one in moment.ground.classes:
        yield (one.metadata.name, one.spec.extended_resource_name or "", selectors_hash(one)), 1


def valid(moment: Moment) -> Iterator[Series]:
    for _, one in moment.ground.classes:
        yield (one.metadata.name,), float(moment.ground.matched(one).compiles)


def devices(moment: Moment) -> Iterator[Series]:
    for _, one in moment.ground.classes:
        yield (one.metadata.name,), len(moment.ground.matched(one).devices)


def free(moment: Moment) -> Iterator[Series]:
    held = {"/".join(one.key) for one in moment.correlation.holdings if not one.admin_access}
    for _, one in moment.ground.classes:
        yield (one.metadata.name,), sum(name not in held for name, _ in moment.ground.matched(one).devices)


FAMILIES = (
    Family(
        "deviceclass_info", Type.INFO, "Device classes, with the extended resource name that each serves.",
        ("deviceclass", "extended_resource_name", "selectors_hash"), Layer.SCHEDULING, info,
    ),
    Family("deviceclass_valid", Type.GAUGE, "1 when the selectors of a class compile.", ("deviceclass",),
           Layer.SCHEDULING, valid),
    Family("deviceclass_devices", Type.GAUGE, "Published devices that a class selects.", ("deviceclass",),
           Layer.SCHEDULING, devices),
    Family("deviceclass_devices_free", Type.GAUGE, "Published devices that a class selects and nobody holds.",
           ("deviceclass",), Layer.SCHEDULING, free),
)  # fmt: skip
