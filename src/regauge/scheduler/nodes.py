"""A pod and a node as the filters look at them: everything that is asked often is worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from regauge.model.core import Node, Pod
from regauge.scheduler.resources import (
    PODS,
    Amounts,
    allocatable,
    is_sidecar,
    pod_requests,
    pod_requests_for_scoring,
)
from regauge.scheduler.terms import Labels, PodTerms, pod_terms

Key = tuple[str, str]
Port = tuple[str, str, int]  # host address, protocol, port

ANY_ADDRESS = "0.0.0.0"
TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, eq=False)
class PodInfo:
    """A pod and what the scheduler reads of it."""

    pod: Pod
    key: Key
    uid: str
    labels: Labels
    requests: Amounts
    scored_cpu: int
    scored_memory: int
    ports: tuple[Port, ...]
    terms: PodTerms

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0


def pod_info(pod: Pod, *, pod_level: bool = True, mapping: bool = True) -> PodInfo:
    """A pod prepared. `pod_level`: pod-level resources count. `mapping`: so does what devices take of a node.

    Of a pod that waits, what an earlier attempt noted does not count, nor do pod-level resources where nodes are scored:
    upstream's NodeResourcesFit leaves them out.
    """
    placed = bool(pod.spec.node_name)
    mapped = pod.status.node_allocatable_resource_claim_statuses if mapping and placed else ()
    requests = pod_requests(pod.spec, pod_level=pod_level, mapped=mapped)
    cpu, memory = pod_requests_for_scoring(pod.spec, pod_level=pod_level and placed, mapped=mapped)
    return PodInfo(
        pod,
        (pod.metadata.namespace, pod.metadata.name),
        pod.metadata.uid,
        pod.metadata.labels or {},
        requests,
        cpu,
        memory,
        _ports(pod),
        pod_terms(pod),
    )


def _ports(pod: Pod) -> tuple[Port, ...]:
    lasting = (*(item for item in pod.spec.init_containers if is_sidecar(item)), *pod.spec.containers)
    return tuple(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in lasting
        for port in container.ports
        if port.host_port > 0
    )


@dataclass(slots=True, eq=False)
class NodeInfo:
    """A node and what its pods take of it.

    `identity` is the node as it was when its labels last changed: what depends on name and labels alone can be
    remembered by it, heartbeats or not.
    """

    node: Node
    identity: Node
    labels: Labels
    allocatable: Amounts
    pods: dict[str, PodInfo] = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def pod_limit(self) -> int:
        return self.allocatable.get(PODS, 0)

    def add(self, info: PodInfo) -> None:
        """Count a pod; one that is counted already is replaced."""
        if info.uid in self.pods:
            self.remove(info.uid)
        self.pods[info.uid] = info
        self._count(info, 1)

    def remove(self, uid: str) -> None:
        """No longer count a pod; one that is not counted is fine."""
        info = self.pods.pop(uid, None)
        if info is not None:
            self._count(info, -1)

    def _count(self, info: PodInfo, sign: int) -> None:
        for name, amount in info.requests.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        self.scored_cpu += sign * info.scored_cpu
        self.scored_memory += sign * info.scored_memory

    def free(self, name: str) -> int:
        """What is left of a resource."""
        return self.allocatable.get(name, 0) - self.requested.get(name, 0)

    def replace_node(self, node: Node) -> None:
        labels = node.metadata.labels or {}
        if labels != self.labels:
            self.identity = node
        self.node, self.labels = node, labels
        self.allocatable = allocatable(node.status.allocatable or node.status.capacity)

    def changed(self, *, without: Iterable[str] = (), plus: Iterable[PodInfo] = ()) -> NodeInfo:
        """A copy with other pods on it, for trying out."""
        copy = NodeInfo(
            self.node,
            self.identity,
            self.labels,
            self.allocatable,
            dict(self.pods),
            dict(self.requested),
            self.scored_cpu,
            self.scored_memory,
        )
        for uid in without:
            copy.remove(uid)
        for info in plus:
            copy.add(info)
        return copy


def node_info(node: Node) -> NodeInfo:
    """A node without pods."""
    return NodeInfo(
        node, node, node.metadata.labels or {}, allocatable(node.status.allocatable or node.status.capacity)
    )


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has ended and takes nothing of its node any more."""
    return pod.status.phase in TERMINAL
