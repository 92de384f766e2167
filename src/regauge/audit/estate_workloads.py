"""Rules about how workloads ask: past the scheduler, by labels of nodes, with settings for a driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.audit.ground import Ground, Spot, items, mapping, seen, some
from regauge.audit.policies_seen import guards
from regauge.inventory import is_extended_resource
from regauge.model import Document
from regauge.model.kinds import DAEMON_SET
from regauge.model.resource import ResourceClaimSpec

_STATES = ("present", "count", "deploy", "ready", "driver", "version")
"""Words in labels that say how a node is set up, and not which device is wanted."""


def node_named(ground: Ground) -> Iterator[Spot]:
    """CLAIM-NODE-NAMED: a workload with claims names its node, and so goes past the scheduler."""
    for document, spec in ground.workloads:
        claims = [str(mapping(one).get("name")) for one in items(spec.get("resourceClaims"))]
        name = spec.get("nodeName")
        bound = bool(mapping(document.object.get("metadata")).get("uid")) and document.kind == "Pod"
        if claims and name and not bound:
            what = f"{document.title} has nodeName {name} and claims {some(claims)}"
            yield Spot(document.title, what, (seen(document, str(name), "nodeName"),))


def by_labels(ground: Ground) -> Iterator[Spot]:
    """WORKLOAD-BY-LABELS: a workload counts devices, and picks which by labels of nodes."""
    for document, spec in ground.workloads:
        if document.kind == DAEMON_SET.kind:
            continue
        domains = {name.partition("/")[0]: name for name in _asked(spec)}
        found = [
            key
            for key in _labels(spec)
            if key.partition("/")[0] in domains and not any(word in key.rpartition(".")[2] for word in _STATES)
        ]
        if found:
            counted = sorted({domains[key.partition("/")[0]] for key in found})
            what = f"{document.title} asks for {some(counted)} and picks the device by labels of nodes: {some(found)}"
            yield Spot(document.title, what, (seen(document, some(found), "nodeSelector and nodeAffinity"),))


def _asked(spec: Mapping[str, Any]) -> Iterator[str]:
    for one in (*items(spec.get("initContainers")), *items(spec.get("containers"))):
        resources = mapping(mapping(one).get("resources"))
        for name in {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}:
            if is_extended_resource(name):
                yield name


def _labels(spec: Mapping[str, Any]) -> Iterator[str]:
    """Keys of node labels that a pod requires or prefers, once each."""
    found = dict.fromkeys(str(key) for key in mapping(spec.get("nodeSelector")))
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    preferred = [mapping(mapping(one).get("preference")) for one in
                 items(affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))]  # fmt: skip
    for term in (*map(mapping, items(required.get("nodeSelectorTerms"))), *preferred):
        found.update(dict.fromkeys(str(mapping(one).get("key")) for one in items(term.get("matchExpressions"))))
    yield from found


def driver_settings(ground: Ground) -> Iterator[Spot]:
    """CLAIM-CONFIG: claims or templates carry settings for a driver, and no policy looks at them."""
    if guards(ground, "resource.k8s.io", "resourceclaims"):
        return
    specs: list[tuple[Document, ResourceClaimSpec]] = [
        *((document, one.spec.spec) for document, one in ground.templates),
        *((document, one.spec) for document, one in ground.claims if not one.metadata.owner_references),
    ]
    for document, spec in specs:
        drivers = [one.opaque.driver for one in spec.devices.config if one.opaque]
        if drivers:
            what = f"{document.title} sets parameters of {some(drivers)}, and no admission policy looks at claims"
            yield Spot(document.title, what, (seen(document, some(drivers), "spec.devices.config[].opaque"),))
