"""The DynamicResources plugin: the pod's claims before, on and after the nodes.

Pure: what is to be written (allocations, the special claim, deallocation) comes back as a value.
Source: kube-scheduler plugins/dynamicresources/dynamicresources.go of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as view_with

from regauge.base import Randomness
from regauge.model import ObjectMeta, matches_node
from regauge.model.core import NodeAllocatableResourceClaimStatus, Pod, PodResourceClaim
from regauge.model.kinds import POD_GROUP
from regauge.model.resource import (
    AllocationResult,
    DeviceClaim,
    ResourceClaim,
    ResourceClaimSpec,
)
from regauge.model.scheduling import PodGroup
from regauge.scheduler.binding import binding_conditions_on, is_lost
from regauge.scheduler.devices import Plan
from regauge.scheduler.extended import extended_claim, may_be_devices
from regauge.scheduler.mapped import EXTENDED_CLAIM, map_devices, used_by_another
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.results import ClaimAllocation, ExtendedClaim, Refusal, SchedulerError
from regauge.scheduler.state import State, group_key

DYNAMIC_RESOURCES = "DynamicResources"
GROUP_CLAIMS = "DRAWorkloadResourceClaims"
MAX_ALTERNATIVES = 8
NODE_FEATURE = "DRAOptionalNodeOperations"
SKIPS_UNKNOWN = "allocator-skip-operations-unknown"


@dataclass(frozen=True, slots=True)
class OnNode:
    """What the plugin would do on one node: one result for each claim that has no devices yet."""

    asked: tuple[ResourceClaim, ...] = ()
    results: tuple[AllocationResult, ...] = ()
    extended: ExtendedClaim | None = None
    mapped: tuple[NodeAllocatableResourceClaimStatus, ...] = ()

    @property
    def allocations(self) -> tuple[ClaimAllocation, ...]:
        """The results with the claims they are for."""
        return tuple(
            ClaimAllocation(
                claim.metadata.namespace,
                claim.metadata.name.removeprefix(EXTENDED_CLAIM),
                claim.metadata.uid,
                result,
            )
            for claim, result in zip(self.asked, self.results)
        )


NOTHING = OnNode()


def claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, str]:
    """The name of the claim that an entry of the pod means, or None when it needs none; and what is wrong, if anything."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, ""
    title = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resource_claim_template_name is None:
        return None, f'{title}, spec.resourceClaim "{entry.name}": none of the supported fields are set'
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name, ""
    return None, f"{title}: ResourceClaim not created yet"


def owned_by(claim: ResourceClaim, pod: Pod, *, by_group: bool = False) -> bool:
    """Whether the pod, or `by_group` the group of the pod, controls the claim."""
    group = group_key(pod) if by_group else None
    return any(
        owner.controller
        and (
            owner.uid == pod.metadata.uid
            or (
                group is not None
                and (owner.kind, owner.name) == ("PodGroup", group[1])
                and owner.api_version.startswith(f"{POD_GROUP.group}/")
            )
        )
        for owner in claim.metadata.owner_references
    )


def reserved_for(claim: ResourceClaim, pod: Pod, *, by_group: bool = False) -> bool:
    """Whether the claim lists the pod, or `by_group` the group of the pod, as a user."""
    group = group_key(pod) if by_group else None
    return any(
        user.uid == pod.metadata.uid
        or (
            group is not None
            and (user.api_group, user.resource, user.name) == (POD_GROUP.group, POD_GROUP.plural, group[1])
        )
        for user in claim.status.reserved_for
    )


def group_of_claim(state: State, pod: Pod, name: str) -> PodGroup | None:
    """The pod group that a claim of the pod is reserved for as a whole, if it is one of the group's claims."""
    key = group_key(pod)
    group = state.groups.get(key) if key is not None and state.rules.on(GROUP_CLAIMS) else None
    if group is None:
        return None
    for entry in pod.spec.resource_claims:
        if claim_name(pod, entry)[0] == name and any(
            (entry.name, entry.resource_claim_name, entry.resource_claim_template_name)
            == (item.name, item.resource_claim_name, item.resource_claim_template_name)
            for item in group.spec.resource_claims
        ):
            return group
    return None


