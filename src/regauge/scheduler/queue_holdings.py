"""What pods really hold, by the names that Kueue charges: devices of claims, and resources that a node counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regauge.allocator import DeviceId
from regauge.model import Document, OwnerReference, Quantity, Snapshot
from regauge.model.core import Pod
from regauge.model.resource import DeviceRequestAllocationResult, ResourceClaim
from regauge.scheduler.nodes import Key, is_terminal
from regauge.scheduler.queue_charging import Charges, Charging, consumed, put
from regauge.scheduler.queue_objects import Workload, amount
from regauge.scheduler.resources import pod_requests

MOST_OWNERS = 8


@dataclass(frozen=True, slots=True)
class Held:
    """What one request of a pod's claim holds. `resource`: the name that containers asked by, "" for a claim of its own."""

    claim: ResourceClaim
    resource: str
    class_name: str
    devices: tuple[DeviceId, ...]
    amount: Quantity
    shared_by: int


@dataclass(frozen=True, slots=True)
class PodHolds:
    """What one pod holds: devices of claims, and what is counted on its node without claims."""

    pod: Pod
    devices: tuple[Held, ...]
    counted: Charges


def pods_hold(snapshot: Snapshot, charging: Charging) -> dict[Key, PodHolds]:
    """What each pod holds that has not ended. A claim that several pods use counts for the first of them."""
    by_user: dict[Key, list[ResourceClaim]] = {}
    for claim in snapshot.claims:
        user = _user(claim)
        if claim.status.allocation is not None and user:
            by_user.setdefault((claim.metadata.namespace, user), []).append(claim)
    found = {}
    for pod in snapshot.pods:
        key = (pod.metadata.namespace, pod.metadata.name)
        if not is_terminal(pod):
            held = [one for claim in by_user.get(key, ()) for one in _held(pod, claim, charging)]
            found[key] = PodHolds(pod, tuple(held), _counted(pod, held))
    return found


def _user(claim: ResourceClaim) -> str:
    for one in claim.status.reserved_for:
        if one.resource == "pods":
            return one.name
    return next((one.name for one in claim.metadata.owner_references if one.kind == "Pod"), "")


def _held(pod: Pod, claim: ResourceClaim, charging: Charging) -> Iterable[Held]:
    special = pod.status.extended_resource_claim_status
    asked_by = {}
    if special is not None and special.resource_claim_name == claim.metadata.name:
        asked_by = {one.request_name: one.resource_name for one in special.request_mappings}
    assert claim.status.allocation is not None
    grouped: dict[str, list[DeviceRequestAllocationResult]] = {}
    for result in claim.status.allocation.devices.results:
        if not result.admin_access:
            grouped.setdefault(result.request, []).append(result)
    for request, results in grouped.items():
        class_name = class_asked(claim, request)
        total = Quantity.of(0)
        for result in results:
            total = total.add(_amount(result, class_name, charging))
        ids = tuple(DeviceId(one.driver, one.pool, one.device) for one in results)
        yield Held(claim, asked_by.get(request, ""), class_name, ids, total, len(claim.status.reserved_for))


def class_asked(claim: ResourceClaim, request: str) -> str:
    """The class of a claim's request, or of one of its alternatives ("main/sub"); "" where it has none."""
    main, _, sub = request.partition("/")
    for one in claim.spec.devices.requests:
        if one.name == main:
            if one.exactly is not None:
                return one.exactly.device_class_name
            return next((item.device_class_name for item in one.first_available if item.name == sub), "")
    return ""


def _amount(result: DeviceRequestAllocationResult, class_name: str, charging: Charging) -> Quantity:
    mapping = charging.settings.by_class.get(class_name)
    for source in mapping.sources if mapping else ():
        if source.capacity and source.capacity.name in result.consumed_capacity:
            return amount(result.consumed_capacity[source.capacity.name], "consumed capacity")
        device = charging.published.by_id.get(DeviceId(result.driver, result.pool, result.device))
        if source.counter and device is not None:
            return consumed(device, source.counter)
    return Quantity.of(1)


def _counted(pod: Pod, held: Iterable[Held]) -> Charges:
    """What the node counts for the pod without any claim."""
    if not pod.spec.node_name:
        return {}
    by_claim = {one.resource for one in held}
    return {
        name: Quantity(whole, -3) if name == "cpu" else Quantity.of(whole)
        for name, whole in pod_requests(pod.spec).items()
        if name not in by_claim and whole
    }


# -- whose pods


class Owners:
    """Whose pods are whose, through all owners that are in the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._by_uid: dict[str, Document] = {}
        for document in snapshot.all_documents():
            uid = (document.object.get("metadata") or {}).get("uid") if document.kind not in _LEAVES else None
            if uid:
                self._by_uid[uid] = document

    def names_of(self, pod: Pod) -> set[tuple[str, str]]:
        """The pod and all that own it, as (kind, name)."""
        found = {("Pod", pod.metadata.name)}
        waiting: list[OwnerReference] = list(pod.metadata.owner_references)
        while waiting and len(found) < MOST_OWNERS:
            one = waiting.pop()
            found.add((one.kind, one.name))
            document = self._by_uid.get(one.uid)
            for above in (document.object["metadata"].get("ownerReferences") or ()) if document else ():
                waiting.append(OwnerReference(kind=above["kind"], name=above["name"], uid=above.get("uid", "")))
        return found

    def pods_of(self, workloads: Iterable[Workload], pods: Mapping[Key, PodHolds]) -> dict[str, list[PodHolds]]:
        """The pods of each workload that is charged, by the title of the workload."""
        by_owner = {
            (one.metadata.namespace, owner.kind, owner.name): one.title
            for one in workloads
            if one.charged is not None
            for owner in one.metadata.owner_references
        }
        found: dict[str, list[PodHolds]] = {}
        for (namespace, _), pod in pods.items():
            for kind, name in self.names_of(pod.pod):
                title = by_owner.get((namespace, kind, name))
                if title is not None:
                    found.setdefault(title, []).append(pod)
                    break
        return found


_LEAVES = frozenset({"Pod", "ResourceClaim", "ResourceSlice", "Node", "ConfigMap"})


def by_name(holds: Iterable[PodHolds], charged: Iterable[str], charging: Charging) -> Charges:
    """What pods hold together, under the names that they are charged by, or would be."""
    names = set(charged)
    total: Charges = {}
    for one in holds:
        for held in one.devices:
            put(total, name_of(held, names, charging), held.amount)
        for name, value in one.counted.items():
            put(total, name, value)
    return total


def name_of(held: Held, charged: set[str], charging: Charging) -> str:
    """The name in quotas that devices stand for: the one that is charged, where there are several."""
    mapping = charging.settings.by_class.get(held.class_name)
    if not held.resource:
        return mapping.name if mapping else held.class_name
    possible = charging.names_for(held.resource)
    return next((one for one in (*possible, held.resource) if one in charged), possible[0])
