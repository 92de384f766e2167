"""Between the port's frozen values and protobuf bytes, call by call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from regauge.pluginapi.calls import (
    DEVICE_PLUGIN,
    DRA_PACKAGE,
    KUBELET_REGISTRATION,
    PLUGIN_REGISTRATION,
    POD_RESOURCES,
    dra_service,
    health_service,
)
from regauge.pluginapi.messages import (
    ContainerAllocateResponse,
    DeviceHealth,
    DevicePluginOptions,
    DeviceSpec,
    Health,
    Mount,
    PluginDevice,
    PluginInfo,
    PreferredAllocationRequest,
    RegisterRequest,
    RegistrationStatus,
)
from regauge.pluginapi.wire import claims, pods
from regauge.pluginapi.wire.schema import message

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Codec:
    """One call: its messages, and the ways between them and the arguments and the answer of the port's method."""

    request: str
    response: str
    write_request: Callable[[Any, Arguments], None]
    read_request: Callable[[Any], Arguments]
    write_response: Callable[[Any, Any], None]
    read_response: Callable[[Any], Any]

    def request_bytes(self, arguments: Arguments) -> bytes:
        return _bytes(self.request, self.write_request, arguments)

    def arguments(self, data: bytes) -> Arguments:
        return self.read_request(message(self.request).FromString(data))

    def response_bytes(self, answer: Any) -> bytes:
        return _bytes(self.response, self.write_response, answer)

    def answer(self, data: bytes) -> Any:
        return self.read_response(message(self.response).FromString(data))


def _bytes(name: str, write: Callable[[Any, Any], None], value: Any) -> bytes:
    target = message(name)()
    write(target, value)
    data: bytes = target.SerializeToString()
    return data


def _write_nothing(target: Any, value: Any) -> None:
    """For messages without fields."""


def _no_arguments(source: Any) -> Arguments:
    return ()


def _no_answer(source: Any) -> None:
    return None


def _write_options(target: Any, options: DevicePluginOptions) -> None:
    target.pre_start_required = options.pre_start_required
    target.get_preferred_allocation_available = options.get_preferred_allocation_available


def _read_options(source: Any) -> DevicePluginOptions:
    return DevicePluginOptions(source.pre_start_required, source.get_preferred_allocation_available)


def _write_list(target: Any, devices: tuple[PluginDevice, ...]) -> None:
    for device in devices:
        written = target.devices.add(ID=device.id, health=device.health)
        for node in device.numa_nodes:
            written.topology.nodes.add(ID=node)


def _read_list(source: Any) -> tuple[PluginDevice, ...]:
    return tuple(
        PluginDevice(device.ID, device.health, tuple(node.ID for node in device.topology.nodes))
        for device in source.devices
    )


def _write_preferred_request(target: Any, arguments: Arguments) -> None:
    for request in arguments[0]:
        target.container_requests.add(
            available_deviceIDs=request.available_ids,
            must_include_deviceIDs=request.must_include_ids,
            allocation_size=request.allocation_size,
        )


def _read_preferred_request(source: Any) -> Arguments:
    return (
        tuple(
            PreferredAllocationRequest(
                tuple(request.available_deviceIDs), tuple(request.must_include_deviceIDs), request.allocation_size
            )
            for request in source.container_requests
        ),
    )


def _write_preferred(target: Any, answer: tuple[tuple[str, ...], ...]) -> None:
    for ids in answer:
        target.container_responses.add(deviceIDs=ids)


def _read_preferred(source: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(response.deviceIDs) for response in source.container_responses)


def _write_allocate_request(target: Any, arguments: Arguments) -> None:
    for ids in arguments[0]:
        target.container_requests.add(devices_ids=ids)


def _read_allocate_request(source: Any) -> Arguments:
    return (tuple(tuple(request.devices_ids) for request in source.container_requests),)


def _write_allocate(target: Any, answer: tuple[ContainerAllocateResponse, ...]) -> None:
    for response in answer:
        written = target.container_responses.add(envs=response.envs, annotations=response.annotations)
        for mount in response.mounts:
            written.mounts.add(
                container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only
            )
        for device in response.devices:
            written.devices.add(
                container_path=device.container_path, host_path=device.host_path, permissions=device.permissions
            )
        for name in response.cdi_devices:
            written.cdi_devices.add(name=name)


def _read_allocate(source: Any) -> tuple[ContainerAllocateResponse, ...]:
    return tuple(
        ContainerAllocateResponse(
            envs=dict(response.envs),
            mounts=tuple(Mount(m.container_path, m.host_path, m.read_only) for m in response.mounts),
            devices=tuple(DeviceSpec(d.container_path, d.host_path, d.permissions) for d in response.devices),
            annotations=dict(response.annotations),
            cdi_devices=tuple(device.name for device in response.cdi_devices),
        )
        for response in source.container_responses
    )


def _write_ids(target: Any, arguments: Arguments) -> None:
    target.devices_ids.extend(arguments[0])


def _read_ids(source: Any) -> Arguments:
    return (tuple(source.devices_ids),)


def _write_register(target: Any, arguments: Arguments) -> None:
    request: RegisterRequest = arguments[0]
    target.version = request.version
    target.endpoint = request.endpoint
    target.resource_name = request.resource_name
    target.options.SetInParent()
    _write_options(target.options, request.options)


def _read_register(source: Any) -> Arguments:
    return (RegisterRequest(source.version, source.endpoint, source.resource_name, _read_options(source.options)),)


def _write_info(target: Any, info: PluginInfo) -> None:
    target.type = info.type
    target.name = info.name
    target.endpoint = info.endpoint
    target.supported_versions.extend(info.supported_versions)