def pod_claims(state: State, pod: Pod) -> tuple[ResourceClaim, ...] | str:
    """The claims of a pod in the order of its entries, or why the pod cannot be scheduled yet."""
    found = []
    for entry in pod.spec.resource_claims:
        name, wrong = claim_name(pod, entry)
        if wrong:
            return wrong
        if name is None:
            continue
        claim = state.claims.get((pod.metadata.namespace, name))
        if claim is None:
            return f'resourceclaim.resource.k8s.io "{name}" not found'
        if claim.metadata.deletion_timestamp is not None:
            return f'resourceclaim "{name}" is being deleted'
        by_group = state.rules.on(GROUP_CLAIMS)
        if entry.resource_claim_name is None and not owned_by(claim, pod, by_group=by_group):
            own, other = f"{pod.metadata.namespace}/{pod.metadata.name}", f"{pod.metadata.namespace}/{name}"
            group = group_key(pod) if by_group else None
            owners = f"neither Pod nor PodGroup {group[1]} is the owner" if group else "Pod is not owner"
            return f"ResourceClaim {other} was not created for Pod {own} ({owners})"
        found.append(claim)
    return tuple(found)


@dataclass(slots=True)
class Attempt:
    """One pod's claims in one attempt.

    `waiting`: the claims that have no devices yet; `weighs`: whether any offers alternatives; `mapping`: whether devices
    may stand for the node's own cpu and memory; `careless`: whether a pod with claims of its own gets a special claim
    even where there is nothing to ask for.
    """

    state: State
    pod: PodInfo
    claims: tuple[ResourceClaim, ...]
    extended: bool
    stale: ResourceClaim | None
    waiting: tuple[ResourceClaim, ...]
    weighs: bool
    mapping: bool
    careless: bool
    unavailable: set[int] = field(default_factory=set)
    _plans: dict[frozenset[str], tuple[ExtendedClaim | None, Plan]] = field(default_factory=dict)

    def on(self, node: NodeInfo) -> OnNode | Refusal | SchedulerError:
        """Whether the claims can be had on a node, and with which devices."""
        delegated: frozenset[str] = frozenset()
        if self.extended:
            if self.stale is not None and self.stale.spec.devices.requests:
                return _no("cannot schedule extended resource claim")
            found = self._delegated(node)
            if isinstance(found, Refusal):
                return found
            delegated = found
            if not delegated and not self.claims:
                return NOTHING
        gone = self._unavailable_on(node)
        if isinstance(gone, Refusal):
            return gone
        result = NOTHING
        if self.waiting or delegated or self.careless:
            made = self._allocate(node, delegated)
            if not isinstance(made, OnNode):
                return made
            result = made
        if self.mapping:
            mapped = map_devices(self.state, self.pod, node, result.allocations, self.claims)
            if isinstance(mapped, str):
                return SchedulerError(f'running "{DYNAMIC_RESOURCES}" filter plugin: {mapped}')
            if isinstance(mapped, Refusal):
                return mapped
            result = replace(result, mapped=mapped) if mapped else result
        if gone:
            self.unavailable |= gone
            return _no("resourceclaim not available on the node")
        return result

    def asked_on(self, node: NodeInfo) -> tuple[ResourceClaim, ...]:
        """The claims that the allocator has to serve on a node, the special one among them, for explanations."""
        delegated = self._delegated(node) if self.extended else frozenset()
        if isinstance(delegated, Refusal) or not (self.waiting or delegated or self.careless):
            return ()
        return self._plan(delegated)[1].claims

    def _delegated(self, node: NodeInfo) -> frozenset[str] | Refusal:
        """The resources that devices have to provide because the node itself offers none."""
        found = set()
        for name, amount in self.pod.requests.items():
            if amount == 0 or not may_be_devices(name):
                continue
            offered = node.allocatable.get(name)
            if self.state.resolver.find(name) is not None and not offered:
                found.add(name)
            elif offered is None:
                return _no("cannot fit resource")
        return frozenset(found)

    def _unavailable_on(self, node: NodeInfo) -> set[int] | Refusal:
        gone: set[int] = set()
        rules = self.state.rules
        for index, claim in enumerate(self.claims):
            allocation = claim.status.allocation
            if allocation is None:
                continue
            if allocation.node_selector is not None and not matches_node(allocation.node_selector, node.node):
                gone.add(index)
                continue
            if SKIPS_UNKNOWN not in rules.quirks and _needs_feature(allocation, node):
                if claim.metadata.uid in self.state.pending:
                    title = f"{claim.metadata.namespace}/{claim.metadata.name}"
                    text = f"allocation requires {NODE_FEATURE} feature on the node"
                    return _no(f"resource claim {title} {text}")
                gone.add(index)
                continue
            if binding_conditions_on(rules) and is_lost(claim, self.state.now_s, self.state.binding_timeout_s):
                gone.add(index)
            if self.mapping:
                mine = reserved_for(claim, self.pod.pod, by_group=rules.on(GROUP_CLAIMS))
                used = used_by_another(self.state, claim, self.pod, mine)
                if used:
                    return _no(used)
        return gone

    def _allocate(self, node: NodeInfo, delegated: frozenset[str]) -> OnNode | Refusal | SchedulerError:
        extended, plan = self._plan(delegated)
        found = plan.on(node.identity)
        if isinstance(found, str):
            return SchedulerError(f'running "{DYNAMIC_RESOURCES}" filter plugin: {found}')
        if isinstance(found, Refusal):
            return found
        return OnNode(plan.claims, found, extended)

    def _plan(self, delegated: frozenset[str]) -> tuple[ExtendedClaim | None, Plan]:
        """How the waiting claims are allocated where these resources have to come from devices."""
        if delegated not in self._plans:
            claims = self.waiting
            extended = None
            if delegated or self.careless:
                extended = extended_claim(self.pod.pod.spec, delegated, self.state.resolver)
                claims = (*claims, special_claim(self.pod.pod, extended))
            self._plans[delegated] = (extended, self.state.devices.plan(claims))
        return self._plans[delegated]


