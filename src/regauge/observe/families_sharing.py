"""Metrics of devices that are shared or divided: capacity and counters, used and total."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from regauge.audit import Layer
from regauge.inventory import Stack
from regauge.model import Quantity
from regauge.model.resource import QuantityText
from regauge.observe.correlation import Holding
from regauge.observe.families import Family, Series, Type
from regauge.observe.metric_moment import Moment

_DEVICE = ("driver", "pool", "device")


def capacity(moment: Moment) -> Iterator[Series]:
    for key, device in moment.ground.devices.items():
        for name, one in device.capacity.items() if device.allow_multiple_allocations else ():
            yield (*key, name), as_float(one.value)


def consumed(moment: Moment) -> Iterator[Series]:
    for key, device in moment.ground.devices.items():
        shares = _shares(moment.holdings_of.get(key, ())) if device.allow_multiple_allocations else {}
        for name in device.capacity if device.allow_multiple_allocations else ():
            yield (*key, name), sum(as_float(one.consumed.get(name, "0")) for one in shares.values())


def shares(moment: Moment) -> Iterator[Series]:
    for key, device in moment.ground.devices.items():
        if device.allow_multiple_allocations:
            yield key, len(_shares(moment.holdings_of.get(key, ())))


def _shares(holdings: tuple[Holding, ...]) -> dict[tuple[str, str, str], Holding]:
    """One row for each allocation, however many containers use it. Admin access takes nothing."""
    return {
        (one.claim_uid or f"{one.namespace}/{one.claim}", one.request, one.share_id): one
        for one in holdings
        if not one.admin_access
    }


def counters(moment: Moment) -> Iterator[Series]:
    for one in moment.ground.newest:
        for set_ in one.spec.shared_counters:
            for name, counter in set_.counters.items():
                yield (one.spec.driver, one.spec.pool.name, set_.name, name), as_float(counter.value)


def counters_used(moment: Moment) -> Iterator[Series]:
    """What the allocated devices of a pool take of its counters; one that several share takes it once."""
    used: dict[tuple[str, ...], float] = defaultdict(float)
    keys = {one.key for one in moment.correlation.holdings if one.stack is Stack.DRA and not one.admin_access}
    for key in keys:
        device = moment.ground.devices.get((key[0], key[1], key[2]))
        for part in device.consumes_counters if device else ():
            for name, counter in part.counters.items():
                used[key[0], key[1], part.counter_set, name] += as_float(counter.value)
    for labels, _ in counters(moment):
        yield labels, used[labels]


def as_float(value: QuantityText) -> float:
    """A quantity as a number; text that is none counts as zero. The API server never stores such."""
    try:
        quantity = Quantity.from_document(value)
        return float(quantity.unscaled) * 10.0**quantity.exponent
    except (ValueError, OverflowError):
        return 0.0


FAMILIES = (
    Family("device_capacity", Type.GAUGE, "Capacity of devices that several claims may share, in the unit of its name.",
           (*_DEVICE, "capacity"), Layer.SCHEDULING, capacity),
    Family("device_capacity_consumed", Type.GAUGE, "What the shares of such a device consume of its capacity.",
           (*_DEVICE, "capacity"), Layer.SCHEDULING, consumed),
    Family("device_shares", Type.GAUGE, "How many shares of such a device are allocated.", _DEVICE, Layer.SCHEDULING,
           shares),
    Family("shared_counter", Type.GAUGE, "Counters that the partitions of a pool's devices draw on.",
           ("driver", "pool", "counter_set", "counter"), Layer.SCHEDULING, counters),
    Family("shared_counter_consumed", Type.GAUGE, "What allocated devices take of these counters.",
           ("driver", "pool", "counter_set", "counter"), Layer.SCHEDULING, counters_used),
)  # fmt: skip
