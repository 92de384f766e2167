"""What an operator should know of a cluster whose parts no longer tell the same, with what to do about each.

Every finding has a stable code. It is made from the API and from what is on the nodes; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from regauge.cdi.directory import SpecDirectories
from regauge.cluster.api import Api
from regauge.cluster.deletion import seconds_of
from regauge.model import Object, view
from regauge.model.core import ENDED_PHASES
from regauge.model.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.resource import ResourceClaim
from regauge.rehearsal.node_state import NodeState, node_states
from regauge.rehearsal.nodes import NodeWorld

PARTIAL_AFTER_S = 30.0
Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Finding:
    """`code` is stable, `about` names the objects, `text` says what is seen, `repair` what to do."""

    code: str
    about: str
    text: str
    repair: str

    def __str__(self) -> str:
        return f"{self.code} {self.about}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Picture:
    now_s: float
    claims: Mapping[str, ResourceClaim]
    pods: Mapping[str, Object]
    nodes: Mapping[str, Object]
    published: Mapping[Place, Object]
    drivers: frozenset[tuple[str, str]]
    states: Sequence[NodeState]
    unresolvable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def findings(world: NodeWorld) -> list[Finding]:
    """Everything found now, in a fixed order."""
    picture = _picture(world)
    return [item for look in _LOOKS for item in look(picture)]


def _picture(world: NodeWorld) -> _Picture:
    api: Api = world.control.api
    published: dict[Place, Object] = {}
    for slice_ in api.list(RESOURCE_SLICE):
        spec = slice_["spec"]
        for device in spec.get("devices") or ():
            published[spec["driver"], spec["pool"]["name"], device["name"]] = device
    states = node_states(world)
    return _Picture(
        now_s=world.clock.now_s(),
        claims={one["metadata"]["uid"]: view(one, ResourceClaim) for one in api.list(RESOURCE_CLAIM)},
        pods={one["metadata"]["uid"]: one for one in api.list(POD)},
        nodes={one["metadata"]["name"]: one for one in api.list(NODE)},
        published=published,
        drivers=frozenset((name, plugin) for name, node in world.nodes.items() for plugin in node.running),
        states=states,
        unresolvable={state.name: _unresolvable(world, state) for state in states},
    )


def _unresolvable(world: NodeWorld, state: NodeState) -> tuple[str, ...]:
    """The CDI devices that the kubelet would hand to a runtime and that no spec of the node has."""
    node = world.nodes[state.name]
    catalog = SpecDirectories(node.machine.files, (node.etc_cdi, node.cdi_dir)).read()
    asked = {
        id_
        for claim in state.claims.values()
        for devices in claim.drivers.values()
        for device in devices or ()
        for id_ in device.cdi_ids or ()
    }
    return tuple(id_ for id_ in sorted(asked) if catalog.why_not(id_) is not None)


def _title(claim: ResourceClaim) -> str:
    return f"claim {claim.metadata.namespace}/{claim.metadata.name}"


def _pod(pod: Object) -> str:
    return f"pod {pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _places(claim: ResourceClaim) -> list[Place]:
    allocation = claim.status.allocation
    return [(one.driver, one.pool, one.device) for one in (allocation.devices.results if allocation else ())]


def _users(picture: _Picture, claim: ResourceClaim) -> list[Object]:
    return [picture.pods[user.uid] for user in claim.status.reserved_for if user.uid in picture.pods]


def _vanished(picture: _Picture) -> Iterator[Finding]:
    for claim in picture.claims.values():
        for place in _places(claim):
            if place not in picture.published:
                users = ", ".join(_pod(one) for one in _users(picture, claim)) or "nobody"
                yield Finding(
                    "allocated-device-not-published",
                    _title(claim),
                    f"it is allocated {'/'.join(place)}, which is in no slice; used by {users}",
                    "bring the driver or the device back; a pod that does not run yet: delete it, so that it is placed anew",
                )


def _unhealthy(picture: _Picture) -> Iterator[Finding]:
    for claim in picture.claims.values():
        for place in _places(claim):
            for taint in picture.published.get(place, {}).get("taints") or ():
                yield Finding(
                    "allocated-device-tainted",
                    _title(claim),
                    f"{'/'.join(place)} is tainted {taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}",
                    "move the workload; look at the device on its node",
                )


def _waits_for_driver(picture: _Picture) -> Iterator[Finding]:
    for state in picture.states:
        served = any(node == state.name for node, _ in picture.drivers)
        for claim in state.claims.values() if not served else ():
            for uid in sorted(claim.pod_uids):
                pod = picture.pods.get(uid)
                if pod is not None and pod["metadata"].get("deletionTimestamp"):
                    yield Finding(
                        "pod-waits-for-driver",
                        f"{_pod(pod)}, claim {claim.namespace}/{claim.name}",
                        f"it cannot end: {', '.join(sorted(claim.drivers))} is not running on {state.name}",
                        f"start the driver on {state.name}; the kubelet then releases the claim by itself",
                    )


def _leaked(picture: _Picture) -> Iterator[Finding]:
    for state in picture.states:
        known = {one.uid: one.title for one in state.prepared}
        known.update({uid: f"{claim.namespace}/{claim.name} ({uid})" for uid, claim in state.claims.items()})
        for uid in sorted(known.keys() - picture.claims.keys()):
            yield Finding(
                "prepared-without-claim",
                f"claim {known[uid]}",
                f"it is prepared on {state.name} and gone from the API",
                "its pod ended: nothing, the driver releases it; it runs: delete the pod",
            )


def _differs(picture: _Picture) -> Iterator[Finding]:
    for state in picture.states:
        for held in state.held:
            claim = picture.claims.get(held.claim_uid)
            if not held.claim_uid or claim is None:
                continue
            places = {place[2] for place in _places(claim)}
            if held.device in places and any(user.uid == held.pod_uid for user in claim.status.reserved_for):
                continue
            says = f"gives it {', '.join(sorted(places))}" if places else "does not have it allocated"
            yield Finding(
                "running-without-allocation",
                f"pod {held.pod}, {_title(claim)}",
                f"it runs with {held.device} on {state.name}, and the API {says}",
                "delete the pod before anybody else is given the device; its owner makes it anew",
            )


def _strangers(picture: _Picture) -> Iterator[Finding]:
    for state in picture.states:
        for held in state.held:
            if held.pod_uid not in picture.pods:
                yield Finding(
                    "running-without-pod",
                    f"pod {held.pod}",
                    f"it runs with {held.device} on {state.name}, and the API does not know it",
                    "the kubelet ends it when it hears of it; a kubelet that is away has to come back first",
                )


def _unreachable(picture: _Picture) -> Iterator[Finding]:
    for claim in picture.claims.values():
        for pod in _users(picture, claim):
            name = pod["spec"].get("nodeName", "")
            node = picture.nodes.get(name)
            ready = next((one for one in _conditions(node) if one.get("type") == "Ready"), {})
            if not name or (node is not None and ready.get("status") == "True"):
                continue
            since = ready.get("lastTransitionTime")
            age = f"for {max(0.0, picture.now_s - seconds_of(since)):.0f} s" if since else "and has no condition"
            why = f"is not ready {age}" if node is not None else "is gone"
            yield Finding(
                "held-by-unreachable-node",
                f"{_title(claim)}, {_pod(pod)}",
                f"node {name} {why}, and its devices stay allocated",
                "bring the node back; if it is surely down, taint it node.kubernetes.io/out-of-service:NoExecute",
            )


def _conditions(object_: Object | None) -> list[Object]:
    return ((object_ or {}).get("status") or {}).get("conditions") or []


def _missing_cdi(picture: _Picture) -> Iterator[Finding]:
    for node, ids in picture.unresolvable.items():
        for id_ in ids:
            yield Finding(
                "unresolvable-cdi-device",
                id_,
                f"the next container that is given it on {node} will not start: no spec there has it",
                f"restart the driver on {node}, or delete the pod so that the claim is prepared again",
            )


def _partial(picture: _Picture) -> Iterator[Finding]:
    """Pods of one owner of which some hold devices while others wait for theirs."""
    groups: dict[str, list[Object]] = {}
    for pod in picture.pods.values():
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and pod["spec"].get("resourceClaims"):
                groups.setdefault(f"{owner['kind']} {owner['name']}", []).append(pod)
    for name, pods in groups.items():
        alive = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ENDED_PHASES]
        holding = [pod for pod in alive if pod["spec"].get("nodeName")]
        waiting = [pod for pod in alive if not pod["spec"].get("nodeName")]
        oldest_s = min((seconds_of(pod["metadata"]["creationTimestamp"]) for pod in waiting), default=picture.now_s)
        age_s = picture.now_s - oldest_s
        if holding and waiting and age_s >= PARTIAL_AFTER_S:
            yield Finding(
                "partial-holder",
                name,
                f"{len(holding)} of {len(alive)} pods hold devices, {len(waiting)} wait for {age_s:.0f} s",
                "give the rest room, or delete the workload: without a gang nothing takes the devices back",
            )


_LOOKS = (
    _vanished,
    _unhealthy,
    _waits_for_driver,
    _leaked,
    _differs,
    _strangers,
    _unreachable,
    _missing_cdi,
    _partial,
)
