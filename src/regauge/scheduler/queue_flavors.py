"""From a queue to its devices: flavor and resource, the classes that stand behind the name, and their devices there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regauge.allocator import DeviceId
from regauge.model import Snapshot, matches_node
from regauge.model.resource import DEVICE_CLASS_PREFIX
from regauge.scheduler.nodes import is_terminal
from regauge.scheduler.queue_charging import Charging
from regauge.scheduler.queue_objects import ResourceFlavor, amount
from regauge.scheduler.resources import is_extended, pod_requests

NO_NODES = "there are no nodes in the input"


@dataclass(frozen=True, slots=True)
class FlavorClass:
    """Devices of one class that the nodes of a flavor have, and those in use. `error`: why that cannot be told.

    `name` is "" for devices of a device plugin, which nodes count under the resource itself.
    """

    name: str
    devices: int
    used: int
    error: str = ""

    @property
    def free(self) -> int:
        return self.devices - self.used


class FlavorDevices:
    """The devices of classes on the nodes of flavors. `used`: devices that claims of pods hold."""

    def __init__(
        self,
        snapshot: Snapshot,
        charging: Charging,
        flavors: Mapping[str, ResourceFlavor],
        used: Iterable[DeviceId],
    ) -> None:
        self._charging = charging
        self._flavors = flavors
        self._used = frozenset(used)
        self._nodes = snapshot.nodes
        self._labels = {one.metadata.name: one.metadata.labels or {} for one in snapshot.nodes}
        self._pods = snapshot.pods
        self._ids = {id(subject): key for key, subject in charging.published.by_id.items()}

    def of(self, flavor: str, resource: str) -> tuple[FlavorClass, ...]:
        """The classes behind a name in quotas, with their devices on the nodes of a flavor."""
        wanted = self._flavors[flavor].spec.node_labels if flavor in self._flavors else {}
        found = []
        for name in classes_of(resource, self._charging):
            devices = self._charging.published.of_class(name)
            if wanted and not self._nodes:
                devices = NO_NODES
            if isinstance(devices, str):
                found.append(FlavorClass(name, 0, 0, devices))
                continue
            there = [key for one in devices if self._is_there(key := self._ids[id(one)], wanted)]
            found.append(FlavorClass(name, len(there), sum(key in self._used for key in there)))
        counted = self._counted(resource, wanted)
        return (*found, counted) if counted is not None else tuple(found)

    def _counted(self, resource: str, wanted: Mapping[str, str]) -> FlavorClass | None:
        """What nodes of the flavor count of a resource by themselves; None where none does."""
        offered: dict[str, int] = {}
        for node in self._nodes:
            text = node.status.allocatable.get(resource)
            if is_extended(resource) and text is not None and _has(node.metadata.labels or {}, wanted):
                offered[node.metadata.name] = amount(text, f"{resource} of node {node.metadata.name}").value()
        if not offered:
            return None
        used = sum(
            pod_requests(pod.spec).get(resource, 0)
            for pod in self._pods
            if pod.spec.node_name in offered and not is_terminal(pod) and offered[pod.spec.node_name]
        )
        return FlavorClass("", sum(offered.values()), used)

    def _is_there(self, device: DeviceId, wanted: Mapping[str, str]) -> bool:
        """Whether a node with the labels has the device; one without a node is everywhere."""
        if not wanted:
            return True
        nodes = self._nodes_of(device)
        labels = self._labels.values() if nodes is None else (self._labels[one] for one in nodes if one in self._labels)
        return any(_has(one, wanted) for one in labels)

    def _nodes_of(self, device: DeviceId) -> frozenset[str] | None:
        """The nodes that the device may be used on; None for all."""
        spec = self._charging.published.home[device].spec
        own = self._charging.published.by_id[device].view
        name = own.node_name if spec.per_device_node_selection else spec.node_name
        selector = own.node_selector if spec.per_device_node_selection else spec.node_selector
        if name:
            return frozenset({name})
        if selector is not None:
            return frozenset(one.metadata.name for one in self._nodes if matches_node(selector, one))
        return None


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def classes_of(resource: str, charging: Charging) -> tuple[str, ...]:
    """The classes whose devices a name in quotas stands for."""
    classes = [one.metadata.name for one in charging.published.offering(resource)]
    classes += [item for one in charging.settings.mappings if one.name == resource for item in one.device_class_names]
    if resource.startswith(DEVICE_CLASS_PREFIX):
        classes.append(resource.removeprefix(DEVICE_CLASS_PREFIX))
    return tuple(dict.fromkeys(classes))


__all__ = ["FlavorClass", "FlavorDevices", "classes_of"]
