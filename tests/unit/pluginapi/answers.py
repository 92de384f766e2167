"""A plugin that answers everything in a way that shows what arrived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regauge.pluginapi import (
    ClaimRef,
    ClaimResource,
    ContainerAllocateResponse,
    ContainerDevices,
    ContainerResources,
    DeviceHealth,
    DevicePluginOptions,
    DeviceSpec,
    DynamicResource,
    Health,
    Mount,
    PluginDevice,
    PluginInfo,
    PodResources,
    PreferredAllocationRequest,
    PreparedDevice,
    PrepareResult,
    RegisterRequest,
    RegistrationStatus,
    RpcError,
)


@dataclass
class Plugin:
    """Answers everything in a way that shows what arrived."""

    heard: list[Any] = field(default_factory=list)
    lists: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def get_options(self) -> DevicePluginOptions:
        return DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        try:
            while True:
                item = await self.lists.get()
                if item is None:
                    return
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.ended.set()

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        self.heard.append(tuple(requests))
        return tuple(request.available_ids[: request.allocation_size] for request in requests)

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        self.heard.append(tuple(tuple(ids) for ids in requests))
        return tuple(
            ContainerAllocateResponse(
                envs={"IDS": ",".join(ids)},
                mounts=(Mount("/in", "/out", read_only=True),),
                devices=tuple(DeviceSpec(f"/dev/{one}", f"/dev/host-{one}", "rwm") for one in ids),
                annotations={"note": "x"},
                cdi_devices=tuple(f"example.com/widget={one}" for one in ids),
            )
            for ids in requests
        )

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        raise RpcError("Internal", f"reset of {device_ids[0]} failed")

    async def register(self, request: RegisterRequest) -> None:
        self.heard.append(request)

    async def get_info(self) -> PluginInfo:
        return PluginInfo("DRAPlugin", "driver.example.com", "/plugins/dra.sock", ("v1.DRAPlugin", "v1beta1.DRAPlugin"))

    async def notify_registration_status(self, status: RegistrationStatus) -> None:
        self.heard.append(status)

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.heard.append(tuple(claims))
        device = PreparedDevice("pool", "gpu-0", ("r",), ("example.com/widget=x",), share_id="s-1")
        return {
            claim.uid: PrepareResult(error="busy") if claim.name == "bad" else PrepareResult((device,))
            for claim in claims
        }

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return {claim.uid: "stuck" if claim.name == "bad" else "" for claim in claims}

    async def node_watch_resources(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        yield (DeviceHealth("pool", "gpu-0", Health.UNHEALTHY, 17, 30, "too hot"),)
        raise RpcError("Unimplemented", "no health here")

    async def list(self) -> tuple[PodResources, ...]:
        return (POD,)

    async def get(self, namespace: str, name: str) -> PodResources:
        if name != "web":
            raise RpcError("NotFound", f"pod {namespace}/{name} not found")
        return POD

    async def get_allocatable_resources(self) -> tuple[ContainerDevices, ...]:
        return (ContainerDevices("example.com/widget", ("a",), (0, 1)),)


POD = PodResources(
    "web",
    "team",
    (
        ContainerResources(
            "c",
            (ContainerDevices("example.com/widget", ("a", "b"), (1,)),),
            (DynamicResource("claim", "team", (ClaimResource("d", "p", "gpu-0", ("example.com/x=y",), "s"),)),),
        ),
    ),
)
