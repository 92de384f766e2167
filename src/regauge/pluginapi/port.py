"""The port between kubelet and plugins: who offers which calls, and the net that carries them.

Two nets exist: unix sockets with gRPC (`pluginapi.wire`) and one in memory (`pluginapi.memory`). The kubelet and the driver
know only this port, so a rehearsal without sockets runs the same code as a node.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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


class RpcError(Exception):
    """A call that failed: `code` is gRPC's name in Go's spelling (`Unavailable`, `Unimplemented`, `Internal`, ...)."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {details}")
        self.code = code
        self.details = details


class DevicePlugin(Protocol):
    """The calls a device plugin answers (deviceplugin/v1beta1).

    Retry: the kubelet never repeats a failed `allocate`; the pod is rejected for good. `pre_start_container` is repeated.
    Restart: after a kubelet restart every plugin must serve and register again. Concurrency: calls may overlap.
    """

    async def get_options(self) -> DevicePluginOptions: ...

    def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        """The whole list at once and again at each change. The end of the stream deregisters the plugin."""

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        """For each container the preferred ids out of the available ones."""

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        """For each container what its devices (by id) need."""

    async def pre_start_container(self, device_ids: Sequence[str]) -> None: ...


class KubeletRegistration(Protocol):
    """What the kubelet offers to device plugins at device-plugins/kubelet.sock."""

    async def register(self, request: RegisterRequest) -> None:
        """Dials the plugin back before it answers. Raises `RpcError` when the request is refused."""


class PluginRegistration(Protocol):
    """What a plugin offers at its socket in plugins_registry (pluginregistration/v1)."""

    async def get_info(self) -> PluginInfo: ...

    async def notify_registration_status(self, status: RegistrationStatus) -> None: ...


class DRAPlugin(Protocol):
    """The calls a DRA driver answers (dra/v1, dra/v1beta1).

    Retry: both calls repeat, also after success, and must be idempotent; two calls for one claim may overlap. Restart: the
    earlier call may have reached another process. Failure: errors go per claim into the result; every claim of the request
    needs an entry. An unprepare of an unknown claim succeeds. The kubelet waits 45 s.
    """

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """By claim uid."""

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """By claim uid, an error in words or empty text."""


class DRAHealth(Protocol):
    """Health reports of a DRA driver (dra-health/v1, v1alpha1)."""

    def node_watch_resources(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        """A full report at once, then whatever changed, resent before the time-out of each device (30 s by default)."""


class PodResourcesLister(Protocol):
    """What the kubelet tells about devices in use (podresources/v1). Readers must expect duplicates of upstream's."""

    async def list(self) -> tuple[PodResources, ...]: ...

    async def get(self, namespace: str, name: str) -> PodResources:
        """Raises `RpcError` when there is no such pod."""

    async def get_allocatable_resources(self) -> tuple[ContainerDevices, ...]: ...


@dataclass(frozen=True, slots=True)
class Services:
    """What is served at one address. `dra_versions` and `health_versions` say under which API versions."""

    device_plugin: DevicePlugin | None = None
    kubelet_registration: KubeletRegistration | None = None
    plugin_registration: PluginRegistration | None = None
    dra: DRAPlugin | None = None
    dra_versions: tuple[str, ...] = ("v1", "v1beta1")
    health: DRAHealth | None = None
    health_versions: tuple[str, ...] = ("v1", "v1alpha1")
    pod_resources: PodResourcesLister | None = None


class Served(Protocol):
    """A server that runs."""

    @property
    def address(self) -> str: ...

    async def stop(self) -> None:
        """Stop serving, end open calls, remove the address. Repeating it is fine."""


class Channel(Protocol):
    """A connection to an address. The clients raise `RpcError`; a service that is not served is `Unimplemented`."""

    def device_plugin(self) -> DevicePlugin: ...

    def kubelet_registration(self) -> KubeletRegistration: ...

    def plugin_registration(self) -> PluginRegistration: ...

    def dra(self, version: str) -> DRAPlugin:
        """`version` is "v1" or "v1beta1"."""

    def health(self, version: str) -> DRAHealth:
        """`version` is "v1" or "v1alpha1"."""

    def pod_resources(self) -> PodResourcesLister: ...

    async def wait_lost(self) -> None:
        """Come back when an established connection is lost (the server stopped or its process died)."""

    async def close(self) -> None: ...


class PluginNet(Protocol):
    """Addresses are absolute paths; on a node they are unix sockets (mode 0600)."""

    async def serve(self, address: str, services: Services) -> Served:
        """Raises `InputError` when the address is too long, or somebody living serves there; a leftover is replaced."""

    async def connect(self, address: str, timeout_s: float = 10.0) -> Channel:
        """Raises `RpcError` `Unavailable` or `DeadlineExceeded` when nobody answers in time."""

    def watch(self, directory: str) -> AsyncGenerator[Mapping[str, int], None]:
        """The sockets in a directory (name to an identity that changes when it is made anew), now and at each change."""

    async def remove(self, address: str) -> None:
        """Take the name away; who serves there is not told, as when a socket file is deleted. Missing is fine."""
