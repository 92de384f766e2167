"""A pod group in one domain of a topology: which domains there are, and which of those that take it is the best. Pure.

Source: kube-scheduler plugins/topologyaware, plugins/podgrouppodscount, plugins/noderesources of 1.36 (KEP-5732).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regauge.base import Randomness
from regauge.model.core import Pod
from regauge.model.scheduling import PodGroup
from regauge.scheduler.nodes import Key
from regauge.scheduler.resources import CPU, MEMORY
from regauge.scheduler.scores import MAX_SCORE
from regauge.scheduler.state import State

NO_DOMAIN = "no feasible placements found"


def topology_label(group: PodGroup | None) -> str:
    """The label whose values are the domains, "" where the group asks for none. The scheduler reads the first alone."""
    constraints = group.spec.scheduling_constraints if group is not None else None
    return str(constraints.topology[0].get("key") or "") if constraints is not None and constraints.topology else ""


def domains_of(key: Key, label: str, state: State) -> dict[str, list[str]] | str:
    """The nodes of each domain that the group may go to, or the error of pods that are placed in no one domain."""
    bound = ""
    for info in state.members(key):
        node = state.nodes.get(info.pod.spec.node_name)
        if node is None:
            continue
        title = f"{info.pod.metadata.namespace}/{info.pod.metadata.name}"
        if label not in node.labels:
            return f"cannot determine domain for already scheduled pods: no topology domain found for pod {title}"
        domain = node.labels[label]
        if bound and domain != bound:
            text = f"more than 1 domain found for pod group: {bound}, {domain}"
            return f"cannot determine domain for already scheduled pods: {text}"
        bound = domain
    found: dict[str, list[str]] = {}
    for name, node in state.nodes.items():
        if label in node.labels and bound in ("", node.labels[label]):
            found.setdefault(node.labels[label], []).append(name)
    return found


def best_domain(
    placed: Mapping[str, Sequence[Pod]],
    domains: Mapping[str, Sequence[str]],
    key: Key,
    state: State,
    random: Randomness,
) -> str:
    """The best of the domains that take the group; `placed`: the pods that would get places in each.

    The most pods, and the fuller the better, cpu and memory alike; by chance among equals.
    """
    there = sum(1 for info in state.members(key) if info.pod.spec.node_name)
    most = max(there + len(pods) for pods in placed.values())
    scores = {
        name: (there + len(pods)) * MAX_SCORE // most + _fullness(pods, domains[name], state)
        for name, pods in placed.items()
    }
    best = max(scores.values())
    return random.choice(sorted(name for name, score in scores.items() if score == best))


def _fullness(pods: Sequence[Pod], nodes: Sequence[str], state: State) -> int:
    infos = [state.info(pod) for pod in pods]
    cpu = sum(one.scored_cpu for one in infos) + sum(state.nodes[name].scored_cpu for name in nodes)
    memory = sum(one.scored_memory for one in infos) + sum(state.nodes[name].scored_memory for name in nodes)
    parts = []
    for resource, used in ((CPU, cpu), (MEMORY, memory)):
        offered = sum(state.nodes[name].allocatable.get(resource, 0) for name in nodes)
        if offered:
            parts.append(min(used, offered) * MAX_SCORE // offered)
    return sum(parts) // len(parts) if parts else 0


__all__ = ["NO_DOMAIN", "best_domain", "domains_of", "topology_label"]
