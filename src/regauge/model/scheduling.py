"""Read-only views of the kinds of scheduling.k8s.io that scheduling looks at. Source: KEP-4671, KEP-5729."""

from __future__ import annotations

from typing import Any

from regauge.model.meta import ObjectMeta, View


class GangPolicy(View, frozen=True):
    """All or nothing: `min_count` pods run together, or none of the group."""

    min_count: int = 1


class PodGroupPolicy(View, frozen=True):
    gang: GangPolicy | None = None


class PodGroupConstraints(View, frozen=True):
    topology: tuple[dict[str, Any], ...] = ()


class PodGroupResourceClaim(View, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupSpec(View, frozen=True):
    scheduling_policy: PodGroupPolicy = PodGroupPolicy()
    scheduling_constraints: PodGroupConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | dict[str, Any] | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class PodGroupClaimStatus(View, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(View, frozen=True):
    resource_claim_statuses: tuple[PodGroupClaimStatus, ...] = ()


class PodGroup(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def goes_as_one(self) -> bool:
        """Whether its pods may only be disrupted together."""
        mode = self.spec.disruption_mode
        return mode == "PodGroup" or (isinstance(mode, dict) and "all" in mode)
