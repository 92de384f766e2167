"""Devices that stand for the node's own cpu and memory: what a pod takes of its node through them (alpha).

The form of 1.36 is here, the later one in overhead; whether the pod still fits on its node is decided alike.
Source: KEP-5517; kube-scheduler plugins/dynamicresources/nodeallocatabledynamicresources.go of 1.36 and 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regauge.base import Where
from regauge.model import Quantity
from regauge.model.core import NodeAllocatableResourceClaimStatus
from regauge.model.resource import Device, DeviceRequestAllocationResult, QuantityText, ResourceClaim
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.overhead import Share, beyond_pod_level, claim_shares, is_mapped, status_of, times
from regauge.scheduler.resources import CPU, HUGE_PAGES, MEMORY, STORAGE, pod_requests, read_quantity
from regauge.scheduler.results import ClaimAllocation, Refusal
from regauge.scheduler.shortfalls import shortfall
from regauge.scheduler.state import State

PLUGIN = "DynamicResources"
FORM_OF_1_36 = "node-allocatable-multiplier-fields"
EXTENDED_CLAIM = "<extended-resources>"
Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]


def used_by_another(state: State, claim: ResourceClaim, pod: PodInfo, reserved: bool) -> str:
    """Why another pod's use of the claim keeps this one off, or "". `reserved`: the claim is, for this pod among others."""
    if FORM_OF_1_36 not in state.rules.quirks:
        allocation = claim.status.allocation
        elsewhere = bool(claim.status.reserved_for) and not reserved
        if allocation is None or not (elsewhere or claim.metadata.uid in state.pending):
            return ""
        text = f"node allocatable resource claim {claim.metadata.name} has a mapped device and cannot be shared across pods"
        return text if is_mapped(state.devices, allocation.devices.results) else ""
    users = state.users_of_mapped((claim.metadata.namespace, claim.metadata.name))
    if len(users) > 1:
        return f"node allocatable resource claim {claim.metadata.name} shared by multiple pods"
    if users and pod.uid not in users:
        return f"node allocatable resource claim {claim.metadata.name} is already used by another pod"
    return ""


def map_devices(
    state: State, pod: PodInfo, node: NodeInfo, allocations: Sequence[ClaimAllocation], claims: Sequence[ResourceClaim]
) -> Statuses | Refusal | str:
    """What the chosen devices take of the node; a refusal when it has not that much; text for an error.

    `allocations`: of the claims that had no devices yet; only later forms than that of 1.36 look at the others, too.
    """
    if FORM_OF_1_36 not in state.rules.quirks:
        return _map_all(state, pod, node, allocations, claims)
    statuses = []
    for item in sorted(allocations, key=lambda one: one.name):
        taken = _taken(state, item)
        if isinstance(taken, str):
            return taken
        if taken:
            users = _containers(pod, item, claims)
            if not users:
                text = "node-allocatable resource claim not referenced by any container within the pod"
                return Refusal(PLUGIN, (f"claim {item.name or EXTENDED_CLAIM}: {text}",))
            texts: dict[str, QuantityText] = {name: str(amount) for name, amount in taken.items()}
            statuses.append(
                NodeAllocatableResourceClaimStatus(resource_claim_name=item.name, containers=users, resources=texts)
            )
    if not statuses:
        return ()
    return _beyond_pod_level(state, pod, tuple(statuses)) or _fits(state, pod, node, tuple(statuses)) or tuple(statuses)


def _map_all(
    state: State, pod: PodInfo, node: NodeInfo, allocations: Sequence[ClaimAllocation], claims: Sequence[ResourceClaim]
) -> Statuses | Refusal | str:
    """The later form: devices map to resources of the node, or burden it, and claims that had devices before count."""
    statuses: list[NodeAllocatableResourceClaimStatus] = []
    shares: list[tuple[str, Share]] = []
    for item in sorted((*allocations, *_had_devices(claims)), key=lambda one: one.name):
        name = item.name or EXTENDED_CLAIM
        taken = claim_shares(state.devices, node.node, item, name)
        if isinstance(taken, str):
            return taken
        status = status_of(name, _containers(pod, item, claims), taken)
        if status is not None:
            statuses.append(status)
            shares += ((name, share) for share in taken)
    found = tuple(statuses)
    if not found:
        return ()
    if state.rules.on("PodLevelResources"):
        beyond = beyond_pod_level(pod.pod.spec, found)
        if beyond:
            return Refusal(PLUGIN, (beyond,), details=_blamed(shares))
    return _fits(state, pod, node, found, shares) or found


