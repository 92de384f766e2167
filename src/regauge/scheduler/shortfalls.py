"""What exactly is missing on a node that refuses a pod, beside devices: amounts, taints, labels. Pure."""

from __future__ import annotations

from regauge.model.core import Taint
from regauge.scheduler.filters import (
    NODE_AFFINITY,
    NODE_NAME,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    untolerated,
)
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.resources import CPU, MEMORY, STORAGE, is_extended
from regauge.scheduler.results import Refusal

# The later a plugin is asked, the nearer is a node that it refuses.
_FARTHEST_FIRST = (NODE_UNSCHEDULABLE, NODE_NAME, TAINT_TOLERATION, NODE_AFFINITY, NODE_PORTS, NODE_RESOURCES_FIT)
_INSUFFICIENT = "Insufficient "
_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"))


def nearness(plugin: str) -> int:
    """How near a refusal by this plugin is: 0 for the nearest."""
    place = _FARTHEST_FIRST.index(plugin) if plugin in _FARTHEST_FIRST else len(_FARTHEST_FIRST)
    return len(_FARTHEST_FIRST) - place


def shortfalls(pod: PodInfo, node: NodeInfo, refusal: Refusal) -> tuple[str, ...]:
    """The refusal in numbers and names, as far as more can be said than the plugin says."""
    if refusal.details:
        return refusal.details
    if refusal.plugin == NODE_RESOURCES_FIT:
        names = [text.removeprefix(_INSUFFICIENT) for text in refusal.reasons if text.startswith(_INSUFFICIENT)]
        found = [shortfall(name, pod.requests.get(name, 0), node) for name in names]
        if len(names) < len(refusal.reasons):
            found.append(f"pods: {len(node.pods)} of at most {node.pod_limit} are there")
        return tuple(found)
    if refusal.plugin == TAINT_TOLERATION:
        taint = untolerated(node.node.spec.taints, pod.pod.spec.tolerations)
        return () if taint is None else (f"taint {_taint(taint)} is not tolerated",)
    if refusal.plugin == NODE_AFFINITY:
        return tuple(
            f"label {key} is {node.labels.get(key, 'missing')}, wanted {value}"
            for key, value in pod.pod.spec.node_selector.items()
            if node.labels.get(key) != value
        )
    return ()


def shortfall(name: str, wanted: int, node: NodeInfo) -> str:
    """What is asked of a resource, and what the node has left of how much."""
    has, taken = node.allocatable.get(name, 0), node.requested.get(name, 0)
    if not has:
        return f"{name}: asks for {amount(name, wanted)}, the node offers none"
    text = f"{name}: asks for {amount(name, wanted)}, {amount(name, max(has - taken, 0))} of {amount(name, has)} free"
    return f"{text}; more than the whole node has" if wanted > has else text


def amount(name: str, value: int) -> str:
    """An amount of a resource for people: cpu is given in thousandths."""
    if name == CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if name in (MEMORY, STORAGE):
        for size, unit in _UNITS:
            if value and value % size == 0:
                return f"{value // size}{unit}"
        return f"{value / (1 << 30):.1f}Gi"
    return str(value)


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def counted(pod: PodInfo) -> dict[str, int]:
    """The extended resources that the pod asks for, with how many."""
    return {name: amount_ for name, amount_ in pod.requests.items() if amount_ and is_extended(name)}
