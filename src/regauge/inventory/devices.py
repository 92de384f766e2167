"""Every device of an estate by physical identity: which stack advertises it, who holds it, what cannot be seen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from regauge.inventory.counts import CountedResource, counted_resources
from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport, Snapshot
from regauge.model.core import ENDED_PHASES
from regauge.model.resource import Device, ResourceSlice

_UUID = re.compile(r"(GPU-|MIG-)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_IDENTITY_ATTRIBUTES = {
    "uuid": "uuid",
    "pciBusID": "pci",
    "resource.kubernetes.io/pciBusID": "pci",
    "pciAddress": "pci",
    "pciBusId": "pci",
}


class Stack(Enum):
    """Who serves a device."""

    DEVICE_PLUGIN = "device-plugin"
    DRA = "dra"


@dataclass(frozen=True, slots=True)
class Advertisement:
    """One stack's word that a device is there. `name` is the device id of a plugin, or driver/pool/device."""

    node: str
    stack: Stack
    source: str
    name: str
    identity: Mapping[str, str]
    holders: tuple[str, ...] = ()
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class EstateDevice:
    """One physical device of a node and everybody who advertises it. More than one stack is double ownership."""

    node: str
    identity: str
    advertisements: tuple[Advertisement, ...]

    @property
    def stacks(self) -> frozenset[Stack]:
        return frozenset(item.stack for item in self.advertisements)

    @property
    def holders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(holder for item in self.advertisements for holder in item.holders))


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices that can be told apart, the resources that are only counted, and what is unknown.

    `unseen` are the counted resources of nodes without a report: which devices stand behind them is not known.
    """

    devices: tuple[EstateDevice, ...]
    counted: tuple[CountedResource, ...]
    unknown: tuple[str, ...]
    unseen: tuple[CountedResource, ...] = ()

    @property
    def doubly_owned(self) -> tuple[EstateDevice, ...]:
        """Devices that more than one source of the two stacks advertises."""
        return tuple(device for device in self.devices if len({item.source for item in device.advertisements}) > 1)


def take_inventory(snapshot: Snapshot, reports: Iterable[NodeReport] = ()) -> Inventory:
    """The inventory of an estate. A node without a report has its device plugin devices counted only, and says so."""
    by_node = {report.node: report for report in reports}
    published = list(_published(snapshot, by_node))
    known = {(item.node, value): kind for item in published for kind, value in item.identity.items()}
    advertised = [*published, *_listed(by_node.values(), known, _Running(snapshot))]
    counted = counted_resources(snapshot)
    unseen = tuple(item for item in counted if item.capacity and item.node not in by_node)
    unknown = tuple(
        f"node {item.node}: which devices stand behind {item.resource_name} ({item.capacity}) is known to its kubelet only"
        for item in unseen
    )
    return Inventory(tuple(_joined(advertised)), counted, unknown, unseen)


def _published(snapshot: Snapshot, reports: Mapping[str, NodeReport]) -> Iterable[Advertisement]:
    holders = _claim_holders(snapshot)
    for slice_ in newest_slices(snapshot.slices):
        spec = slice_.spec
        for device in spec.devices:
            node = device.node_name or spec.node_name or ""
            key = (spec.driver, spec.pool.name, device.name)
            known = dict(identity_of(device))
            if node in reports:
                known.update(reports[node].identities.get(key, {}))
            healthy = not any(taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints)
            name = "/".join(key)
            yield Advertisement(node, Stack.DRA, spec.driver, name, known, tuple(holders.get(key, ())), healthy)


def newest_slices(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of each pool's newest generation, in the order given."""
    newest: dict[tuple[str, str], int] = {}
    found = list(slices)
    for slice_ in found:
        key = (slice_.spec.driver, slice_.spec.pool.name)
        newest[key] = max(newest.get(key, 0), slice_.spec.pool.generation)
    return [s for s in found if s.spec.pool.generation == newest[(s.spec.driver, s.spec.pool.name)]]


def identity_of(device: Device) -> Mapping[str, str]:
    """What a published device's attributes tell of its physical identity."""
    found: dict[str, str] = {}
    for name, attribute in device.attributes.items():
        kind = _IDENTITY_ATTRIBUTES.get(name) or _IDENTITY_ATTRIBUTES.get(name.rpartition("/")[2])
        if kind and attribute.string_value:
            found[kind] = attribute.string_value
    return found


