"""The explanation of an outcome: a separate pass, so that deciding never pays for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from regauge.allocator.bounds import first_bound
from regauge.allocator.foretelling import Timeout, foretell
from regauge.allocator.guide import can_guide
from regauge.allocator.hints import Reads
from regauge.allocator.mistakes import Mistake
from regauge.allocator.outcome import Abort, Bound, Exhausted, Fit, Outcome, Unsupported
from regauge.allocator.pool_notes import STALE, PoolNote, pool_notes
from regauge.allocator.pools import INCOMPLETE, INVALID, NodeView
from regauge.allocator.problem import ALL, Problem, RequestPlan, Slot
from regauge.allocator.reasons import CHOSEN, FREE, DeviceReason, Reasons
from regauge.allocator.relaxing import MISTAKE, Relaxation, relaxations, withheld
from regauge.allocator.search import admit
from regauge.allocator.state import Aborted, Attempt
from regauge.allocator.table import Table
from regauge.allocator.usage import Usage
from regauge.model.resource import AllocationResult

FITS, MISFIT, ERROR, NODE_ERROR = "fits", "does not fit", "error", "error on this node"
UNKNOWN, UNSUPPORTED = "not determined", "unsupported"
DEFAULT_BUDGET = 2_000
_MOST_EXAMPLES = 8


@dataclass(frozen=True, slots=True)
class SlotNote:
    """One request, or one alternative of a firstAvailable request.

    `wanted` devices (None: all there are), `matching` devices that could serve it, `chosen` those that do. `devices`
    has one reason for each device of the node, nearest misses first. `text` says in one sentence how it went.
    """

    claim: str
    request: str
    wanted: int | None
    matching: int
    chosen: tuple[str, ...]
    devices: tuple[DeviceReason, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the claims fit on a node, or why not.

    `outcome` is one of the words above, `text` the main reason in one sentence, `error` what upstream reports. `results`:
    what each claim gets, one for each; the IDs of shares in them are made up.
    `would_fit` are single changes after which it fits, `missed` known mistakes of this Kubernetes minor that hide a
    valid set. `bound` is the shortage that settles the matter, where one was found. `timeout` says whether the scheduler's
    own search, which is longer, ends in time; only for a node that is looked at in depth.
    """

    node: str
    claims: tuple[str, ...]
    outcome: str
    text: str
    error: str = ""
    results: tuple[AllocationResult, ...] = ()
    pools: tuple[PoolNote, ...] = ()
    requests: tuple[SlotNote, ...] = ()
    bound: Bound | None = None
    would_fit: tuple[Relaxation, ...] = ()
    missed: tuple[Relaxation, ...] = ()
    timeout: Timeout | None = None

    @property
    def slow(self) -> str:
        """A warning of the scheduler's time limit, or ""."""
        return "" if self.timeout is None else self.timeout.text


def explain(
    problem: Problem,
    view: NodeView | Abort,
    usage: Usage,
    outcome: Outcome,
    reads: Reads,
    *,
    budget: int = DEFAULT_BUDGET,
    deep: bool = True,
) -> Explanation:
    """The explanation of `outcome`. `deep`: also what would have to change, each change tried with `budget` steps."""
    labels = tuple(claim.label for claim in problem.claims)
    if isinstance(view, Abort):
        return Explanation(view.node, labels, ERROR, view.text, error=view.text)
    name = view.node.metadata.name
    if isinstance(outcome, Unsupported):
        return Explanation(name, labels, UNSUPPORTED, f"unsupported: {outcome.feature}", error=outcome.text)
    notes = _slot_notes(problem, Reasons(Table(problem, view, usage), reads), outcome)
    found = Explanation(name, labels, FITS, "", pools=pool_notes(view), requests=notes)
    timeout = foretell(Table(problem, view, usage)) if deep else None
    match outcome:
        case Fit():
            return replace(found, text=_chosen_text(notes), results=outcome.results, timeout=timeout)
        case Abort(text=text, on_node=on_node):
            return replace(found, outcome=NODE_ERROR if on_node else ERROR, text=text, error=text)
        case Exhausted(steps=steps):
            return replace(found, outcome=UNKNOWN, text=f"not determined within {steps} steps")
    found = replace(
        found,
        outcome=MISFIT,
        bound=outcome.bound or _bound(problem, view, usage),
        would_fit=relaxations(problem, view, usage, budget) if deep else (),
        missed=withheld(problem, view, usage, budget) if deep else (),
        timeout=timeout,
    )
    return replace(found, text=_main_reason(found))


