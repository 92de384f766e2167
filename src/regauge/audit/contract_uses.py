"""The device features that an estate uses, by their gates: in what people write, and in what the cluster notes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from regauge.audit.estate_features import feature_uses
from regauge.audit.ground import Ground, items, mapping
from regauge.model import Kind
from regauge.model.kinds import DEVICE_CLASS, POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_SLICE, WORKLOAD

CORE_GATE = "DynamicResourceAllocation"
_CORE = (DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM)


def uses_of_features(ground: Ground) -> Mapping[str, tuple[str, ...]]:
    """The objects by which each gate is used. Of the core the kinds are named, not every object."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for gate, titles in feature_uses(ground).items():
        found[gate] |= dict.fromkeys(titles)
    for kind, look in _NOTED:
        for document in ground.snapshot.documents(kind):
            for gate in look(document.object):
                found[gate][document.title] = None
    core = [f"{kind.kind} objects" for kind in _CORE if ground.has(kind)]
    if core:
        found[CORE_GATE] = dict.fromkeys(core)
    return {gate: tuple(titles) for gate, titles in sorted(found.items())}


def _of_claim(object_: Any) -> Iterator[str]:
    status = mapping(object_.get("status"))
    if status.get("devices"):
        yield "DRAResourceClaimDeviceStatus"
    if any(mapping(one).get("resource") == POD_GROUP.plural for one in items(status.get("reservedFor"))):
        yield "DRAWorkloadResourceClaims"


def _of_pod(object_: Any) -> Iterator[str]:
    status = mapping(object_.get("status"))
    if status.get("extendedResourceClaimStatus"):
        yield "DRAExtendedResource"
    told = [
        mapping(resource)
        for container in items(status.get("containerStatuses"))
        for one in items(mapping(container).get("allocatedResourcesStatus"))
        for resource in items(mapping(one).get("resources"))
    ]
    if told:
        yield "ResourceHealthStatus"
    if any(one.get("message") for one in told):
        yield "ResourceHealthStatusMessage"


def _of_group(object_: Any) -> Iterator[str]:
    yield "GenericWorkload"
    spec = mapping(object_.get("spec"))
    templates = [mapping(mapping(one).get("schedulingPolicy")) for one in items(spec.get("podGroupTemplates"))]
    if any("gang" in one for one in (mapping(spec.get("schedulingPolicy")), *templates)):
        yield "GangScheduling"
    if spec.get("resourceClaims"):
        yield "DRAWorkloadResourceClaims"


_NOTED: tuple[tuple[Kind, Callable[[Any], Iterator[str]]], ...] = (
    (RESOURCE_CLAIM, _of_claim),
    (POD, _of_pod),
    (POD_GROUP, _of_group),
    (WORKLOAD, _of_group),
)
