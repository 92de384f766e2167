"""Metrics of who holds what: devices by claim, and down to the container and the physical device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from regauge.audit import Layer
from regauge.inventory import Stack
from regauge.observe.families import Family, Scope, Series, Type
from regauge.observe.metric_moment import Moment

HOLDER = (
    "stack",
    "node",
    "driver",
    "pool",
    "device",
    "uuid",
    "pci_bus_id",
    "resource",
    "namespace",
    "pod",
    "pod_uid",
    "workload_kind",
    "workload",
    "container",
    "claim",
    "request",
    "share_id",
)


def holders(moment: Moment) -> Iterator[Series]:
    rows = {
        (
            one.stack.value,
            one.node,
            one.driver,
            one.pool,
            one.device,
            one.uuid,
            one.pci,
            one.resource,
            one.namespace,
            one.pod,
            one.pod_uid,
            one.workload.kind,
            one.workload.name,
            one.container,
            one.claim,
            one.request,
            one.share_id,
        )
        for one in moment.correlation.holdings
    }
    yield from ((row, 1) for row in sorted(rows))


def allocated(moment: Moment) -> Iterator[Series]:
    rows = {
        (one.driver, one.pool, one.device, one.namespace, one.claim)
        for one in moment.correlation.holdings
        if one.stack is Stack.DRA
    }
    yield from ((row, 1) for row in sorted(rows))


def devices(moment: Moment) -> Iterator[Series]:
    """Advertised devices by whether somebody holds them. A device that both stacks advertise counts once for each."""
    found: Counter[tuple[str, str, str, str]] = Counter()
    for device in moment.devices:
        for one in device.advertisements:
            key = tuple(one.name.split("/", 2)) if one.stack is Stack.DRA else (one.node, one.source, one.name)
            held = any(not row.admin_access for row in moment.holdings_of.get(key, ()))
            found[one.stack.value, one.source, one.node, "held" if held else "free"] += 1
    yield from sorted(found.items())


def counted(moment: Moment) -> Iterator[Series]:
    for one in moment.ground.inventory.counted:
        for what, count in (("capacity", one.capacity), ("allocatable", one.allocatable), ("requested", one.requested)):
            yield (one.node, one.resource_name, what), count


FAMILIES = (
    Family(
        "device_holder_info", Type.INFO,
        "Who holds which device, over both stacks: one series for each container, claim, request and share. `device` is the"
        " published name or the device plugin's id.",
        HOLDER, Layer.INJECTION, holders, scope=Scope.STACK,
    ),
    Family(
        "resourceclaim_device_info", Type.INFO, "Devices that ResourceClaims have been allocated.",
        ("driver", "pool", "device", "namespace", "claim"), Layer.SCHEDULING, allocated,
    ),
    Family(
        "devices", Type.GAUGE, "Advertised devices by stack, by driver or resource name, and by whether they are held.",
        ("stack", "source", "node", "state"), Layer.DISCOVERY, devices, scope=Scope.STACK,
    ),
    Family(
        "extended_resource", Type.GAUGE,
        "Extended resources as nodes count them: capacity, allocatable, and requested by pods that device plugins serve.",
        ("node", "resource", "count"), Layer.SCHEDULING, counted,
    ),
)  # fmt: skip
