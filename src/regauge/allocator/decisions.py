"""One problem on many nodes: nodes that give the same answers to the same questions share one search.

A search looks at a node only through a `Table`. The questions it asked and the answers it got make a path in a tree;
the next node is led down that tree by its own answers, and if it arrives at an end, the solution found there is its
own. Values that constraints compare are told apart, not named, so nodes whose devices have other UUIDs or addresses
still meet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

from regauge.allocator.capacity import Demand
from regauge.allocator.outcome import Abort, Exhausted, NoFit, Outcome
from regauge.allocator.pools import NodeView
from regauge.allocator.problem import Problem, Slot
from regauge.allocator.results import Solution, outcome_of
from regauge.allocator.search import Expired, never
from regauge.allocator.solving import find
from regauge.allocator.straight import Straight, is_ordinary
from regauge.allocator.table import Cell, Table
from regauge.allocator.usage import PoolId, PoolUsage, Usage
from regauge.allocator.values import UNKNOWN, Value
from regauge.base import Randomness
from regauge.model.core import Node
from regauge.model.resource import DeviceTaint

_MOST_PATHS = 4096
# After so many paths that led one node each, nodes are too different for the tree to be worth its while.
_TRIED = 64
_IN_USE, _CELL, _ROOM, _ALONE, _TAINT, _VALUE = range(6)
Question = tuple[int, int, int, str]
Ending = Solution | NoFit | Abort | Exhausted


@dataclass(slots=True)
class _Branch:
    """A question, and where each answer leads."""

    question: Question
    answers: dict[Hashable, _Branch | Ending] = field(default_factory=dict)


class _Answered(NamedTuple):
    """An outcome, and the use of the node's pools it holds for."""

    held: tuple[PoolUsage, ...]
    outcome: Outcome


class _Round(NamedTuple):
    """The answers for many nodes at once: which nodes look at which pool, by their places, and which are asked again.

    `unsure` are places of nodes whose answer is not kept.
    """

    nodes: tuple[Node, ...]
    usage: Usage
    found: dict[str, Outcome]
    lookers: dict[PoolId, list[int]]
    unsure: set[int]

    def outdated(self, usage: Usage) -> set[int]:
        """The places of the nodes to be asked again when this is in use now."""
        before, now = self.usage.pools, usage.pools
        changed = [pool for pool, held in now.items() if before.get(pool) is not held]
        changed += before.keys() - now.keys()
        return self.unsure.union(*(self.lookers.get(pool, ()) for pool in changed))


class Decisions:
    """The answers for one problem, node by node, whatever is in use. What was worked out once serves again."""

    def __init__(self, problem: Problem, randomness: Randomness, budget: int, expired: Expired = never) -> None:
        self.problem = problem
        self.randomness = randomness
        self.budget = budget
        self.expired = expired
        self._roots: dict[Hashable, _Branch | Ending] = {}
        self._paths = 0
        self._arrived = 0
        self._straight = Straight(problem) if is_ordinary(problem) else None
        self._answered: dict[NodeView, _Answered] = {}
        self._round: _Round | None = None

    def on_nodes(
        self, nodes: tuple[Node, ...], view_of: Callable[[Node], NodeView | Abort], usage: Usage
    ) -> dict[str, Outcome]:
        """The answer for each node, by its name. Of the same nodes only those are looked at whose pools are used
        otherwise than when they were asked last."""
        last = self._round
        if last is None or len(last.nodes) != len(nodes) or not all(map(is_, last.nodes, nodes)):
            last = _Round(nodes, usage, {}, {}, set())
            for place, node in enumerate(nodes):
                offered = view_of(node)
                for pool in () if isinstance(offered, Abort) else offered.pools:
                    last.lookers.setdefault(pool.id, []).append(place)
            asked: Iterable[int] = range(len(nodes))
        else:
            asked = last.outdated(usage)
        found, unsure = last.found.copy(), set()
        for place in asked:
            offered = view_of(nodes[place])
            outcome = found[nodes[place].metadata.name] = self.on(offered, usage)
            if isinstance(outcome, Abort) or not (isinstance(offered, NodeView) and offered.plain):
                unsure.add(place)
        self._round = _Round(nodes, usage, found, last.lookers, unsure) if len(found) == len(nodes) else None
        return found.copy()

    def on(self, view: NodeView | Abort, usage: Usage) -> Outcome:
        """The answer for one node. The same outcome comes back as long as the use of the node's pools is the same."""
        if isinstance(view, Abort):
            return view
        of_pool = usage.of_pool
        held = tuple([of_pool(pool.id) for pool in view.pools])
        known = self._answered.get(view)
        if known is not None and all(map(is_, known.held, held)):
            return known.outcome
        outcome = self._outcome(self._ending(view, usage, held), view)
        if view.plain and not isinstance(outcome, Abort):
            self._answered[view] = _Answered(held, outcome)
        return outcome

    def _outcome(self, ending: Ending, view: NodeView) -> Outcome:
        if isinstance(ending, Solution):
            return outcome_of(ending, self.problem, view, self.randomness)
        return ending

    def _ending(self, view: NodeView, usage: Usage, held: tuple[PoolUsage, ...]) -> Ending:
        if not view.plain or any(pool.shares for pool in held):
            return find(Table(self.problem, view, usage), self.budget, self.expired)
        found = self._straight.on(view, held) if self._straight is not None else None
        return self._by_path(view, usage) if found is None else found

    def _by_path(self, view: NodeView, usage: Usage) -> Ending:
        """The answer of the search, or that of a node which gave the same answers to the same questions."""
        if self._paths > _TRIED and self._arrived < self._paths:
            return find(Table(self.problem, view, usage), self.budget, self.expired)
        shape = view.shape
        table = _Asked(self.problem, view, usage)
        place = self._roots.get(shape)
        while isinstance(place, _Branch):
            place = place.answers.get(table.ask(place.question))
        if place is not None:
            self._arrived += 1
            return place
        table = _Asked(self.problem, view, usage)
        ending = find(table, self.budget, self.expired)
        named = isinstance(ending, Abort) and not ending.on_node
        if self._paths < _MOST_PATHS and not table.particular and not named:
            self._paths += 1
            self._grow(shape, table.path, ending)
        return ending

    def _grow(self, shape: Hashable, path: dict[Question, Hashable], ending: Ending) -> None:
        answers, answer = self._roots, shape
        for question, given in path.items():
            branch = answers.get(answer)
            if not isinstance(branch, _Branch):
                branch = answers[answer] = _Branch(question)
            answers, answer = branch.answers, given
        answers[answer] = ending


