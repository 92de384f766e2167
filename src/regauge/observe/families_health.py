"""Metrics of health: every advertised device, with the reason where it is not healthy, for both stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from regauge.audit import Layer
from regauge.inventory import Advertisement, Stack
from regauge.observe.device_facts import Published, published_devices, told_conditions, told_health
from regauge.observe.families import Family, Scope, Series, Type
from regauge.observe.metric_moment import Moment

BLOCKING = ("NoSchedule", "NoExecute")
PLUGIN, POD_STATUS, CLAIM_STATUS = "device-plugin", "pod-status", "claim-status"
"""Whose word it is: the plugin's, the kubelet's in a pod's status, the driver's in a claim's. Else it is a taint's key."""
_LABELS = ("stack", "node", "source", "device", "uuid", "pci_bus_id", "reason")


def healthy(moment: Moment) -> Iterator[Series]:
    """1 with no reason, or 0 once for each reason."""
    published = published_devices(moment.snapshot, moment.given.rules)
    told = told_health(moment.snapshot, moment.correlation.holdings)
    conditions = told_conditions(moment.snapshot)
    for device in moment.devices:
        known = {kind: value for one in device.advertisements for kind, value in one.identity.items()}
        for one in device.advertisements:
            key = key_of(one)
            reasons = {*_own(one, key, published), *([POD_STATUS] if key in told else [])}
            if one.stack is Stack.DRA and key in conditions:
                reasons.add(CLAIM_STATUS)
            name = one.name.removeprefix(f"{one.source}/") if one.stack is Stack.DRA else one.name
            labels = (one.stack.value, device.node, one.source, name, known.get("uuid", ""), known.get("pci", ""))
            for reason in sorted(reasons) or ("",):
                yield (*labels, reason), 0 if reason else 1


def key_of(one: Advertisement) -> tuple[str, ...]:
    """As `Holding.key`."""
    return tuple(one.name.split("/", 2)) if one.stack is Stack.DRA else (one.node, one.source, one.name)


def _own(one: Advertisement, key: tuple[str, ...], published: Mapping[tuple[str, ...], Published]) -> Iterator[str]:
    if one.stack is Stack.DEVICE_PLUGIN:
        if not one.healthy:
            yield PLUGIN
    elif key in published:
        yield from (taint.key for taint in published[key].device.taints if taint.effect in BLOCKING)


FAMILIES = (
    Family(
        "device_healthy", Type.GAUGE,
        "1 for a healthy device; 0 for each reason why it is not: the key of a taint that keeps pods away, the word of the"
        " device plugin, of the kubelet in a pod's status, or of the driver in a claim's. `device` is pool/device or the"
        " device plugin's id, `source` the driver or the resource name.",
        _LABELS, Layer.DISCOVERY, healthy, scope=Scope.STACK,
    ),
)  # fmt: skip
