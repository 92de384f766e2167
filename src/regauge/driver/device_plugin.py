"""The device plugin stack's answers (deviceplugin/v1beta1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from regauge.driver.description import Description, Device, Stack
from regauge.driver.fleet import Fleet
from regauge.driver.notices import Notice, Tell
from regauge.driver.preferring import Place, preferred
from regauge.driver.signals import Signal
from regauge.pluginapi import (
    HEALTHY,
    RECEIVE_LIMIT_BYTES,
    UNHEALTHY,
    ContainerAllocateResponse,
    DevicePluginOptions,
    DeviceSpec,
    Mount,
    PluginDevice,
    PreferredAllocationRequest,
    RpcError,
    list_size_bytes,
)


class Plugin:
    """`DevicePlugin` over the fleet. It holds nothing of its own: allocations are the kubelet's, in its checkpoint.

    `unheard` tells when the last reader of the list went away; then the kubelet has forgotten the plugin.
    """

    def __init__(self, fleet: Fleet, tell: Tell) -> None:
        self._fleet = fleet
        self._tell = tell
        self._readers = 0
        self.unheard = Signal()

    async def get_options(self) -> DevicePluginOptions:
        return DevicePluginOptions(
            pre_start_required=self._fleet.description.pre_start, get_preferred_allocation_available=True
        )

    async def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        self._readers += 1
        told: tuple[PluginDevice, ...] | None = None
        try:
            while True:
                seen = self._fleet.changed.version
                devices = self.devices()
                if devices != told:
                    self._check_size(devices)
                    told = devices
                    yield devices
                await self._fleet.changed.wait(seen)
        finally:
            self._readers -= 1
            if self._readers == 0:
                self.unheard.set()

    def devices(self) -> tuple[PluginDevice, ...]:
        """The list as the kubelet gets it."""
        return tuple(
            PluginDevice(
                device.name,
                HEALTHY if self._fleet.condition(device.name).healthy else UNHEALTHY,
                () if device.numa_node is None else (device.numa_node,),
            )
            for device in self._fleet.of(Stack.DEVICE_PLUGIN)
        )

    def _check_size(self, devices: tuple[PluginDevice, ...]) -> None:
        size = list_size_bytes(devices)
        if size > RECEIVE_LIMIT_BYTES:
            text = (
                f"the list of {len(devices)} devices takes {size} bytes, the kubelet accepts {RECEIVE_LIMIT_BYTES}"
                " and would drop the plugin: split the devices between several resource names"
            )
            self._tell(Notice("list-too-large", text, "error", self._fleet.description.resource))
            raise RpcError("ResourceExhausted", text)

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        places = {device.name: Place.of(device) for device in self._fleet.of(Stack.DEVICE_PLUGIN)}
        return tuple(preferred(request, places, self._fleet.description.spread) for request in requests)

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        description = self._fleet.description
        answers = tuple(allocation([self._device(id_) for id_ in ids], description) for ids in requests)
        for ids in requests:
            self._tell(Notice("allocated", f"devices {', '.join(ids)} given to a container"))
        return answers

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        for id_ in device_ids:
            condition = self._fleet.condition(self._device(id_).name)
            if not condition.healthy:
                raise RpcError("FailedPrecondition", f"device {id_} is not healthy: {condition.message}")

    def _device(self, id_: str) -> Device:
        device = self._fleet.description.device(id_)
        if device is None:
            raise RpcError("NotFound", f"device {id_} is not on this node (any more)")
        if not self._fleet.serves(id_, Stack.DEVICE_PLUGIN):
            raise RpcError("FailedPrecondition", f"device {id_} is not served by the device plugin (any more)")
        return device


def allocation(devices: Sequence[Device], description: Description) -> ContainerAllocateResponse:
    """What a container needs for its devices: their CDI names, the same in classic fields, or both."""
    envs: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    nodes: dict[str, DeviceSpec] = {}
    if description.answer_classic:
        for device in devices:
            for item in device.edits.env:
                name, _, value = item.partition("=")
                envs[name] = value
            for mount in device.edits.mounts:
                read_only = "ro" in mount.options
                mounts[mount.container_path] = Mount(mount.container_path, mount.host_path, read_only)
            for node in device.edits.device_nodes:
                nodes[node.path] = DeviceSpec(node.path, node.host_path or node.path, node.permissions or "rwm")
    own = tuple(f"{description.cdi_kind}={device.name}" for device in devices)
    names = (*(name for device in devices for name in device.cdi_names), *own) if description.answer_cdi else ()
    return ContainerAllocateResponse(
        envs=envs, mounts=tuple(mounts.values()), devices=tuple(nodes.values()), cdi_devices=names
    )
