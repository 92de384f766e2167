"""Extended resources backed by device classes: which class stands for a resource, and the claim that takes its place.

Source: KEP-5004; kube-scheduler plugins/dynamicresources/extendeddynamicresources.go and
dynamic-resource-allocation deviceclass/extendedresourcecache of 1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from regauge.model import Quantity
from regauge.model.core import Container, ContainerExtendedResourceRequest, PodSpec
from regauge.model.resource import DEVICE_CLASS_PREFIX, DeviceClass, DeviceRequest, ExactDeviceRequest
from regauge.scheduler.resources import is_extended, is_sidecar
from regauge.scheduler.results import ExtendedClaim

Mapping = ContainerExtendedResourceRequest


def may_be_devices(name: str) -> bool:
    """Whether a resource of this name can stand for devices of a class at all."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


class ClassResolver:
    """Which class stands for which resource name. Like upstream's cache it depends on the order of changes:

    the newest class of a name wins, at the same second the one whose name sorts first, and when the winner loses the name
    no other takes its place until that one changes.
    """

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}

    def find(self, resource: str) -> DeviceClass | None:
        """The class that stands for a resource."""
        return self._classes.get(resource)

    def put(self, new: DeviceClass, old: DeviceClass | None) -> None:
        """A class came or changed."""
        explicit = new.spec.extended_resource_name
        other = self._classes.get(explicit) if explicit else None
        if other is not None and not _goes_before(new, other):
            return
        if old is not None:
            self.drop(old)
        if explicit:
            self._classes[explicit] = new
        self._classes[DEVICE_CLASS_PREFIX + new.metadata.name] = new

    def drop(self, old: DeviceClass) -> None:
        """A class went."""
        self._classes.pop(DEVICE_CLASS_PREFIX + old.metadata.name, None)
        if old.spec.extended_resource_name:
            self._classes.pop(old.spec.extended_resource_name, None)


def _goes_before(new: DeviceClass, other: DeviceClass) -> bool:
    age, other_age = new.metadata.creation_timestamp or "", other.metadata.creation_timestamp or ""
    return age > other_age or (age == other_age and new.metadata.name < other.metadata.name)


def extended_claim(spec: PodSpec, resources: Collection[str], resolver: ClassResolver) -> ExtendedClaim:
    """The requests of the special claim for these resources, and which container is served by which request.

    Containers that last (sidecars among them) get a request each. Init containers that end share one request for what
    the lasting containers after them do not already ask for.
    """
    requests: list[DeviceRequest] = []
    mappings: list[Mapping] = []
    for resource in sorted(resources):
        found = resolver.find(resource)
        if found is not None:
            made, mapped = _for_resource(spec, resource, found.metadata.name)
            requests += made
            mappings += mapped
    return ExtendedClaim(tuple(sorted(requests, key=lambda item: item.name)), tuple(mappings))


def _for_resource(spec: PodSpec, resource: str, class_name: str) -> tuple[list[DeviceRequest], list[Mapping]]:
    everyone = (*spec.init_containers, *spec.containers)
    ending = [index for index, item in enumerate(spec.init_containers) if not is_sidecar(item)]
    lasting: list[DeviceRequest | None] = [None] * len(everyone)
    mappings: list[Mapping] = []
    for index, container in enumerate(everyone):
        if index not in ending:
            lasting[index], mapped = _for_container(index, container, resource, class_name, ())
            mappings += mapped
    largest, passing = _for_ending(ending, everyone, lasting, resource, class_name)
    requests = [item for item in (largest, *lasting) if item is not None]
    return requests, mappings + passing


def _for_ending(
    ending: list[int],
    everyone: tuple[Container, ...],
    lasting: list[DeviceRequest | None],
    resource: str,
    class_name: str,
) -> tuple[DeviceRequest | None, list[Mapping]]:
    largest: DeviceRequest | None = None
    own: set[str] = set()
    mappings: list[Mapping] = []
    for index in ending:
        request, mapped = _for_container(index, everyone[index], resource, class_name, lasting[index:])
        mappings += mapped
        if request is not None:
            own.add(request.name)
            largest = request if largest is None or _count(largest) < _count(request) else largest
    if largest is None:
        return None, mappings
    name = largest.name
    return largest, [
        Mapping(container_name=item.container_name, resource_name=item.resource_name, request_name=name)
        if item.request_name in own
        else item
        for item in mappings
    ]


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly else 0


def _for_container(
    index: int, container: Container, resource: str, class_name: str, shared: Iterable[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[Mapping]]:
    """The container's own request (None when it needs none) and the requests that serve it."""
    asked = container.resources.requests.get(resource)
    wanted = Quantity.from_document(asked).as_int64() if asked is not None else None
    if not wanted:
        return None, []
    mapping = Mapping(container_name=container.name, resource_name=resource)
    mappings: list[Mapping] = []
    served = 0
    for request in shared:
        if request is None:
            continue
        served += _count(request)
        mappings.append(_named(mapping, request.name))
        if served >= wanted:
            return None, mappings
    name = f"container-{index}-request-{sorted(container.resources.requests).index(resource)}"
    own = DeviceRequest(
        name=name,
        exactly=ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount", count=wanted - served),
    )
    return own, [*mappings, _named(mapping, name)]


def _named(mapping: Mapping, request: str) -> Mapping:
    return Mapping(container_name=mapping.container_name, resource_name=mapping.resource_name, request_name=request)


__all__ = ["ClassResolver", "extended_claim", "may_be_devices"]
