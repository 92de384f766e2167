"""The rules about an estate: a function each, and a row in `data/rules.json` with code, title, severity, layer, words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files

import msgspec

from regauge.audit import (
    estate_access,
    estate_claims,
    estate_classes,
    estate_drivers,
    estate_events,
    estate_features,
    estate_generators,
    estate_health,
    estate_images,
    estate_isolation,
    estate_nodes,
    estate_ownership,
    estate_passthrough,
    estate_quota,
    estate_requests,
    estate_rights,
    estate_sharing,
    estate_slices,
    estate_vm,
    estate_workloads,
)
from regauge.audit.findings import Finding, Layer, Severity
from regauge.audit.ground import Ground, Spot

PAGE = "docs/audit.md"
CDI_PAGE = "docs/cdi.md#what-the-audit-finds"
Check = Callable[[Ground], Iterator[Spot]]


class Profile(StrEnum):
    """What an audit is for. All of them but PRODUCTION narrow the rules; PRODUCTION answers the checklist, too."""

    PRODUCTION = "production"
    SECURITY = "security"
    MIGRATION = "migration"
    UPGRADE = "upgrade"
    MANIFESTS = "manifests"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is told of a rule, and in which profiles it runs beside PRODUCTION and none."""

    code: str
    title: str
    severity: Severity
    layer: Layer
    profiles: tuple[Profile, ...]
    why: str
    fix: str


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    comment: str
    rules: tuple[Rule, ...]


