"""What must be true of a cluster whatever goes wrong: after every step, and more of it when everything has settled.

Invariants look at three places that must tell the same: the API, the checkpoints of kubelets and drivers, and the
containers that run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from regauge.kube import WatchEvent
from regauge.model import Kind, Object, Quantity, view
from regauge.model.core import ENDED_PHASES
from regauge.model.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.resource import POD_CLAIM_NAME_ANNOTATION, ResourceClaim, ResourceSlice
from regauge.rehearsal.node_state import Held, NodeState, node_states, traces
from regauge.rehearsal.nodes import NodeWorld

SLICE_CHECK = "a pool that changes has a new generation"
PLACE = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, and what was seen."""

    invariant: str
    seen: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.seen}"


class Invariants:
    """The invariants of one world. Made before the world does anything, so that it sees every published pool."""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world
        self._api = world.control.api
        self._slices: dict[str, Object] = {}
        self._slice_trouble: list[Violation] = []
        self._clean: tuple[object, ...] = ()
        self.end = self._api.subscribe((RESOURCE_SLICE,), self._slice)

    def _slice(self, _kind: Kind, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        old = self._slices.pop(name, None)
        if event.type == "DELETED":
            return
        spec = event.object["spec"]
        self._slices[name] = spec
        if (
            old is not None
            and _devices(old) != _devices(spec)
            and old["pool"]["generation"] >= spec["pool"]["generation"]
        ):
            text = f"slice {name} has other devices than before and still generation {spec['pool']['generation']}"
            self._slice_trouble.append(Violation(SLICE_CHECK, text))

    def check(self, *, settled: bool) -> list[Violation]:
        """What does not hold now. `settled`: nothing is under way any more, so that traces must be gone, too.

        As long as nothing that is looked at changes, what held holds.
        """
        looked_at = (*map(self._api.list, (RESOURCE_CLAIM, RESOURCE_SLICE, POD)), *traces(self._world))
        if not settled and looked_at == self._clean and not self._slice_trouble:
            return []
        found = self._check(settled=settled)
        self._clean = () if found else looked_at
        return found

    def _check(self, *, settled: bool) -> list[Violation]:
        claims = [view(one, ResourceClaim) for one in self._api.list(RESOURCE_CLAIM)]
        nodes = node_states(self._world)
        known = {pod["metadata"]["uid"] for pod in self._api.list(POD) if phase_of(pod) not in ENDED_PHASES}
        found = [
            *self._slice_trouble,
            *_one_holder(claims),
            *_within_capacity(claims, self._api.list(RESOURCE_SLICE)),
            *_one_claim_each(self._api.list(RESOURCE_CLAIM)),
            *(item for node in nodes for item in _on_node(node, claims, known)),
        ]
        self._slice_trouble = []
        if settled:
            pods = {pod["metadata"]["uid"]: pod for pod in self._api.list(POD)}
            found += [*_owned(claims, pods), *(item for node in nodes for item in _agreement(node, claims, pods))]
            found += [*self._counted(pods), *self._by_themselves()]
        return found

    def _by_themselves(self) -> Iterator[Violation]:
        """A driver gives a claim up by itself when nobody else does. Somebody should have."""
        for _, node, notice in self._world.notices:
            if notice.code == "stale-claim":
                yield Violation("the kubelet releases every claim", f"the driver of {node} had to: {notice.about}")

    def _counted(self, pods: Mapping[str, Object]) -> Iterator[Violation]:
        """What pods ask of a device plugin's resource is not more than its node has."""
        asked: dict[tuple[str, str], int] = defaultdict(int)
        for pod in pods.values():
            node = pod["spec"].get("nodeName")
            if not node or phase_of(pod) in ENDED_PHASES:
                continue
            bridged = _bridged(pod)
            for container in pod["spec"]["containers"]:
                for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
                    if "/" in name and (container["name"], name) not in bridged:
                        asked[node, name] += Quantity.from_document(value).value()
        for (node, name), count in asked.items():
            found = self._api.find(NODE, node)
            have = ((found or {}).get("status") or {}).get("capacity") or {}
            if found is not None and count > int(have.get(name, "0")):
                yield Violation(
                    "counted devices are not given twice", f"{count} {name} on {node}, which has {have.get(name)}"
                )


def _nothing() -> Quantity:
    return Quantity.of(0)


def _bridged(pod: Object) -> set[tuple[str, str]]:
    """What a pod counts and a claim serves: container and resource."""
    told = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return {(one["containerName"], one["resourceName"]) for one in told.get("requestMappings") or ()}


def _devices(spec: Object) -> object:
    return spec.get("devices"), spec.get("sharedCounters")


def _results(claim: ResourceClaim) -> Iterator[tuple[PLACE, bool]]:
    """The devices of an allocation, and whether the claim has each of them for itself alone."""
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation else ():
        alone = not result.admin_access and result.share_id is None
        yield (result.driver, result.pool, result.device), alone


def _names_on_node(claim: ResourceClaim) -> set[str]:
    """What the devices of an allocation are called by their driver: a share has its id in its name."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation else ()
    return {f"{one.device}-{one.share_id}" if one.share_id else one.device for one in results}


def _name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _one_holder(claims: Iterable[ResourceClaim]) -> Iterator[Violation]:
    holders: dict[PLACE, list[str]] = defaultdict(list)
    for claim in claims:
        for place, alone in _results(claim):
            if alone:
                holders[place].append(_name(claim))
    for place, names in holders.items():
        if len(names) > 1:
            yield Violation("no device is allocated twice", f"{'/'.join(place)} to {', '.join(names)}")


def _within_capacity(claims: Iterable[ResourceClaim], slices: Iterable[Object]) -> Iterator[Violation]:
    used: dict[tuple[PLACE, str], Quantity] = defaultdict(_nothing)
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation else ():
            for name, value in (result.consumed_capacity or {}).items():
                key = (result.driver, result.pool, result.device), name
                used[key] = used[key].add(Quantity.from_document(value))
    yield from _over_counters(claims, slices)
    for slice_ in slices:
        spec = view(slice_, ResourceSlice).spec
        for device in spec.devices:
            for name, capacity in device.capacity.items():
                place = (spec.driver, spec.pool.name, device.name)
                most = Quantity.from_document(capacity.value)
                if used.get((place, name), _nothing()) > most:
                    text = f"{'/'.join(place)} gives {used[place, name]} of {most} {name}"
                    yield Violation("capacity is not exceeded", text)


def _over_counters(claims: Iterable[ResourceClaim], slices: Iterable[Object]) -> Iterator[Violation]:
    """The counters that allocated devices use up, against those of their pools."""
    taken = {place for claim in claims for place, alone in _results(claim) if alone}
    most: dict[tuple[str, str, str, str], Quantity] = {}
    used: dict[tuple[str, str, str, str], Quantity] = defaultdict(_nothing)
    for slice_ in slices:
        spec = slice_["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        for counters in spec.get("sharedCounters") or ():
            for name, counter in counters["counters"].items():
                most[(*pool, counters["name"], name)] = Quantity.from_document(counter["value"])
        for device in spec.get("devices") or ():
            if (*pool, device["name"]) not in taken:
                continue
            for use in device.get("consumesCounters") or ():
                for name, counter in use["counters"].items():
                    key = (*pool, use["counterSet"], name)
                    used[key] = used[key].add(Quantity.from_document(counter["value"]))
    for key, value in used.items():
        if key in most and value > most[key]:
            yield Violation("counters are not exceeded", f"{'/'.join(key)}: {value} of {most[key]}")


def _one_claim_each(claims: Iterable[Object]) -> Iterator[Violation]:
    made: dict[tuple[str, str], list[str]] = defaultdict(list)
    for claim in claims:
        entry = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME_ANNOTATION)
        for owner in claim["metadata"].get("ownerReferences") or ():
            if entry and owner.get("controller") and not claim["metadata"].get("deletionTimestamp"):
                made[owner["uid"], entry].append(claim["metadata"]["name"])
    for (_, entry), names in made.items():
        if len(names) > 1:
            yield Violation("a template makes one claim for a pod", f"{', '.join(names)} for entry {entry}")


def _on_node(node: NodeState, claims: Iterable[ResourceClaim], known: Collection[str]) -> Iterator[Violation]:
    """A node at any moment. Pods that were taken out of the API by force may run on until their kubelet hears of it."""
    users: dict[str, set[str]] = defaultdict(set)
    claims = tuple(claims)
    looked_at = {(claim.metadata.uid, place[2]) for claim in claims for place, alone in _results(claim) if not alone}
    for held in node.held:
        if (held.claim_uid, held.device) not in looked_at:
            users[held.device].add(held.claim_uid or f"pod {held.pod_uid}")
    for device, names in users.items():
        if len(names) > 1:
            yield Violation("no device is in two hands", f"{device} on {node.name}: {', '.join(sorted(names))}")
    prepared: dict[str, list[str]] = defaultdict(list)
    for one in node.prepared:
        for device in one.exclusive:
            prepared[device].append(one.title)
    for device, titles in prepared.items():
        if len(titles) > 1:
            yield Violation("no device is prepared twice", f"{device} on {node.name}: {', '.join(titles)}")
    by_uid = {claim.metadata.uid: claim for claim in claims}
    for held in node.held:
        if held.claim_uid and held.pod_uid in known:
            yield from _held_by_claim(node, held, by_uid)


def _held_by_claim(node: NodeState, held: Held, claims: Mapping[str, ResourceClaim]) -> Iterator[Violation]:
    who = f"{held.pod} on {node.name} runs with {held.device}"
    if not node.completed(held.claim_uid):
        yield Violation("what runs is prepared", f"{who}, and claim {held.claim_uid} is not prepared")
    noted = node.claims.get(held.claim_uid)
    if noted is None or held.pod_uid not in noted.pod_uids:
        yield Violation("what runs is in the kubelet's checkpoint", f"{who}, and the kubelet does not know")
    claim = claims.get(held.claim_uid)
    if claim is None:
        yield Violation("what runs is allocated", f"{who}, and claim {held.claim_uid} is gone")
    elif held.device not in _names_on_node(claim):
        yield Violation("what runs is allocated", f"{who}, and {_name(claim)} is allocated otherwise")
    elif all(user.uid != held.pod_uid for user in claim.status.reserved_for):
        yield Violation("what runs is reserved", f"{who}, and {_name(claim)} is not reserved for it")


def _owned(claims: Iterable[ResourceClaim], pods: Mapping[str, Object]) -> Iterator[Violation]:
    for claim in claims:
        users = claim.status.reserved_for
        if claim.status.allocation and not users:
            yield Violation("no allocation without an owner", f"{_name(claim)} is allocated and nobody has it")
        for user in users:
            pod = pods.get(user.uid)
            if user.resource == "pods" and (pod is None or phase_of(pod) in ENDED_PHASES):
                yield Violation(
                    "no allocation without an owner", f"{_name(claim)} is reserved for {user.name}, which ended"
                )
        for owner in claim.metadata.owner_references:
            if owner.kind == "Pod" and owner.uid not in pods:
                yield Violation("no claim of a pod that is gone", f"{_name(claim)} of {owner.name}")


def _agreement(node: NodeState, claims: Iterable[ResourceClaim], pods: Mapping[str, Object]) -> Iterator[Violation]:
    """API, kubelet and driver tell the same of a node that is up."""
    for text in node.unreadable:
        yield Violation("checkpoints can be read", text)
    if not node.up:
        return
    here = {uid for uid, pod in pods.items() if pod["spec"].get("nodeName") == node.name and _runs(pod)}
    expected = {
        claim.metadata.uid: _name(claim)
        for claim in claims
        if claim.status.allocation and any(user.uid in here for user in claim.status.reserved_for)
    }
    told = {uid: claim.name for uid, claim in node.claims.items()}
    have = {one.uid: one.title for one in node.prepared if one.completed}
    for who, known in (("kubelet", told), ("driver", have)):
        for uid in sorted(expected.keys() - known.keys()):
            yield Violation("checkpoints agree with the API", f"the {who} of {node.name} misses {expected[uid]}")
        for uid in sorted(known.keys() - expected.keys()):
            yield Violation("checkpoints agree with the API", f"the {who} of {node.name} still has {known[uid]}")
    running = {held.pod_uid: held.pod for held in node.held}
    for uid in sorted(running.keys() - pods.keys()):
        yield Violation("nothing runs that is gone", f"{running[uid]} on {node.name}")


def phase_of(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _runs(pod: Object) -> bool:
    return phase_of(pod) == "Running"
