"""The calls of the kubelet's plugin APIs as data, and typed clients over whatever carries a call. Pure.

Both nets use these tables: a server offers `offered(services)`, a client is one of the classes here over a `Caller`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from regauge.pluginapi.messages import (
    ClaimRef,
    ContainerAllocateResponse,
    ContainerDevices,
    DeviceHealth,
    DevicePluginOptions,
    PluginDevice,
    PluginInfo,
    PodResources,
    PreferredAllocationRequest,
    PrepareResult,
    RegisterRequest,
    RegistrationStatus,
)
from regauge.pluginapi.port import Services

RECEIVE_LIMIT_BYTES = 4 * 1024 * 1024  # grpc-go's default, which the kubelet's clients keep

DEVICE_PLUGIN = "v1beta1.DevicePlugin"
KUBELET_REGISTRATION = "v1beta1.Registration"
PLUGIN_REGISTRATION = "pluginregistration.Registration"
POD_RESOURCES = "v1.PodResourcesLister"
DRA_PACKAGE = "k8s.io.kubelet.pkg.apis.dra"


def dra_service(version: str) -> str:
    """The DRA service's name on the wire; `version` is "v1" or "v1beta1"."""
    return f"{DRA_PACKAGE}.{version}.DRAPlugin"


def health_service(version: str) -> str:
    """The health service's name on the wire; `version` is "v1" or "v1alpha1"."""
    return f"{version}.DRAResourceHealth"


@dataclass(frozen=True, slots=True)
class Rpc:
    """One call: its name on the wire, the method of the port that answers it, and whether the answer is a stream."""

    name: str
    method: str
    stream: bool = False


_DRA = (
    Rpc("NodePrepareResources", "node_prepare_resources"),
    Rpc("NodeUnprepareResources", "node_unprepare_resources"),
)
_HEALTH = (Rpc("NodeWatchResources", "node_watch_resources", stream=True),)

RPCS: Mapping[str, tuple[Rpc, ...]] = {
    DEVICE_PLUGIN: (
        Rpc("GetDevicePluginOptions", "get_options"),
        Rpc("ListAndWatch", "list_and_watch", stream=True),
        Rpc("GetPreferredAllocation", "get_preferred_allocation"),
        Rpc("Allocate", "allocate"),
        Rpc("PreStartContainer", "pre_start_container"),
    ),
    KUBELET_REGISTRATION: (Rpc("Register", "register"),),
    PLUGIN_REGISTRATION: (
        Rpc("GetInfo", "get_info"),
        Rpc("NotifyRegistrationStatus", "notify_registration_status"),
    ),
    POD_RESOURCES: (
        Rpc("List", "list"),
        Rpc("Get", "get"),
        Rpc("GetAllocatableResources", "get_allocatable_resources"),
    ),
    dra_service("v1"): _DRA,
    dra_service("v1beta1"): _DRA,
    health_service("v1"): _HEALTH,
    health_service("v1alpha1"): _HEALTH,
}


def offered(services: Services) -> dict[str, object]:
    """Who answers, by the service's name on the wire."""
    found: dict[str, object | None] = {
        DEVICE_PLUGIN: services.device_plugin,
        KUBELET_REGISTRATION: services.kubelet_registration,
        PLUGIN_REGISTRATION: services.plugin_registration,
        POD_RESOURCES: services.pod_resources,
    }
    found.update((dra_service(version), services.dra) for version in services.dra_versions)
    found.update((health_service(version), services.health) for version in services.health_versions)
    return {name: who for name, who in found.items() if who is not None}


class Caller(Protocol):
    """Carries calls to one address. Arguments and answers are those of the port's methods."""

    async def call(self, service: str, method: str, *arguments: Any) -> Any:
        """Raises `RpcError`."""

    def stream(self, service: str, method: str) -> AsyncIterator[Any]:
        """Raises `RpcError` while it is read. Closing the iterator ends the call."""


@dataclass(frozen=True, slots=True)
class DevicePluginClient:
    caller: Caller

    async def get_options(self) -> DevicePluginOptions:
        answer: DevicePluginOptions = await self.caller.call(DEVICE_PLUGIN, "get_options")
        return answer

    def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        return self.caller.stream(DEVICE_PLUGIN, "list_and_watch")

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        answer: tuple[tuple[str, ...], ...] = await self.caller.call(
            DEVICE_PLUGIN, "get_preferred_allocation", requests
        )
        return answer

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        answer: tuple[ContainerAllocateResponse, ...] = await self.caller.call(DEVICE_PLUGIN, "allocate", requests)
        return answer

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        await self.caller.call(DEVICE_PLUGIN, "pre_start_container", device_ids)


@dataclass(frozen=True, slots=True)
class KubeletRegistrationClient:
    caller: Caller

    async def register(self, request: RegisterRequest) -> None:
        await self.caller.call(KUBELET_REGISTRATION, "register", request)


@dataclass(frozen=True, slots=True)
class PluginRegistrationClient:
    caller: Caller

    async def get_info(self) -> PluginInfo:
        answer: PluginInfo = await self.caller.call(PLUGIN_REGISTRATION, "get_info")
        return answer

    async def notify_registration_status(self, status: RegistrationStatus) -> None:
        await self.caller.call(PLUGIN_REGISTRATION, "notify_registration_status", status)


@dataclass(frozen=True, slots=True)
class DRAPluginClient:
    caller: Caller
    version: str

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        answer: Mapping[str, PrepareResult] = await self.caller.call(
            dra_service(self.version), "node_prepare_resources", claims
        )
        return answer

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        answer: Mapping[str, str] = await self.caller.call(
            dra_service(self.version), "node_unprepare_resources", claims
        )
        return answer


@dataclass(frozen=True, slots=True)
class DRAHealthClient:
    caller: Caller
    version: str

    def node_watch_resources(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        return self.caller.stream(health_service(self.version), "node_watch_resources")


@dataclass(frozen=True, slots=True)
class PodResourcesClient:
    caller: Caller

    async def list(self) -> tuple[PodResources, ...]:
        answer: tuple[PodResources, ...] = await self.caller.call(POD_RESOURCES, "list")
        return answer

    async def get(self, namespace: str, name: str) -> PodResources:
        answer: PodResources = await self.caller.call(POD_RESOURCES, "get", namespace, name)
        return answer

    async def get_allocatable_resources(self) -> tuple[ContainerDevices, ...]:
        answer: tuple[ContainerDevices, ...] = await self.caller.call(POD_RESOURCES, "get_allocatable_resources")
        return answer


class Clients:
    """The clients of a `Channel`, for a net's channel to inherit; `caller` carries the calls."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def device_plugin(self) -> DevicePluginClient:
        return DevicePluginClient(self._caller)

    def kubelet_registration(self) -> KubeletRegistrationClient:
        return KubeletRegistrationClient(self._caller)

    def plugin_registration(self) -> PluginRegistrationClient:
        return PluginRegistrationClient(self._caller)

    def dra(self, version: str) -> DRAPluginClient:
        return DRAPluginClient(self._caller, version)

    def health(self, version: str) -> DRAHealthClient:
        return DRAHealthClient(self._caller, version)

    def pod_resources(self) -> PodResourcesClient:
        return PodResourcesClient(self._caller)
