"""What makes the status of a pod invalid, as far as devices are told there. Source: pkg/apis/core/validation of 1.36."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.cluster.admission.names import label_errors, subdomain_errors
from regauge.cluster.refusals import FieldError, duplicate, invalid, required, unsupported_value
from regauge.model.core import Container, ContainerStatus, Pod, PodExtendedResourceClaimStatus, ResourceStatus

_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_OF_CLAIMS = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or"
    " 'claim:<claimName>' if request is empty"
)
_OF_REQUESTS = "must match one of the container's resource requests"
_NO_RESOURCE = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or"
    " spec.containers.resources.requests"
)


def status_errors(old: Pod, new: Pod) -> list[FieldError]:
    """What is wrong with an update of a pod's status."""
    errors: list[FieldError] = []
    names = [claim.name for claim in old.spec.resource_claims]
    for index, entry in enumerate(new.status.resource_claim_statuses):
        path = f"status.resourceClaimStatuses[{index}].name"
        if entry.name not in names:
            errors.append(invalid(path, entry.name, "must match the name of an entry in `spec.resourceClaims`"))
    extended = new.status.extended_resource_claim_status
    if extended is not None:
        errors += _extended("status.extendedResourceClaimStatus", extended, old)
    for field, statuses, containers in (
        ("containerStatuses", new.status.container_statuses, old.spec.containers),
        ("initContainerStatuses", new.status.init_container_statuses, old.spec.init_containers),
    ):
        errors += _allocated(f"status.{field}", statuses, containers)
    return errors


def _extended(path: str, status: PodExtendedResourceClaimStatus, pod: Pod) -> Iterator[FieldError]:
    containers = {item.name: item for item in (*pod.spec.init_containers, *pod.spec.containers)}
    if not status.request_mappings:
        yield required(f"{path}.requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(status.request_mappings):
        place = f"{path}.requestMappings[{index}]"
        container = containers.get(mapping.container_name)
        if container is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield invalid(f"{place}.containerName", mapping.container_name, text)
        elif mapping.resource_name not in container.resources.requests:
            yield invalid(f"{place}.resourceName", mapping.resource_name, _NO_RESOURCE)
        yield from label_errors(f"{path}.requestName", mapping.request_name)
        key = (mapping.container_name, mapping.resource_name, mapping.request_name)
        if key in seen:
            for field, value in zip(("containerName", "resourceName", "requestName"), key, strict=True):
                yield duplicate(f"{place}.{field}", value)
        seen.add(key)
    if not status.resource_claim_name:
        yield required(f"{path}.resourceClaimName")
    else:
        yield from subdomain_errors(f"{path}.resourceClaimName", status.resource_claim_name)


def _allocated(
    path: str, statuses: tuple[ContainerStatus, ...], containers: tuple[Container, ...]
) -> Iterator[FieldError]:
    by_name = {container.name: container for container in containers}
    for number, status in enumerate(statuses):
        for index, resource in enumerate(status.allocated_resources_status):
            place = f"{path}[{number}].allocatedResourcesStatus[{index}]"
            container = by_name.get(status.name)
            if container is not None:
                yield from _named(f"{place}.name", resource.name, container)
            yield from _healths(f"{place}.resources", resource)


def _named(path: str, name: str, container: Container) -> Iterator[FieldError]:
    if not name.startswith("claim:"):
        if name not in container.resources.requests:
            yield invalid(path, name, _OF_REQUESTS)
        return
    asked = {f"claim:{item.name}/{item.request}" if item.request else f"claim:{item.name}"
             for item in container.resources.claims}  # fmt: skip
    if name not in asked:
        yield invalid(path, name, _OF_CLAIMS)


def _healths(path: str, status: ResourceStatus) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, item in enumerate(status.resources):
        if item.resource_id in seen:
            yield duplicate(f"{path}[{index}].resourceID", item.resource_id)
        seen.add(item.resource_id)
        if item.health not in _HEALTH:
            yield unsupported_value(f"{path}[{index}].health", item.health, _HEALTH)
