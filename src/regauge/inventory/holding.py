"""Which claims are a pod's, and which devices they hold."""

from __future__ import annotations

from collections.abc import Mapping

from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim

DeviceKey = tuple[str, str, str]
"""Driver, pool, device."""


def claim_names(pod: Pod, *, bridged: bool = True) -> frozenset[str]:
    """The names of a pod's claims: those it names, those made from templates, and, where `bridged` ones count, the one
    that serves its counted resources."""
    names = {one.resource_claim_name for one in pod.spec.resource_claims}
    names |= {one.resource_claim_name for one in pod.status.resource_claim_statuses}
    if bridged and pod.status.extended_resource_claim_status is not None:
        names.add(pod.status.extended_resource_claim_status.resource_claim_name)
    return frozenset(name for name in names if name)


def claimed_devices(
    pod: Pod, claims: Mapping[tuple[str, str], ResourceClaim], *, bridged: bool = True
) -> frozenset[DeviceKey]:
    """The devices that a pod's claims hold; `claims` by namespace and name."""
    found = (claims.get((pod.metadata.namespace, name)) for name in claim_names(pod, bridged=bridged))
    return frozenset(
        (result.driver, result.pool, result.device)
        for claim in found
        if claim is not None and claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    )
