"""Devices that stand for the node's own cpu and memory: what a pod takes of its node through them (alpha in 1.36).

Source: KEP-5517; kube-scheduler plugins/dynamicresources/nodeallocatabledynamicresources.go of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regauge.model import Quantity
from regauge.model.core import NodeAllocatableResourceClaimStatus
from regauge.model.resource import Device, DeviceRequestAllocationResult, QuantityText, ResourceClaim
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.resources import CPU, MEMORY, STORAGE, pod_requests
from regauge.scheduler.results import ClaimAllocation, Refusal
from regauge.scheduler.state import State

PLUGIN = "DynamicResources"
FORM_OF_1_36 = "node-allocatable-multiplier-fields"
Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]


def used_by_another(state: State, claim: ResourceClaim, pod: PodInfo) -> str:
    """Why another pod's use of the claim keeps this one off, or ""."""
    users = state.users_of_mapped((claim.metadata.namespace, claim.metadata.name))
    if len(users) > 1:
        return f"node allocatable resource claim {claim.metadata.name} shared by multiple pods"
    if users and pod.uid not in users:
        return f"node allocatable resource claim {claim.metadata.name} is already used by another pod"
    return ""


def map_devices(
    state: State, pod: PodInfo, node: NodeInfo, allocations: Sequence[ClaimAllocation], claims: Sequence[ResourceClaim]
) -> Statuses | Refusal | str:
    """What the newly chosen devices take of the node; a refusal when it has not that much; text for an error."""
    if FORM_OF_1_36 not in state.rules.quirks:
        return _unsupported(state, allocations)
    statuses = []
    for item in sorted(allocations, key=lambda one: one.name):
        taken = _taken(state, item)
        if isinstance(taken, str):
            return taken
        if taken:
            users = _containers(pod, item, claims)
            if not users:
                text = "node-allocatable resource claim not referenced by any container within the pod"
                return Refusal(PLUGIN, (f"claim {item.name}: {text}",))
            texts: dict[str, QuantityText] = {name: str(amount) for name, amount in taken.items()}
            statuses.append(
                NodeAllocatableResourceClaimStatus(resource_claim_name=item.name, containers=users, resources=texts)
            )
    if not statuses:
        return ()
    return _fits(state, pod, node, tuple(statuses)) or tuple(statuses)


def _unsupported(state: State, allocations: Sequence[ClaimAllocation]) -> Statuses | str:
    """The later form of these devices is not modelled; pods that get one are not placed by guesswork."""
    for item in allocations:
        for result in item.allocation.devices.results:
            device = state.devices.find_device(result.pool, result.device)
            if device is not None and device.node_allocatable_resources:
                return f"unsupported: nodeAllocatableResources of device {result.driver}/{result.pool}/{result.device}"
    return ()


def _taken(state: State, item: ClaimAllocation) -> dict[str, Quantity] | str:
    total: dict[str, Quantity] = {}
    for result in item.allocation.devices.results:
        device = state.devices.find_device(result.pool, result.device)
        if device is None:
            continue
        found = _of_device(device, result)
        if isinstance(found, str):
            return f"claim {item.namespace}/{item.name}, device {result.device}: {found}"
        for name, amount in found.items():
            total[name] = total[name].add(amount) if name in total else amount
    return total


def _of_device(device: Device, result: DeviceRequestAllocationResult) -> dict[str, Quantity] | str:
    found: dict[str, Quantity] = {}
    for name, mapping in sorted(device.node_allocatable_resource_mappings.items()):
        multiplier = mapping.allocation_multiplier
        if mapping.capacity_key:
            if not result.consumed_capacity:
                return (
                    f"ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' is set in "
                    f"NodeAllocatableResourceMappings for resource {name}"
                )
            consumed = result.consumed_capacity.get(mapping.capacity_key)
            if consumed is None:
                continue
            amount = Quantity.from_document(consumed)
            found[name] = amount if multiplier is None else _times(amount, Quantity.from_document(multiplier))
        elif multiplier is not None:
            found[name] = Quantity.from_document(multiplier)
    return found


def _times(left: Quantity, right: Quantity) -> Quantity:
    return Quantity(left.unscaled * right.unscaled, left.exponent + right.exponent, True, left.format)


def _containers(pod: PodInfo, item: ClaimAllocation, claims: Sequence[ResourceClaim]) -> tuple[str, ...]:
    """The containers that name an entry whose claim this is."""
    by_entry = {entry.name: claim.metadata.uid for entry, claim in zip(pod.pod.spec.resource_claims, claims)}
    everyone = (*pod.pod.spec.init_containers, *pod.pod.spec.containers)
    return tuple(
        container.name
        for container in everyone
        for use in container.resources.claims
        if by_entry.get(use.name) == item.uid
    )


def _fits(state: State, pod: PodInfo, node: NodeInfo, statuses: Statuses) -> Refusal | None:
    pod_level = state.rules.on("PodLevelResources")
    quantities = [item.resources for item in statuses]
    wanted = pod_requests(pod.pod.spec, pod_level=pod_level, mapped=quantities)
    if pod_level and pod.pod.spec.resources is not None and pod.pod.spec.resources.requests:
        short = _pod_level_too_small(wanted, pod_requests(pod.pod.spec, pod_level=False, mapped=quantities))
        if short:
            return Refusal(PLUGIN, (short,))
    reasons, hopeless = [], False
    for name in (CPU, MEMORY, STORAGE, *sorted(item for item in wanted if item.startswith("hugepages-"))):
        amount = wanted.get(name, 0)
        if amount > node.free(name) and amount > 0:
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or amount > node.allocatable.get(name, 0)
    return Refusal(PLUGIN, tuple(reasons), curable=not hopeless) if reasons else None


def _pod_level_too_small(asked: Mapping[str, int], needed: Mapping[str, int]) -> str:
    for name, amount in sorted(asked.items()):
        if needed.get(name, 0) > amount:
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests"
            )
    return ""
