"""Devices that stand for the node's own resources (mapping) or burden them (overhead): what each takes of a node.

Pure. Source: KEP-5517; kube-scheduler plugins/dynamicresources/nodeallocatabledynamicresources.go of 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from regauge.base import Where
from regauge.model import Quantity, matches_node
from regauge.model.core import (
    Node,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    PodSpec,
)
from regauge.model.resource import (
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    QuantityText,
    ResourceSlice,
)
from regauge.scheduler.devices import Devices
from regauge.scheduler.resources import (
    containers_together,
    is_pod_level,
    of_container_devices,
    quantity_nano,
    read_quantity,
)
from regauge.scheduler.results import ClaimAllocation

Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]
_ONE = Quantity(1)


@dataclass(frozen=True, slots=True)
class Share:
    """What one device takes of one resource of the node; `device` is driver/pool/name. None: nothing of the kind."""

    resource: str
    device: str
    mapped: Quantity | None
    per_pod: Quantity | None
    per_container: Quantity | None


def is_mapped(devices: Devices, results: Iterable[DeviceRequestAllocationResult]) -> bool:
    """Whether one of the devices stands for a resource of its node, so that pods cannot share the claim."""
    for result in results:
        device = _find(devices.pool_slices(result.driver, result.pool), result, None)
        if isinstance(device, Device) and any(one.mapping for one in device.node_allocatable_resources.values()):
            return True
    return False


def claim_shares(devices: Devices, node: Node, item: ClaimAllocation, name: str) -> tuple[Share, ...] | str:
    """What the devices of a claim take of the node, resource by resource; text for an error.

    Nothing, whatever is wrong with the others, when none of its devices takes anything. `name`: the claim's in errors.
    """
    found = [(result, _on(devices, node, result)) for result in item.allocation.devices.results]
    if not any(isinstance(device, Device) and device.node_allocatable_resources for _, device in found):
        return ()
    shares: list[Share] = []
    for result, device in found:
        title = f"claim {item.namespace}/{name}, device {result.device}"
        if isinstance(device, str):
            return f"{title}, driver {result.driver}: {device}"
        made = _of_device(device, result)
        if isinstance(made, str):
            return f"{title}: {made}"
        shares += made
    return tuple(shares)


def _on(devices: Devices, node: Node, result: DeviceRequestAllocationResult) -> Device | str:
    slices = devices.pool_slices(result.driver, result.pool)
    return _find((one for one in slices if _offered_on(one, node)), result, node)


def _offered_on(slice_: ResourceSlice, node: Node) -> bool:
    spec = slice_.spec
    if spec.node_name == node.metadata.name or spec.all_nodes:
        return True
    if spec.node_selector is not None:
        return matches_node(spec.node_selector, node)
    return bool(spec.per_device_node_selection)


def _find(slices: Iterable[ResourceSlice], result: DeviceRequestAllocationResult, node: Node | None) -> Device | str:
    for slice_ in slices:
        for device in slice_.spec.devices:
            if device.name == result.device:
                if node is not None and slice_.spec.per_device_node_selection and not _device_on(device, node):
                    return f"device {result.device} does not match node"
                return device
    return f"device {result.device} not found in pool {result.pool} for driver {result.driver}"


def _device_on(device: Device, node: Node) -> bool:
    if device.node_name == node.metadata.name or device.all_nodes:
        return True
    return device.node_selector is not None and matches_node(device.node_selector, node)


def _of_device(device: Device, result: DeviceRequestAllocationResult) -> list[Share] | str:
    shares = []
    title = f"{result.driver}/{result.pool}/{result.device}"
    for name, taken in sorted(device.node_allocatable_resources.items()):
        reading = _Reading(title, name)
        mapped = _mapped(reading, taken.mapping, result) if taken.mapping is not None else None
        if isinstance(mapped, str):
            return mapped
        overhead = taken.overhead
        per_pod = reading.read("overhead.perPod", overhead.per_pod) if overhead is not None else None
        per_container = reading.read("overhead.perContainer", overhead.per_container) if overhead is not None else None
        if (mapped, per_pod, per_container) != (None, None, None):
            shares.append(Share(name, title, mapped, per_pod, per_container))
    return shares


@dataclass(frozen=True, slots=True)
class _Reading:
    """The quantities of one resource of one device. What is none is an `InputError` that says where."""

    device: str
    resource: str

    def read(self, field: str, value: QuantityText | None) -> Quantity | None:
        if value is None:
            return None
        place = f"nodeAllocatableResources.{self.resource}.{field}"
        return read_quantity(value, Where(object=f"device {self.device}", field=place))


def _mapped(
    reading: _Reading, mapping: NodeAllocatableMapping, result: DeviceRequestAllocationResult
) -> Quantity | str | None:
    """The amount that the device stands for. Without the capacity that counts, the mapping does not concern the claim."""
    key = mapping.capacity_key
    if not key:
        return reading.read("mapping.deviceMultiplier", mapping.device_multiplier)
    if not result.consumed_capacity:
        return (
            f"ConsumedCapacity is nil, but Capacity key '{key}' is set in NodeAllocatableResources for resource "
            f"{reading.resource}"
        )
    consumed = reading.read(f"consumedCapacity.{key}", result.consumed_capacity.get(key))
    multiplier = reading.read("mapping.capacityMultiplier", mapping.capacity_multiplier)
    if consumed is None or multiplier is None or multiplier == _ONE:
        return consumed
    return times(consumed, multiplier)


def times(left: Quantity, right: Quantity) -> Quantity:
    """The product as upstream keeps it: a decimal in the format of the first."""
    return Quantity(left.unscaled * right.unscaled, left.exponent + right.exponent, True, left.format)


def status_of(
    name: str, containers: tuple[str, ...], shares: Sequence[Share]
) -> NodeAllocatableResourceClaimStatus | None:
    """What the pod's status says of a claim, or None when it takes nothing."""
    mapping = []
    overhead = []
    for resource in sorted({share.resource for share in shares}):
        own = [share for share in shares if share.resource == resource]
        mapped = _sum(own, lambda share: share.mapped)
        if mapped is not None:
            mapping.append(NodeAllocatableMappedResources(name=resource, quantity=mapped))
        fixed, each = _sum(own, lambda share: share.per_pod), _sum(own, lambda share: share.per_container)
        if fixed is not None or each is not None:
            overhead.append(NodeAllocatableOverheadResources(name=resource, per_pod=fixed, per_container=each))
    if not mapping and not overhead:
        return None
    return NodeAllocatableResourceClaimStatus(
        resource_claim_name=name, containers=containers, mapping=tuple(mapping), overhead=tuple(overhead)
    )