def _had_devices(claims: Sequence[ResourceClaim]) -> Sequence[ClaimAllocation]:
    by_name = {claim.metadata.name: claim for claim in claims}
    return [
        ClaimAllocation(claim.metadata.namespace, name, claim.metadata.uid, claim.status.allocation)
        for name, claim in by_name.items()
        if claim.status.allocation is not None
    ]


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
    title = f"device {result.driver}/{result.pool}/{result.device}"
    for name, mapping in sorted(device.node_allocatable_resource_mappings.items()):
        field = f"nodeAllocatableResourceMappings.{name}"
        multiplier = None
        if mapping.allocation_multiplier is not None:
            multiplier = read_quantity(
                mapping.allocation_multiplier, Where(object=title, field=f"{field}.allocationMultiplier")
            )
        if mapping.capacity_key:
            if not result.consumed_capacity:
                return (
                    f"ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' is set in "
                    f"NodeAllocatableResourceMappings for resource {name}"
                )
            consumed = result.consumed_capacity.get(mapping.capacity_key)
            if consumed is None:
                continue
            amount = read_quantity(consumed, Where(object=title, field=f"{field}.capacityKey"))
            found[name] = amount if multiplier is None else times(amount, multiplier)
        elif multiplier is not None:
            found[name] = multiplier
    return found


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


def _fits(
    state: State, pod: PodInfo, node: NodeInfo, statuses: Statuses, shares: Sequence[tuple[str, Share]] = ()
) -> Refusal | None:
    wanted = pod_requests(pod.pod.spec, pod_level=state.rules.on("PodLevelResources"), mapped=statuses)
    short, hopeless = [], False
    for name in (CPU, MEMORY, STORAGE, *sorted(item for item in wanted if item.startswith(HUGE_PAGES))):
        amount = wanted.get(name, 0)
        if amount > node.free(name) and (amount > 0 or name.startswith(HUGE_PAGES)):
            short.append(name)
            hopeless = hopeless or amount > node.allocatable.get(name, 0)
    if not short:
        return None
    blamed = _blamed([one for one in shares if one[1].resource in short])
    details = (*(shortfall(name, wanted[name], node) for name in short), *blamed)
    return Refusal(PLUGIN, tuple(f"Insufficient {name}" for name in short), curable=not hopeless, details=details)


def _blamed(shares: Sequence[tuple[str, Share]]) -> tuple[str, ...]:
    """Which device of which claim takes how much of the node, and by what."""
    return tuple(
        f"{share.resource}: device {share.device} of claim {claim} {', '.join(_share_texts(share))}"
        for claim, share in shares
    )


def _share_texts(share: Share) -> tuple[str, ...]:
    """What a device takes of a resource, in words."""
    return tuple(
        text
        for amount, text in (
            (share.mapped, f"stands for {share.mapped}"),
            (share.per_pod, f"costs {share.per_pod} for each pod"),
            (share.per_container, f"costs {share.per_container} for each container that uses it"),
        )
        if amount is not None
    )


def _beyond_pod_level(state: State, pod: PodInfo, statuses: Statuses) -> Refusal | None:
    spec = pod.pod.spec
    if not state.rules.on("PodLevelResources") or spec.resources is None or not spec.resources.requests:
        return None
    wanted = pod_requests(spec, mapped=statuses)
    short = _pod_level_too_small(wanted, pod_requests(spec, pod_level=False, mapped=statuses))
    return Refusal(PLUGIN, (short,)) if short else None


def _pod_level_too_small(asked: Mapping[str, int], needed: Mapping[str, int]) -> str:
    for name, amount in sorted(asked.items()):
        if needed.get(name, 0) > amount:
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests"
            )
    return ""
