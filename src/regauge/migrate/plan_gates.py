"""Whether a gate of a plan holds, from what was seen before the step and what is seen now. Pure.

What cannot be seen is never taken for good: a gate about identity falls back to counts only where counts are enough, and
says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from regauge.inventory import DeviceKey, Inventory, claimed_devices, newest_slices, take_inventory, whole
from regauge.migrate.dependents import QUOTA_OF_CLASS
from regauge.migrate.plan_sources import images_of
from regauge.migrate.plans import (
    Accepted,
    AttributionEqual,
    CountsAgree,
    Gate,
    Move,
    NothingLeaked,
    OneOwner,
    Pinned,
    Plan,
    PlanStep,
    Reference,
    Running,
    SameDevices,
    Switch,
    cleaned,
    digest_of,
)
from regauge.migrate.workloads import AskStack, Workload, find_workloads
from regauge.model import NodeReport, Snapshot
from regauge.model.core import ENDED_PHASES, Pod
from regauge.model.kinds import DAEMON_SET, NODE, RESOURCE_QUOTA
from regauge.model.resource import ResourceClaim

SETTLE_S = 120
"""How long a gate without a time of its own is looked at before it counts as failed."""
SHOWN = 4


@dataclass(frozen=True)
class Sight:
    """The cluster at one moment."""

    snapshot: Snapshot
    reports: tuple[NodeReport, ...] = ()
    git_version: str = ""

    @cached_property
    def inventory(self) -> Inventory:
        return take_inventory(self.snapshot, self.reports)

    @cached_property
    def claims(self) -> Mapping[tuple[str, str], ResourceClaim]:
        return {(item.metadata.namespace, item.metadata.name): item for item in self.snapshot.claims}

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        return find_workloads(self.snapshot)

    @cached_property
    def seen_nodes(self) -> frozenset[str]:
        """Nodes whose kubelet was asked."""
        return frozenset(report.node for report in self.reports)


class NodeFacts(msgspec.Struct, frozen=True):
    """The devices of a node: those with an identity, and how many are only counted (by name) or published (by driver)."""

    identities: tuple[str, ...] = ()
    counted: dict[str, int] = {}
    published: dict[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self.counted.values()) + sum(self.published.values())


class Facts(msgspec.Struct, frozen=True):
    """What is remembered from before a step."""

    nodes: dict[str, NodeFacts] = {}
    workloads: dict[str, int] = {}
    charged: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one gate."""

    gate: str
    holds: bool
    seen: str


def name_of(gate: Gate) -> str:
    """The word for a gate in the plan."""
    return str(gate.__struct_config__.tag)


def patience_s(gate: Gate) -> float:
    """How long a gate may take until it holds."""
    return float(getattr(gate, "within_s", SETTLE_S))


def facts_of(plan: Plan, step: PlanStep, sight: Sight) -> Facts:
    """What has to be remembered before a step begins."""
    gates = (*step.needs, *step.gates)
    nodes = {name for gate in gates if isinstance(gate, (SameDevices, CountsAgree)) for name in gate.nodes}
    references = [gate.workload for gate in gates if isinstance(gate, AttributionEqual)]
    names, drivers = _served(plan)
    return Facts(
        {name: node_facts(name, sight, names, drivers) for name in sorted(nodes)},
        {str(reference): devices_of(reference, sight) for reference in references},
        {reference.namespace: _charged(reference.namespace, names, sight) for reference in references},
    )


