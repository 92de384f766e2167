"""The claims of a node's pods as the kubelet keeps them: which pods use them, what the drivers prepared. Pure.

Source: pkg/kubelet/cm/dra/claiminfo.go, dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from regauge.cluster.kubelet.checkpoints import ClaimDevice, ClaimState
from regauge.model import Quantity
from regauge.model.core import Container, Pod, PodResourceClaim
from regauge.model.resource import ResourceClaim
from regauge.pluginapi import ClaimRef, PreparedDevice
from regauge.scheduler import group_key, owned_by, reserved_for


class ClaimTrouble(Exception):
    """A pod cannot use its claims now. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One claim of a pod. `generated` claims belong to the pod and nobody else. The bridge's claim has no pod name."""

    pod_claim: str
    claim: str
    generated: bool


@dataclass(slots=True)
class ClaimInfo:
    """What the kubelet knows of one claim. `prepared` is not kept over a restart."""

    uid: str
    name: str
    namespace: str
    drivers: dict[str, tuple[ClaimDevice, ...] | None]
    pod_uids: set[str] = field(default_factory=set)
    prepared: bool = False

    @property
    def ref(self) -> ClaimRef:
        return ClaimRef(self.namespace, self.uid, self.name)

    def cdi_ids(self, request: str) -> tuple[str, ...]:
        """The CDI ids of one request, or of all with "". A device without request names belongs to all."""
        return tuple(
            id_
            for driver in sorted(self.drivers)
            for device in self.drivers[driver] or ()
            if not request or not device.requests or request in device.requests
            for id_ in device.cdi_ids or ()
        )