def _needs_feature(allocation: AllocationResult, node: NodeInfo) -> bool:
    """Whether devices skip what a kubelet does for them and this node's does not know that."""
    skips = any(result.skip_node_operations for result in allocation.devices.results)
    return skips and NODE_FEATURE not in node.node.status.declared_features


def special_uid(pod: Pod) -> str:
    """Under which name the special claim is in flight before it exists."""
    return f"{pod.metadata.uid}/extended-resources"


def special_claim(pod: Pod, extended: ExtendedClaim) -> ResourceClaim:
    """The special claim as the allocator sees it."""
    return ResourceClaim(
        metadata=ObjectMeta(name=EXTENDED_CLAIM, namespace=pod.metadata.namespace, uid=special_uid(pod)),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=extended.requests)),
    )


def with_fresh_shares(item: ClaimAllocation, random: Randomness) -> ClaimAllocation:
    """The allocation with an ID drawn for each share of a device."""
    devices = item.allocation.devices
    if all(result.share_id is None for result in devices.results):
        return item
    results = tuple(
        result if result.share_id is None else view_with(result, share_id=new_uuid(random))
        for result in devices.results
    )
    return replace(item, allocation=view_with(item.allocation, devices=view_with(devices, results=results)))


def new_uuid(random: Randomness) -> str:
    """A random UUID (RFC 9562, version 4)."""
    bits = random.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _no(reason: str) -> Refusal:
    return Refusal(DYNAMIC_RESOURCES, (reason,))


def attempt(state: State, pod: PodInfo) -> Attempt | Refusal | SchedulerError | None:
    """The look at the claims before any node. None: the pod has nothing to do with devices."""
    claims = pod_claims(state, pod.pod)
    if isinstance(claims, str):
        return _no(claims)
    extended = state.rules.on("DRAExtendedResource") and any(
        amount and may_be_devices(name) and state.resolver.find(name) is not None
        for name, amount in pod.requests.items()
    )
    if not claims and not extended:
        return None
    claims = tuple(_with_pending(state, claim) for claim in claims)
    for claim in claims:
        refused = check_claim(state, claim)
        if refused is not None:
            return refused
    return Attempt(
        state,
        pod,
        claims,
        extended,
        state.special_claim_of(pod.pod) if extended else None,
        tuple(claim for claim in claims if claim.status.allocation is None),
        any(request.first_available for claim in claims for request in claim.spec.devices.requests),
        state.rules.on("DRANodeAllocatableResources"),
        extended and bool(claims) and "scheduler-claim-beside-plugin-resource" in state.rules.quirks,
    )


def _with_pending(state: State, claim: ResourceClaim) -> ResourceClaim:
    """The claim with the devices that another pod of the same group attempt has chosen for it."""
    chosen = state.pending.get(claim.metadata.uid) if state.pending else None
    if chosen is None or claim.status.allocation is not None:
        return claim
    return view_with(claim, status=view_with(claim.status, allocation=chosen))


