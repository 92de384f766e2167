"""Which DaemonSets serve the devices of nodes: the device plugins and the DRA drivers of an estate. Pure.

A DaemonSet serves a resource when it reaches the kubelet's plugin directory, has a node's pods where the resource is
counted, and names the vendor. What is not certain is not assumed: the user names it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from regauge.inventory import newest_slices, whole
from regauge.model import Document, Snapshot
from regauge.model.kinds import DAEMON_SET, POD

PLUGIN_PATHS = ("/var/lib/kubelet/device-plugins",)
DRIVER_PATHS = ("/var/lib/kubelet/plugins_registry",)
_WORD = re.compile(r"[a-z0-9]+")
_COMMON = frozenset(
    ("com", "io", "dev", "org", "net", "x", "k8s", "gpu", "device", "plugin", "kubernetes", "dra", "driver")
)


@dataclass(frozen=True, slots=True)
class Source:
    """Who serves a resource name or driver: a DaemonSet, or `why` none is known. `nodes` are those it has pods on."""

    name: str
    document: Document | None
    nodes: frozenset[str] = frozenset()
    why: str = ""

    @property
    def title(self) -> str:
        return f"{self.document.namespace}/{self.document.name}" if self.document is not None else ""


def plugin_source(resource_name: str, snapshot: Snapshot, said: Mapping[str, str]) -> Source:
    """The DaemonSet that serves a counted resource. `said` is the user's word: name to namespace/name."""
    counted = frozenset(
        node.metadata.name for node in snapshot.nodes if whole(node.status.capacity.get(resource_name, 0))
    )
    return _source(resource_name, counted, PLUGIN_PATHS, snapshot, said)


def driver_source(driver: str, snapshot: Snapshot, said: Mapping[str, str]) -> Source:
    """The DaemonSet of a DRA driver."""
    published = frozenset(
        slice_.spec.node_name
        for slice_ in newest_slices(snapshot.slices)
        if slice_.spec.driver == driver and slice_.spec.node_name
    )
    return _source(driver, published, DRIVER_PATHS, snapshot, said)


def _source(
    name: str, nodes: frozenset[str], paths: tuple[str, ...], snapshot: Snapshot, said: Mapping[str, str]
) -> Source:
    pods = pods_of_daemon_sets(snapshot)
    documents = {(item.namespace, item.name): item for item in snapshot.documents(DAEMON_SET)}
    if name in said:
        namespace, _, short = said[name].rpartition("/")
        found = documents.get((namespace or "default", short))
        if found is None:
            return Source(name, None, why=f"there is no DaemonSet {said[name]}, which was named for it")
        return Source(name, found, frozenset(pods.get((found.namespace, found.name), ())))
    reaching = [item for item in documents.values() if any(path in _host_paths(item) for path in paths)]
    near = [item for item in reaching if not nodes or nodes & set(pods.get((item.namespace, item.name), ()))]
    own = [item for item in near if _words(name) & _words(_told(item))]
    if len(own) == 1:
        return Source(name, own[0], frozenset(pods.get((own[0].namespace, own[0].name), ())))
    listed = ", ".join(sorted(f"{item.namespace}/{item.name}" for item in own))
    why = f"{listed} may all serve it" if own else f"no DaemonSet is seen that serves {name}"
    return Source(name, None, why=f"{why}; name it")


def pods_of_daemon_sets(snapshot: Snapshot) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The nodes that have a pod of each DaemonSet (namespace, name)."""
    uids = {
        str(document.object["metadata"].get("uid", "")): (document.namespace, document.name)
        for document in snapshot.documents(DAEMON_SET)
    }
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for document in snapshot.documents(POD):
        for owner in document.object["metadata"].get("ownerReferences") or ():
            key = uids.get(str(owner.get("uid", "")))
            node = (document.object.get("spec") or {}).get("nodeName")
            if key is not None and node:
                found[key].append(node)
    return {key: tuple(sorted(nodes)) for key, nodes in found.items()}


def pod_spec_of(daemon_set: Document) -> dict[str, object]:
    """The pod spec of a DaemonSet."""
    spec = ((daemon_set.object.get("spec") or {}).get("template") or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def images_of(daemon_set: Document) -> tuple[str, ...]:
    """The images of a DaemonSet's containers."""
    containers = pod_spec_of(daemon_set).get("containers")
    return tuple(str(item.get("image", "")) for item in _dicts(containers))


def _host_paths(daemon_set: Document) -> frozenset[str]:
    volumes = _dicts(pod_spec_of(daemon_set).get("volumes"))
    paths = (item.get("hostPath") for item in volumes)
    return frozenset(str(path.get("path", "")).rstrip("/") for path in paths if isinstance(path, dict))


def _dicts(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _told(daemon_set: Document) -> str:
    return " ".join((daemon_set.namespace, daemon_set.name, *images_of(daemon_set)))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _COMMON


def sources_of(names: Iterable[str], snapshot: Snapshot, said: Mapping[str, str]) -> Mapping[str, Source]:
    """The source of each counted resource."""
    return {name: plugin_source(name, snapshot, said) for name in names}
