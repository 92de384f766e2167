"""Who holds which device, down to the container and the physical device, over both stacks. Pure.

What DRA allocated stands in the claims; which container has which device of a device plugin is known to its kubelet only,
and comes in with a node's report (from pod resources or from the checkpoint of the device manager).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from regauge.inventory import CountedResource, Inventory, Stack, claim_names, take_inventory
from regauge.model import NodeReport, PluginDeviceHolder, Snapshot
from regauge.model.core import ENDED_PHASES, Pod
from regauge.model.kinds import POD_GROUP
from regauge.model.resource import DeviceRequestAllocationResult, ResourceClaim
from regauge.observe.owners import NOBODY, Owner, Owners


@dataclass(frozen=True, slots=True)
class Holding:
    """One device as one container holds it.

    A device that several containers, pods or shares hold has a row for each. What does not apply or is not known is "":
    `driver`, `pool` and everything of the claim for device plugins (there `resource` is the name and `device` the
    plugin's id), `container` where a pod's claim is used by no container, `pod` and all of it where a claim is allocated
    and reserved by nobody. `resource` is the extended resource name that was asked for, also where a claim serves it.
    `consumed` is what a share takes of the device's capacity. `since_s` is when it began, in seconds since 1970.
    """

    stack: Stack
    node: str
    device: str
    driver: str = ""
    pool: str = ""
    uuid: str = ""
    pci: str = ""
    resource: str = ""
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    workload: Owner = NOBODY
    container: str = ""
    claim: str = ""
    claim_uid: str = ""
    request: str = ""
    share_id: str = ""
    consumed: Mapping[str, str] = field(default_factory=dict, hash=False)
    admin_access: bool = False
    since_s: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What tells this device from all others: driver, pool and device, or node, resource and device id."""
        if self.stack is Stack.DRA:
            return (self.driver, self.pool, self.device)
        return (self.node, self.resource, self.device)

    @property
    def physical_id(self) -> str:
        """The UUID, else the PCI address, else the name it is advertised under."""
        return self.uuid or self.pci or self.device


@dataclass(frozen=True, slots=True)
class Correlation:
    """`holdings` are what is held now. `stale` are devices that a kubelet still notes for pods that ended or are gone:

    it takes them back when it needs one. `unseen` are the counted resources of nodes without a report: who holds which
    of them is not known; `unknown` says so in words, with everything else that could not be told.
    """

    holdings: tuple[Holding, ...]
    stale: tuple[Holding, ...] = ()
    unseen: tuple[CountedResource, ...] = ()
    unknown: tuple[str, ...] = ()

    def of_pod(self, namespace: str, pod: str) -> tuple[Holding, ...]:
        return tuple(one for one in self.holdings if one.pod == pod and one.namespace == namespace)

    def of_claim(self, namespace: str, claim: str) -> tuple[Holding, ...]:
        return tuple(one for one in self.holdings if one.claim == claim and one.namespace == namespace)

    def of_device(self, name: str) -> tuple[Holding, ...]:
        """Whoever holds a device: `name` is its UUID, PCI address, driver/pool/device, or the name it is advertised under."""
        return tuple(one for one in self.holdings if name in (one.uuid, one.pci, one.device, "/".join(one.key)))


def correlate(
    snapshot: Snapshot, reports: Iterable[NodeReport] = (), inventory: Inventory | None = None
) -> Correlation:
    """The holdings of an estate. `inventory` is `take_inventory` of the same, where the caller has it already."""
    known = tuple(reports)
    taken = take_inventory(snapshot, known) if inventory is None else inventory
    ground = _Ground(snapshot, taken)
    held: list[Holding] = []
    stale: list[Holding] = []
    unknown = list(taken.unknown)
    for claim in snapshot.claims:
        held += _of_claim(claim, ground)
    for report in known:
        for holder in report.holders:
            pod = ground.holder_pod(holder)
            rows = _of_plugin(report.node, holder, pod, ground)
            (held if pod is not None and pod.status.phase not in ENDED_PHASES else stale).extend(rows)
            if pod is None:
                unknown.append(_gone(report.node, holder))
    return Correlation(tuple(held), tuple(stale), taken.unseen, tuple(unknown))


def seconds(stamp: object) -> float | None:
    """A timestamp of the API in seconds since 1970; None where there is none, or none that can be read."""
    if not isinstance(stamp, str) or not stamp:
        return None
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class _Identity:
    node: str
    uuid: str
    pci: str


class _Ground:
    """What is looked up for every row: devices by the names they are advertised under, pods, and who owns them."""

    def __init__(self, snapshot: Snapshot, inventory: Inventory) -> None:
        self._owners = Owners(snapshot)
        self._pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in snapshot.pods}
        self._by_uid = {pod.metadata.uid: pod for pod in snapshot.pods if pod.metadata.uid}
        self._groups: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in snapshot.pods:
            group = pod.spec.scheduling_group
            if group is not None and group.pod_group_name:
                self._groups[pod.metadata.namespace, group.pod_group_name].append(pod)
        self._devices: dict[tuple[str, str], _Identity] = {}
        self._listed: dict[tuple[str, str, str], _Identity] = {}
        for device in inventory.devices:
            found = {kind: value for one in device.advertisements for kind, value in one.identity.items()}
            identity = _Identity(device.node, found.get("uuid", ""), found.get("pci", ""))
            for one in device.advertisements:
                if one.stack is Stack.DRA:
                    self._devices[(one.source, one.name)] = identity
                else:
                    self._listed[(one.node, one.source, one.name)] = identity

    def published(self, result: DeviceRequestAllocationResult) -> _Identity:
        name = f"{result.driver}/{result.pool}/{result.device}"
        return self._devices.get((result.driver, name), _NOT_KNOWN)

    def listed(self, node: str, resource: str, device_id: str) -> _Identity:
        return self._listed.get((node, resource, device_id), _NOT_KNOWN)

    def pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        """The pod of this name, if it is still the same one."""
        found = self._pods.get((namespace, name))
        return found if found is not None and (not uid or found.metadata.uid in ("", uid)) else None

    def members(self, namespace: str, group: str, claim: str) -> list[Pod]:
        """The pods of a group that are on a node and use a claim that is reserved for the group as a whole."""
        found = self._groups.get((namespace, group), ())
        return [
            pod
            for pod in found
            if pod.spec.node_name and pod.status.phase not in ENDED_PHASES and claim in claim_names(pod)
        ]

    def holder_pod(self, holder: PluginDeviceHolder) -> Pod | None:
        if holder.pod_uid:
            return self._by_uid.get(holder.pod_uid)
        return self._pods.get((holder.namespace, holder.pod))

    def owner(self, pod: Pod) -> Owner:
        return self._owners.top(pod)


