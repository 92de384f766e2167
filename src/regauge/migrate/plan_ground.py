"""What a plan starts from: the pools that go to DRA, what can switch their nodes, the workloads that go with them. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from regauge.inventory import pool_of, whole
from regauge.migrate.assessment import Assessment
from regauge.migrate.names import partition_selectors, shared_why
from regauge.migrate.plan_operators import owned_why
from regauge.migrate.plan_sources import Source, driver_source, plugin_source
from regauge.migrate.plans import Left, OnFailure
from regauge.migrate.serving import Serving, vendor_of
from regauge.migrate.stakes import kind_risk
from regauge.migrate.verdict import Verdict
from regauge.migrate.workloads import AskStack, Workload, admits
from regauge.model import Snapshot
from regauge.model.core import ENDED_PHASES, Node, Pod

MODEL_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the user says. `pools` in the order they are to go; empty means those whose verdict is now, by risk.

    `sources` names the DaemonSet (namespace/name) of a counted resource or a driver where it cannot be seen.
    """

    name: str = "move"
    pools: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    on_failure: OnFailure = OnFailure.STEP


@dataclass(frozen=True, slots=True)
class Served:
    """One counted resource that goes to DRA: its class and driver, and the DaemonSets of both."""

    resource_name: str
    device_class: str
    driver: str
    plugin: Source
    driver_source: Source


@dataclass(frozen=True, slots=True)
class Holding:
    """A pod of a workload on a node and what it counts there."""

    workload: Workload
    pod: Pod
    node: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """A pool that goes: its nodes, what they count, and why it has its place in the order."""

    name: str
    nodes: tuple[Node, ...]
    served: tuple[Served, ...]
    model: str
    risk: int
    reach: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset(item.resource_name for item in self.served)

    def counted(self, node: Node) -> Mapping[str, int]:
        """How many devices of each name that goes a node counts."""
        found = {name: whole(node.status.capacity.get(name, 0)) for name in sorted(self.names)}
        return {name: count for name, count in found.items() if count}


@dataclass(frozen=True, slots=True)
class PlanGround:
    """Pools in their order, holdings on their nodes, workloads by title with whether they move, and what is left."""

    pools: tuple[PlannedPool, ...]
    holdings: tuple[Holding, ...]
    movers: tuple[Workload, ...]
    stayers: tuple[Workload, ...]
    left: tuple[Left, ...]


def plan_ground(
    snapshot: Snapshot, found: Assessment, workloads: Iterable[Workload], options: PlanOptions
) -> PlanGround:
    """The ground of a plan. What cannot go is left, with the reason."""
    left: list[Left] = []
    by_pool: dict[str, list[Node]] = defaultdict(list)
    for node in snapshot.nodes:
        by_pool[pool_of(node)].append(node)
    workloads = tuple(workloads)
    holdings = tuple(_holdings(workloads))
    wanted = _wanted(found, options, by_pool, left)
    pools: list[PlannedPool] = []
    for name in wanted:
        pool = _pool(name, by_pool[name], holdings, snapshot, found, options)
        if isinstance(pool, Left):
            left.append(pool)
        else:
            pools.append(pool)
    if not options.pools:
        pools = sorted(pools, key=lambda pool: (_least_risk(pools, pool.model), pool.risk, pool.name))
    nodes = frozenset(node.metadata.name for pool in pools for node in pool.nodes)
    names = frozenset(name for pool in pools for name in pool.names)
    movers, stayers = _movers(workloads, holdings, nodes, names, found, snapshot)
    return PlanGround(tuple(pools), holdings, movers, stayers, tuple(left))


def _wanted(
    found: Assessment, options: PlanOptions, by_pool: Mapping[str, list[Node]], left: list[Left]
) -> tuple[str, ...]:
    if options.pools:
        left += [
            Left(f"pool {name}", "there is no such pool: pools are told by node labels")
            for name in options.pools
            if name not in by_pool
        ]
        return tuple(name for name in dict.fromkeys(options.pools) if name in by_pool)
    for pool in found.pools:
        if pool.device_plugin and pool.verdict is not Verdict.NOW:
            left.append(Left(f"pool {pool.pool}", f"the verdict on it is {pool.verdict.value}"))
    return tuple(pool.pool for pool in found.pools if pool.device_plugin and pool.verdict is Verdict.NOW)


def _pool(
    name: str,
    nodes: list[Node],
    holdings: Iterable[Holding],
    snapshot: Snapshot,
    found: Assessment,
    options: PlanOptions,
) -> PlannedPool | Left:
    """A pool that goes as a whole, or why it does not."""
    own = {node.metadata.name for node in nodes}
    here = [item for item in holdings if item.node in own]
    counted = {item for node in nodes for item, count in node.status.capacity.items() if whole(count)}
    servings = {item.resource_name: item for item in found.servings}
    names = sorted(counted & set(servings))
    if not names:
        return Left(f"pool {name}", "no device plugin counts anything there")
    served, reasons = [], []
    for resource in names:
        one = _served(resource, servings[resource], snapshot, options)
        if isinstance(one, str):
            reasons.append(one)
        else:
            served.append(one)
    if reasons:
        return Left(f"pool {name}", "; ".join(reasons))
    models = sorted({label for node in nodes for label in [_model(node)] if label})
    devices = sum(sum(item.counts.values()) for item in here)
    titles = {item.workload.title for item in here}
    risk = devices + sum(kind_risk(title.partition(" ")[0]) for title in titles)
    reach = f"{len(here)} pods of {len(titles)} workloads hold {devices} devices"
    return PlannedPool(name, tuple(nodes), tuple(served), ", ".join(models) or "unknown", risk, reach)


