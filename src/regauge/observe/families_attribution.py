"""Metrics for billing: device-seconds by namespace, workload and stack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from regauge.audit import Layer
from regauge.observe.advancing import uses_of
from regauge.observe.families import Family, Scope, Series, Type
from regauge.observe.history import Consumer
from regauge.observe.metric_moment import Moment

CONSUMER = ("namespace", "workload_kind", "workload", "stack")


def device_seconds(moment: Moment) -> Iterator[Series]:
    yield from ((tuple(key), one.device_s) for key, one in sorted(moment.history.charges.items()))


def uncertain(moment: Moment) -> Iterator[Series]:
    yield from ((tuple(key), one.uncertain_s) for key, one in sorted(moment.history.charges.items()))


def held(moment: Moment) -> Iterator[Series]:
    found: dict[Consumer, float] = defaultdict(float)
    for use in uses_of(moment.correlation.holdings).values():
        found[use.consumer] += use.part
    yield from ((tuple(key), count) for key, count in sorted(found.items()))


FAMILIES = (
    Family(
        "workload_devices", Type.GAUGE,
        "Physical devices that a workload holds now. Whoever shares a device counts with an equal part of it; admin access"
        " counts nothing.",
        CONSUMER, Layer.QUOTA, held, scope=Scope.STACK,
    ),
    Family(
        "workload_device_seconds", Type.COUNTER,
        "Device-seconds by namespace, workload and stack since this exporter's state began; they survive its restarts.",
        CONSUMER, Layer.QUOTA, device_seconds, "seconds", Scope.STACK,
    ),
    Family(
        "workload_device_uncertain_seconds", Type.COUNTER,
        "How far the device-seconds may be from the truth: what changed between two looks is counted from the middle.",
        CONSUMER, Layer.QUOTA, uncertain, "seconds", Scope.STACK,
    ),
)  # fmt: skip