def with_mistakes(found: Explanation, mistakes: Iterable[Mistake]) -> Explanation:
    """The explanation of claims that do not fit with the known mistakes that decide it."""
    told = [Relaxation(MISTAKE, _mistake_text(found, one)) for one in mistakes]
    changed = replace(found, missed=(*found.missed, *told))
    return replace(changed, text=_main_reason(changed)) if changed.missed and found.outcome == MISFIT else changed


def _mistake_text(found: Explanation, mistake: Mistake) -> str:
    if found.outcome == MISFIT and mistake.fits:
        there = mistake.instead.removeprefix(f"{FITS}: ")
        return f"a valid set exists, this scheduler misses it ({mistake.named}): {there}"
    return f"a known mistake of this version decides ({mistake.named}); without it: {mistake.instead}"


def _bound(problem: Problem, view: NodeView, usage: Usage) -> Bound | None:
    table = Table(problem, view, usage)
    if not can_guide(table):
        return None
    try:
        return first_bound(table, Attempt(table), admit(table))
    except Aborted:
        return None


# -- requests


def _slot_notes(problem: Problem, reasons: Reasons, outcome: Outcome) -> tuple[SlotNote, ...]:
    results: tuple[AllocationResult | None, ...] = outcome.results if isinstance(outcome, Fit) else ()
    notes: list[SlotNote] = []
    for number, claim in enumerate(problem.claims):
        chosen: dict[str, list[str]] = {}
        result = results[number] if results else None
        for one in result.devices.results if result is not None else ():
            chosen.setdefault(one.request, []).append(f"{one.driver}/{one.pool}/{one.device}")
        for plan in claim.requests:
            notes += _plan_notes(plan, claim.label, reasons, chosen, bool(results))
    return tuple(notes)


def _plan_notes(
    plan: RequestPlan, claim: str, reasons: Reasons, chosen: Mapping[str, list[str]], fits: bool
) -> list[SlotNote]:
    notes = []
    taken = False
    for slot in plan.slots:
        note = _slot_note(slot, claim, reasons, tuple(chosen.get(slot.name, ())))
        if note.chosen:
            taken = True
        elif plan.prioritized and fits:
            came = "not needed: an earlier alternative was taken" if taken else f"passed over: {note.text}"
            note = replace(note, text=came)
        notes.append(note)
    return notes


def _slot_note(slot: Slot, claim: str, reasons: Reasons, chosen: tuple[str, ...]) -> SlotNote:
    wanted = None if slot.mode == ALL else slot.count
    if slot.fault:
        return SlotNote(claim, slot.name, wanted, 0, chosen, (), slot.fault)
    found = [reasons.of(slot, device) for device in range(len(reasons.table.view.devices))]
    matching = sum(1 for one in found if one.kind == FREE)
    found = [
        replace(one, kind=CHOSEN, text="chosen") if str(one.device) in chosen and one.kind == FREE else one
        for one in found
    ]
    found.sort(key=lambda one: one.rank)
    text = f"chosen: {', '.join(chosen)}" if chosen else _matching_text(wanted, matching, found)
    return SlotNote(claim, slot.name, wanted, matching, chosen, tuple(found), text)


def _matching_text(wanted: int | None, matching: int, devices: list[DeviceReason]) -> str:
    others = Counter(one.kind for one in devices if one.kind not in (FREE, CHOSEN))
    text = f"{matching} of {len(devices)} devices match and are free"
    if wanted is not None:
        text += f", {wanted} wanted"
    if others:
        text += "; the others: " + ", ".join(f"{count} {kind}" for kind, count in others.most_common())
    return text