def _model(node: Node) -> str:
    labels = node.metadata.labels or {}
    return next((labels[label] for label in MODEL_LABELS if label in labels), "")


def _least_risk(pools: Iterable[PlannedPool], model: str) -> int:
    """Pools of one hardware model go together, the model with least at stake first."""
    return min(pool.risk for pool in pools if pool.model == model)


def _served(resource: str, serving: Serving, snapshot: Snapshot, options: PlanOptions) -> Served | str:
    if shared_why(resource) is not None:
        return f"{resource}: {shared_why(resource)}"
    if partition_selectors(resource):
        return f"{resource} counts partitions: how the driver makes them is not known beforehand"
    if serving.device_class is None:
        return f"{resource}: {serving.why}"
    plugin = plugin_source(resource, snapshot, options.sources)
    if plugin.document is None:
        return f"{resource}: {plugin.why} (--source {resource}=NAMESPACE/NAME)"
    vendor = vendor_of(resource)
    known = serving.drivers or ((vendor.driver,) if vendor else ())
    if len(known) != 1:
        return f"{resource}: which driver stands behind class {serving.device_class} is not known"
    driver = driver_source(known[0], snapshot, options.sources)
    if driver.document is None:
        return f"{known[0]}: {driver.why} (--source {known[0]}=NAMESPACE/NAME)"
    owned = [why for source in (plugin.document, driver.document) for why in [owned_why(source)] if why]
    if owned:
        return f"{resource}: {owned[0]}"
    return Served(resource, serving.device_class, known[0], plugin, driver)


def served_resources(
    snapshot: Snapshot, found: Assessment, options: PlanOptions
) -> tuple[Mapping[str, Served], tuple[Left, ...]]:
    """By counted resource, what would serve it under DRA and by whom; and the resources of which that is not known."""
    served, left = {}, []
    for serving in found.servings:
        one = _served(serving.resource_name, serving, snapshot, options)
        if isinstance(one, str):
            left.append(Left(serving.resource_name, one))
        else:
            served[serving.resource_name] = one
    return served, tuple(left)


def _holdings(workloads: Iterable[Workload]) -> Iterator[Holding]:
    for workload in workloads:
        counts = counts_of_pod(workload)
        if counts:
            for pod in workload.pods:
                if pod.spec.node_name and pod.status.phase not in ENDED_PHASES:
                    yield Holding(workload, pod, pod.spec.node_name, counts)


def counts_of_pod(workload: Workload) -> Mapping[str, int]:
    """What one pod of a workload counts by limits."""
    return {ask.name: ask.count for ask in workload.asks if ask.stack is AskStack.LIMITS}


def _movers(
    workloads: Iterable[Workload],
    holdings: Iterable[Holding],
    nodes: frozenset[str],
    names: frozenset[str],
    found: Assessment,
    snapshot: Snapshot,
) -> tuple[tuple[Workload, ...], tuple[Workload, ...]]:
    """Who has to move with the nodes, and who can stay on what is left to device plugins.

    A workload that is only on these nodes, or needs what a claim can say, moves. Any other stays if its pods fit elsewhere.
    """
    now = {(row.namespace, row.kind, row.name) for row in found.rows if row.judgement.verdict is Verdict.NOW}
    free = _free_elsewhere(snapshot, nodes, names)
    movers, stayers = [], []
    held = list(holdings)
    for workload in workloads:
        counts = {name: count for name, count in counts_of_pod(workload).items() if name in names}
        here = [item for item in held if item.workload.title == workload.title and item.node in nodes]
        if not counts or not here:
            continue
        confined = len(here) == sum(item.workload.title == workload.title for item in held)
        key = (workload.namespace, workload.kind, workload.name)
        if key in now or confined or not _take(free, counts, len(here), workload, snapshot):
            movers.append(workload)
        else:
            stayers.append(workload)
    rank = {workload.title: at_stake(workload) for workload in movers}
    movers.sort(key=lambda workload: rank[workload.title])
    return tuple(movers), tuple(stayers)


def at_stake(workload: Workload) -> tuple[int, int, str]:
    """How much a workload can lose: by kind, then devices, then name. The smallest moves first."""
    devices = sum(counts_of_pod(workload).values()) * max(workload.replicas, 1)
    return kind_risk(workload.kind), devices, workload.title


def _free_elsewhere(snapshot: Snapshot, nodes: frozenset[str], names: frozenset[str]) -> dict[str, Counter[str]]:
    """Devices that are not asked for on nodes that stay as they are."""
    free: dict[str, Counter[str]] = {}
    for node in snapshot.nodes:
        if node.metadata.name not in nodes:
            free[node.metadata.name] = Counter({n: whole(node.status.allocatable.get(n, 0)) for n in sorted(names)})
    for pod in snapshot.pods:
        if pod.spec.node_name in free and pod.status.phase not in ENDED_PHASES:
            for container in pod.spec.containers:
                for name in names & set(container.resources.limits):
                    free[pod.spec.node_name][name] -= whole(container.resources.limits[name])
    return free


def _take(
    free: dict[str, Counter[str]], counts: Mapping[str, int], pods: int, workload: Workload, snapshot: Snapshot
) -> bool:
    """Whether so many pods fit on what is free where the workload may run; what they take is taken."""
    admitted = [node.metadata.name for node in snapshot.nodes if node.metadata.name in free and admits(workload, node)]
    taken: list[str] = []
    for _ in range(pods):
        place = next((n for n in admitted if all(free[n][name] >= count for name, count in counts.items())), None)
        if place is None:
            for name in taken:
                free[name].update(counts)
            return False
        free[place].subtract(counts)
        taken.append(place)
    return True
