"""What a workload needs that a count cannot say, read from its manifest: each trigger is a rule of its own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from regauge.inventory import container_ask
from regauge.migrate.labels import describes_devices
from regauge.migrate.names import is_network, shared_why
from regauge.migrate.workloads import Workload
from regauge.model import Quantity
from regauge.model.core import Container, Node

NEEDS = ("attributes", "sharing", "topology", "network")
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
CHOOSING_ANNOTATIONS = (
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
    "nvidia.com/use-gpuuuid",
    "nvidia.com/nouse-gpuuuid",
    "hami.io/gpu-scheduler-policy",
)
NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A need that was found: the id of the rule, the need, and what in the manifest or cluster shows it."""

    id: str
    need: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Subject:
    """One counted resource of a workload, with the nodes that its pods are on."""

    workload: Workload
    resource_name: str
    nodes: tuple[Node, ...] = ()


def find_triggers(subject: Subject, said: Iterable[str] = ()) -> tuple[Trigger, ...]:
    """Every trigger that holds, in the order of the table; `said` are needs that the user tells of."""
    found = [
        Trigger(id_, need, evidence)
        for id_, (need, look) in DETECTORS.items()
        for evidence in look(subject)
        if evidence
    ]
    return (*found, *(Trigger("T10", need, "the user says so") for need in said))


def _shared_name(subject: Subject) -> Iterator[str]:
    if shared_why(subject.resource_name):
        yield subject.resource_name


def _shared_nodes(subject: Subject) -> Iterator[str]:
    for node in subject.nodes:
        replicas = (node.metadata.labels or {}).get(REPLICAS_LABEL, "1")
        if replicas.isdigit() and int(replicas) > 1 and subject.resource_name in node.status.capacity:
            yield f"{REPLICAS_LABEL}={replicas} on {node.metadata.name}"
            return


def _selector(subject: Subject) -> Iterator[str]:
    selector = subject.workload.template.spec.node_selector
    yield ", ".join(f"{key}={value}" for key, value in sorted(selector.items()) if describes_devices(key))


def _affinity(subject: Subject) -> Iterator[str]:
    affinity = subject.workload.template.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    labels = {
        f"{item.key} {item.operator} {', '.join(item.values)}".strip()
        for term in (required.node_selector_terms if required else ())
        for item in term.match_expressions
        if describes_devices(item.key)
    }
    yield "; ".join(sorted(labels))


def _annotations(subject: Subject) -> Iterator[str]:
    annotations = subject.workload.template.metadata.annotations or {}
    yield ", ".join(name for name in CHOOSING_ANNOTATIONS if name in annotations)


def _devices_and_network(subject: Subject) -> Iterator[str]:
    names = [ask.name for ask in subject.workload.asks]
    near = [name for name in names if is_network(name)]
    if near and len(near) < len(names):
        yield ", ".join(sorted(names))


def _pinned(subject: Subject) -> Iterator[str]:
    spec = subject.workload.template.spec
    for container in spec.containers:
        count = container_ask(container).get(subject.resource_name, 0)
        if count > 1 and _whole_cpus(container):
            yield f"container {container.name}: {count} devices, {container.resources.limits['cpu']} CPUs of its own"


def _whole_cpus(container: Container) -> bool:
    """Whether a container gets CPUs of its own under the static policy: limits are requests, and CPUs are whole."""
    limits, requests = container.resources.limits, container.resources.requests
    if "cpu" not in limits or "memory" not in limits:
        return False
    if any(name in requests and str(requests[name]) != str(limits[name]) for name in ("cpu", "memory")):
        return False
    try:
        cpus = Quantity.from_document(limits["cpu"])
    except ValueError:
        return False
    return cpus.value() > 0 and cpus == Quantity.of(cpus.value())


def _network_name(subject: Subject) -> Iterator[str]:
    if is_network(subject.resource_name):
        yield subject.resource_name


def _attached(subject: Subject) -> Iterator[str]:
    networks = (subject.workload.template.metadata.annotations or {}).get(NETWORKS_ANNOTATION)
    if networks:
        yield f"{NETWORKS_ANNOTATION}: {networks[:80]}"


DETECTORS: dict[str, tuple[str, Callable[[Subject], Iterator[str]]]] = {
    "T1": ("sharing", _shared_name),
    "T2": ("sharing", _shared_nodes),
    "T3": ("attributes", _selector),
    "T4": ("attributes", _affinity),
    "T5": ("attributes", _annotations),
    "T6": ("topology", _devices_and_network),
    "T7": ("topology", _pinned),
    "T8": ("network", _network_name),
    "T9": ("network", _attached),
}