def _claim_holders(snapshot: Snapshot) -> dict[tuple[str, str, str], list[str]]:
    holders: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for claim in snapshot.claims:
        if claim.status.allocation is None:
            continue
        namespace = claim.metadata.namespace
        users = [f"pod {namespace}/{user.name}" for user in claim.status.reserved_for if user.resource == "pods"]
        named = users or [f"claim {namespace}/{claim.metadata.name}"]
        for result in claim.status.allocation.devices.results:
            if not result.admin_access:
                holders[(result.driver, result.pool, result.device)].extend(named)
    return holders


class _Running:
    """Which pods the API has that have not ended; where it was not asked for pods, any pod may be one."""

    def __init__(self, snapshot: Snapshot) -> None:
        pods = [pod.metadata for pod in snapshot.pods if pod.status.phase not in ENDED_PHASES]
        self._told = bool(snapshot.pods)
        self._uids = {one.uid for one in pods}
        self._names = {(one.namespace, one.name) for one in pods}

    def has(self, holder: PluginDeviceHolder) -> bool:
        if not self._told:
            return True
        return holder.pod_uid in self._uids if holder.pod_uid else (holder.namespace, holder.pod) in self._names


def _listed(
    reports: Iterable[NodeReport], known: Mapping[tuple[str, str], str], running: _Running
) -> Iterable[Advertisement]:
    for report in reports:
        held: dict[tuple[str, str], list[str]] = defaultdict(list)
        for holder in report.holders:
            for device_id in holder.device_ids:
                held[(holder.resource_name, device_id)].append(f"pod {holder.namespace}/{holder.pod}")
        for device in (*report.plugin_devices, *_held_unlisted(report, running)):
            holders = tuple(held.get((device.resource_name, device.device_id), ()))
            identity = dict(device.identity) or _identity_in(device, report.node, known)
            source = device.resource_name
            yield Advertisement(
                report.node, Stack.DEVICE_PLUGIN, source, device.device_id, identity, holders, device.healthy
            )


def _held_unlisted(report: NodeReport, running: _Running) -> Iterable[PluginDeviceReport]:
    """Devices that containers hold while their plugin lists them no more: it died, or it went; nobody gets them anew.

    A kubelet's checkpoint goes on naming pods that are gone until it admits the next one; those hold nothing.
    """
    listed = {(device.resource_name, device.device_id) for device in report.plugin_devices}
    holders = [holder for holder in report.holders if running.has(holder)]
    held = dict.fromkeys((holder.resource_name, one) for holder in holders for one in holder.device_ids)
    for resource_name, device_id in held:
        if (resource_name, device_id) not in listed:
            yield PluginDeviceReport(resource_name, device_id, healthy=False)


def _identity_in(device: PluginDeviceReport, node: str, known: Mapping[tuple[str, str], str]) -> Mapping[str, str]:
    """What a device plugin's id tells of the device.

    Vendors use UUIDs or PCI addresses, and a replica adds `::n`. Any other id is an identity only where a published device
    of the node carries it as one.
    """
    plain = device.device_id.partition("::")[0]
    if _UUID.fullmatch(plain):
        return {"uuid": plain}
    if _PCI.fullmatch(plain):
        return {"pci": plain}
    if (node, plain) in known:
        return {known[(node, plain)]: plain}
    return {"id": f"{device.resource_name}/{device.device_id}"}


def _joined(advertised: list[Advertisement]) -> Iterable[EstateDevice]:
    """Advertisements of one node that share any part of their identity are one device."""
    group_of: dict[tuple[str, str, str], int] = {}
    groups: dict[int, list[Advertisement]] = {}
    for number, item in enumerate(advertised):
        keys = [(item.node, kind, value) for kind, value in item.identity.items()]
        merged = [item]
        for earlier in sorted({group_of[key] for key in keys if key in group_of}, reverse=True):
            members = groups.pop(earlier)
            merged = members + merged
            keys += [(m.node, kind, value) for m in members for kind, value in m.identity.items()]
        groups[number] = merged
        group_of.update(dict.fromkeys(keys, number))
    for group in groups.values():
        yield EstateDevice(group[0].node, _title(group), tuple(group))


def _title(group: list[Advertisement]) -> str:
    for kind in ("uuid", "pci", "device"):
        for item in group:
            if kind in item.identity:
                return item.identity[kind]
    return group[0].name
