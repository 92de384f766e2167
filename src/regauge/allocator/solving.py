"""One node: the checks before the search, the search, and a second, guided one where the first does not end soon."""

from __future__ import annotations

from regauge.allocator.bounds import first_bound
from regauge.allocator.guide import Guide, can_guide
from regauge.allocator.outcome import Abort, Bound, Exhausted, NoFit
from regauge.allocator.results import Chosen, Solution
from regauge.allocator.search import Expired, Search, Verdict, admit, never
from regauge.allocator.state import Aborted, Attempt
from regauge.allocator.table import Table
from regauge.model.resource import MAX_RESULTS_PER_CLAIM

# For claims of one full size; with more of them, a search that goes straight to its end takes longer.
SOON = 200
_INVALID_POOLS = "invalid resource pools were encountered"


def find(table: Table, budget: int, expired: Expired = never) -> Solution | NoFit | Abort | Exhausted:
    """The first solution in upstream's order, or why there is none."""
    search: Search | None = None
    bound: Bound | None = None
    try:
        search = Search(table, Attempt(table), admit(table))
        soon = SOON * (1 + sum(map(search.need, table.problem.slots)) // MAX_RESULTS_PER_CLAIM)
        verdict = search.run(min(budget, soon), expired)
        if verdict is Verdict.STOPPED and budget > soon and not expired():
            search = _anew(search)
            bound = first_bound(table, search.attempt, search.everything) if search.guide is not None else None
            verdict = search.run(budget, expired) if bound is None else Verdict.NOTHING
    except Aborted as error:
        return Abort(str(error), steps=search.steps if search else 0)
    if verdict is Verdict.STOPPED:
        return Exhausted(search.steps)
    if verdict is Verdict.FOUND:
        picks = tuple(Chosen(*pick[:3], search.attempt.settled(pick)) for pick in search.attempt.picks)
        return Solution(picks, search.selected(), search.steps)
    if table.view.invalid and not table.settings.quirk("invalid-pools-end-search"):
        return Abort(_INVALID_POOLS, on_node=True, steps=search.steps)
    return NoFit(bound, search.steps)


def _anew(search: Search) -> Search:
    """The same search from its beginning, with a guide if one can be had."""
    attempt = Attempt(search.table)
    guide = Guide(search.table, attempt) if can_guide(search.table) else None
    return Search(search.table, attempt, search.everything, guide)
