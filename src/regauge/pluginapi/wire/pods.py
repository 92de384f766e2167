"""Between the port's values and the messages of podresources/v1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regauge.pluginapi.messages import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    DynamicResource,
    PodResources,
)


def write_list(target: Any, answer: Iterable[PodResources]) -> None:
    for pod in answer:
        _write_pod(target.pod_resources.add(), pod)


def read_list(source: Any) -> tuple[PodResources, ...]:
    return tuple(_read_pod(pod) for pod in source.pod_resources)


def write_get(target: Any, arguments: tuple[Any, ...]) -> None:
    target.pod_namespace, target.pod_name = arguments


def read_get(source: Any) -> tuple[str, str]:
    return (source.pod_namespace, source.pod_name)


def write_one(target: Any, pod: PodResources) -> None:
    _write_pod(target.pod_resources, pod)


def read_one(source: Any) -> PodResources:
    return _read_pod(source.pod_resources)


def write_allocatable(target: Any, answer: Iterable[ContainerDevices]) -> None:
    for devices in answer:
        _write_devices(target.devices, devices)


def read_allocatable(source: Any) -> tuple[ContainerDevices, ...]:
    return tuple(_read_devices(devices) for devices in source.devices)


def _write_pod(target: Any, pod: PodResources) -> None:
    target.name, target.namespace = pod.name, pod.namespace
    for container in pod.containers:
        written = target.containers.add(name=container.name)
        for devices in container.devices:
            _write_devices(written.devices, devices)
        for resource in container.dynamic_resources:
            claim = written.dynamic_resources.add(
                claim_name=resource.claim_name, claim_namespace=resource.claim_namespace
            )
            for device in resource.claim_resources:
                _write_claim_device(claim.claim_resources, device)


def _write_devices(target: Any, devices: ContainerDevices) -> None:
    written = target.add(resource_name=devices.resource_name, device_ids=devices.device_ids)
    for node in devices.numa_nodes:
        written.topology.nodes.add(ID=node)


def _write_claim_device(target: Any, device: ClaimResource) -> None:
    written = target.add(driver_name=device.driver_name, pool_name=device.pool_name, device_name=device.device_name)
    if device.share_id is not None:
        written.share_id = device.share_id
    for name in device.cdi_devices:
        written.cdi_devices.add(name=name)


def _read_pod(source: Any) -> PodResources:
    return PodResources(source.name, source.namespace, tuple(_read_container(one) for one in source.containers))


def _read_container(source: Any) -> ContainerResources:
    return ContainerResources(
        source.name,
        tuple(_read_devices(devices) for devices in source.devices),
        tuple(
            DynamicResource(
                resource.claim_name,
                resource.claim_namespace,
                tuple(_read_claim_device(device) for device in resource.claim_resources),
            )
            for resource in source.dynamic_resources
        ),
    )


def _read_devices(source: Any) -> ContainerDevices:
    return ContainerDevices(
        source.resource_name, tuple(source.device_ids), tuple(node.ID for node in source.topology.nodes)
    )


def _read_claim_device(source: Any) -> ClaimResource:
    return ClaimResource(
        source.driver_name,
        source.pool_name,
        source.device_name,
        tuple(device.name for device in source.cdi_devices),
        source.share_id if source.HasField("share_id") else None,
    )