CHECKS: Mapping[str, Check] = {
    "OWN-TWICE": estate_ownership.two_owners,
    "OWN-SAME-NAME": estate_ownership.same_name,
    "CLASS-SHARED-NAME": estate_ownership.shared_class_name,
    "CLASS-INVALID": estate_classes.does_not_compile,
    "CLASS-COST": estate_classes.costly,
    "CLASS-FAILS": estate_classes.fails,
    "CLASS-UNGUARDED": estate_classes.unguarded,
    "CLASS-MATCHES-NOTHING": estate_classes.selects_nothing,
    "CLASS-ALWAYS-FALSE": estate_classes.always_false,
    "CLASS-OVER-BROAD": estate_classes.over_broad,
    "REQUEST-INVALID": estate_requests.does_not_compile,
    "REQUEST-FAILS": estate_requests.fails,
    "REQUEST-MATCHES-NOTHING": estate_requests.match_nothing,
    "CLAIM-STUCK": estate_claims.stuck,
    "CLAIM-NOT-CREATED": estate_events.not_created,
    "CLAIM-UNRELEASED": estate_claims.unreleased,
    "CLAIM-RESERVED-BY-DEAD": estate_claims.reserved_by_dead,
    "CLAIM-IDLE": estate_claims.reserved_by_nobody,
    "CLAIM-BYPASSED": estate_claims.bypassed,
    "CLAIM-NODE-NAMED": estate_workloads.node_named,
    "CLAIM-UNPROTECTED": estate_claims.without_finalizer,
    "CLAIM-FULL": estate_claims.full,
    "CLAIM-TOO-WIDE": estate_sharing.too_wide,
    "CLAIM-CONFIG": estate_workloads.driver_settings,
    "CLAIM-APART": estate_sharing.apart,
    "WORKLOAD-BY-LABELS": estate_workloads.by_labels,
    "CLAIM-NODE-GONE": estate_claims.nowhere,
    "CLAIM-DEVICE-GONE": estate_claims.device_gone,
    "PREPARE-FAILING": estate_events.prepare_failing,
    "SLICE-INCOMPLETE": estate_slices.incomplete,
    "SLICE-COUNTS": estate_slices.counts_disagree,
    "SLICE-OLD-GENERATION": estate_slices.mixed_generations,
    "SLICE-ORPHANED": estate_slices.orphaned,
    "SLICE-EMPTY": estate_slices.empty,
    "SLICE-OVER-LIMITS": estate_slices.over_limits,
    "SLICE-DUPLICATE": estate_slices.twice_in_pool,
    "HEALTH-NOT-BLOCKED": estate_health.not_blocked,
    "HEALTH-TAINT-IGNORED": estate_health.taints_without_effect,
    "HEALTH-UNHEALTHY-HELD": estate_health.held,
    "FEATURE-OFF": estate_features.gated,
    "FEATURE-ALPHA": estate_features.immature,
    "VERSION-SKEW": estate_features.skew,
    "OBJECT-UNREADABLE": estate_features.unreadable,
    "API-OFF": estate_features.version_off,
    "UPGRADE-API-GONE": estate_features.versions_gone,
    "UPGRADE-GATE": estate_features.gate_flips,
    "UPGRADE-FIELD-RENAMED": estate_features.renamed_fields,
    "UPGRADE-SKIPS": estate_features.skipped_minor,
    "TOPOLOGY-BLIND": estate_nodes.topology,
    "CHECKPOINT-ORPHAN": estate_nodes.orphaned_claims,
    "KUBELET-NOT-PREPARED": estate_nodes.not_prepared,
    "DRIVER-MISSING": estate_nodes.driver_missing,
    "DISCOVERY-NONE": estate_nodes.not_discovered,
    "DISCOVERY-NO-DEVICE-FILE": estate_nodes.no_device_file,
    "SHARING-DOUBLE": estate_isolation.held_twice,
    "SHARING-TENANTS": estate_isolation.shared_by_tenants,
    "SHARING-UNBOUNDED": estate_isolation.unbounded,
    "SHARING-TIME-SLICED": estate_isolation.time_sliced,
    "SHARING-NO-ISOLATION": estate_isolation.no_isolation,
    "PASSTHROUGH-NOT-VIABLE": estate_passthrough.not_viable,
    "PASSTHROUGH-GROUP-SPLIT": estate_passthrough.group_split,
    "PASSTHROUGH-UNBOUND": estate_passthrough.unbound,
    "PASSTHROUGH-NO-IOMMU": estate_passthrough.unsafe,
    "PASSTHROUGH-HOSTPATH": estate_passthrough.past_claims,
    "KATA-DEVICE-NODES": estate_vm.vm_device_nodes,
    "KATA-HOST-DEVICES": estate_vm.vm_host_devices,
    "KATA-SHARED-CLAIM": estate_vm.vm_shared_claim,
    "QUOTA-OLD-NAMES": estate_quota.old_names_only,
    "QUOTA-BYPASS": estate_quota.bridge_bypass,
    "MONITORING-BLANK": estate_quota.goes_blank,
    "MONITORING-ATTRIBUTION": estate_quota.without_pods,
    "DRIVER-PRIVILEGED": estate_drivers.privileged,
    "DRIVER-HOSTPATH": estate_drivers.wide_paths,
    "DRIVER-UNPINNED": estate_drivers.unpinned,
    "IMAGE-FOREIGN": estate_images.foreign,
    "IMAGE-UNSIGNED": estate_images.unsigned,
    "DRIVER-ACCOUNT": estate_drivers.accounts,
    "GENERATOR-OPEN": estate_generators.changeable,
    "GENERATOR-UNCONFINED": estate_generators.unconfined,
    "ACCESS-CLASSES": estate_access.classes_writable,
    "ACCESS-SLICES": estate_access.slices_writable,
    "ACCESS-SLICES-ANY-NODE": estate_rights.slices_of_any_node,
    "ACCESS-CLAIM-STATUS": estate_rights.claim_status,
    "DRIVER-STATUS-REFUSED": estate_rights.status_refused,
    "ACCESS-WILDCARD": estate_rights.wildcards,
    "ACCESS-EVERYTHING": estate_access.everything_given,
    "ACCESS-ESCALATION": estate_rights.escalating,
    "ACCESS-DRIVERS": estate_access.drivers_changeable,
    "ACCESS-DRIVER-INSIDE": estate_rights.inside_drivers,
    "ACCESS-RELEASES": estate_rights.releases,
    "ACCESS-DRIVER-CONFIG": estate_rights.driver_config,
    "ACCESS-ADMIN-NAMESPACE": estate_access.admin_namespaces,
    "ACCESS-ADMIN-WRITABLE": estate_access.admin_writable,
}


@cache
def audit_rules() -> Mapping[str, Rule]:
    """The rows of the rules by code."""
    table = msgspec.json.decode(files("regauge.audit").joinpath("data/rules.json").read_bytes(), type=_Table)
    return {rule.code: rule for rule in table.rules}


def runs(rule: Rule, profile: Profile | None) -> bool:
    """Whether a rule belongs to a profile."""
    return profile in (None, Profile.PRODUCTION) or profile in rule.profiles


def estate_findings(ground: Ground, profile: Profile | None) -> Iterator[Finding]:
    """What the rules of the profile find, in the order of the rules."""
    for code, rule in audit_rules().items():
        if runs(rule, profile):
            for spot in CHECKS[code](ground):
                yield as_finding(rule, spot)


def as_finding(rule: Rule, spot: Spot) -> Finding:
    """What a rule found, with the words of its row."""
    return Finding(
        rule.code,
        spot.severity or rule.severity,
        rule.layer,
        spot.where,
        spot.what,
        spot.why or rule.why,
        spot.fix or rule.fix,
        spot.evidence,
        spot.devices,
    )


def page_of(code: str) -> str:
    """Where a code is explained: a page, and the place in it."""
    return f"{PAGE}#{code.lower()}" if code in audit_rules() or code.startswith("AUDIT-") else CDI_PAGE
