"""What several sources tell of one node, as one report: a kubelet knows who holds what, a driver what it is. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport


def combined(reports: Iterable[NodeReport]) -> tuple[NodeReport, ...]:
    """One report for each node, in the order in which nodes appear.

    A device that two sources list is listed once, with all that they know of its identity; it is healthy when both say so.
    """
    by_node: dict[str, list[NodeReport]] = defaultdict(list)
    for report in reports:
        by_node[report.node].append(report)
    return tuple(found[0] if len(found) == 1 else _one(node, found) for node, found in by_node.items())


def _one(node: str, reports: Iterable[NodeReport]) -> NodeReport:
    devices: dict[tuple[str, str], PluginDeviceReport] = {}
    holders: dict[PluginDeviceHolder, None] = {}
    identities: dict[tuple[str, str, str], Mapping[str, str]] = {}
    for report in reports:
        for one in report.plugin_devices:
            key = (one.resource_name, one.device_id)
            devices[key] = _both(devices[key], one) if key in devices else one
        holders.update(dict.fromkeys(report.holders))
        for name, identity in report.identities.items():
            identities[name] = {**identities.get(name, {}), **identity}
    return NodeReport(node, tuple(devices.values()), tuple(holders), identities)


def _both(one: PluginDeviceReport, other: PluginDeviceReport) -> PluginDeviceReport:
    identity = {**one.identity, **other.identity}
    return PluginDeviceReport(one.resource_name, one.device_id, one.healthy and other.healthy, identity)