class ClaimCache:
    """All claims of a node by namespace and name."""

    def __init__(self, states: Iterable[ClaimState] = ()) -> None:
        self._claims: dict[tuple[str, str], ClaimInfo] = {}
        for state in states:
            info = ClaimInfo(state.uid, state.name, state.namespace, dict(state.drivers), set(state.pod_uids))
            self._claims[state.namespace, state.name] = info

    def find(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._claims.get((namespace, name))

    def states(self) -> list[ClaimState]:
        """For the checkpoint."""
        return [
            ClaimState(info.uid, info.name, info.namespace, frozenset(info.pod_uids), dict(info.drivers))
            for info in self._claims.values()
        ]

    def use(self, claim: ResourceClaim, pod_uid: str) -> ClaimInfo:
        """Note that a pod uses an allocated claim. Raises `ClaimTrouble` when another one of this name is still held."""
        key = (claim.metadata.namespace, claim.metadata.name)
        info = self._claims.get(key)
        if info is not None and info.uid != claim.metadata.uid:
            raise ClaimTrouble(
                f"old ResourceClaim with same name {info.name} and different UID {info.uid} still exists"
                " (previous pod force-deleted?!)"
            )
        if info is None:
            info = ClaimInfo(claim.metadata.uid, key[1], key[0], dict.fromkeys(drivers_of(claim)))
            self._claims[key] = info
        info.pod_uids.add(pod_uid)
        return info

    def prepared(self, ref: ClaimRef, driver: str, devices: Sequence[PreparedDevice]) -> None:
        """A driver's answer. It replaces an earlier one: the same claim may be prepared again."""
        info = self._claims.get((ref.namespace, ref.name))
        if info is None or info.uid != ref.uid:
            raise ClaimTrouble(
                f"internal error: unable to get claim info for ResourceClaim {ref.name} in namespace {ref.namespace}"
            )
        info.drivers[driver] = (
            tuple(
                ClaimDevice(
                    device.pool_name,
                    device.device_name,
                    device.share_id,
                    device.request_names or None,
                    device.cdi_device_ids or None,
                )
                for device in devices
            )
            or None
        )

    def release(self, namespace: str, names: Iterable[str], pod_uid: str) -> list[ClaimInfo]:
        """A pod is done with its claims. Returns those that nobody else uses and that are to be unprepared."""
        last: list[ClaimInfo] = []
        for name in names:
            info = self._claims.get((namespace, name))
            if info is None:
                continue
            if len(info.pod_uids) > 1:
                info.pod_uids.discard(pod_uid)
            else:
                info.prepared = False  # whoever comes while it is being unprepared has it prepared again
                last.append(info)
        return last

    def forget(self, infos: Iterable[ClaimInfo], pod_uid: str) -> None:
        """The claims are unprepared and the pod is done with them. One that got another user meanwhile stays."""
        for info in infos:
            info.pod_uids.discard(pod_uid)
            if not info.pod_uids and self._claims.get((info.namespace, info.name)) is info:
                del self._claims[info.namespace, info.name]

    def used_by(self, pod_uid: str) -> bool:
        return any(pod_uid in info.pod_uids for info in self._claims.values())

    def users_of(self, driver: str, devices: Collection[tuple[str, str]]) -> set[str]:
        """The uids of the pods that hold one of these devices (pool, name) of a driver."""
        return {
            uid
            for info in self._claims.values()
            if any((device.pool, device.device) in devices for device in info.drivers.get(driver) or ())
            for uid in info.pod_uids
        }

    def inactive(self, active: Collection[str]) -> list[tuple[str, str, list[str]]]:
        """Pods that use claims but are not in `active`: uid, namespace, names of claims."""
        found: dict[tuple[str, str], list[str]] = {}
        for info in self._claims.values():
            for uid in sorted(info.pod_uids - set(active)):
                found.setdefault((uid, info.namespace), []).append(info.name)
        return [(uid, namespace, names) for (uid, namespace), names in found.items()]


def drivers_of(claim: ResourceClaim) -> tuple[str, ...]:
    """The drivers of an allocation, sorted. Raises `ClaimTrouble` when there is none."""
    allocation = claim.status.allocation
    if allocation is None:
        raise ClaimTrouble(f"ResourceClaim {claim.metadata.name}: not allocated")
    return tuple(sorted({result.driver for result in allocation.devices.results}))


def pod_claims(pod: Pod, *, bridge: bool) -> list[PodClaim]:
    """The claims of a pod, with the extended resources' claim last when `bridge` is on.

    Raises `ClaimTrouble` while a claim that a template makes is not there yet.
    """
    found = [claim for one in pod.spec.resource_claims if (claim := _pod_claim(pod, one)) is not None]
    extended = pod.status.extended_resource_claim_status
    if bridge and extended is not None:
        found.append(PodClaim("", extended.resource_claim_name, False))
    return found


def _pod_claim(pod: Pod, one: PodResourceClaim) -> PodClaim | None:
    if one.resource_claim_name is not None:
        return PodClaim(one.name, one.resource_claim_name, False)
    for status in pod.status.resource_claim_statuses:
        if status.name == one.name:
            name = status.resource_claim_name
            return None if name is None else PodClaim(one.name, name, True)
    raise ClaimTrouble(f'pod "{pod.metadata.namespace}/{pod.metadata.name}": ResourceClaim not created yet')


def check_use(pod: Pod, one: PodClaim, claim: ResourceClaim, *, by_group: bool) -> None:
    """Whether a pod may use a claim: a generated one is its own, and it is reserved for it. `by_group`: its pod group may
    stand for it. Raises `ClaimTrouble`.
    """
    meta, owner = claim.metadata, pod.metadata
    if one.generated and not owned_by(claim, pod, by_group=by_group):
        group = group_key(pod) if by_group else None
        owners = f"neither Pod nor PodGroup {group[1]} is the owner" if group else "Pod is not owner"
        title = f"{owner.namespace}/{owner.name}"
        raise ClaimTrouble(f"ResourceClaim {meta.namespace}/{meta.name} was not created for Pod {title} ({owners})")
    if not reserved_for(claim, pod, by_group=by_group):
        raise ClaimTrouble(
            f"pod {owner.name} ({owner.uid}) is not allowed to use ResourceClaim {meta.name} ({meta.uid})"
        )


def container_requests(pod: Pod, container: Container, *, bridge: bool) -> list[tuple[str, str]]:
    """The claims (by name) and requests ("" for all) that a container names, in the order of the pod's claims."""
    wanted: dict[str, list[str]] = {}
    for reference in container.resources.claims:
        wanted.setdefault(reference.name, []).append(reference.request)
    found = [
        (claim.claim, request) for claim in pod_claims(pod, bridge=False) for request in wanted.get(claim.pod_claim, ())
    ]
    extended = pod.status.extended_resource_claim_status
    if bridge and extended is not None:
        for mapping in extended.request_mappings:
            if mapping.container_name == container.name and _asks(container, mapping.resource_name):
                found.append((extended.resource_claim_name, mapping.request_name))
    return found


def _asks(container: Container, resource: str) -> bool:
    resources = container.resources
    value = resources.requests.get(resource, resources.limits.get(resource))
    return value is not None and not Quantity.from_document(value).is_zero