_NOT_KNOWN = _Identity("", "", "")


def _of_claim(claim: ResourceClaim, ground: _Ground) -> Iterator[Holding]:
    allocation = claim.status.allocation
    if allocation is None:
        return
    users = list(_users(claim, ground))
    for result in allocation.devices.results:
        whole = _allocated(claim, result, ground.published(result), seconds(allocation.allocation_timestamp))
        if not users:
            yield whole
        for name, uid, pod in users:
            if pod is None:
                yield replace(whole, pod=name, pod_uid=uid)
                continue
            of_pod = replace(
                whole,
                node=whole.node or pod.spec.node_name,
                pod=name,
                pod_uid=pod.metadata.uid or uid,
                workload=ground.owner(pod),
                since_s=_later(whole.since_s, _placed_s(pod)),
            )
            for container, resource in containers_with(pod, claim.metadata.name, result.request):
                yield replace(of_pod, container=container, resource=resource)


def _users(claim: ResourceClaim, ground: _Ground) -> Iterator[tuple[str, str, Pod | None]]:
    """The pods that a claim is reserved for by name and uid, those of groups among them; None for one that is gone."""
    namespace = claim.metadata.namespace
    for user in claim.status.reserved_for:
        if user.resource == "pods" and not user.api_group:
            yield user.name, user.uid, ground.pod(namespace, user.name, user.uid)
        elif (user.api_group, user.resource) == (POD_GROUP.group, POD_GROUP.plural):
            for pod in ground.members(namespace, user.name, claim.metadata.name):
                yield pod.metadata.name, pod.metadata.uid, pod


def _allocated(
    claim: ResourceClaim, result: DeviceRequestAllocationResult, identity: _Identity, since_s: float | None
) -> Holding:
    return Holding(
        stack=Stack.DRA,
        node=identity.node,
        device=result.device,
        driver=result.driver,
        pool=result.pool,
        uuid=identity.uuid,
        pci=identity.pci,
        namespace=claim.metadata.namespace,
        claim=claim.metadata.name,
        claim_uid=claim.metadata.uid,
        request=result.request,
        share_id=result.share_id or "",
        consumed={name: str(value) for name, value in result.consumed_capacity.items()},
        admin_access=bool(result.admin_access),
        since_s=since_s,
    )


def containers_with(pod: Pod, claim: str, request: str) -> list[tuple[str, str]]:
    """The containers of a pod that get the devices of a claim's request, each with the extended resource name that it
    asked for ("" where it named the claim). `("", "")` alone: no container uses them, the pod holds them all the same.

    A request of several alternatives is named by its own name, with or without the alternative's behind a slash.
    """
    names = (request, request.partition("/")[0])
    bridged = pod.status.extended_resource_claim_status
    if bridged is not None and bridged.resource_claim_name == claim:
        rows = bridged.request_mappings
        return [(row.container_name, row.resource_name) for row in rows if row.request_name in names] or [("", "")]
    told = {row.name: row.resource_claim_name for row in pod.status.resource_claim_statuses}
    entries = {row.name for row in pod.spec.resource_claims if (row.resource_claim_name or told.get(row.name)) == claim}
    found = [
        (container.name, "")
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        if any(use.name in entries and use.request in ("", *names) for use in container.resources.claims)
    ]
    return found or [("", "")]


def _of_plugin(node: str, holder: PluginDeviceHolder, pod: Pod | None, ground: _Ground) -> Iterator[Holding]:
    for device_id in holder.device_ids:
        identity = ground.listed(node, holder.resource_name, device_id)
        yield Holding(
            stack=Stack.DEVICE_PLUGIN,
            node=node,
            device=device_id,
            uuid=identity.uuid,
            pci=identity.pci,
            resource=holder.resource_name,
            namespace=pod.metadata.namespace if pod else holder.namespace,
            pod=pod.metadata.name if pod else holder.pod,
            pod_uid=pod.metadata.uid if pod else holder.pod_uid,
            workload=ground.owner(pod) if pod else NOBODY,
            container=holder.container,
            since_s=seconds(pod.status.start_time) if pod else None,
        )


def _gone(node: str, holder: PluginDeviceHolder) -> str:
    who = f"pod {holder.namespace}/{holder.pod}" if holder.namespace else holder.pod or f"uid {holder.pod_uid}"
    count = len(holder.device_ids)
    return f"node {node}: its kubelet notes {count} of {holder.resource_name} for {who}, which is not there any more"


def _placed_s(pod: Pod) -> float | None:
    found = (one.last_transition_time for one in pod.status.conditions if one.type == "PodScheduled")
    return seconds(next(found, None))


def _later(one: float | None, other: float | None) -> float | None:
    known = [moment for moment in (one, other) if moment is not None]
    return max(known, default=None)
