"""Extended resources as nodes and pods count them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from regauge.model import Quantity, Snapshot
from regauge.model.core import ENDED_PHASES, Container, Pod
from regauge.model.kinds import POD
from regauge.model.resource import DEVICE_CLASS_PREFIX, QuantityText

_NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-", "requests.", "limits.")


@dataclass(frozen=True, slots=True)
class CountedResource:
    """One extended resource on one node: how many there are, may be used, and are asked for by pods on it."""

    node: str
    resource_name: str
    capacity: int
    allocatable: int
    requested: int


def is_extended_resource(name: str) -> bool:
    """Whether a resource name is an extended one: in a domain, and not Kubernetes' own (device class names are extended)."""
    if name.startswith(DEVICE_CLASS_PREFIX):
        return True
    domain, slash, _ = name.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not native and not name.startswith(_NATIVE_PREFIXES)


def whole(quantity: QuantityText) -> int:
    """A count as a number, rounded up. Text that is no quantity counts as zero; the API server never stores such."""
    try:
        return Quantity.from_document(quantity).value()
    except ValueError:
        return 0


def container_ask(container: Container) -> Mapping[str, int]:
    """The extended resources of one container with their counts; limits and requests are the same for them."""
    resources = container.resources
    merged = {**resources.limits, **resources.requests}
    return {name: whole(count) for name, count in merged.items() if is_extended_resource(name) and whole(count)}


def pod_ask(containers: Iterable[Container], init_containers: Iterable[Container]) -> Mapping[str, int]:
    """What the scheduler counts for a pod: the sum of containers and sidecars, or the largest init container."""
    total: dict[str, int] = defaultdict(int)
    for container in containers:
        for name, count in container_ask(container).items():
            total[name] += count
    peak: dict[str, int] = defaultdict(int)
    sidecars: dict[str, int] = defaultdict(int)
    for container in init_containers:
        ask = container_ask(container)
        for name, count in ask.items():
            peak[name] = max(peak[name], sidecars[name] + count)
            if container.restart_policy == "Always":
                sidecars[name] += count
    names = set(total) | set(peak)
    return {name: max(total[name] + sidecars[name], peak[name]) for name in sorted(names)}


def counted_resources(snapshot: Snapshot) -> tuple[CountedResource, ...]:
    """Every extended resource of every node, with what the pods bound to it ask for."""
    requested: dict[tuple[str, str], int] = defaultdict(int)
    names = {name for node in snapshot.nodes for name in (*node.status.capacity, *node.status.allocatable)}
    for pod in _naming(snapshot, filter(is_extended_resource, names)):
        if pod.spec.node_name and pod.status.phase not in ENDED_PHASES:
            for name, count in _plugin_ask(pod).items():
                requested[(pod.spec.node_name, name)] += count
    found = []
    for node in snapshot.nodes:
        for name in sorted(set(node.status.capacity) | set(node.status.allocatable)):
            if is_extended_resource(name):
                capacity = whole(node.status.capacity.get(name, 0))
                allocatable = whole(node.status.allocatable.get(name, 0))
                key = (node.metadata.name, name)
                found.append(CountedResource(*key, capacity, allocatable, requested[key]))
    return tuple(found)


def _naming(snapshot: Snapshot, names: Iterable[str]) -> Iterator[Pod]:
    """The pods that may ask for one of these: most of a large cluster name none, and are not read."""
    marks = sorted({name.rpartition("/")[2].encode() for name in names})
    for document in snapshot.documents(POD):
        text = bytes(document.raw) if document.raw is not None else None
        if text is None or b"\\u" in text or any(mark in text for mark in marks):
            yield snapshot.view(document, Pod)


def _plugin_ask(pod: Pod) -> Mapping[str, int]:
    """What a pod takes from device plugins: its extended resources but for those that a DRA claim serves."""
    bridged = pod.status.extended_resource_claim_status
    served = {mapping.resource_name for mapping in bridged.request_mappings} if bridged else set()
    ask = pod_ask(pod.spec.containers, pod.spec.init_containers)
    return {name: count for name, count in ask.items() if name not in served}
