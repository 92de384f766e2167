"""Binding conditions: whether the devices of an allocated claim are ready for their pod to start.

Source: KEP-5007; kube-scheduler plugins/dynamicresources (isClaimReadyForBinding, isClaimTimeout) of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from regauge.model import Rules
from regauge.model.quoting import go_quote
from regauge.model.resource import AllocatedDeviceStatus, Condition, DeviceRequestAllocationResult, ResourceClaim

BINDING_TIMEOUT_S = 600.0


def binding_conditions_on(rules: Rules) -> bool:
    """Whether the scheduler waits for binding conditions at all."""
    return rules.on("DRADeviceBindingConditions") and rules.on("DRAResourceClaimDeviceStatus")


def _conditional(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    return (item for item in allocation.devices.results if item.binding_conditions) if allocation else ()


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether any allocated device has to report before the pod may be bound."""
    return any(True for _ in _conditional(claim))


def _status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == wanted:
            return status
    return None


def _true(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    for condition in conditions:
        if condition.type == type_:
            return condition if condition.status == "True" else None
    return None


def is_ready(claim: ResourceClaim) -> bool | str:
    """True: nothing is missing. False: some device has yet to report. Text: one has failed, in upstream's words."""
    if claim.status.allocation is None:
        return False
    for result in _conditional(claim):
        status = _status_of(claim, result)
        if status is None:
            return False
        for type_ in result.binding_failure_conditions:
            failed = _true(status.conditions, type_)
            if failed is not None:
                name, message = claim.metadata.name, go_quote(failed.message)
                return f"device binding failed: claim={name}, reason={failed.reason}, message={message}"
        if any(_true(status.conditions, type_) is None for type_ in result.binding_conditions):
            return False
    return True


def is_timed_out(claim: ResourceClaim, now_s: float, timeout_s: float) -> bool:
    """Whether the claim was allocated longer ago than its devices may take. `now_s`: seconds since 1970."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_binding_conditions(claim):
        return False
    return datetime.fromisoformat(allocation.allocation_timestamp).timestamp() + timeout_s < now_s


def is_lost(claim: ResourceClaim, now_s: float, timeout_s: float) -> bool:
    """Whether the allocation will not lead to a bound pod any more: a device failed or took too long."""
    ready = is_ready(claim)
    return isinstance(ready, str) or (not ready and is_timed_out(claim, now_s, timeout_s))
