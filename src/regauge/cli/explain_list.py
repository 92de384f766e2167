"""`regauge explain` for all claims or all pods of a namespace, of a label, or of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.cli.explain_asked import say_source
from regauge.cli.output import Format, print_document, print_table, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from regauge.cli.explain_asked import Asked, What
    from regauge.model import ObjectMeta
    from regauge.scheduler import ClaimAnswer, PodAnswer
    from regauge.scheduler.finding import Named

    N = TypeVar("N", bound=Named)

MOST_ASKED = 100


def explain_list(what: What, namespace: str, selector: str, asked: Asked) -> bool:
    """Explain what is there, each as the cluster is now, those without devices or a place first. Whether all is good.

    A hundred that wait are looked at, at most.
    """
    import random

    from regauge.scheduler import State, as_stored, explain_claim, explain_pod, is_terminal

    snapshot = as_stored(asked.estate.snapshot)
    state = State.of(snapshot, asked.rules)
    meant = _meant(namespace, selector)
    claims: list[ClaimAnswer] = []
    pods: list[PodAnswer] = []
    if what == "pod":
        running = [one for one in snapshot.pods if meant(one.metadata) and not is_terminal(one)]
        asked_pods, left = _turns(running, lambda one: bool(one.spec.node_name))
        pods = [explain_pod(state, one, random.Random(0)) for one in asked_pods]
        pods.sort(key=lambda one: one.good)
    else:
        there = [one for one in snapshot.claims if meant(one.metadata)]
        asked_claims, left = _turns(there, lambda one: one.status.allocation is not None)
        claims = [explain_claim(state, one) for one in asked_claims]
        claims.sort(key=lambda one: one.good)
    answers: list[ClaimAnswer | PodAnswer] = [*claims, *pods]
    text = _summary(what, [one.state for one in answers], left)
    _show(what, claims, pods, left, text, asked)
    return all(one.good for one in answers)


def _meant(namespace: str, selector: str) -> Callable[[ObjectMeta], bool]:
    from regauge.model import matches_requirement, parse_label_selector

    wanted = parse_label_selector(selector)
    return lambda one: (
        namespace in ("", one.namespace) and all(matches_requirement(item, one.labels or {}) for item in wanted)
    )


def _turns(found: Iterable[N], settled: Callable[[N], bool]) -> tuple[list[N], int]:
    """Whom to ask about, those that wait first, and how many of them are left out."""
    everything = sorted(found, key=lambda one: (one.metadata.namespace, one.metadata.name))
    waiting = [one for one in everything if not settled(one)]
    return [*waiting[:MOST_ASKED], *(one for one in everything if settled(one))], max(len(waiting) - MOST_ASKED, 0)


def _summary(what: What, states: list[str], left: int) -> str:
    from collections import Counter

    if not states:
        return f"there is no such {what}"
    counts = ", ".join(f"{count} {state}" for state, count in Counter(states).items())
    return f"{len(states)} {what}{'s' if len(states) > 1 else ''}: {counts}" + (
        f"; {left} more wait that were not looked at: name them" if left else ""
    )


def _show(what: What, claims: list[ClaimAnswer], pods: list[PodAnswer], left: int, text: str, asked: Asked) -> None:
    from regauge.cli.options import tell_skipped

    if asked.output is not Format.table:
        from regauge.cli.explain_document import list_document

        print_document(list_document(claims, pods, left, text, asked.estate, asked.rules), asked.output)
        return
    tell_skipped(asked.estate)
    rows = [(one.claim, one.state, one.text) for one in claims]
    rows += [(one.pod, one.state, one.text) for one in pods]
    if rows:
        print_table((what.upper(), "ANSWER", "WHY"), rows)
        tell()
    tell(text)
    say_source(asked)
