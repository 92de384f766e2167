"""The assessment table: every workload that asks for accelerators, and what it would need to move to claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from regauge.inventory import is_extended_resource, newest_slices, pool_of, pools_of, whole
from regauge.migrate.dependents import Dependent, find_dependents
from regauge.migrate.gangs import groups_of
from regauge.migrate.ground import ground_of
from regauge.migrate.growth import Growth, growth_of
from regauge.migrate.labels import describes_devices
from regauge.migrate.limits import limit_range_blockers
from regauge.migrate.mixed import MixedLabel, find_mixed
from regauge.migrate.serving import DeviceMatcher, Serving, find_serving
from regauge.migrate.sharing import Sharing, find_sharing
from regauge.migrate.stakes import Effort, effort_of, risk_of
from regauge.migrate.triggers import Subject, find_triggers
from regauge.migrate.verdict import Judgement, Verdict, judge, together
from regauge.migrate.workloads import Ask, AskStack, Workload, admits, find_workloads
from regauge.model import Rules, Snapshot
from regauge.model.core import Node

QUOTA_PREFIX = "requests."
PENDING_REASON_LENGTH = 160


@dataclass(frozen=True, slots=True)
class AssessRow:
    """One ask of one workload. `needs` is empty where nothing is needed; `ready` says whether it could move as it is.

    `risk` grows with the devices in use and with what a workload of its kind loses when it is disturbed. `groups` says what
    admits its pods together.
    """

    namespace: str
    kind: str
    name: str
    stack: AskStack
    asks_for: str
    count: int
    replicas: int
    pools: tuple[str, ...]
    state: str
    ready: bool
    needs: tuple[str, ...]
    judgement: Judgement
    growth: Growth | None = None
    part: str = ""
    effort: Effort = Effort.NONE
    risk: int = 0
    groups: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ServingPool:
    """What one node pool offers through which stack."""

    pool: str
    nodes: int
    device_plugin: Mapping[str, int]
    dra: Mapping[str, int]
    verdict: Verdict = Verdict.STAY


@dataclass(frozen=True, slots=True)
class Assessment:
    """The whole answer; `servings` tells for every counted resource who could serve it."""

    rows: tuple[AssessRow, ...]
    pools: tuple[ServingPool, ...]
    servings: tuple[Serving, ...]
    dependents: tuple[Dependent, ...]
    verdict: Verdict
    sharing: tuple[Sharing, ...] = ()
    mixed: tuple[MixedLabel, ...] = ()


@dataclass(frozen=True, slots=True)
class _Estate:
    """What every row looks at, worked out once: nodes by name, and which of them admit pods that choose alike."""

    snapshot: Snapshot
    rules: Rules
    servings: Mapping[str, Serving]
    by_name: Mapping[str, Node]
    _admitted: dict[tuple[str, bytes], frozenset[str]] = field(default_factory=dict)

    def admitted(self, workload: Workload, serving: Serving) -> frozenset[str]:
        spec = workload.template.spec
        key = serving.resource_name, msgspec.json.encode((sorted(spec.node_selector.items()), spec.affinity))
        if key not in self._admitted:
            near = (self.by_name[name] for name in serving.nodes if name in self.by_name)
            self._admitted[key] = frozenset(node.metadata.name for node in near if admits(workload, node))
        return self._admitted[key]


def assess(
    snapshot: Snapshot, rules: Rules, matches: DeviceMatcher, said: Mapping[str, tuple[str, ...]] | None = None
) -> Assessment:
    """The assessment of one cluster. Pure: the same snapshot and rules give the same answer.

    `said` are needs that the user tells of, by workload (`namespace/name`), or for all under "".
    """
    workloads = find_workloads(snapshot)
    names = {ask.name for item in workloads for ask in item.asks if ask.stack is not AskStack.CLAIM}
    counted = {name for node in snapshot.nodes for name in node.status.capacity if is_extended_resource(name)}
    servings = {name: find_serving(name, snapshot, matches) for name in sorted(names | counted)}
    estate = _Estate(snapshot, rules, servings, {node.metadata.name: node for node in snapshot.nodes})
    ground = ground_of(rules, snapshot)
    rows = []
    for item in workloads:
        counts = any(ask.stack is AskStack.LIMITS for ask in item.asks)
        growth = growth_of(item.document, ground) if counts else None
        rows += [_row(item, ask, estate, growth, _said(item, said or {})) for ask in item.asks]
    pools = tuple(_with_verdict(pool, rows) for pool in _pools(snapshot))
    dependents = find_dependents(snapshot, servings.values(), workloads)
    verdict = together(row.judgement.verdict for row in rows)
    sharing = find_sharing(snapshot.nodes)
    mixed = find_mixed(snapshot.nodes, workloads, ground)
    return Assessment(tuple(rows), pools, tuple(servings.values()), dependents, verdict, sharing, mixed)


def _said(workload: Workload, said: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*said.get("", ()), *said.get(f"{workload.namespace}/{workload.name}", ()))))


def _judge(workload: Workload, ask: Ask, estate: _Estate, told: tuple[str, ...]) -> Judgement:
    if ask.stack is AskStack.CLAIM:
        return judge(ask, (), None, estate.rules)
    names = sorted({pod.spec.node_name for pod in workload.pods})
    on = tuple(estate.by_name[name] for name in names if name in estate.by_name)
    triggers = find_triggers(Subject(workload, ask.name, on), told)
    return judge(ask, triggers, estate.servings[ask.name], estate.rules)


def _with_verdict(pool: ServingPool, rows: Iterable[AssessRow]) -> ServingPool:
    """A pool is judged by the workloads that are on it."""
    return replace(pool, verdict=together(row.judgement.verdict for row in rows if pool.pool in row.pools))


def _row(workload: Workload, ask: Ask, estate: _Estate, growth: Growth | None, told: tuple[str, ...]) -> AssessRow:
    blockers: tuple[str, ...] = ()
    if ask.stack is AskStack.LIMITS:
        blockers = tuple(_blockers(workload, ask, estate))
    if ask.stack is not AskStack.CLAIM:
        blockers += tuple(limit_range_blockers(workload, ask, estate.snapshot))
    adaptations: tuple[str, ...] = ()
    if ask.stack is AskStack.LIMITS:
        adaptations = tuple(_adaptations(workload, ask, estate.servings[ask.name], estate.snapshot))
        needs = blockers + adaptations
    else:
        needs = blockers + tuple(_present(ask, estate.rules))
    pods_on = [pod.spec.node_name for pod in workload.pods if pod.spec.node_name]
    pools = pools_of(pods_on, (estate.by_name[name] for name in set(pods_on) if name in estate.by_name))
    asks_for = f"{ask.name} [{ask.detail}]" if ask.detail else ask.name
    return AssessRow(
        workload.namespace,
        workload.kind,
        workload.name,
        ask.stack,
        asks_for,
        ask.count,
        workload.replicas,
        pools,
        _state(workload),
        not blockers,
        needs,
        _judge(workload, ask, estate, told),
        growth,
        workload.part,
        effort_of(ask.stack, blockers, adaptations, growth),
        risk_of(workload.kind, ask.count * len(pods_on)),
        groups_of(workload),
    )


def _blockers(workload: Workload, ask: Ask, estate: _Estate) -> Iterator[str]:
    """What has to be there before this ask can move."""
    serving = estate.servings[ask.name]
    if serving.device_class is None or not serving.devices:
        yield f"a DRA driver and class for {ask.name}: {serving.why}"
        return
    admitted = estate.admitted(workload, serving)
    if not admitted:
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(workload.template.spec.node_selector.items()))
        yield (
            f"devices of class {serving.device_class} where it may run: they are on {_some(serving.nodes)},"
            f" its node selector or affinity ({wanted or 'affinity'}) admits none of these"
        )
        return
    most = max(serving.by_node[name] for name in admitted)
    if most < ask.count:
        yield f"{ask.count} devices of class {serving.device_class} on one node: {most} is the most that any has"


def _adaptations(workload: Workload, ask: Ask, serving: Serving, snapshot: Snapshot) -> Iterator[str]:
    """What has to change with the move."""
    if serving.device_class and serving.devices:
        yield f"a ResourceClaimTemplate for class {serving.device_class} ({serving.how})"
    described = sorted(key for key in workload.template.spec.node_selector if describes_devices(key))
    if described:
        yield f"node selector on {', '.join(described)} turned into a CEL selector or dropped"
    if workload.template.spec.runtime_class_name:
        yield f"runtimeClassName {workload.template.spec.runtime_class_name} reviewed: injection comes through CDI"
    for group in groups_of(workload):
        yield f"{group}: whoever admits the group has to count claims"
    for document in snapshot.documents(("", "ResourceQuota")):
        hard = (document.object.get("spec") or {}).get("hard") or {}
        if document.namespace == workload.namespace and QUOTA_PREFIX + ask.name in hard:
            of_class = f"{serving.device_class or 'CLASS'}.deviceclass.resource.k8s.io/devices"
            yield f"ResourceQuota {document.name} limits {ask.name}: add {of_class}"


def _present(ask: Ask, rules: Rules) -> Iterator[str]:
    if ask.stack is AskStack.BRIDGE:
        state = "on" if rules.on("DRAExtendedResource") else "OFF"
        yield f"nothing now (DRA serves this name; gate DRAExtendedResource is {state} on {rules.minor})"
    if ask.stack is AskStack.CLAIM and ask.name == "?":
        yield ask.detail


def _some(names: frozenset[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _state(workload: Workload) -> str:
    running = sum(pod.status.phase == "Running" for pod in workload.pods)
    if running == len(workload.pods) and workload.pods:
        return f"{running} running"
    for pod in workload.pods:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                return f"{running} running, pending: {condition.message[:PENDING_REASON_LENGTH]}"
    return f"{running} of {len(workload.pods)} running" if workload.pods else "no pods"


def _pools(snapshot: Snapshot) -> tuple[ServingPool, ...]:
    offered: dict[str, tuple[list[str], dict[str, int], dict[str, int]]] = {}
    pool_by_node = {node.metadata.name: pool_of(node) for node in snapshot.nodes}
    for node in snapshot.nodes:
        names, counted, _ = offered.setdefault(pool_of(node), ([], {}, {}))
        names.append(node.metadata.name)
        for name, count in node.status.capacity.items():
            if is_extended_resource(name) and whole(count):
                counted[name] = counted.get(name, 0) + whole(count)
    for slice_ in newest_slices(snapshot.slices):
        pool = pool_by_node.get(slice_.spec.node_name or "")
        if pool:
            published = offered[pool][2]
            published[slice_.spec.driver] = published.get(slice_.spec.driver, 0) + len(slice_.spec.devices)
    return tuple(
        ServingPool(pool, len(names), counted, published)
        for pool, (names, counted, published) in sorted(offered.items())
    )
