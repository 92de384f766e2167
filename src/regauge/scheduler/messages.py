"""The sentence that a pod which fits nowhere carries, as upstream builds it.

Source: kube-scheduler framework/types.go FitError, runtime/framework.go RunPostFilterPlugins of 1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from regauge.model import Rules
from regauge.scheduler.preemption import NO_HELP, NoPreemption
from regauge.scheduler.results import Preemption, Refusal


def fit_message(count: int, before: Refusal | None, refusals: Iterable[Refusal], absent: str, after: str) -> str:
    """`count`: all nodes; `absent`: the reason of the nodes that have no refusal of their own."""
    parts = [f"0/{count} nodes are available:"]
    if before is not None:
        parts.append(f" {', '.join(before.reasons)}.")
    else:
        reasons = _counted(count, refusals, absent)
        if reasons:
            parts.append(f" {', '.join(reasons)}.")
    if after:
        parts.append(f" {after}")
    return "".join(parts)


def _counted(count: int, refusals: Iterable[Refusal], absent: str) -> list[str]:
    reasons: Counter[str] = Counter()
    seen = 0
    for refusal in refusals:
        seen += 1
        reasons.update(refusal.reasons)
    if absent and seen < count:
        reasons[absent] += count - seen
    return sorted(f"{number} {reason}" for reason, number in reasons.items())


def after_message(count: int, claims: str, preemption: Preemption | NoPreemption, rules: Rules) -> str:
    """What the plugins say that are asked once no node was found."""
    if isinstance(preemption, Preemption):
        if "scheduler-message-no-preemption-note" in rules.quirks:
            return ""
        number = len(preemption.victims)
        return f"preemption: found a potential placement for pod on node {preemption.node}, preempting {number} victims"
    if preemption.error:
        return f"preemption: {preemption.error}"
    said = preemption.barred or fit_message(count, None, preemption.refusals.values(), NO_HELP, "")
    return ", ".join(part for part in (claims, f"preemption: {said}") if part)
