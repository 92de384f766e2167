"""The filters that look at one node and one pod: name, cordon, taints, selectors, ports, resources.

Each returns None for yes, or its refusal in upstream's words. Source: kube-scheduler framework/plugins of 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from regauge.model import matches_node
from regauge.model.core import Node, PodSpec, Taint, Toleration
from regauge.scheduler.nodes import ANY_ADDRESS, NodeInfo, PodInfo, Port
from regauge.scheduler.resources import CPU, MEMORY, STORAGE, is_scalar
from regauge.scheduler.results import Refusal

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
REFUSING_EFFECTS = ("NoSchedule", "NoExecute")
NODE_NAME_FIELD = "metadata.name"

NODE_UNSCHEDULABLE = "NodeUnschedulable"
NODE_NAME = "NodeName"
TAINT_TOLERATION = "TaintToleration"
NODE_AFFINITY = "NodeAffinity"
NODE_PORTS = "NodePorts"
NODE_RESOURCES_FIT = "NodeResourcesFit"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint: empty effect and empty key with Exists cover all."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
    return False


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations off."""
    for taint in taints:
        if taint.effect in REFUSING_EFFECTS and not any(tolerates(item, taint) for item in tolerations):
            return taint
    return None


def node_unschedulable(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    if not node.node.spec.unschedulable:
        return None
    if any(tolerates(item, UNSCHEDULABLE_TAINT) for item in pod.pod.spec.tolerations):
        return None
    return Refusal(NODE_UNSCHEDULABLE, ("node(s) were unschedulable",))


def node_name(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    if not pod.pod.spec.node_name or pod.pod.spec.node_name == node.name:
        return None
    return Refusal(NODE_NAME, ("node(s) didn't match the requested node name",))


def taint_toleration(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    if untolerated(node.node.spec.taints, pod.pod.spec.tolerations) is None:
        return None
    return Refusal(TAINT_TOLERATION, ("node(s) had untolerated taint(s)",))


def matches_required_affinity(spec: PodSpec, node: Node) -> bool:
    """The pod's nodeSelector and its required node affinity together."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return affinity is None or affinity.required is None or matches_node(affinity.required, node)


def node_affinity(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    if matches_required_affinity(pod.pod.spec, node.node):
        return None
    return Refusal(NODE_AFFINITY, ("node(s) didn't match Pod's node affinity/selector",))


def named_nodes(spec: PodSpec) -> frozenset[str] | None:
    """The nodes that the required affinity names by their metadata.name, or None when it does not name them all."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None or not affinity.required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in affinity.required.node_selector_terms:
        sets = [
            frozenset(item.values)
            for item in term.match_fields
            if item.key == NODE_NAME_FIELD and item.operator == "In"
        ]
        if not sets:
            return None
        names |= frozenset.intersection(*sets)
    return frozenset(names)


def _clash(wanted: Port, used: Port) -> bool:
    address, protocol, port = wanted
    return protocol == used[1] and port == used[2] and (address == used[0] or ANY_ADDRESS in (address, used[0]))


def node_ports(pod: PodInfo, node: NodeInfo) -> Refusal | None:
    if not pod.ports:
        return None
    used = [port for other in node.pods.values() for port in other.ports]
    if any(_clash(wanted, port) for wanted in pod.ports for port in used):
        return Refusal(NODE_PORTS, ("node(s) didn't have free ports for the requested pod ports",), curable=True)
    return None


def node_resources(pod: PodInfo, node: NodeInfo, by_class: Callable[[str], bool]) -> Refusal | None:
    """Cpu, memory, ephemeral storage, number of pods and all other counted resources.

    `by_class`: whether a resource stands for devices of a class; it counts as such where the node itself offers none.
    """
    reasons, hopeless = [], False
    if len(node.pods) + 1 > node.pod_limit:
        reasons.append("Too many pods")
    for name, amount in _in_order(pod):
        if amount == 0 or amount <= node.free(name):
            continue
        offered = node.allocatable.get(name, 0)
        if offered <= 0 and is_scalar(name) and by_class(name):
            continue
        reasons.append(f"Insufficient {name}")
        hopeless = hopeless or amount > offered
    return Refusal(NODE_RESOURCES_FIT, tuple(reasons), curable=not hopeless) if reasons else None


def _in_order(pod: PodInfo) -> Iterable[tuple[str, int]]:
    requests = pod.requests
    for name in (CPU, MEMORY, STORAGE):
        if name in requests:
            yield name, requests[name]
    for name in sorted(requests):
        if name not in (CPU, MEMORY, STORAGE):
            yield name, requests[name]
