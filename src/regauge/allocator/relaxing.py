"""What would have to be different: one constraint, taint, holder or request at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from regauge.allocator.pools import NodeView
from regauge.allocator.problem import DISTINCT, ClaimPlan, Problem, RequestPlan
from regauge.allocator.results import Solution
from regauge.allocator.solving import find
from regauge.allocator.table import Table
from regauge.allocator.usage import Holder, PoolUsage, Usage
from regauge.allocator.values import Value

CONSTRAINT, TAINTS, HOLDER, USAGE, REQUEST, MISTAKE = "constraint", "taints", "holder", "usage", "request", "mistake"
_MOST_HOLDERS = 8


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One change after which the claims would fit; `text` is the sentence for it.

    `constraint`: the places of the claim and of its constraint that would have to go.
    """

    kind: str
    text: str
    constraint: tuple[int, int] | None = None


def relaxations(problem: Problem, view: NodeView, usage: Usage, budget: int) -> tuple[Relaxation, ...]:
    """The single changes that make the claims fit on the node, each tried with at most `budget` steps."""
    found = []
    for relaxation, changed, held in _changes(problem, view, usage):
        table = Table(changed, view, held)
        solution = find(table, budget)
        if isinstance(solution, Solution):
            found.append(_with_pair(relaxation, problem, Table(problem, view, usage), solution))
    return tuple(found)


def _with_pair(relaxation: Relaxation, problem: Problem, table: Table, solution: Solution) -> Relaxation:
    """The change; that of a constraint with two devices of the solution that break it."""
    if relaxation.constraint is None:
        return relaxation
    number, place = relaxation.constraint
    constraint = problem.claims[number].constraints[place]
    slots = {slot.index: slot for slot in problem.slots}
    chosen = [
        (table.view.devices[pick.device], table.value(slots[pick.slot.index], pick.device, constraint.attribute))
        for pick in solution.picks
        if pick.slot.claim == number and place in slots[pick.slot.index].constraints
    ]
    for entry, value in chosen:
        if not isinstance(value, Value):
            return replace(relaxation, text=f"{relaxation.text}: {entry.id} has no such attribute")
    for (first, one), (second, other) in combinations(chosen, 2):
        same = isinstance(one, Value) and isinstance(other, Value) and one.meets(other) is not None
        if same is (constraint.kind == DISTINCT):
            text = f"{relaxation.text}: {first.id} has {one} and {second.id} has {other}"
            return replace(relaxation, text=text)
    return relaxation


def withheld(problem: Problem, view: NodeView, usage: Usage, budget: int) -> tuple[Relaxation, ...]:
    """Whether the claims would fit if the scheduler told its allocator of the gate for list attributes, which is on."""
    settings = problem.settings
    if not settings.lists_withheld:
        return ()
    knowing = replace(settings, list_attributes=True, lists_withheld=False, quirks=frozenset())
    if not isinstance(find(Table(replace(problem, settings=knowing), view, usage), budget), Solution):
        return ()
    text = "a valid set exists, this scheduler misses it: it compares list attributes only from 1.37 on"
    return (Relaxation(MISTAKE, text),)


def _changes(problem: Problem, view: NodeView, usage: Usage) -> Iterator[tuple[Relaxation, Problem, Usage]]:
    for number, claim in enumerate(problem.claims):
        for constraint in claim.constraints:
            text = f"without the constraint {constraint.kind} {constraint.attribute} of claim {claim.label}"
            changed = _unconstrained(problem, number, constraint.number)
            yield Relaxation(CONSTRAINT, f"it would fit {text}", (number, constraint.number)), changed, usage
    if problem.settings.taints:
        settings = replace(problem.settings, taints=False)
        yield (
            Relaxation(TAINTS, "it would fit if all taints were tolerated"),
            replace(problem, settings=settings),
            usage,
        )
    yield from _holders(problem, view, usage)
    if sum(len(claim.requests) for claim in problem.claims) > 1:
        for number, claim in enumerate(problem.claims):
            for place, request in enumerate(claim.requests):
                text = f"it would fit without request {request.name} of claim {claim.label}"
                yield Relaxation(REQUEST, text), _shortened(problem, number, place), usage


def _holders(problem: Problem, view: NodeView, usage: Usage) -> Iterator[tuple[Relaxation, Problem, Usage]]:
    here = {pool.id for pool in view.pools}
    holders: dict[Holder, None] = {}
    for pool in view.pools:
        held = usage.of_pool(pool.id)
        holders.update(dict.fromkeys(one for row in held.whole.values() for one in row))
        holders.update(dict.fromkeys(share.holder for row in held.shares.values() for share in row))
    if not holders:
        return
    freed = Usage({key: value for key, value in usage.pools.items() if key not in here}, usage.shared_devices)
    yield Relaxation(USAGE, "it would fit if nothing were in use on this node"), problem, freed
    for holder in list(holders)[:_MOST_HOLDERS]:
        if not str(holder):
            continue
        pools = {key: _released(value, holder) if key in here else value for key, value in usage.pools.items()}
        text = f"it would fit if claim {holder} gave up its devices"
        yield Relaxation(HOLDER, text), problem, Usage(pools, usage.shared_devices)


def _released(usage: PoolUsage, holder: Holder) -> PoolUsage:
    whole = {name: tuple(one for one in row if one != holder) for name, row in usage.whole.items()}
    shares = {name: tuple(one for one in row if one.holder != holder) for name, row in usage.shares.items()}
    return PoolUsage(
        {name: row for name, row in whole.items() if row}, {name: row for name, row in shares.items() if row}
    )


def _unconstrained(problem: Problem, number: int, constraint: int) -> Problem:
    def free(request: RequestPlan) -> RequestPlan:
        slots = (
            replace(slot, constraints=tuple(one for one in slot.constraints if one != constraint))
            for slot in request.slots
        )
        return replace(request, slots=tuple(slots))

    claim = problem.claims[number]
    return _with_claim(problem, number, replace(claim, requests=tuple(map(free, claim.requests))))


def _shortened(problem: Problem, number: int, place: int) -> Problem:
    claim = problem.claims[number]
    kept = [request for index, request in enumerate(claim.requests) if index != place]
    requests = tuple(
        replace(request, slots=tuple(replace(slot, request=index) for slot in request.slots))
        for index, request in enumerate(kept)
    )
    return _with_claim(problem, number, replace(claim, requests=requests))


def _with_claim(problem: Problem, number: int, claim: ClaimPlan) -> Problem:
    claims = tuple(claim if index == number else one for index, one in enumerate(problem.claims))
    slots = {slot.index: slot for plan in claims for request in plan.requests for slot in request.slots}
    return replace(problem, claims=claims, slots=tuple(slots.get(slot.index, slot) for slot in problem.slots))
