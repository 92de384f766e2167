"""The order of nodes and workloads inside a plan: which node goes next, and who can move after it. Pure.

Nodes go with the fewest holders first, so that little is evicted. After each, every workload whose pods all fit on what
DRA serves by then moves, the one with least at stake first; that frees devices of the nodes still to go.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


class _Field:
    """Where everything stands while the plan is laid out. What is free of a node is kept up to date, never counted anew."""

    def __init__(
        self,
        ground: PlanGround,
        nodes: Mapping[str, Node],
        counted: dict[str, Counter[str]],
        held: Iterable[tuple[Workload, str]],
    ) -> None:
        self.ground = ground
        self.nodes = nodes
        self.counted = counted
        self.order = sorted(counted)
        self.used: dict[str, Counter[str]] = {node: Counter() for node in counted}
        self.held: dict[str, list[Workload]] = {node: [] for node in counted}
        self.claimed: dict[str, Counter[str]] = {}
        self.open: list[str] = []
        self.moved: set[str] = set()
        self.waiting: list[Workload] = []
        self._admitted: dict[tuple[str, str], bool] = {}
        self._arrived = 0
        self._again: dict[str, int] = {}
        for workload, node in held:
            self.hold(workload, node)

    def hold(self, workload: Workload, node: str) -> None:
        self.held[node].append(workload)
        self.used[node].update(counts_of_pod(workload))

    def admits(self, workload: Workload, node: str) -> bool:
        key = workload.title, node
        if key not in self._admitted:
            self._admitted[key] = admits(workload, self.nodes[node])
        return self._admitted[key]

    def switch(self, node: str) -> tuple[list[Workload], list[Workload]]:
        """The node goes to DRA: who is evicted, and who of them finds no place by limits."""
        evicted = self.held.pop(node)
        self.claimed[node] = self.counted.pop(node)
        self._arrived += sum(self.claimed[node].values())
        insort(self.open, node)
        del self.used[node]
        self.order.remove(node)
        self.waiting += evicted
        self.settle()
        return evicted, list(self.waiting)

    def settle(self) -> None:
        """Pods that wait take what is free by limits. Nothing becomes free meanwhile: who found no place before one node
        finds none before it later."""
        still = []
        elsewhere = {
            workload.title for workload in self.ground.stayers
        }  # they fit on nodes that no pool of the plan has
        begin: dict[str, int] = {}
        for workload in self.waiting:
            if workload.title in elsewhere:
                continue
            counts = counts_of_pod(workload)
            at = begin.get(workload.title, 0)
            while at < len(self.order) and not self._fits(workload, self.order[at], counts):
                at += 1
            begin[workload.title] = at
            if at == len(self.order):
                still.append(workload)
            else:
                self.hold(workload, self.order[at])
        self.waiting = still

    def _fits(self, workload: Workload, node: str, counts: Mapping[str, int]) -> bool:
        has, used = self.counted[node], self.used[node]
        return all(has[name] - used[name] >= count for name, count in counts.items()) and self.admits(workload, node)

    def _has(self, workload: Workload, node: str, counts: Mapping[str, int], taken: Mapping[str, Counter[str]]) -> bool:
        """Whether a node under DRA has what one more pod asks for, beside what is `taken` of it already."""
        free, gone = self.claimed[node], taken.get(node)
        enough = all(free[name] - (gone[name] if gone else 0) >= count for name, count in counts.items())
        return enough and self.admits(workload, node)

    def leave(self, title: str) -> None:
        """The pods of a workload by limits go."""
        for node, here in self.held.items():
            staying = [item for item in here if item.title != title]
            if len(staying) < len(here):
                for item in here:
                    if item.title == title:
                        self.used[node].subtract(counts_of_pod(item))
                self.held[node] = staying

    def move(self, workload: Workload) -> bool:
        """The workload takes its devices by claim, if all its pods fit; its pods by limits go.

        One that lacked devices is not looked at again before so many more went to DRA: nothing else makes room for it.
        """
        if self._arrived < self._again.get(workload.title, 0):
            return False
        counts = counts_of_pod(workload)
        taken: dict[str, Counter[str]] = {}
        at = 0
        for placed in range(max(workload.replicas, 1)):
            while at < len(self.open) and not self._has(workload, self.open[at], counts, taken):
                at += 1
            if at == len(self.open):
                missing = max(workload.replicas, 1) - placed
                self._again[workload.title] = self._arrived + missing * sum(counts.values())
                return False
            taken.setdefault(self.open[at], Counter()).update(counts)
        for node, counter in taken.items():
            self.claimed[node].subtract(counter)
        self.open = [node for node in self.open if node not in taken or any(self.claimed[node].values())]
        self.moved.add(workload.title)
        self.leave(workload.title)
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
            node = min(left, key=lambda one: (sum(field_.used[one.metadata.name].values()), one.metadata.name))
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