def _sum(shares: Iterable[Share], part: Callable[[Share], Quantity | None]) -> str | None:
    total: Quantity | None = None
    for share in shares:
        amount = part(share)
        if amount is not None:
            total = amount if total is None else total.add(amount)
    return None if total is None else str(total)


# -- what the pod as a whole may take


def beyond_pod_level(spec: PodSpec, statuses: Statuses) -> str:
    """Where the pod's own resources (spec.resources) do not cover those of its containers and devices, or ""."""
    if spec.resources is None:
        return ""
    return next((text for text in (*_requests_beyond(spec, statuses), *_limits_beyond(spec, statuses))), "")


def _requests_beyond(spec: PodSpec, statuses: Statuses) -> Iterator[str]:
    allowed = spec.resources.requests if spec.resources is not None else {}
    needed = containers_together(spec, statuses) if allowed else {}
    for name, value in sorted(allowed.items()):
        if is_pod_level(name) and needed.get(name, 0) > quantity_nano(value):
            yield (
                f"pod level request for {name} is insufficient to cover the aggregated container and node-allocatable "
                "DRA requests"
            )


def _limits_beyond(spec: PodSpec, statuses: Statuses) -> Iterator[str]:
    allowed = spec.resources.limits if spec.resources is not None else {}
    if not allowed:
        return
    for name, value in sorted(containers_together(spec, statuses, limits=True).items()):
        if name.startswith("hugepages-") and name in allowed and value > quantity_nano(allowed[name]):
            yield (
                f"pod level limit for {name} is insufficient to cover the aggregated container and node-allocatable "
                "DRA limits"
            )
    for container in spec.containers:
        own = of_container_devices(statuses, container.name)
        for name, limit in sorted(container.resources.limits.items()):
            if name.startswith("hugepages-") or name not in allowed:
                continue
            if quantity_nano(limit) + own.get(name, 0) > quantity_nano(allowed[name]):
                yield (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA overhead for container "
                    f"{container.name}"
                )
