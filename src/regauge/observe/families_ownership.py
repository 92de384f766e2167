"""Metrics of ownership: one physical device, one source."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit import Layer
from regauge.observe.families import Family, Scope, Series, Type
from regauge.observe.metric_moment import Moment


def doubly(moment: Moment) -> Iterator[Series]:
    found = dict.fromkeys((device.node for device in moment.devices), 0)
    for device in moment.ground.inventory.doubly_owned:
        found[device.node] += 1
    yield from (((node,), count) for node, count in sorted(found.items()))


def which(moment: Moment) -> Iterator[Series]:
    for device in moment.ground.inventory.doubly_owned:
        known = {kind: value for one in device.advertisements for kind, value in one.identity.items()}
        sources = "+".join(sorted({one.source for one in device.advertisements}))
        yield (device.node, known.get("uuid", ""), known.get("pci", ""), sources), 1


def unseen(moment: Moment) -> Iterator[Series]:
    for one in moment.correlation.unseen:
        yield (one.node, one.resource_name), one.capacity


FAMILIES = (
    Family("devices_doubly_owned", Type.GAUGE, "Physical devices of a node that more than one source advertises.",
           ("node",), Layer.INSTALLATION, doubly, scope=Scope.NODE),
    Family("device_double_owner_info", Type.INFO, "Physical devices that more than one source advertises, and who does.",
           ("node", "uuid", "pci_bus_id", "sources"), Layer.INSTALLATION, which, scope=Scope.NODE),
    Family(
        "devices_unseen", Type.GAUGE,
        "Devices of device plugins on nodes whose kubelet this exporter does not ask: which they are, and who holds them, it"
        " does not know.",
        ("node", "resource"), Layer.INSTALLATION, unseen,
    ),
)  # fmt: skip
