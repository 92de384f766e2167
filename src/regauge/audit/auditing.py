"""The audit of an estate: all rules over one `AuditInput`, the CDI of each node, and what could not be looked at. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from regauge.audit.cdi_rules import audit_cdi
from regauge.audit.findings import Evidence, Finding, Unknown, in_order
from regauge.audit.ground import AuditInput, Ground, some
from regauge.audit.registry import Profile, estate_findings
from regauge.base import Where
from regauge.model.kinds import (
    CLUSTER_ROLE_BINDING,
    DAEMON_SET,
    DEVICE_CLASS,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    RUNTIME_CLASS,
)

_WITHOUT_NODES = (Profile.MANIFESTS, Profile.UPGRADE)
_NEEDED = (
    (NODE, "skew, orphaned slices and stuck claims"),
    (POD, "who uses claims"),
    (DEVICE_CLASS, "selectors"),
    (DAEMON_SET, "the pods that serve devices"),
    (CLUSTER_ROLE_BINDING, "who may write classes, slices and drivers"),
    (RESOURCE_QUOTA, "quotas"),
)


@dataclass(frozen=True, slots=True)
class EstateAudit:
    """What was found in an estate, worst first, and what could not be looked at."""

    source: str
    profile: Profile | None
    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]


def audit_estate(given: AuditInput, profile: Profile | None = None) -> EstateAudit:
    """All that the rules of the profile find. Raises `InputError` for an object that cannot be read."""
    return audit_ground(Ground(given), profile)


def audit_ground(ground: Ground, profile: Profile | None) -> EstateAudit:
    """The same on a ground that others look at, too."""
    found = list(estate_findings(ground, profile))
    unknown = list(_unseen(ground, profile))
    if profile not in _WITHOUT_NODES:
        for node in sorted(ground.given.nodes):
            cdi_findings, cdi_unknown = _of_node(ground, node)
            found += cdi_findings
            unknown += cdi_unknown
    return EstateAudit(ground.given.source, profile, in_order(found), tuple(unknown))


def _of_node(ground: Ground, node: str) -> tuple[list[Finding], list[Unknown]]:
    """The CDI findings of one node, each with the node's name on it."""
    files = ground.given.nodes[node]
    handlers = {one.name: str(one.object.get("handler", "")) for one in ground.snapshot.documents(RUNTIME_CLASS)}
    versions = {one.metadata.name: one.status.node_info.container_runtime_version for one in ground.snapshot.nodes}
    files = replace(
        files,
        runtime_classes=files.runtime_classes or handlers,
        runtime_version=files.runtime_version or versions.get(node, ""),
    )
    audit = audit_cdi(files)
    title = f"Node {node}"
    findings = [
        replace(one, where=f"{title}: {one.where}", evidence=tuple(_on(title, item) for item in one.evidence))
        for one in audit.findings
    ]
    return findings, [Unknown(f"{title}: {one.what}", one.why) for one in audit.unknown]


def _on(title: str, item: Evidence) -> Evidence:
    return Evidence(Where(item.where.file, item.where.line, item.where.object or title, item.where.field), item.text)


def _unseen(ground: Ground, profile: Profile | None) -> Iterator[Unknown]:
    if profile is not Profile.MANIFESTS:
        for kind, what in _NEEDED:
            if not ground.sees(kind):
                yield Unknown(what, f"the input holds no {kind.kind}")
        if not ground.sees(RESOURCE_CLAIM) and ground.given.nodes:
            yield Unknown("claims that drivers hold and the API does not have", "the input holds no ResourceClaim")
        if ground.rights.dangling:
            names = some([one.title for one in ground.rights.dangling])
            yield Unknown(f"what {names} gives", "the role that it names is not in the input")
        if not ground.given.server_version:
            yield Unknown("version skew", "the input does not tell the version of the API server")
    if profile is Profile.SECURITY:
        yield from _unwanted(ground)
    if profile in _WITHOUT_NODES:
        return
    unsure = unsure_nodes(ground)
    if unsure:
        yield Unknown(
            f"whether devices of {some(list(unsure))} are owned twice",
            "both stacks serve these nodes, and which devices the plugin lists is known to the kubelet only:"
            " regauge collect node on them tells",
        )
    bare = [name for name in with_devices(ground) if name not in ground.given.nodes]
    if bare:
        yield Unknown(
            f"CDI, kubelet and driver files of {some(bare)}", "no record of these nodes: regauge collect --nodes"
        )


def _unwanted(ground: Ground) -> Iterator[Unknown]:
    """What only the owner can say."""
    policy = ground.given.policy
    if not policy.registries:
        yield Unknown("whether images of drivers come from where they may", "no registry is allowed: --policy")
    if not policy.signatures:
        yield Unknown("whether signatures of images are verified", "the owner's policy does not ask for it: --policy")
    if not policy.operators:
        yield Unknown(
            "who operates the cluster beside its own parts", "the owner's policy names no operators: --policy"
        )


def with_devices(ground: Ground) -> tuple[str, ...]:
    """The nodes that devices are advertised on, by either stack."""
    counted = {one.node for one in ground.inventory.counted if one.capacity}
    return tuple(sorted((counted | ground.drivers_on.keys()) & ground.node_names))


def unsure_nodes(ground: Ground) -> tuple[str, ...]:
    """The nodes on which both stacks serve devices and the plugin's devices cannot be told apart."""
    reported = {report.node for report in ground.given.reports}
    counted = {one.node for one in ground.inventory.counted if one.capacity}
    return tuple(sorted(node for node in counted if node in ground.drivers_on and node not in reported))
