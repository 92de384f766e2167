"""What an allocated claim holds, or what one would: devices with what is said of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from regauge.allocator import DeviceId, tolerates
from regauge.inventory import taint_text
from regauge.model.resource import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    AllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
)
from regauge.scheduler.state import State


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """One device of a claim. `remarks`: what is the matter with it now.

    `tolerations` are the taints that the claim tolerates on it, as people write them. A pod is bound once all of
    `binding_conditions` are true, and not at all if one of `binding_failure_conditions` is.
    """

    request: str
    device: DeviceId
    admin_access: bool = False
    share: str = ""
    consumed: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Holding:
    """What an allocated claim holds: since when (None: the cluster did not note it), where it may be used, by whom."""

    devices: tuple[HeldDevice, ...]
    since: str | None
    nodes: tuple[str, ...]
    users: tuple[str, ...]


def holding(state: State, claim: ResourceClaim) -> Holding:
    """What an allocated claim holds."""
    allocation = claim.status.allocation
    if allocation is None:
        return Holding((), None, (), ())
    devices = tuple(
        replace(one, remarks=_remarks(state, claim, result))
        for one, result in zip(given(allocation), allocation.devices.results, strict=True)
    )
    users = tuple(f"{one.resource.removesuffix('s')} {one.name}" for one in claim.status.reserved_for)
    return Holding(devices, allocation.allocation_timestamp, node_requirements(allocation), users)


def given(allocation: AllocationResult, *, shares: bool = True) -> tuple[HeldDevice, ...]:
    """The devices of an allocation. `shares` False leaves the IDs of shares out, where they are made up."""
    return tuple(_given(one, shares) for one in allocation.devices.results)


def _given(one: DeviceRequestAllocationResult, shares: bool) -> HeldDevice:
    return HeldDevice(
        one.request,
        DeviceId(one.driver, one.pool, one.device),
        bool(one.admin_access),
        (one.share_id or "") if shares else "",
        {name: str(value) for name, value in one.consumed_capacity.items()},
        tuple(map(toleration_text, one.tolerations)),
        one.binding_conditions,
        one.binding_failure_conditions,
    )


def node_requirements(allocation: AllocationResult) -> tuple[str, ...]:
    """Where the devices of an allocation may be used; empty for every node."""
    terms = allocation.node_selector.node_selector_terms if allocation.node_selector else ()
    return tuple(
        f"{item.key} {item.operator} {', '.join(item.values)}".strip()
        for term in terms
        for item in (*term.match_fields, *term.match_expressions)
    )


def _remarks(state: State, claim: ResourceClaim, result: DeviceRequestAllocationResult) -> tuple[str, ...]:
    device = DeviceId(result.driver, result.pool, result.device)
    published = state.devices.published(device)
    remarks = [] if published is not None else ["is not published any more"]
    for taint in published.taints if published is not None else ():
        remarks.append(f"has taint {taint_text(taint)}{_eviction(state, claim, taint, result.tolerations)}")
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == device:
            for one in status.conditions:
                failed = one.status == "True" and one.type in result.binding_failure_conditions
                again = failed and "claim-binding-failure-same-device" in state.rules.quirks
                more = "; the next attempt takes the same device again, even if another is free" if again else ""
                remarks.append(f"{one.type}={one.status} {one.message}".strip() + more)
    return tuple(remarks)


def _eviction(state: State, claim: ResourceClaim, taint: DeviceTaint, tolerations: tuple[DeviceToleration, ...]) -> str:
    """What is peculiar about who has to go because of the taint."""
    if taint.effect != "NoExecute":
        return ""
    quirks = state.rules.quirks
    special = EXTENDED_RESOURCE_CLAIM_ANNOTATION in (claim.metadata.annotations or {})
    if special and "eviction-skips-extended-resources" in quirks:
        return ", from which a pod that has it through an extended resource is not evicted (fixed in 1.37)"
    good = [one for one in tolerations if tolerates(one, taint)]
    if good and not any(one.effect for one in good) and "eviction-needs-toleration-effect" in quirks:
        return ", and a toleration without effect lets pods onto it but does not keep them there"
    return ""


def toleration_text(toleration: DeviceToleration) -> str:
    """A toleration as people write it."""
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    seconds = f" for {toleration.toleration_seconds} s" if toleration.toleration_seconds is not None else ""
    return f"{toleration.key or 'every taint'}{value}{effect}{seconds}"