def shared_allocations(state: State, claims: tuple[ResourceClaim, ...]) -> Iterable[ClaimAllocation]:
    """The devices that the pod takes over from another one of its group attempt."""
    for claim in claims:
        chosen = state.pending.get(claim.metadata.uid) if state.pending else None
        if chosen is not None:
            yield ClaimAllocation(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid, chosen)


def check_claim(state: State, claim: ResourceClaim) -> Refusal | SchedulerError | None:
    """What is wrong with a claim before any node is looked at: a class that is missing, a feature that is off."""
    if claim.status.allocation is not None:
        return None
    title = f"{claim.metadata.namespace}/{claim.metadata.name}"
    if state.devices.is_flying(claim.metadata.uid):
        return _no(f"resource claim {title} is in the process of being allocated")
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            refused = _check_class(state, request.exactly.device_class_name, request.name)
            if refused is not None:
                return refused
        elif not request.first_available:
            return _no(f"resource claim {title}, request {request.name}: unknown request type")
        elif not state.rules.on("DRAPrioritizedList"):
            text = "has subrequests, but the DRAPrioritizedList feature is disabled"
            return _no(f"resource claim {title}, request {request.name}: {text}")
        for sub in request.first_available:
            refused = _check_class(state, sub.device_class_name, f"{request.name}/{sub.name}")
            if refused is not None:
                return refused
    return None


def _check_class(state: State, name: str, request: str) -> Refusal | SchedulerError | None:
    if not name:
        text = f"request {request}: unsupported request type"
        return SchedulerError(f'running PreFilter plugin "{DYNAMIC_RESOURCES}": {text}')
    if state.devices.find_class(name) is None:
        return _no(f"request {request}: device class {name} does not exist")
    return None


def score(claims: tuple[ResourceClaim, ...], chosen: OnNode) -> int:
    """How good the alternatives are that were taken on a node: the earlier in the list, the better."""
    allocations = {claim.metadata.uid: result for claim, result in zip(chosen.asked, chosen.results)}
    total = 0
    for claim in claims:
        allocation = claim.status.allocation or allocations.get(claim.metadata.uid)
        taken = {result.request for result in allocation.devices.results} if allocation else set()
        for request in claim.spec.devices.requests:
            for index, sub in enumerate(request.first_available):
                if f"{request.name}/{sub.name}" in taken:
                    total += MAX_ALTERNATIVES - index
    return total


@dataclass(frozen=True, slots=True)
class After:
    """What follows when no node was found: the plugin's words, and what it takes back."""

    message: str
    deallocate: tuple[str, str] | None = None
    delete: tuple[str, str] | None = None
    unreserve: tuple[tuple[str, str], str] | None = None


def after_no_node(state: State, pod: PodInfo, attempt: Attempt | None) -> After:
    """The plugin's part of the ending: take back one useless allocation of the pod, if there is any."""
    loud = "scheduler-message-names-post-filter" in state.rules.quirks
    if attempt is None:
        return After("no new claims to deallocate" if loud else "")
    for index in sorted(attempt.unavailable):
        claim = attempt.claims[index]
        users = claim.status.reserved_for
        if not users or (len(users) == 1 and users[0].uid == pod.uid):
            key = (claim.metadata.namespace, claim.metadata.name)
            return After("deallocation of ResourceClaim completed", deallocate=key)
    if attempt.stale is not None:
        key = (attempt.stale.metadata.namespace, attempt.stale.metadata.name)
        return After("deletion of ResourceClaim completed", delete=key)
    freed = _reserved_for_group(state, pod.pod)
    if freed is not None:
        return After("ResourceClaim unreserved for PodGroup", unreserve=freed)
    return After("still not schedulable" if loud else "")


def _reserved_for_group(state: State, pod: Pod) -> tuple[tuple[str, str], str] | None:
    """A claim that an earlier attempt left reserved for the pod's group, of which no pod is placed; and the group's uid."""
    key = group_key(pod)
    group = state.groups.get(key) if key is not None and state.rules.on(GROUP_CLAIMS) else None
    if key is None or group is None or any(info.pod.spec.node_name for info in state.members(key)):
        return None
    told = {item.name: item.resource_claim_name for item in group.status.resource_claim_statuses}
    for item in group.spec.resource_claims:
        name = item.resource_claim_name or told.get(item.name)
        claim = state.claims.get((key[0], name)) if name else None
        if claim is not None and claim.status.allocation is not None and reserved_for(claim, pod, by_group=True):
            return (key[0], claim.metadata.name), group.metadata.uid
    return None
