"""The allocator: claims asked of one node, or of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace

import msgspec
from msgspec.structs import replace as replace_fields

from regauge.allocator.decisions import Decisions
from regauge.allocator.explaining import (
    ERROR,
    FITS,
    MISFIT,
    UNKNOWN,
    UNSUPPORTED,
    ClusterExplanation,
    Explanation,
    explain,
    explain_all,
    with_mistakes,
)
from regauge.allocator.foretelling import GATE
from regauge.allocator.inventory import Inventory
from regauge.allocator.mistakes import Mistake, mistakes
from regauge.allocator.outcome import Abort, Exhausted, Fit, NoFit, Outcome, Unsupported
from regauge.allocator.pools import NodeView, view
from regauge.allocator.problem import Problem, claim_label, compile_claims
from regauge.allocator.results import Solution, outcome_of
from regauge.allocator.search import Expired, never
from regauge.allocator.selecting import Selectors, reads_of, selectors_of
from regauge.allocator.settings import Settings, settings_of
from regauge.allocator.solving import find
from regauge.allocator.table import Table
from regauge.allocator.usage import Usage
from regauge.base import Randomness
from regauge.model import Rules
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice

DEFAULT_BUDGET = 200_000
_PATIENCE = 20_000
_REMEMBERED = 128


def solve(
    problem: Problem,
    node_view: NodeView | Abort,
    usage: Usage,
    randomness: Randomness,
    budget: int = DEFAULT_BUDGET,
    expired: Expired = never,
) -> Outcome:
    """The answer for one node. `budget` is in steps, as upstream's calls of allocateOne.

    `randomness` gives the IDs of shares. No error is raised but `InputError`, for quantities that are none.
    """
    if isinstance(node_view, Abort):
        return node_view
    found = find(Table(problem, node_view, usage), budget, expired)
    return outcome_of(found, problem, node_view, randomness) if isinstance(found, Solution) else found


class Allocator:
    """Slices, classes and usage at one moment under the rules of one cluster. Questions do not change it.

    Where `expired` is given, what it has not answered when that is true is `Exhausted`, as it is after `budget` steps.
    """

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
        expired: Expired = never,
    ) -> None:
        self.settings = settings_of(rules)
        self.inventory = slices if isinstance(slices, Inventory) else Inventory.of(slices)
        self.classes = classes if isinstance(classes, Mapping) else {one.metadata.name: one for one in classes}
        shared = isinstance(self.settings, Settings) and self.settings.consumable_capacity
        self.usage = usage if isinstance(usage, Usage) else Usage.of(usage, shared_devices=shared)
        self.selectors = selectors or selectors_of(rules)
        self.rules = rules
        self.randomness = randomness
        self.budget = budget
        self.expired = expired
        self._views: dict[str, tuple[Node, NodeView | Abort]] = {}
        self._decisions: dict[bytes, Decisions] = {}

    def using(self, usage: Usage) -> Allocator:
        """The same with other devices in use: everything that was worked out and does not depend on use is shared."""
        other = copy(self)
        other.usage = usage
        return other

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
        return solve(problem, self.view(node), self.usage, self.randomness, self.budget, self.expired)

    def allocate_nodes(self, nodes: Iterable[Node], claims: Iterable[ResourceClaim]) -> dict[str, Outcome]:
        """The answer for each node, by its name, all for the same usage."""
        nodes, claims = tuple(nodes), tuple(claims)
        decisions = self._decide(claims)
        if isinstance(decisions, Unsupported):
            return {node.metadata.name: decisions for node in nodes}
        found = decisions.on_nodes(nodes, self.view, self.usage)
        asked = [claim.label for claim in decisions.problem.claims]
        names = dict(zip(asked, map(claim_label, claims), strict=True))
        if any(name != other for name, other in names.items()):
            found.update(self._named(nodes, claims, found, names))
        return found

    def _named(
        self,
        nodes: tuple[Node, ...],
        claims: tuple[ResourceClaim, ...],
        found: Mapping[str, Outcome],
        names: Mapping[str, str],
    ) -> dict[str, Outcome]:
        """The outcomes among those found for other claims that ask for the same, which name them, for these."""
        named: dict[str, Outcome] = {}
        alike: dict[int, NoFit] = {}
        for name, outcome in found.items():
            if isinstance(outcome, NoFit):
                if outcome.bound is None:
                    continue
                known = alike.get(id(outcome))
                if known is None:
                    bound = replace(outcome.bound, claim=names[outcome.bound.claim])
                    known = alike[id(outcome)] = NoFit(bound, outcome.steps)
                named[name] = known
        for node in nodes if any(isinstance(one, Abort) for one in found.values()) else ():
            if isinstance(found[node.metadata.name], Abort):
                named[node.metadata.name] = self.allocate(node, claims)
        return named

    def _decide(self, claims: tuple[ResourceClaim, ...]) -> Decisions | Unsupported:
        """The decisions for claims that ask for the same, whatever they are called."""
        key = msgspec.json.encode([claim.spec for claim in claims])
        known = self._decisions.pop(key, None)
        if known is None:
            problem = self.compile(claims)
            if isinstance(problem, Unsupported):
                return problem
            known = Decisions(problem, self.randomness, self.budget, self.expired)
            if len(self._decisions) >= _REMEMBERED:
                del self._decisions[next(iter(self._decisions))]
        self._decisions[key] = known
        return known

    def explain(self, node: Node, claims: Iterable[ResourceClaim]) -> Explanation:
        """Why `claims` fit on `node` or do not, down to each device."""
        claims = tuple(claims)
        problem = self.compile(claims)
        if isinstance(problem, Unsupported):
            return _unsupported(node, claims, problem)
        offered = self.view(node)
        outcome = solve(problem, offered, self.usage, self.randomness, self.budget, self.expired)
        found = explain(problem, offered, self.usage, outcome, reads_of(self.rules))
        if found.timeout is not None and not self.rules.on(GATE):
            found = replace(found, timeout=replace(found.timeout, limited=False))
        return found if found.outcome == FITS else with_mistakes(found, self.mistakes(node, claims, outcome))

    def mistakes(
        self, node: Node, claims: Iterable[ResourceClaim], outcome: Outcome | None = None
    ) -> tuple[Mistake, ...]:
        """The known mistakes of this minor that decide the answer for `claims` on `node`, which is `outcome`."""
        claims = tuple(claims)
        here = _told(self.allocate(node, claims) if outcome is None else outcome)

        def without(quirks: frozenset[str]) -> tuple[str, bool] | None:
            rules = replace(self.rules, quirks=self.rules.quirks - quirks)
            other = Allocator(
                self.inventory,
                self.classes,
                self.usage,
                rules,
                randomness=self.randomness,
                selectors=self.selectors,
                budget=min(self.budget, _PATIENCE),
            )
            answer = other.allocate(node, claims)
            same = isinstance(answer, Exhausted) or _told(answer) == here
            return None if same else (_in_words(answer), isinstance(answer, Fit))

        return mistakes(self.rules, without)

    def explain_nodes(self, nodes: Iterable[Node], claims: Iterable[ResourceClaim]) -> ClusterExplanation:
        """The same for many nodes, put together by reason."""
        known, claims = {node.metadata.name: node for node in nodes}, tuple(claims)
        problem = self.compile(claims)
        if isinstance(problem, Unsupported):
            return explain_all(_unsupported(node, claims, problem) for node in known.values())
        outcomes, reads = self.allocate_nodes(known.values(), claims), reads_of(self.rules)
        return explain_all(
            (
                explain(problem, self.view(node), self.usage, outcomes[name], reads, deep=False)
                for name, node in known.items()
            ),
            lambda name: self.explain(known[name], claims),
        )


def _unsupported(node: Node, claims: Iterable[ResourceClaim], found: Unsupported) -> Explanation:
    labels = tuple(map(claim_label, claims))
    return Explanation(node.metadata.name, labels, UNSUPPORTED, found.feature, error=found.text)


def _told(outcome: Outcome) -> tuple[str, object]:
    """What has to differ for an answer to be another one: not the words of an error, or what is made up."""
    if not isinstance(outcome, Fit):
        return type(outcome).__name__, None
    results = [replace_fields(one, share_id=None) for result in outcome.results for one in result.devices.results]
    return FITS, results


def _in_words(outcome: Outcome) -> str:
    match outcome:
        case Fit():
            given = ((one.request, one) for result in outcome.results for one in result.devices.results)
            return f"{FITS}: " + "; ".join(f"{name}: {one.driver}/{one.pool}/{one.device}" for name, one in given)
        case Abort(text=text):
            return f"{ERROR}: {text}"
        case NoFit():
            return MISFIT
        case Unsupported(feature=feature):
            return f"{UNSUPPORTED}: {feature}"
    return UNKNOWN
