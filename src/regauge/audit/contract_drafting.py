"""The contract that an estate would keep: everything that can be read of it, and nothing that a person has to say. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from regauge.audit.autoscalers import autoscaling
from regauge.audit.contract import (
    NO_AUTOSCALER,
    SCHEMA,
    AutoscalerPin,
    ClassPin,
    Contract,
    ContractPolicy,
    DriverPin,
    FeaturePin,
    FlavorPin,
    KubernetesPins,
    ModePin,
    PoolPin,
    QueuePin,
    RehearsalPin,
    TemplatePin,
    WatchPin,
)
from regauge.audit.contract_meaning import (
    digest_of,
    flavor_form,
    looker,
    selectors_digest,
    template_form,
    template_spec,
    without_empty,
)
from regauge.audit.contract_uses import uses_of_features
from regauge.audit.ground import Ground, items, mapping
from regauge.audit.proofs import PoolVerdict, Rehearsed
from regauge.base import InputError
from regauge.features import KNOWN_MINORS, FeatureRow, Policy, feature_rows, minor_of, safe_minors, watch_list
from regauge.inventory import pool_of
from regauge.model import Document

PLUGIN: Literal["device-plugin"] = "device-plugin"
DRA: Literal["dra"] = "dra"
BOTH: Literal["both"] = "both"
STABLE = "stable"
_QUEUE = ("kueue.x-k8s.io", "ClusterQueue")
_FLAVOR = ("regauge.dev", "AcceleratorFlavor")
_VERSIONS = ("driverVersion", "version")
_SHOWN = 5
_MOVED = "V1"


@dataclass(frozen=True, slots=True)
class DaemonSetFacts:
    """The DaemonSet that serves devices, and its images."""

    title: str
    images: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> DaemonSetFacts:
        """Of a DaemonSet: its namespace and name, and the images of its containers."""
        pod = mapping(mapping(mapping(document.object.get("spec")).get("template")).get("spec"))
        images = tuple(str(mapping(one).get("image") or "") for one in items(pod.get("containers")))
        return cls(f"{document.namespace}/{document.name}", images)


@dataclass(frozen=True, slots=True)
class ContractFacts:
    """What stands beside the objects: who serves which (stack, name), what assessments say of pools, rehearsals.

    `flavors` are AcceleratorFlavors from elsewhere.
    """

    sources: Mapping[tuple[str, str], DaemonSetFacts] = field(default_factory=dict)
    verdicts: tuple[PoolVerdict, ...] = ()
    rehearsed: tuple[Rehearsed, ...] = ()
    flavors: tuple[Document, ...] = ()


def draft(ground: Ground, facts: ContractFacts, name: str, policy: ContractPolicy | None = None) -> Contract:
    """The contract of an estate, with empty texts where a person has the word. Raises `InputError` for a broken object."""
    policy = policy or ContractPolicy()
    features = tuple(_features(ground))
    pools = tuple(_pools(ground, facts))
    return Contract(
        schema=SCHEMA,
        cluster=name,
        kubernetes=_kubernetes(ground),
        policy=policy,
        features=features,
        watch=watched(features, ground.rules.minor, policy),
        device_classes=tuple(_classes(ground)),
        templates=tuple(_templates(ground)),
        flavors=tuple(_flavors(ground, facts)),
        drivers=tuple(_drivers(ground, facts)),
        node_pools=pools,
        modes=tuple(_modes(ground, facts, pools)),
        autoscaler=_autoscaler(ground),
        queues=tuple(_queues(ground)),
    )


def known_minor(version: str) -> str:
    """The minor of a version; an empty text for one that the tables do not know."""
    try:
        minor = minor_of(version)
    except InputError:
        return ""
    return minor if minor in KNOWN_MINORS else ""


def _kubernetes(ground: Ground) -> KubernetesPins:
    told = [one.status.node_info for one in ground.snapshot.nodes]
    return KubernetesPins(
        ground.given.server_version,
        tuple(sorted({one.kubelet_version for one in told if one.kubelet_version})),
        tuple(sorted({one.container_runtime_version for one in told if one.container_runtime_version})),
    )


def _features(ground: Ground) -> Iterator[FeaturePin]:
    for gate, titles in uses_of_features(ground).items():
        row = feature_row(gate, ground.rules.minor)
        stage = row.stages[ground.rules.minor] if row else None
        more = (f"{len(titles) - _SHOWN} more",) if len(titles) > _SHOWN else ()
        yield FeaturePin(
            gate,
            row.feature if row else "",
            row.kep if row else 0,
            stage.stage if stage else "none",
            ground.rules.on(gate),
            (*titles[:_SHOWN], *more),
        )


def feature_row(gate: str, minor: str | None = None) -> FeatureRow | None:
    """The row of a gate in the table of features, for one minor or all that are known."""
    return next((row for row in feature_rows(minor) if row.gate == gate), None)


def watched(features: Iterable[FeaturePin], minor: str, policy: ContractPolicy) -> tuple[WatchPin, ...]:
    """The features in use that are not stable yet, and from when on each is safe by the policy."""
    young = {one.gate: one for one in watch_list(minor)}
    return tuple(
        WatchPin(one.gate, one.stage, safe_from(one.gate, policy), young[one.gate].pilot)
        for one in features
        if one.gate in young
    )


def safe_from(gate: str, policy: ContractPolicy) -> str:
    """The minor from which on a gate is what the policy asks for; else what its KEP plans, which is no promise."""
    found = safe_minors(Policy(policy.graduation)).get(gate)
    if found is not None:
        return found
    row = feature_row(gate)
    later = (
        [minor for stage, minor in row.planned.items() if stage == STABLE and minor not in row.stages] if row else []
    )
    return f"{later[0]} (planned)" if later else "not known"


def is_safe(gate: str, minor: str, policy: ContractPolicy) -> bool:
    """Whether the policy lets production depend on a gate in a minor."""
    found = safe_minors(Policy(policy.graduation)).get(gate)
    return found is not None and minor_number(found) <= minor_number(minor)


def minor_number(minor: str) -> tuple[int, ...]:
    """A minor for comparing."""
    return tuple(int(part) for part in minor.split("."))


def _classes(ground: Ground) -> Iterator[ClassPin]:
    for document, one in sorted(ground.classes, key=lambda pair: pair[0].name):
        selectors = tuple(selector.cel.expression for selector in one.spec.selectors if selector.cel)
        yield ClassPin(
            document.name,
            selectors_digest(selectors, ground.rules),
            selectors,
            one.spec.extended_resource_name or "",
            tuple(items(without_empty(mapping(document.object.get("spec")).get("config")))),
        )


def _templates(ground: Ground) -> Iterator[TemplatePin]:
    for document, one in sorted(ground.templates, key=lambda pair: (pair[0].namespace, pair[0].name)):
        spec = template_spec(one.spec.spec)
        digest = digest_of(template_form(spec, looker(ground.rules)))
        yield TemplatePin(document.namespace, document.name, digest, spec)


def flavor_documents(ground: Ground, facts: ContractFacts) -> tuple[Document, ...]:
    """The flavors of the cluster and those that were given, each name once; what was given comes first."""
    found: dict[str, Document] = {}
    for one in (*facts.flavors, *ground.snapshot.documents(_FLAVOR)):
        found.setdefault(one.name, one)
    return tuple(found[name] for name in sorted(found))


def _flavors(ground: Ground, facts: ContractFacts) -> Iterator[FlavorPin]:
    for document in flavor_documents(ground, facts):
        spec: dict[str, Any] = without_empty(dict(mapping(document.object.get("spec"))))
        yield FlavorPin(document.name, digest_of(flavor_form(spec, looker(ground.rules))), spec)


def _drivers(ground: Ground, facts: ContractFacts) -> Iterator[DriverPin]:
    versions: dict[str, set[str]] = defaultdict(set)
    for one in ground.newest:
        for device in one.spec.devices:
            for key, value in device.attributes.items():
                if key.rpartition("/")[2] in _VERSIONS and value.version_value:
                    versions[one.spec.driver].add(value.version_value)
    plugins = {one.resource_name for one in ground.inventory.counted if one.capacity}
    published = {one.spec.driver for one in ground.newest}
    for stack, names in ((PLUGIN, plugins), (DRA, published)):
        for name in sorted(names):
            source = facts.sources.get((stack, name), DaemonSetFacts(""))
            told = tuple(sorted(versions[name])) if stack == DRA else ()
            yield DriverPin(name, stack, source.title, source.images, told)


def _pools(ground: Ground, facts: ContractFacts) -> Iterator[PoolPin]:
    serves: dict[str, dict[str, set[str]]] = defaultdict(lambda: {PLUGIN: set(), DRA: set()})
    pools = {one.metadata.name: pool_of(one) for one in ground.snapshot.nodes}
    for one in ground.inventory.counted:
        if one.capacity and one.node in pools:
            serves[pools[one.node]][PLUGIN].add(one.resource_name)
    for node, drivers in ground.drivers_on.items():
        if node in pools:
            serves[pools[node]][DRA] |= drivers
    for pool, by_stack in sorted(serves.items()):
        mode = BOTH if by_stack[PLUGIN] and by_stack[DRA] else DRA if by_stack[DRA] else PLUGIN
        names = tuple(sorted(by_stack[PLUGIN] | by_stack[DRA]))
        yield PoolPin(pool, mode, names, rationale(pool, mode, facts.verdicts))


def rationale(pool: str, mode: str, verdicts: Iterable[PoolVerdict]) -> str:
    """Why an assessment finds a pool's mode right; an empty text where it does not, or says nothing.

    What moves, or has moved, has a reason to be served by DRA; what stays has one for the device plugin as long as nothing of
    the pool should move. That something is served by DRA already is no reason.
    """
    said = [one for one in verdicts if one.pool == pool and one.rule != _MOVED]
    moving = [one for one in said if one.answer == "now"]
    fitting = moving if mode == DRA else said if mode == PLUGIN and not moving else []
    counts: dict[str, int] = defaultdict(int)
    for one in fitting:
        counts[f"{one.rule}: {one.why}"] += 1
    return "; ".join(f"{text} [{count} ask{'s' if count > 1 else ''}]" for text, count in counts.items())


def modes_of_nodes(ground: Ground) -> Mapping[str, str]:
    """The mode of each node with devices."""
    counted = {one.node for one in ground.inventory.counted if one.capacity}
    return {
        node: BOTH if node in counted and node in ground.drivers_on else DRA if node in ground.drivers_on else PLUGIN
        for node in (counted | ground.drivers_on.keys()) & ground.node_names
    }


def _modes(ground: Ground, facts: ContractFacts, pools: tuple[PoolPin, ...]) -> Iterator[ModePin]:
    modes = modes_of_nodes(ground)
    proved = next((one for one in facts.rehearsed if one.proves_way_back), None)
    day = datetime.fromtimestamp(ground.given.now_s, UTC).date().isoformat()
    for mode in (PLUGIN, DRA, BOTH):
        if not any(one.mode == mode for one in pools):
            continue
        if proved is None:
            yield ModePin(mode)
            continue
        canary = f"node {proved.canary}" if modes.get(proved.canary) == mode else ""
        rehearsal = RehearsalPin(proved.source, proved.digest, day)
        yield ModePin(mode, canary, "the plan is rolled back step by step, as rehearsed", rehearsal)


def _autoscaler(ground: Ground) -> AutoscalerPin:
    found = autoscaling(ground)
    return AutoscalerPin(", ".join(found.names) or (NO_AUTOSCALER if found.surely_none else ""))


def _queues(ground: Ground) -> Iterator[QueuePin]:
    for document in sorted(ground.snapshot.documents(_QUEUE), key=lambda one: one.name):
        groups = items(mapping(document.object.get("spec")).get("resourceGroups"))
        names = {str(name) for group in groups for name in items(mapping(group).get("coveredResources"))}
        yield QueuePin(document.name, tuple(sorted(names)))