def _chosen_text(notes: Iterable[SlotNote]) -> str:
    parts = [f"{note.request}: {', '.join(note.chosen)}" for note in notes if note.chosen]
    return "; ".join(parts) or "nothing is asked for"


# -- the main reason


def _main_reason(found: Explanation) -> str:
    if found.missed:
        return found.missed[0].text
    if found.bound is not None:
        return bound_text(found.bound) + _nearest(found) + _hiding(found)
    if found.would_fit:
        return "every request can be served alone, but not all together; " + found.would_fit[0].text
    if not any(note.devices for note in found.requests):
        return "the node has no usable devices" + _hiding(found)
    return "no set of devices serves all requests together"


def bound_text(bound: Bound) -> str:
    """A shortage as a sentence."""
    where = f"claim {bound.claim}, request {bound.slot}"
    detail = f" of {bound.detail}" if bound.detail else ""
    have = "none" if bound.have == 0 else f"only {bound.have}"
    kind = bound.kind.replace("devices", "device", 1) if bound.need == 1 else bound.kind
    return f"{where}: needs {bound.need} {kind}{detail}, there {'is' if bound.have < 2 else 'are'} {have}"


def _hiding(found: Explanation) -> str:
    """The pools whose devices cannot be used, if the request that falls short might have had them."""
    return "".join(f"; pool {one.pool} {one.text}" for one in found.pools if one.state in (INCOMPLETE, INVALID, STALE))


def _nearest(found: Explanation) -> str:
    """The nearest miss of the request that falls short."""
    bound = found.bound
    for note in found.requests:
        if bound is None or note.request != bound.slot or note.claim != bound.claim:
            continue
        miss = next((one for one in note.devices if one.kind not in (FREE, CHOSEN)), None)
        if miss is not None:
            hint = f" ({miss.hints[0]})" if miss.hints else ""
            return f"; nearest miss {miss.device}: {miss.text}{hint}"
    return ""


# -- many nodes


@dataclass(frozen=True, slots=True)
class ClusterExplanation:
    """The same claims on many nodes: how many fit, and the reasons of the others, the most frequent first.

    `reasons` has a sentence, the number of nodes it holds for, and one of them as an example. `nodes` has an explanation
    for each node, one that says what would have to change only for the examples.
    """

    fitting: tuple[str, ...]
    reasons: tuple[tuple[str, int, str], ...]
    nodes: Mapping[str, Explanation]


def explain_all(
    explanations: Iterable[Explanation], deeper: Callable[[str], Explanation] | None = None
) -> ClusterExplanation:
    """Explanations of many nodes, put together by reason. `deeper` gives the full one for a node taken as example."""
    nodes = {one.node: one for one in explanations}
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for name, one in nodes.items():
        if one.outcome == FITS:
            continue
        reason = _general(one)
        counts[reason] += 1
        examples.setdefault(reason, name)
    frequent = counts.most_common()
    if deeper is not None:
        for reason, _ in frequent[:_MOST_EXAMPLES]:
            nodes[examples[reason]] = deeper(examples[reason])
    return ClusterExplanation(
        fitting=tuple(name for name, one in nodes.items() if one.outcome == FITS),
        reasons=tuple((reason, count, examples[reason]) for reason, count in frequent),
        nodes=nodes,
    )


def _general(one: Explanation) -> str:
    """The reason without the names of devices, so that nodes can be counted."""
    if one.outcome != MISFIT or one.missed:
        return one.text
    if one.bound is not None:
        kinds: Counter[str] = Counter()
        for note in one.requests:
            if note.request == one.bound.slot and note.claim == one.bound.claim:
                kinds.update(miss.kind for miss in note.devices if miss.kind not in (FREE, CHOSEN))
        most = f" (mostly {kinds.most_common(1)[0][0]})" if kinds else ""
        return bound_text(replace(one.bound, have=0)).replace("there is none", "there are fewer") + most
    return one.text
