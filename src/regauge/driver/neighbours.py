"""Does somebody else on this node advertise a device already? Told by what the device is, not by how it is called.

Seen are the ResourceSlices of other drivers on this node, and what other device plugins registered with the kubelet: by its
pod resources API, or by its checkpoint when that does not answer. A value
of theirs (an attribute, an id) that equals a UUID or PCI address of a device of ours means the same device. Sharing a
device between two drivers ends in two pods on it, so ours holds back until the other one is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from regauge.base import Clock, Files, RegaugeError
from regauge.driver.description import Device
from regauge.driver.fleet import Fleet
from regauge.driver.kubelet_checkpoint import read_kubelet_checkpoint
from regauge.driver.notices import Notice, Tell
from regauge.driver.resource_names import NameSearch, held_back
from regauge.kube import KubeClient
from regauge.model import Object
from regauge.model.kinds import DEVICE_CLASS, RESOURCE_SLICE
from regauge.pluginapi import ContainerDevices, PluginNet, RpcError

CLASSES_PERIOD_S = 60.0
_TELLING_LENGTH = 8  # shorter values, such as an index written as a UUID, say nothing about what a device is


def in_slices(devices: Iterable[Device], driver: str, node: str, slices: Iterable[Object]) -> dict[str, str]:
    """By device, which device of which other driver on this node it is."""
    wanted = _identities(devices)
    found: dict[str, str] = {}
    for slice_ in slices:
        spec = slice_.get("spec", {})
        if spec.get("driver") == driver or spec.get("nodeName") != node:
            continue
        for other in spec.get("devices", []):
            for value in _values(other):
                if value in wanted:
                    by = f"{spec.get('driver')} publishes it as {other.get('name')} (pool {spec['pool']['name']})"
                    found.setdefault(wanted[value], by)
    return found


def in_plugins(devices: Iterable[Device], resource: str, allocatable: Iterable[ContainerDevices]) -> dict[str, str]:
    """By device, which other extended resource of this node has it."""
    wanted = _identities(devices)
    return {
        wanted[id_.lower()]: f"a device plugin offers it as {id_} of {entry.resource_name}"
        for entry in allocatable
        if entry.resource_name != resource
        for id_ in entry.device_ids
        if id_.lower() in wanted
    }


def _identities(devices: Iterable[Device]) -> dict[str, str]:
    return {
        value.lower(): device.name
        for device in devices
        for value in (device.identity.uuid, device.identity.pci)
        if len(value) >= _TELLING_LENGTH
    }


def _values(device: Object) -> list[str]:
    values = [attribute.get("string") for attribute in device.get("attributes", {}).values()]
    return [value.lower() for value in values if isinstance(value, str)]


class KubeletView:
    """What the kubelet of this node knows of device plugins: by its pod resources API, else by its checkpoint."""

    def __init__(self, kubelet_dir: str, net: PluginNet, files: Files) -> None:
        self._kubelet_dir = kubelet_dir
        self._net = net
        self._files = files

    async def allocatable(self) -> tuple[ContainerDevices, ...] | str:
        """The devices of all device plugins, or in words why they cannot be told."""
        try:
            channel = await self._net.connect(f"{self._kubelet_dir}/pod-resources/kubelet.sock", timeout_s=2.0)
            try:
                return await channel.pod_resources().get_allocatable_resources()
            finally:
                await channel.close()
        except RpcError as error:
            kept = read_kubelet_checkpoint(self._files, self._kubelet_dir)
            if isinstance(kept, str):
                return f"{error}; {kept}"
            return tuple(ContainerDevices(name, ids) for name, ids in kept.registered)


class Neighbours:
    """Looks around this node."""

    def __init__(self, fleet: Fleet, kubelet: KubeletView, kube: KubeClient | None, clock: Clock, tell: Tell) -> None:
        self._fleet = fleet
        self._kubelet = kubelet
        self._kube = kube
        self._tell = tell
        self._clock = clock
        self._unseen: dict[str, str] = {}
        self._named: set[str] = set()

    async def claimants(self, devices: Iterable[Device]) -> Mapping[str, str]:
        """By device, who else advertises it, or serves its resource by the other stack. What cannot be seen is told, once."""
        devices = tuple(devices)
        description = self._fleet.description
        allocatable = await self._allocatable()
        found = in_plugins(devices, description.resource, allocatable)
        slices = await self._slices()
        found |= in_slices(devices, description.driver, self._fleet.node, slices)
        search = await self._search()
        if search is not None:
            others: dict[str, list[Object]] = {}
            for slice_ in slices:
                spec = slice_.get("spec", {})
                if spec.get("driver") != description.driver and spec.get("nodeName") == self._fleet.node:
                    others.setdefault(spec["driver"], []).extend(spec.get("devices") or [])
            offered = {one.resource_name for one in allocatable if one.device_ids} - {description.resource}
            mine = (description.driver, description.resource)
            found |= held_back(devices, mine, description.devices, search, others, offered)
            self._tell_unclear(search)
        return found

    async def clash(self, device: Device) -> str:
        """Why this device may not go to the stack that the description wants it in, as long as others stay in theirs."""
        search = await self._search()
        if search is None:
            return ""
        description = self._fleet.description
        mine = (description.driver, description.resource)
        reason = held_back([device], mine, description.devices, search, {}, ()).get(device.name, "")
        self._tell_unclear(search)
        return reason

    async def check_resource_name(self) -> None:
        """Tell when a class serves the plugin's resource name too: the two must not meet on one node (KEP-5004)."""
        resource = self._fleet.description.resource
        search = await self._search() if resource else None
        for name in search.serving(resource) if search is not None else ():
            if name in self._named:
                continue
            self._named.add(name)
            text = (
                f"DeviceClass {name} serves {resource} by claims: what it selects is not advertised beside the device"
                " plugin's devices, since pods are counted against those only"
            )
            self._tell(Notice("resource-name-twice", text, "warning", resource))

    async def run(self) -> None:
        """Look for such classes from time to time. Runs until it is cancelled."""
        while True:
            await self.check_resource_name()
            await self._clock.sleep(CLASSES_PERIOD_S)

    async def _search(self) -> NameSearch | None:
        if self._kube is None:
            return None
        try:
            return NameSearch.among((await self._kube.list(DEVICE_CLASS)).items)
        except RegaugeError as error:
            self._cannot_see("device classes", str(error))
            return None

    async def _slices(self) -> tuple[Object, ...]:
        if self._kube is None:
            return ()
        try:
            selector = f"spec.nodeName={self._fleet.node}"
            return (await self._kube.list(RESOURCE_SLICE, field_selector=selector)).items
        except RegaugeError as error:
            self._cannot_see("the slices of other drivers", str(error))
            return ()

    def _tell_unclear(self, search: NameSearch) -> None:
        for name, why in search.unclear.items():
            self._cannot_see(f"what DeviceClass {name} selects", why)

    async def _allocatable(self) -> tuple[ContainerDevices, ...]:
        found = await self._kubelet.allocatable()
        if isinstance(found, str):
            self._cannot_see("the devices of other device plugins", found)
            return ()
        return found

    def _cannot_see(self, what: str, why: str) -> None:
        if self._unseen.get(what) != why:
            self._unseen[what] = why
            text = f"{what} cannot be seen, so whether they overlap with these is unknown: {why}"
            self._tell(Notice("unseen", text, "warning", self._fleet.node))
