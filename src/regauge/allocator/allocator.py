"""The allocator: claims asked of one node, or of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from regauge.allocator.bounds import first_bound
from regauge.allocator.guide import Guide, can_guide
from regauge.allocator.inventory import Inventory
from regauge.allocator.outcome import Abort, Bound, Exhausted, NoFit, Outcome, Unsupported
from regauge.allocator.pools import NodeView, view
from regauge.allocator.problem import Problem, compile_claims
from regauge.allocator.results import results_of
from regauge.allocator.search import Search, Verdict, admit
from regauge.allocator.selecting import Selectors, selectors_of
from regauge.allocator.settings import Settings, settings_of
from regauge.allocator.state import Aborted, Attempt
from regauge.allocator.table import Table
from regauge.allocator.usage import Usage
from regauge.base import Randomness
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from regauge.model.rules import Rules

DEFAULT_BUDGET = 200_000
_SOON = 200
_INVALID_POOLS = "invalid resource pools were encountered"


def solve(
    problem: Problem, node_view: NodeView | Abort, usage: Usage, randomness: Randomness, budget: int = DEFAULT_BUDGET
) -> Outcome:
    """The answer for one node. `budget` is in steps, as upstream's calls of allocateOne.

    `randomness` gives the IDs of shares. No error is raised but `InputError`, for quantities that are none.
    """
    if isinstance(node_view, Abort):
        return node_view
    table = Table(problem, node_view, usage)
    attempt = Attempt(table)
    search: Search | None = None
    bound: Bound | None = None
    try:
        search = Search(table, attempt, admit(table))
        verdict = search.run(min(budget, _SOON))
        if verdict is Verdict.STOPPED and budget > _SOON:
            search = _anew(search)
            bound = first_bound(table, search.attempt, search.everything) if search.guide is not None else None
            verdict = search.run(budget) if bound is None else Verdict.NOTHING
    except Aborted as error:
        return Abort(str(error), steps=search.steps if search else 0)
    if verdict is Verdict.STOPPED:
        return Exhausted(search.steps)
    if verdict is Verdict.FOUND:
        return results_of(search, randomness)
    if node_view.invalid:
        return Abort(_INVALID_POOLS, on_node=True, steps=search.steps)
    return NoFit(bound, search.steps)


def _anew(search: Search) -> Search:
    """The same search from its beginning, with a guide if one can be had."""
    attempt = Attempt(search.table)
    guide = Guide(search.table, attempt) if can_guide(search.table) else None
    return Search(search.table, attempt, search.everything, guide)


class Allocator:
    """Slices, classes and usage at one moment under the rules of one cluster. Questions do not change it."""

    def __init__(
        self,
        slices: Inventory | Iterable[ResourceSlice],
        classes: Mapping[str, DeviceClass] | Iterable[DeviceClass],
        usage: Usage | Iterable[ResourceClaim],
        rules: Rules,
        *,
        randomness: Randomness,
        selectors: Selectors | None = None,
        budget: int = DEFAULT_BUDGET,
    ) -> None:
        self.settings = settings_of(rules)
        self.inventory = slices if isinstance(slices, Inventory) else Inventory.of(slices)
        self.classes = classes if isinstance(classes, Mapping) else {one.metadata.name: one for one in classes}
        shared = isinstance(self.settings, Settings) and self.settings.consumable_capacity
        self.usage = usage if isinstance(usage, Usage) else Usage.of(usage, shared_devices=shared)
        self.selectors = selectors or selectors_of(rules)
        self.randomness = randomness
        self.budget = budget
        self._views: dict[str, tuple[Node, NodeView | Abort]] = {}

    def compile(self, claims: Iterable[ResourceClaim]) -> Problem | Unsupported:
        """The claims, ready to be asked of any node."""
        return compile_claims(claims, self.classes, self.settings, self.selectors)

    def view(self, node: Node) -> NodeView | Abort:
        """What `node` offers; remembered as long as it is asked with the same node object."""
        if isinstance(self.settings, Unsupported):
            return Abort(self.settings.text or f"unsupported: {self.settings.feature}")
        known = self._views.get(node.metadata.name)
        if known is None or known[0] is not node:
            known = self._views[node.metadata.name] = (node, view(self.inventory, node, self.settings))
        return known[1]

    def allocate(self, node: Node, claims: Iterable[ResourceClaim]) -> Outcome:
        """The answer for `claims` together on `node`."""
        problem = self.compile(claims)
        if isinstance(problem, Unsupported):
            return problem
        return solve(problem, self.view(node), self.usage, self.randomness, self.budget)

    def allocate_nodes(self, nodes: Iterable[Node], claims: Iterable[ResourceClaim]) -> dict[str, Outcome]:
        """The answer for each node, by its name, all for the same usage."""
        problem = self.compile(claims)
        if isinstance(problem, Unsupported):
            return {node.metadata.name: problem for node in nodes}
        return {
            node.metadata.name: solve(problem, self.view(node), self.usage, self.randomness, self.budget)
            for node in nodes
        }