def _read_info(source: Any) -> PluginInfo:
    return PluginInfo(source.type, source.name, source.endpoint, tuple(source.supported_versions))


def _write_status(target: Any, arguments: Arguments) -> None:
    status: RegistrationStatus = arguments[0]
    target.plugin_registered = status.plugin_registered
    target.error = status.error


def _read_status(source: Any) -> Arguments:
    return (RegistrationStatus(source.plugin_registered, source.error),)


def _write_health(target: Any, devices: tuple[DeviceHealth, ...]) -> None:
    for device in devices:
        written = target.devices.add(
            health=device.health.value,
            last_updated_time=device.last_updated_s,
            health_check_timeout_seconds=device.check_timeout_s,
            message=device.message,
        )
        written.device.pool_name = device.pool_name
        written.device.device_name = device.device_name


def _read_health(source: Any) -> tuple[DeviceHealth, ...]:
    return tuple(
        DeviceHealth(
            device.device.pool_name,
            device.device.device_name,
            Health(device.health) if device.health in (1, 2) else Health.UNKNOWN,
            device.last_updated_time,
            device.health_check_timeout_seconds,
            device.message,
        )
        for device in source.devices
    )


def _plugin_codecs() -> dict[tuple[str, str], Codec]:
    empty = "v1beta1.Empty"
    nothing = (_write_nothing, _no_arguments)
    registration = "pluginregistration."
    return {
        (DEVICE_PLUGIN, "get_options"): Codec(
            empty, "v1beta1.DevicePluginOptions", *nothing, _write_options, _read_options
        ),
        (DEVICE_PLUGIN, "list_and_watch"): Codec(
            empty, "v1beta1.ListAndWatchResponse", *nothing, _write_list, _read_list
        ),
        (DEVICE_PLUGIN, "get_preferred_allocation"): Codec(
            "v1beta1.PreferredAllocationRequest",
            "v1beta1.PreferredAllocationResponse",
            *(_write_preferred_request, _read_preferred_request, _write_preferred, _read_preferred),
        ),
        (DEVICE_PLUGIN, "allocate"): Codec(
            "v1beta1.AllocateRequest",
            "v1beta1.AllocateResponse",
            *(_write_allocate_request, _read_allocate_request, _write_allocate, _read_allocate),
        ),
        (DEVICE_PLUGIN, "pre_start_container"): Codec(
            "v1beta1.PreStartContainerRequest",
            "v1beta1.PreStartContainerResponse",
            *(_write_ids, _read_ids, _write_nothing, _no_answer),
        ),
        (KUBELET_REGISTRATION, "register"): Codec(
            "v1beta1.RegisterRequest", empty, _write_register, _read_register, _write_nothing, _no_answer
        ),
        (PLUGIN_REGISTRATION, "get_info"): Codec(
            registration + "InfoRequest", registration + "PluginInfo", *nothing, _write_info, _read_info
        ),
        (PLUGIN_REGISTRATION, "notify_registration_status"): Codec(
            registration + "RegistrationStatus",
            registration + "RegistrationStatusResponse",
            *(_write_status, _read_status, _write_nothing, _no_answer),
        ),
    }


def _dra_codecs(version: str) -> dict[tuple[str, str], Codec]:
    package = f"{DRA_PACKAGE}.{version}."
    service = dra_service(version)
    return {
        (service, "node_prepare_resources"): Codec(
            package + "NodePrepareResourcesRequest",
            package + "NodePrepareResourcesResponse",
            claims.write_request,
            claims.read_request,
            claims.write_prepared_v1 if version == "v1" else claims.write_prepared_v1beta1,
            claims.read_prepared_v1 if version == "v1" else claims.read_prepared_v1beta1,
        ),
        (service, "node_unprepare_resources"): Codec(
            package + "NodeUnprepareResourcesRequest",
            package + "NodeUnprepareResourcesResponse",
            claims.write_request,
            claims.read_request,
            claims.write_unprepared,
            claims.read_unprepared,
        ),
    }


def _health_codecs(version: str) -> dict[tuple[str, str], Codec]:
    request, response = f"{version}.NodeWatchResourcesRequest", f"{version}.NodeWatchResourcesResponse"
    codec = Codec(request, response, _write_nothing, _no_arguments, _write_health, _read_health)
    return {(health_service(version), "node_watch_resources"): codec}


def _pod_codecs() -> dict[tuple[str, str], Codec]:
    return {
        (POD_RESOURCES, "list"): Codec(
            "v1.ListPodResourcesRequest",
            "v1.ListPodResourcesResponse",
            *(_write_nothing, _no_arguments, pods.write_list, pods.read_list),
        ),
        (POD_RESOURCES, "get"): Codec(
            "v1.GetPodResourcesRequest",
            "v1.GetPodResourcesResponse",
            *(pods.write_get, pods.read_get, pods.write_one, pods.read_one),
        ),
        (POD_RESOURCES, "get_allocatable_resources"): Codec(
            "v1.AllocatableResourcesRequest",
            "v1.AllocatableResourcesResponse",
            *(_write_nothing, _no_arguments, pods.write_allocatable, pods.read_allocatable),
        ),
    }


@cache
def codecs() -> Mapping[tuple[str, str], Codec]:
    """Every call by (service on the wire, method of the port)."""
    return {
        **_plugin_codecs(),
        **_dra_codecs("v1"),
        **_dra_codecs("v1beta1"),
        **_health_codecs("v1"),
        **_health_codecs("v1alpha1"),
        **_pod_codecs(),
    }
