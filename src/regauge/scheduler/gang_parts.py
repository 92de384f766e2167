"""What all kinds of gangs are read by: their pods by labels, and pods that a controller has not made yet. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from regauge.model import Document, Object, Snapshot
from regauge.model.kinds import POD, PRIORITY_CLASS
from regauge.scheduler.gang_kinds import TopologyWish
from regauge.scheduler.nodes import TERMINAL, Key
from regauge.scheduler.templates import part

MOST_PODS = 10_000
KUEUE_TOPOLOGIES = ("kueue.x-k8s.io", "Topology")
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"


Reader = Callable[[Document], object]


@dataclass(slots=True)
class Members:
    """The pods of a cluster: those that can be members now, and those that have ended well."""

    snapshot: Snapshot
    pods: list[Document] = field(init=False)
    done: list[Document] = field(init=False)
    priorities: Mapping[str, int] = field(init=False)
    _found: dict[Reader, dict[tuple[str, object], tuple[list[Document], int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pods = self.snapshot.documents(POD)
        self.pods = [one for one in pods if part(one.object, "status").get("phase") not in TERMINAL]
        self.done = [one for one in pods if part(one.object, "status").get("phase") == "Succeeded"]
        self.priorities = {
            one.name: number(one.object.get("value"), 0) for one in self.snapshot.documents(PRIORITY_CLASS)
        }

    def where(self, namespace: str, reader: Reader, value: object) -> tuple[list[Document], int]:
        """The pods of a namespace of which `reader` reads a value, and how many of such have ended well."""
        if reader not in self._found:
            self._found[reader] = self._by(reader)
        return self._found[reader].get((namespace, value), ([], 0))

    def _by(self, reader: Reader) -> dict[tuple[str, object], tuple[list[Document], int]]:
        found: dict[tuple[str, object], tuple[list[Document], int]] = {}
        for pod in self.pods:
            value = reader(pod)
            if value:
                found.setdefault((pod.namespace, value), ([], 0))[0].append(pod)
        for pod in self.done:
            value = reader(pod)
            if value:
                own, done = found.get((pod.namespace, value), ([], 0))
                found[pod.namespace, value] = own, done + 1
        return found

    def priority(self, pods: Iterable[Document], class_name: object = None) -> int | None:
        """The priority: that of a class, or else the highest of the pods; None where nothing tells."""
        if isinstance(class_name, str) and class_name in self.priorities:
            return self.priorities[class_name]
        found = [self._of(part(one.object, "spec")) for one in pods]
        return max((one for one in found if one is not None), default=None)

    def _of(self, spec: Object) -> int | None:
        value = spec.get("priority")
        if isinstance(value, int):
            return value
        return self.priorities.get(str(spec.get("priorityClassName")))

    def levels(self, label: str) -> tuple[str, ...]:
        """A level of a Topology of Kueue with all levels above it: one value of a rack may be in several blocks."""
        for document in self.snapshot.documents(KUEUE_TOPOLOGIES):
            names = [str(one.get("nodeLabel")) for one in part(document.object, "spec").get("levels") or ()]
            if label in names:
                return tuple(names[: names.index(label) + 1])
        return (label,)

    def kueue_wish(self, annotations: Object) -> TopologyWish | None:
        """The topology that annotations of a pod template ask Kueue for."""
        for name, required in ((REQUIRED, True), (PREFERRED, False)):
            label = annotations.get(name)
            if isinstance(label, str) and label:
                return TopologyWish(self.levels(label), required, f"annotation {name}")
        return None


def keys(pods: Iterable[Document]) -> tuple[Key, ...]:
    """The names of pods."""
    return tuple((one.namespace, one.name) for one in pods)


def label(pod: Document, name: str) -> str:
    """A label, "" where it is missing."""
    return str(part(pod.object, "metadata", "labels").get(name) or "")


def annotation(pod: Document, name: str) -> str:
    """An annotation, "" where it is missing."""
    return str(part(pod.object, "metadata", "annotations").get(name) or "")


def created(document: Document) -> str:
    """When an object was made, "" where that is not told."""
    return str(part(document.object, "metadata").get("creationTimestamp") or "")


def number(value: object, default: int) -> int:
    """A number that is not below zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def made(owner: Document, template: Object, name: str, selector: Mapping[str, str] | None = None) -> Document:
    """A pod that a controller would make from a template; `selector`: node labels that it adds."""
    metadata = part(template, "metadata")
    new: Object = {"name": f"{owner.name}-{name}", "namespace": owner.namespace}
    new |= {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    spec = {key: value for key, value in part(template, "spec").items() if key != "nodeName"}
    if selector:
        spec["nodeSelector"] = {**part(spec, "nodeSelector"), **selector}
    return Document({"apiVersion": POD.api_version, "kind": POD.kind, "metadata": new, "spec": spec}, owner.where)


__all__ = ["Members", "annotation", "created", "keys", "label", "made", "number"]
