"""What the scheduler knows of the cluster at one moment: from a snapshot, or kept up to date change by change.

Single-threaded and without effects outside itself. A pod that was scheduled and not yet bound is *assumed*: it counts on
its node, and the devices chosen for its claims are in flight and never given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from regauge.base import InputError
from regauge.model import ObjectMeta, Rules, Snapshot, document_view
from regauge.model.core import Node, Pod
from regauge.model.kinds import DEVICE_TAINT_RULE, POD_GROUP
from regauge.model.resource import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from regauge.model.scheduling import PodGroup
from regauge.scheduler.binding import BINDING_TIMEOUT_S
from regauge.scheduler.devices import Devices
from regauge.scheduler.extended import ClassResolver
from regauge.scheduler.nodes import Key, NodeInfo, PodInfo, is_terminal, node_info, pod_info
from regauge.scheduler.results import Scheduled
from regauge.scheduler.surroundings import SURROUNDING_KINDS, Surroundings


class State:
    """The scheduler's view. `start`: the node at which the next search begins, as upstream goes around.
    `pending`: devices chosen for claims in the group attempt under way, which its other pods may share.

    `now_s` (seconds since 1970) is only asked for whether devices took too long to get ready for binding.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.nodes: dict[str, NodeInfo] = {}
        self.pods: dict[Key, PodInfo] = {}
        self.claims: dict[Key, ResourceClaim] = {}
        self.resolver = ClassResolver()
        self.devices = Devices(rules)
        self.around = Surroundings()
        self.groups: dict[Key, PodGroup] = {}
        self.pending: dict[str, AllocationResult] = {}
        self.start = 0
        self.now_s = 0.0
        self.binding_timeout_s = BINDING_TIMEOUT_S
        self._pod_level = rules.on("PodLevelResources")
        self._mapping = rules.on("DRANodeAllocatableResources")
        self._homeless: dict[str, dict[str, PodInfo]] = {}
        self._assumed: dict[Key, PodInfo] = {}
        self._guards: set[str] = set()
        self._friends: set[str] = set()
        self._users: dict[Key, set[str]] = {}
        self._special: dict[str, Key] = {}
        self._nominated: dict[str, dict[str, PodInfo]] = {}
        self._members: dict[Key, dict[str, Key]] = {}

    @classmethod
    def of(cls, snapshot: Snapshot, rules: Rules) -> State:
        """The state of a snapshot. Raises `InputError` for an object that cannot be read."""
        state = cls(rules)
        for kind in SURROUNDING_KINDS:
            for document in snapshot.documents(kind):
                state.around.put(kind, document.object)
        for node in sorted(snapshot.nodes, key=lambda item: item.metadata.name):
            state.put_node(node)
        for class_ in sorted(snapshot.device_classes, key=lambda item: item.metadata.name):
            state.put_class(class_)
        for slice_ in snapshot.slices:
            state.put_slice(slice_)
        for rule in snapshot.documents(DEVICE_TAINT_RULE):
            state.put_taint_rule(document_view(rule, DeviceTaintRule))
        for claim in snapshot.claims:
            state.put_claim(claim)
        for group in snapshot.documents(POD_GROUP):
            state.put_group(document_view(group, PodGroup))
        for pod in snapshot.pods:
            state.put_pod(pod)
        return state

    # -- nodes

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        known = self.nodes.get(name)
        try:
            if known is not None:
                known.replace_node(node)
                return
            self.nodes[name] = info = node_info(node)
        except InputError as error:
            raise error.at(object=f"Node {name}") from None
        for pod in self._homeless.pop(name, {}).values():
            info.add(pod)

    def drop_node(self, name: str) -> None:
        info = self.nodes.pop(name, None)
        if info is not None and info.pods:
            self._homeless[name] = dict(info.pods)

    @contextmanager
    def only(self, names: Iterable[str]) -> Iterator[None]:
        """The state as if these were all nodes, as the scheduler looks at one domain of a topology."""
        whole, start = self.nodes, self.start
        self.nodes, self.start = {name: whole[name] for name in names}, 0
        try:
            yield
        finally:
            self.nodes, self.start = whole, start

    # -- pods

    def info(self, pod: Pod) -> PodInfo:
        """The pod prepared. Raises `InputError` for an amount that is no quantity."""
        try:
            return pod_info(pod, pod_level=self._pod_level, mapping=self._mapping)
        except InputError as error:
            raise error.at(object=f"Pod {pod.metadata.namespace}/{pod.metadata.name}") from None

    def put_pod(self, pod: Pod) -> None:
        """A pod came or changed. An assumed pod stays where it is assumed until it is bound or forgotten."""
        key = (pod.metadata.namespace, pod.metadata.name)
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.uid == pod.metadata.uid and not pod.spec.node_name and not is_terminal(pod):
            return
        self.drop_pod(key)
        if is_terminal(pod):
            return
        info = self.info(pod)
        self.pods[key] = info
        group = group_key(pod)
        if group is not None:
            self._members.setdefault(group, {})[pod.metadata.uid] = key
        self._place(info)

    def drop_pod(self, key: Key) -> None:
        self._assumed.pop(key, None)
        info = self.pods.pop(key, None)
        if info is not None:
            group = group_key(info.pod)
            if group is not None:
                self._members[group].pop(info.uid, None)
            self._unplace(info)

    def lift(self, info: PodInfo) -> None:
        """Take a placed pod from its node for a while, for trying out."""
        self._unplace(info)

    def lower(self, info: PodInfo) -> None:
        """Put it back."""
        self._place(info)

    # -- pod groups

    def put_group(self, group: PodGroup) -> None:
        self.groups[(group.metadata.namespace, group.metadata.name)] = group

    def drop_group(self, key: Key) -> None:
        self.groups.pop(key, None)

    def members(self, group: Key) -> list[PodInfo]:
        """The pods of a group that have not ended."""
        return [self.pods[key] for key in self._members.get(group, {}).values()]

    def _place(self, info: PodInfo) -> None:
        node = info.pod.spec.node_name
        if not node:
            nominated = info.pod.status.nominated_node_name
            if nominated:
                self._nominated.setdefault(nominated, {})[info.uid] = info
            return
        if node in self.nodes:
            self.nodes[node].add(info)
        else:
            self._homeless.setdefault(node, {})[info.uid] = info
        if info.terms.avoid:
            self._guards.add(info.uid)
        if info.terms:
            self._friends.add(info.uid)
        for claim in _mapped_claims(info.pod):
            self._users.setdefault((info.key[0], claim), set()).add(info.uid)

    def _unplace(self, info: PodInfo) -> None:
        node = info.pod.spec.node_name
        self._nominated.get(info.pod.status.nominated_node_name, {}).pop(info.uid, None)
        if node in self.nodes:
            self.nodes[node].remove(info.uid)
        self._homeless.get(node, {}).pop(info.uid, None)
        self._guards.discard(info.uid)
        self._friends.discard(info.uid)
        for claim in _mapped_claims(info.pod):
            self._users.get((info.key[0], claim), set()).discard(info.uid)

    def nominated(self, node: str, pod: PodInfo) -> tuple[PodInfo, ...]:
        """The pods that wait for room on a node and go before `pod`."""
        waiting = self._nominated.get(node)
        if not waiting:
            return ()
        return tuple(item for item in waiting.values() if item.uid != pod.uid and item.priority >= pod.priority)

    @property
    def guarded(self) -> bool:
        """Whether any placed pod has a required anti-affinity term."""
        return bool(self._guards)

    @property
    def befriended(self) -> bool:
        """Whether any placed pod has affinity terms at all."""
        return bool(self._friends)

    def users_of_mapped(self, claim: Key) -> frozenset[str]:
        """The placed pods (uids) that take cpu or memory of their node through this claim."""
        return frozenset(self._users.get(claim, ()))

    # -- what devices depend on

    def put_class(self, new: DeviceClass) -> None:
        old = self.devices.find_class(new.metadata.name)
        self.resolver.put(new, old)
        self.devices.put_class(new)

    def drop_class(self, name: str) -> None:
        old = self.devices.find_class(name)
        if old is not None:
            self.resolver.drop(old)
            self.devices.drop_class(name)

    def put_slice(self, slice_: ResourceSlice) -> None:
        self.devices.put_slice(slice_)

    def drop_slice(self, name: str) -> None:
        self.devices.drop_slice(name)

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        self.devices.put_taint_rule(rule)

    def drop_taint_rule(self, name: str) -> None:
        self.devices.drop_taint_rule(name)

    def put_claim(self, claim: ResourceClaim) -> None:
        key = (claim.metadata.namespace, claim.metadata.name)
        known = self.claims.get(key)
        if known is not None and known.metadata.uid != claim.metadata.uid:
            self.devices.release(known.metadata.uid)
        self.claims[key] = claim
        owner = _owner_of_special(claim)
        if owner:
            self._special[owner] = key
        if claim.status.allocation is not None:
            self.devices.hold(claim, claim.status.allocation)
        else:
            self.devices.release(claim.metadata.uid)

    def drop_claim(self, key: Key) -> None:
        known = self.claims.pop(key, None)
        if known is not None:
            self._special.pop(_owner_of_special(known), None)
            self.devices.release(known.metadata.uid)
            self.devices.land(known.metadata.uid)

    def special_claim_of(self, pod: Pod) -> ResourceClaim | None:
        """The claim that an earlier attempt made for the pod's extended resources."""
        key = self._special.get(pod.metadata.uid)
        claim = self.claims.get(key) if key else None
        return claim if claim is not None and claim.metadata.namespace == pod.metadata.namespace else None

    # -- assuming

    def assume(self, info: PodInfo, outcome: Scheduled) -> None:
        """Count the pod on its node and its devices as taken until it is bound or forgotten."""
        self.drop_pod(info.key)
        self.put_pod(placed(info.pod, outcome))
        self._assumed[info.key] = self.pods[info.key]
        for item in outcome.allocations:
            metadata = ObjectMeta(name=item.name, namespace=item.namespace, uid=item.uid)
            self.devices.fly(ResourceClaim(metadata=metadata), item.allocation)

    def forget(self, pod: Pod, allocations: Iterable[str]) -> None:
        """The attempt failed after all: `pod` as the API has it waits again; claims (uids) are no longer in flight."""
        for uid in allocations:
            self.devices.land(uid)
        key = (pod.metadata.namespace, pod.metadata.name)
        if key in self._assumed:
            self.drop_pod(key)
            self.put_pod(pod)

    def is_assumed(self, key: Key) -> bool:
        return key in self._assumed

    def landed(self, uid: str) -> None:
        """The allocation of a claim is written: from now on the claim itself tells."""
        self.devices.land(uid)


def group_key(pod: Pod) -> Key | None:
    """The pod group that a pod belongs to (namespace, name)."""
    named = pod.spec.scheduling_group
    return (pod.metadata.namespace, named.pod_group_name) if named is not None and named.pod_group_name else None


def placed(pod: Pod, outcome: Scheduled) -> Pod:
    """The pod as it will be once it is bound."""
    status = replace(pod.status, node_allocatable_resource_claim_statuses=outcome.mapped)
    return replace(pod, spec=replace(pod.spec, node_name=outcome.node), status=status)


def _mapped_claims(pod: Pod) -> Iterable[str]:
    return (item.resource_claim_name for item in pod.status.node_allocatable_resource_claim_statuses)


def _owner_of_special(claim: ResourceClaim) -> str:
    """The pod (uid) for whose extended resources the claim stands, or ""."""
    if (claim.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return ""
    return next((owner.uid for owner in claim.metadata.owner_references if owner.controller), "")
