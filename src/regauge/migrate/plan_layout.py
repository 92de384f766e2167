"""The order of nodes and workloads inside a plan: which node goes next, and who can move after it. Pure.

Nodes go with the fewest holders first, so that little is evicted. After each, every workload whose pods all fit on what
DRA serves by then moves, the one with least at stake first; that frees devices of the nodes still to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regauge.migrate.plan_ground import Holding, PlanGround, PlannedPool, counts_of_pod
from regauge.migrate.workloads import Workload, admits
from regauge.model.core import Node


@dataclass(frozen=True, slots=True)
class Turn:
    """One node in its turn: who is evicted from it, who of these waits for devices until later, and who moves after it."""

    pool: PlannedPool
    node: Node
    evicted: tuple[str, ...]
    waiting: tuple[str, ...]
    moves: tuple[Workload, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All turns, and the workloads that found no place under DRA."""

    turns: tuple[Turn, ...]
    unplaced: tuple[Workload, ...]


@dataclass(slots=True)
class _Field:
    """Where everything stands while the plan is laid out."""

    ground: PlanGround
    nodes: Mapping[str, Node]
    counted: dict[str, Counter[str]]
    held: list[tuple[Workload, str]]
    claimed: dict[str, Counter[str]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    waiting: list[Workload] = field(default_factory=list)

    def holders(self, node: str) -> list[Workload]:
        return [workload for workload, place in self.held if place == node]

    def used(self, node: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for workload in self.holders(node):
            total.update(counts_of_pod(workload))
        return total

    def switch(self, node: str) -> tuple[list[Workload], list[Workload]]:
        """The node goes to DRA: who is evicted, and who of them finds no place by limits."""
        evicted = self.holders(node)
        self.held = [(workload, place) for workload, place in self.held if place != node]
        self.claimed[node] = self.counted.pop(node)
        self.waiting += evicted
        self.settle()
        return evicted, list(self.waiting)

    def settle(self) -> None:
        """Pods that wait take what is free by limits."""
        still = []
        elsewhere = {
            workload.title for workload in self.ground.stayers
        }  # they fit on nodes that no pool of the plan has
        for workload in self.waiting:
            if workload.title in elsewhere:
                continue
            counts = counts_of_pod(workload)
            place = next((node for node in sorted(self.counted) if self._fits(workload, node, counts)), None)
            if place is None:
                still.append(workload)
            else:
                self.held.append((workload, place))
        self.waiting = still

    def _fits(self, workload: Workload, node: str, counts: Mapping[str, int]) -> bool:
        used = self.used(node)
        enough = all(self.counted[node][name] - used[name] >= count for name, count in counts.items())
        return enough and admits(workload, self.nodes[node])

    def move(self, workload: Workload) -> bool:
        """The workload takes its devices by claim, if all its pods fit; its pods by limits go."""
        counts = counts_of_pod(workload)
        free = {node: Counter(left) for node, left in self.claimed.items()}
        for _ in range(max(workload.replicas, 1)):
            place = next(
                (
                    node
                    for node in sorted(free)
                    if admits(workload, self.nodes[node]) and all(free[node][n] >= c for n, c in counts.items())
                ),
                None,
            )
            if place is None:
                return False
            free[place].subtract(counts)
        self.claimed = free
        self.moved.add(workload.title)
        self.held = [(item, place) for item, place in self.held if item.title != workload.title]
        self.waiting = [item for item in self.waiting if item.title != workload.title]
        self.settle()
        return True


def lay_out(ground: PlanGround, holdings: Iterable[Holding], nodes: Iterable[Node]) -> Layout:
    """The turns of all pools in their order."""
    by_name = {node.metadata.name: node for node in nodes}
    names = frozenset(name for pool in ground.pools for name in pool.names)
    counted = {}
    for pool in ground.pools:
        for node in pool.nodes:
            if pool.counted(node):
                counted[node.metadata.name] = Counter(pool.counted(node))
    on = [(item.workload, item.node) for item in holdings if item.node in counted and names & set(item.counts)]
    field_ = _Field(ground, by_name, counted, on)
    turns = []
    for pool in ground.pools:
        left = [node for node in pool.nodes if node.metadata.name in counted]
        while left:
            node = min(left, key=lambda one: (sum(field_.used(one.metadata.name).values()), one.metadata.name))
            left.remove(node)
            evicted, waiting = field_.switch(node.metadata.name)
            moves = _moves(field_)
            turns.append(Turn(pool, node, _titles(evicted), _titles(waiting), moves))
    return Layout(tuple(turns), tuple(item for item in ground.movers if item.title not in field_.moved))


def _moves(field_: _Field) -> tuple[Workload, ...]:
    """Who can move now. Those that wait for devices come first: they are down."""
    waiting = {workload.title for workload in field_.waiting}
    order = sorted(field_.ground.movers, key=lambda item: item.title not in waiting)
    return tuple(item for item in order if item.title not in field_.moved and field_.move(item))


def _titles(workloads: Iterable[Workload]) -> tuple[str, ...]:
    return tuple(sorted({workload.title for workload in workloads}))
