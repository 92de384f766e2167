"""Quota in a tree of cohorts: what a queue has, what it may borrow, and what others have borrowed of it. Pure.

Each queue and cohort keeps what its lending limit leaves for itself and puts the rest into the cohort above; it may take out
what is there, its own part and its borrowing limit at most. Source: kueue pkg/cache/scheduler/resource_node.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regauge.base import InputError, Where
from regauge.model import Quantity
from regauge.scheduler.queue_objects import ClusterQueue, Cohort, ResourceAmount, amount

ZERO = Quantity.of(0)
Place = tuple[str, str, str]
_QUEUE, _COHORT = "queue", "cohort"
_Node = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Room:
    """What one resource of one flavor has: `most` if nobody used anything, and `left` now, never below zero."""

    most: Quantity
    left: Quantity


class CohortTree:
    """The queues and cohorts with their quotas. Raises `InputError` where cohorts are above each other in a circle."""

    def __init__(
        self,
        queues: Mapping[str, ClusterQueue],
        cohorts: Iterable[Cohort],
        amounts: Mapping[Place, ResourceAmount],
        charged: Mapping[Place, Quantity],
    ) -> None:
        self.charged = charged
        self.amounts: dict[tuple[_Node, str, str], ResourceAmount] = {
            ((_QUEUE, queue), flavor, name): one for (queue, flavor, name), one in amounts.items()
        }
        self.above: dict[_Node, _Node | None] = {
            (_QUEUE, name): (_COHORT, one.cohort) if one.cohort else None for name, one in queues.items()
        }
        for one in cohorts:
            node = (_COHORT, one.metadata.name)
            self.above[node] = (_COHORT, one.parent) if one.parent else None
            for group in one.spec.resource_groups:
                for flavor in group.flavors:
                    self.amounts |= {(node, flavor.name, item.name): item for item in flavor.resources}
        for above in list(self.above.values()):
            if above is not None:
                self.above.setdefault(above, None)
        self.below: dict[_Node, list[_Node]] = {}
        for node, above in self.above.items():
            self._refuse_circle(node)
            if above is not None:
                self.below.setdefault(above, []).append(node)

    def _refuse_circle(self, node: _Node) -> None:
        seen: set[_Node] = set()
        at: _Node | None = node
        while at is not None:
            if at in seen:
                raise InputError(
                    "is above itself", where=Where(object=f"Cohort {at[1]}"), fix="correct spec.parentName of a cohort"
                )
            seen.add(at)
            at = self.above.get(at)

    def room(self, place: Place) -> Room:
        """The room of a queue for one resource of one flavor."""
        queue, flavor, resource = place
        one = _Resource(self, flavor, resource)
        node = (_QUEUE, queue)
        return Room(one.most(node), max(ZERO, one.left(node)))


@dataclass(frozen=True, slots=True)
class _Resource:
    """The tree for one resource of one flavor."""

    tree: CohortTree
    flavor: str
    resource: str

    def _limit(self, node: _Node, which: str) -> Quantity | None:
        found = self.tree.amounts.get((node, self.flavor, self.resource))
        value = getattr(found, which) if found is not None else None
        return None if value is None else amount(value, f"{which} of {self.resource} in {node[1]}")

    def total(self, node: _Node) -> Quantity:
        """Its own quota with what those below put in."""
        found = self._limit(node, "nominal_quota") or ZERO
        for below in self.tree.below.get(node, ()):
            found = found.add(self.total(below).sub(self.kept(below)))
        return found

    def kept(self, node: _Node) -> Quantity:
        """What it lends to nobody."""
        limit = self._limit(node, "lending_limit")
        return ZERO if limit is None else max(ZERO, self.total(node).sub(limit))

    def used(self, node: _Node) -> Quantity:
        """What counts against its quota: its own, or what those below use beyond what they keep."""
        if node[0] == _QUEUE:
            return self.tree.charged.get((node[1], self.flavor, self.resource), ZERO)
        found = ZERO
        for below in self.tree.below.get(node, ()):
            found = found.add(max(ZERO, self.used(below).sub(self.kept(below))))
        return found

    def most(self, node: _Node) -> Quantity:
        """What it could have if nobody used anything."""
        above = self.tree.above[node]
        if above is None:
            return self.total(node)
        found = self.kept(node).add(self.most(above))
        limit = self._limit(node, "borrowing_limit")
        return found if limit is None else min(self.total(node).add(limit), found)

    def left(self, node: _Node) -> Quantity:
        """What it can have now; below zero where more is used than there is."""
        above = self.tree.above[node]
        if above is None:
            return self.total(node).sub(self.used(node))
        theirs = self.left(above)
        limit = self._limit(node, "borrowing_limit")
        kept = self.kept(node)
        if limit is not None:
            put_in = self.total(node).sub(kept)
            taken_out = max(ZERO, self.used(node).sub(kept))
            theirs = min(put_in.sub(taken_out).add(limit), theirs)
        return max(ZERO, kept.sub(self.used(node))).add(theirs)


__all__ = ["ZERO", "CohortTree", "Place", "Room"]
