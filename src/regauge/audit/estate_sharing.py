"""Rules about workloads that share one claim: how many pods may, and whether they may stand on one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.audit.ground import Ground, Spot, items, mapping, seen
from regauge.model import Document
from regauge.model.kinds import DEPLOYMENT, JOB, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET
from regauge.model.resource import MAX_RESERVED_FOR, ResourceClaim

_KINDS = (DEPLOYMENT, STATEFUL_SET, REPLICA_SET, REPLICATION_CONTROLLER, JOB)
_HOSTNAME = "kubernetes.io/hostname"


def too_wide(ground: Ground) -> Iterator[Spot]:
    """CLAIM-TOO-WIDE: more replicas than pods that a claim can be reserved for use one claim by its name."""
    for document, count, name in _sharing(ground):
        if count > MAX_RESERVED_FOR:
            what = (
                f"{count} replicas of {document.title} share claim {name}, which can be reserved for {MAX_RESERVED_FOR}:"
                f" {count - MAX_RESERVED_FOR} pods stay pending"
            )
            yield Spot(document.title, what, (seen(document, f"{count} replicas", "spec.replicas"),))


def apart(ground: Ground) -> Iterator[Spot]:
    """CLAIM-APART: replicas share a claim whose devices are of one node, and must not share a node."""
    claims = {(one.metadata.namespace, one.metadata.name): one for _, one in ground.claims}
    for document, count, name in _sharing(ground):
        claim = claims.get((document.namespace, name))
        if count > 1 and claim is not None and _one_node(claim) and _must_be_apart(document.object):
            what = (
                f"{count} replicas of {document.title} must stand on different nodes and share claim {name}, whose devices"
                f" are of one node: {count - 1} pods stay pending"
            )
            yield Spot(
                document.title, what, (seen(document, f"anti-affinity by {_HOSTNAME}", "spec.template.spec.affinity"),)
            )


def _sharing(ground: Ground) -> Iterator[tuple[Document, int, str]]:
    """Controllers whose pods name a claim: (document, replicas, claim), those owned by others left out."""
    for kind in _KINDS:
        for document in ground.snapshot.documents(kind):
            if items(mapping(document.object.get("metadata")).get("ownerReferences")):
                continue
            spec = mapping(document.object.get("spec"))
            for one in items(_pod_spec(spec).get("resourceClaims")):
                name = mapping(one).get("resourceClaimName")
                count = spec.get("parallelism" if kind is JOB else "replicas", 1)
                if isinstance(name, str) and isinstance(count, int):
                    yield document, count, name


def _pod_spec(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(spec.get("template")).get("spec"))


def _one_node(claim: ResourceClaim) -> bool:
    selector = claim.status.allocation.node_selector if claim.status.allocation else None
    terms = selector.node_selector_terms if selector else ()
    fields = [one for term in terms for one in term.match_fields]
    return len(terms) == 1 and any(one.key == "metadata.name" and len(one.values) == 1 for one in fields)


def _must_be_apart(object_: Mapping[str, Any]) -> bool:
    template = mapping(mapping(object_.get("spec")).get("template"))
    labels = mapping(mapping(template.get("metadata")).get("labels"))
    rules = mapping(mapping(mapping(template.get("spec")).get("affinity")).get("podAntiAffinity"))
    for term in items(rules.get("requiredDuringSchedulingIgnoredDuringExecution")):
        wanted = mapping(mapping(mapping(term).get("labelSelector")).get("matchLabels"))
        if mapping(term).get("topologyKey") == _HOSTNAME and wanted and wanted.items() <= labels.items():
            return True
    return False