class _Asked(Table):
    """A table that remembers what it was asked and what it answered.

    `particular`: an answer depends on the node's own names or values, so that the path is of no use to others.
    """

    def __init__(self, problem: Problem, view: NodeView, usage: Usage) -> None:
        super().__init__(problem, view, usage)
        self.path: dict[Question, Hashable] = {}
        self.particular = False
        self._told: dict[tuple[str, Value], int] = {}

    def ask(self, question: Question) -> Hashable:
        """The answer to a question of another node's search."""
        kind, slot, device, attribute = question
        match kind:
            case 0:
                self.in_use(device)
            case 1:
                self.cell(self.problem.slots[slot], device)
            case 2:
                self.room(self.problem.slots[slot], device)
            case 3:
                self.alone(self.problem.slots[slot], device)
            case 4:
                self.tainted(self.problem.slots[slot], device)
            case _:
                self.value(self.problem.slots[slot], device, attribute)
        return self.path[question]

    def in_use(self, device: int) -> bool:
        found = super().in_use(device)
        self.path[(_IN_USE, 0, device, "")] = found
        return found

    def cell(self, slot: Slot, device: int) -> Cell:
        found = super().cell(slot, device)
        self.path[(_CELL, slot.index, device, "")] = found
        self.particular = self.particular or isinstance(found, str)
        return found

    def room(self, slot: Slot, device: int) -> Cell:
        found = super().room(slot, device)
        self.path[(_ROOM, slot.index, device, "")] = found
        self.particular = self.particular or isinstance(found, str)
        return found

    def alone(self, slot: Slot, device: int) -> Cell:
        found = super().alone(slot, device)
        self.path[(_ALONE, slot.index, device, "")] = found
        self.particular = self.particular or isinstance(found, str)
        return found

    def demand(self, slot: Slot, device: int) -> Demand:
        self.particular = True
        return super().demand(slot, device)

    def tainted(self, slot: Slot, device: int) -> DeviceTaint | None:
        found = super().tainted(slot, device)
        self.path[(_TAINT, slot.index, device, "")] = found is not None
        return found

    def value(self, slot: Slot, device: int, attribute: str) -> Value | str | None:
        found = super().value(slot, device, attribute)
        answer: Hashable = None
        if isinstance(found, str) or (found is not None and len(found.members) > 1):
            self.particular = True
            answer = self
        elif found is UNKNOWN:
            answer = ""
        elif found is not None:
            answer = self._told.setdefault((attribute, found), len(self._told))
        self.path[(_VALUE, slot.index, device, attribute)] = answer
        return found