def _served(plan: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """The counted names and the drivers that a plan is about."""
    served = [
        item for step in plan.spec.steps for act in step.actions if isinstance(act, Switch) for item in act.served
    ]
    return frozenset(item.resource_name for item in served), frozenset(item.driver for item in served)


def node_facts(node: str, sight: Sight, names: frozenset[str], drivers: frozenset[str]) -> NodeFacts:
    """The devices of one node that a plan is about."""
    identities = [
        device.identity
        for device in sight.inventory.devices
        if device.node == node and any(item.source in names | drivers for item in device.advertisements)
    ]
    counted = {
        name: whole(item.status.capacity.get(name, 0))
        for item in sight.snapshot.nodes
        if item.metadata.name == node
        for name in sorted(names)
    }
    published: dict[str, int] = {}
    for slice_ in newest_slices(sight.snapshot.slices):
        own = sum((device.node_name or slice_.spec.node_name) == node for device in slice_.spec.devices)
        if own and slice_.spec.driver in drivers:
            published[slice_.spec.driver] = published.get(slice_.spec.driver, 0) + own
    return NodeFacts(tuple(sorted(identities)), {k: v for k, v in counted.items() if v}, published)


def check(gate: Gate, plan: Plan, before: Facts, now: Sight) -> Found:
    """Whether a gate holds now. `Accepted` is not for here: the API server is asked."""
    names, drivers = _served(plan)
    match gate:
        case Pinned():
            wrong = list(_not_pinned(plan, now))
            return Found(name_of(gate), not wrong, _some(wrong) or "versions are as planned")
        case OneOwner():
            return _one_owner(gate, now, names, drivers)
        case SameDevices():
            return _same_devices(gate, before, now, names, drivers)
        case CountsAgree():
            return _counts_agree(gate, before, now, names, drivers)
        case Running():
            return _running(gate, now)
        case NothingLeaked():
            leaked = list(_leaked(now))
            return Found(name_of(gate), not leaked, _some(leaked) or "nothing is held that nobody uses")
        case AttributionEqual():
            return _attribution(gate, before, now, names)
        case Accepted():
            return Found(name_of(gate), False, "the API server was not asked")


def _some(found: list[str]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def _not_pinned(plan: Plan, now: Sight) -> Iterable[str]:
    pins = plan.spec.pins
    if pins.kubernetes and now.git_version and pins.kubernetes != now.git_version:
        yield f"Kubernetes is {now.git_version}, planned for {pins.kubernetes}"
    for document in now.snapshot.documents(NODE):
        info = (document.object.get("status") or {}).get("nodeInfo") or {}
        for field, allowed in (("kubeletVersion", pins.kubelets), ("containerRuntimeVersion", pins.runtimes)):
            value = info.get(field)
            if document.name in plan.spec.nodes and allowed and value and value not in allowed:
                yield f"{document.name}: {field} is {value}, planned for {', '.join(allowed)}"
    images = {
        f"{item.namespace}/{item.name}": ", ".join(images_of(item)) for item in now.snapshot.documents(DAEMON_SET)
    }
    for title, planned in pins.images.items():
        if images.get(title) != planned:
            yield f"DaemonSet {title}: {images.get(title, 'it is not there')}, planned for {planned}"


def _one_owner(gate: OneOwner, now: Sight, names: frozenset[str], drivers: frozenset[str]) -> Found:
    double = [device for device in now.inventory.doubly_owned if device.node in gate.nodes]
    told = [f"{device.node}: {device.identity} is advertised by both stacks" for device in double]
    for node in gate.nodes:
        facts = node_facts(node, now, names, drivers)
        if facts.counted and facts.published and node not in now.seen_nodes:
            told.append(f"{node}: both stacks advertise, and which devices are counted cannot be seen")
    return Found(name_of(gate), not told, _some(told) or f"each device of {len(gate.nodes)} nodes has one owner")


def _same_devices(
    gate: SameDevices, before: Facts, now: Sight, names: frozenset[str], drivers: frozenset[str]
) -> Found:
    told, by_count = [], []
    for node in gate.nodes:
        old, new = before.nodes.get(node, NodeFacts()), node_facts(node, now, names, drivers)
        if len(old.identities) == old.total and len(new.identities) == new.total:
            missing, extra = set(old.identities) - set(new.identities), set(new.identities) - set(old.identities)
            told += [f"{node}: {item} is missing" for item in sorted(missing)]
            told += [f"{node}: {item} was not there before" for item in sorted(extra)]
        elif old.total != new.total:
            told.append(f"{node}: {old.total} devices before, {new.total} now")
        else:
            by_count.append(node)
    seen = f"{len(gate.nodes)} nodes have the devices they had"
    if by_count:
        seen += f" (by count on {_some(by_count)}: identities cannot be seen)"
    return Found(name_of(gate), not told, _some(told) or seen)


def _counts_agree(
    gate: CountsAgree, before: Facts, now: Sight, names: frozenset[str], drivers: frozenset[str]
) -> Found:
    told = []
    for node in gate.nodes:
        old, new = before.nodes.get(node, NodeFacts()), node_facts(node, now, names, drivers)
        if old.total != new.total:
            counted, published = sum(new.counted.values()), sum(new.published.values())
            told.append(f"{node}: {counted} counted and {published} published, of {old.total} devices")
    return Found(name_of(gate), not told, _some(told) or f"no device of {len(gate.nodes)} nodes is counted twice")


def find_workload(reference: Reference, sight: Sight) -> Workload | None:
    """The workload of a reference, with its pods."""
    key = (reference.kind, reference.namespace, reference.name)
    return next((item for item in sight.workloads if (item.kind, item.namespace, item.name) == key), None)


def ready_pods(workload: Workload | None) -> list[Pod]:
    """The pods of a workload that are ready and not on their way out."""
    return [
        pod
        for pod in (workload.pods if workload is not None else ())
        if pod.metadata.deletion_timestamp is None and is_ready(pod)
    ]


def is_ready(pod: Pod) -> bool:
    """Whether a pod's Ready condition is true."""
    return any(item.type == "Ready" and item.status == "True" for item in pod.status.conditions)


def devices_of(reference: Reference, sight: Sight) -> int:
    """How many devices the ready pods of a workload have: those counted, and those of their claims, each once."""
    workload = find_workload(reference, sight)
    claimed: set[DeviceKey] = set()
    counted = 0
    for pod in ready_pods(workload):
        counted += sum(
            whole(count)
            for container in pod.spec.containers
            for name, count in container.resources.limits.items()
            if "/" in name
        )
        claimed |= claimed_devices(pod, sight.claims, bridged=False)
    return counted + len(claimed)


def _running(gate: Running, now: Sight) -> Found:
    workload = find_workload(gate.workload, now)
    claims = workload is not None and any(ask.stack is AskStack.CLAIM for ask in workload.asks)
    # Pods of the old form are ready, too, as long as a rolling update keeps them.
    pods = sum(bool(pod.spec.resource_claims) == claims for pod in ready_pods(workload))
    devices = devices_of(gate.workload, now)
    holds = pods == gate.pods and devices == gate.devices
    seen = f"{pods} of {gate.pods} pods are ready, with {devices} of {gate.devices} devices"
    waits = [
        f"{pod.metadata.name}: {item.message}"
        for pod in (workload.pods if workload is not None else ())
        for item in pod.status.conditions
        if item.type == "PodScheduled" and item.status == "False" and item.message
    ]
    return Found(name_of(gate), holds, f"{seen}; {_some(waits)}" if waits and not holds else seen)


def _leaked(now: Sight) -> Iterable[str]:
    pods = {pod.metadata.uid: pod for pod in now.snapshot.pods}
    running = {(p.metadata.namespace, p.metadata.name) for p in pods.values() if p.status.phase not in ENDED_PHASES}
    for claim in now.snapshot.claims:
        title = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
        if claim.status.allocation is None:
            continue
        if not claim.status.reserved_for:
            yield f"{title} is allocated and nobody uses it"
        gone = [user.name for user in claim.status.reserved_for if user.resource == "pods" and user.uid not in pods]
        yield from (f"{title} is kept for the pod {name}, which is gone" for name in gone)
    for report in now.reports:
        for holder in report.holders:
            if (holder.namespace, holder.pod) not in running:
                title = f"{holder.namespace}/{holder.pod}"
                yield f"{report.node}: {holder.resource_name} is held for the pod {title}, which is gone"


def _attribution(gate: AttributionEqual, before: Facts, now: Sight, names: frozenset[str]) -> Found:
    title, namespace = str(gate.workload), gate.workload.namespace
    told = []
    devices = devices_of(gate.workload, now)
    if devices != gate.devices:
        told.append(f"{title} asks for {gate.devices} devices, had {before.workloads.get(title, 0)}, and has {devices}")
    charged = _charged(namespace, names, now)
    if charged != before.charged.get(namespace, 0):
        told.append(f"quotas of {namespace} charged {before.charged.get(namespace, 0)}, and charge {charged}")
    return Found(
        name_of(gate), not told, _some(told) or f"{devices} devices before and after, {charged} charged by quotas"
    )


def _charged(namespace: str, names: frozenset[str], sight: Sight) -> int:
    """What the quotas of a namespace charge for counted names and classes together."""
    total = 0
    for document in sight.snapshot.documents(RESOURCE_QUOTA):
        if document.namespace == namespace:
            used = (document.object.get("status") or {}).get("used") or {}
            keys = [key for key in used if key.removeprefix("requests.") in names or key.endswith(QUOTA_OF_CLASS)]
            total += sum(whole(used[key]) for key in keys)
    return total


def plan_differences(plan: Plan, sight: Sight) -> tuple[str, ...]:
    """Where a cluster is not as a plan that has not begun saw it: nodes, what they count, the workloads that move."""
    nodes = {node.metadata.name: node for node in sight.snapshot.nodes}
    told = []
    for name, basis in plan.spec.nodes.items():
        node = nodes.get(name)
        if node is None:
            told.append(f"node {name} is gone")
            continue
        for resource, count in basis.counted.items():
            now = whole(node.status.capacity.get(resource, 0))
            told += [f"{name} counts {now} {resource}, planned for {count}"] if now != count else []
    for move in (action for step in plan.spec.steps for action in step.actions if isinstance(action, Move)):
        workload = find_workload(move.reference, sight)
        if workload is None:
            told.append(f"there is no {move.reference} that asks for devices")
        elif digest_of(cleaned(workload.document.object)) != move.of:
            told.append(f"{move.reference} is not as it was when the plan was made")
    return (*told, *_not_pinned(plan, sight))
