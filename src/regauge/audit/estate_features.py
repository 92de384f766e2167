"""Rules about versions: fields whose gate is off or young, skew between server and nodes, and what an upgrade changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, Spot, at, items, mapping, seen, some
from regauge.features import Stage, feature_rows
from regauge.model import Document, Semver, SemverError
from regauge.model.core import Node
from regauge.model.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NODE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)

_KUBELET_BEHIND = 3
Uses = Iterator[tuple[str, str]]


def gated(ground: Ground) -> Iterator[Spot]:
    """FEATURE-OFF: an object uses a field whose gate is off; it is dropped, or not gone by."""
    for gate, uses in _used(ground).items():
        if not ground.rules.on(gate):
            yield _use(f"the gate {gate} is off", gate, uses, f"gate {gate}")


def immature(ground: Ground) -> Iterator[Spot]:
    """FEATURE-ALPHA: an object uses a field that is alpha in this version."""
    for gate, uses in _used(ground).items():
        stage = _stage(gate, ground.rules.minor)
        if ground.rules.on(gate) and stage is not None and stage.stage == "alpha":
            yield _use(f"{gate} is alpha in {ground.rules.minor}", gate, uses, f"gate {gate}")


def gate_flips(ground: Ground) -> Iterator[Spot]:
    """UPGRADE-GATE: a feature that objects use has another gate value after the upgrade."""
    to = ground.given.to
    if to is None:
        return
    for gate, uses in _used(ground).items():
        if ground.rules.on(gate) and not to.on(gate):
            yield _use(f"{gate} is on now and off in {to.minor}", gate, uses, f"gate {gate}")


def unreadable(ground: Ground) -> Iterator[Spot]:
    """OBJECT-UNREADABLE: an object's form is not that of its kind, or one that cannot be turned into today's."""
    for document, error in ground.unreadable:
        yield Spot(document.title, error.what, (Evidence(at(document, error.where.field), error.what),))


def version_off(ground: Ground) -> Iterator[Spot]:
    """API-OFF: a manifest is in a version that is not served by itself. What has a uid was read from a server: it is."""
    for document in ground.given.snapshot.all_documents():
        version = document.api_version
        known = document.kind in ground.rules.api.get(version, ())
        if not known or version in ground.rules.served or mapping(document.object.get("metadata")).get("uid"):
            continue
        what = f"{document.title} is {version}, which Kubernetes {ground.rules.minor} does not serve unless told to"
        yield Spot(document.title, what, (seen(document, version, "apiVersion"),))


def versions_gone(ground: Ground) -> Iterator[Spot]:
    """UPGRADE-API-GONE: objects are written in a version that the target does not serve."""
    to = ground.given.to
    if to is None:
        return
    groups = {version.partition("/")[0] for version in (*to.api, *ground.rules.api)}
    found: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for document in ground.given.snapshot.all_documents():
        known = document.kind in {kind for kinds in (*to.api.values(), *ground.rules.api.values()) for kind in kinds}
        served = document.kind in to.api.get(document.api_version, ())
        if document.api_version.partition("/")[0] in groups and known and not served:
            found[document.api_version, document.kind].append(document)
    for (version, kind), documents in sorted(found.items()):
        what = f"{len(documents)} {kind} objects are {version}, which Kubernetes {to.minor} does not have"
        yield Spot(f"{version} {kind}", what, tuple(seen(one, f"apiVersion {version}") for one in documents[:10]))


def renamed_fields(ground: Ground) -> Iterator[Spot]:
    """UPGRADE-FIELD-RENAMED: slices use the form of 1.36 that 1.37 does not know any more."""
    if ground.given.to is None or _number(ground.given.to.minor) < (1, 37):
        return
    for document, one in ground.slices:
        old = [device.name for device in one.spec.devices if device.node_allocatable_resource_mappings]
        if old:
            what = f"{document.title} uses nodeAllocatableResourceMappings, which {ground.given.to.minor} does not know"
            yield Spot(
                document.title, what, (seen(document, some(old), "spec.devices[].nodeAllocatableResourceMappings"),)
            )


def skipped_minor(ground: Ground) -> Iterator[Spot]:
    """UPGRADE-SKIPS: the upgrade goes over more than one minor, or back."""
    to = ground.given.to
    if to is None:
        return
    steps = _number(to.minor)[1] - _number(ground.rules.minor)[1]
    if steps not in (0, 1):
        what = f"from {ground.rules.minor} to {to.minor} is {steps} minors; the control plane goes one at a time"
        yield Spot(f"Kubernetes {to.minor}", what)


def skew(ground: Ground) -> Iterator[Spot]:
    """VERSION-SKEW: kubelets newer than the API server, or more than three minors older."""
    server = _minor(ground.given.server_version)
    if server is None:
        return
    found: dict[str, list[tuple[Document, int]]] = defaultdict(list)
    for document, node in ground.pairs(NODE, Node):
        kubelet = _minor(node.status.node_info.kubelet_version)
        if kubelet is not None and (kubelet > server or server - kubelet > _KUBELET_BEHIND):
            found[node.status.node_info.kubelet_version].append((document, server - kubelet))
    for version, nodes in sorted(found.items()):
        behind = nodes[0][1]
        told = f"{behind} minors behind" if behind > 0 else "ahead of"
        what = f"{len(nodes)} kubelets are {version}, {told} the API server {ground.given.server_version}"
        evidence = tuple(seen(one, version, "status.nodeInfo.kubeletVersion") for one, _ in nodes[:10])
        yield Spot(some([f"Node {one.name}" for one, _ in nodes]), what, evidence)


def _use(what: str, gate: str, uses: list[tuple[Document, str]], where: str) -> Spot:
    names = list(dict.fromkeys(document.title for document, _ in uses))
    evidence = tuple(Evidence(at(document, path), f"used ({gate})") for document, path in uses[:10])
    return Spot(where, f"{what}, and {len(names)} objects use it: {some(names, 3)}", evidence)


def _used(ground: Ground) -> dict[str, list[tuple[Document, str]]]:
    """Every gate that guards fields, with the objects that use them."""
    found: dict[str, list[tuple[Document, str]]] = defaultdict(list)
    for kind, look in _LOOKS:
        for document in ground.snapshot.documents(kind):
            for gate, path in look(mapping(document.object.get("spec"))):
                if not found[gate] or found[gate][-1][0] is not document:
                    found[gate].append((document, path))
    return found


def _of_class(spec: Any) -> Uses:
    if spec.get("extendedResourceName"):
        yield "DRAExtendedResource", "spec.extendedResourceName"


def _of_claim(spec: Any) -> Uses:
    devices = mapping(spec.get("devices"))
    for constraint in items(devices.get("constraints")):
        if mapping(constraint).get("distinctAttribute"):
            yield "DRAConsumableCapacity", "spec.devices.constraints[].distinctAttribute"
    for request in map(mapping, items(devices.get("requests"))):
        several = items(request.get("firstAvailable"))
        if several:
            yield "DRAPrioritizedList", "spec.devices.requests[].firstAvailable"
        for one in (mapping(request.get("exactly")), *map(mapping, several)):
            yield from _of_request(one)


def _of_request(one: Any) -> Uses:
    place = "spec.devices.requests[]"
    if one.get("adminAccess"):
        yield "DRAAdminAccess", f"{place}.adminAccess"
    if one.get("tolerations"):
        yield "DRADeviceTaints", f"{place}.tolerations"
    if one.get("capacity"):
        yield "DRAConsumableCapacity", f"{place}.capacity"
    if one.get("derivedAttributes"):
        yield "DRADerivedAttributes", f"{place}.derivedAttributes"


def _of_template(spec: Any) -> Uses:
    return _of_claim(mapping(spec.get("spec")))


def _of_slice(spec: Any) -> Uses:
    if spec.get("sharedCounters") or spec.get("perDeviceNodeSelection"):
        yield "DRAPartitionableDevices", "spec.sharedCounters"
    if spec.get("skipNodeOperations"):
        yield "DRAOptionalNodeOperations", "spec.skipNodeOperations"
    for device in map(mapping, items(spec.get("devices"))):
        for field, gate in _DEVICE_FIELDS:
            if device.get(field):
                yield gate, f"spec.devices[].{field}"
        for value in mapping(device.get("attributes")).values():
            if mapping(value).keys() & {"ints", "bools", "strings", "versions"}:
                yield "DRAListTypeAttributes", "spec.devices[].attributes"


def _of_taint_rule(_spec: Any) -> Uses:
    yield "DRADeviceTaintRules", "spec"


_DEVICE_FIELDS = (
    ("taints", "DRADeviceTaints"),
    ("consumesCounters", "DRAPartitionableDevices"),
    ("allowMultipleAllocations", "DRAConsumableCapacity"),
    ("bindingConditions", "DRADeviceBindingConditions"),
    ("nodeAllocatableResources", "DRANodeAllocatableResources"),
    ("nodeAllocatableResourceMappings", "DRANodeAllocatableResources"),
)
_LOOKS: tuple[tuple[Any, Callable[[Any], Uses]], ...] = (
    (DEVICE_CLASS, _of_class),
    (RESOURCE_CLAIM, _of_claim),
    (RESOURCE_CLAIM_TEMPLATE, _of_template),
    (RESOURCE_SLICE, _of_slice),
    (DEVICE_TAINT_RULE, _of_taint_rule),
)


@cache
def _stages(minor: str) -> dict[str, Stage | None]:
    return {row.gate: row.stages[minor] for row in feature_rows(minor) if row.gate}


def _stage(gate: str, minor: str) -> Stage | None:
    return _stages(minor).get(gate)


def _number(minor: str) -> tuple[int, int]:
    major, _, rest = minor.partition(".")
    return int(major), int(rest)


def _minor(version: str) -> int | None:
    try:
        return int(Semver.parse(version.removeprefix("v")).minor)
    except (SemverError, ValueError):
        return None


def gates_used(ground: Ground) -> Iterable[str]:
    """The gates of all features that the estate's objects use."""
    return sorted(_used(ground))


def feature_uses(ground: Ground) -> Mapping[str, tuple[str, ...]]:
    """The objects that use each gate's fields, by their titles."""
    return {gate: tuple(dict.fromkeys(one.title for one, _ in uses)) for gate, uses in sorted(_used(ground).items())}
