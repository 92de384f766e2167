"""An explanation as plain text."""

from __future__ import annotations

from regauge.allocator.explaining import ClusterExplanation, Explanation, SlotNote
from regauge.allocator.reasons import CHOSEN, FREE
from regauge.model.resource import DeviceRequestAllocationResult

_MOST_DEVICES = 10


def render(found: Explanation, devices: int = _MOST_DEVICES) -> str:
    """The explanation for one node, with at most `devices` devices for each request."""
    lines = [f"node {found.node}: {found.outcome}" if found.node else found.outcome, f"  {found.text}"]
    for pool in found.pools:
        lines.append(f"  pool {pool.pool} {pool.text}")
    for note in found.requests:
        lines += _slot_lines(note, devices)
    lines += [f"  {text}" for result in found.results for one in result.devices.results for text in _terms(one)]
    if found.would_fit:
        lines.append("  what would help:")
        lines += [f"    {one.text}" for one in found.would_fit]
    lines += [f"  {one.text}" for one in found.missed if one.text != found.text]
    if found.slow:
        lines.append(f"  {found.slow}")
    return "\n".join(lines)


def _slot_lines(note: SlotNote, devices: int) -> list[str]:
    lines = [f"  claim {note.claim}, request {note.request}: {note.text}"]
    misses = [one for one in note.devices if one.kind not in (FREE, CHOSEN)]
    for miss in misses[:devices]:
        lines.append(f"    {miss.device}: {miss.text}")
        lines += [f"      {hint}" for hint in miss.hints]
    if len(misses) > devices:
        lines.append(f"    and {len(misses) - devices} more")
    return lines


def _terms(one: DeviceRequestAllocationResult) -> list[str]:
    """Under which terms a device is given."""
    terms = [f"consumes {', '.join(f'{name} {value}' for name, value in one.consumed_capacity.items())}"]
    terms = terms if one.consumed_capacity else []
    if one.admin_access:
        terms.append("admin access, beside whoever uses it")
    for toleration in one.tolerations:
        seconds = toleration.toleration_seconds
        until = "" if seconds is None else f" for {seconds} s"
        terms.append(f"tolerates {toleration.key or 'every taint'}:{toleration.effect or 'every effect'}{until}")
    if one.binding_conditions:
        failing = f" (not if {', '.join(one.binding_failure_conditions)})" if one.binding_failure_conditions else ""
        terms.append(f"a pod is bound once its driver says {', '.join(one.binding_conditions)}{failing}")
    return [f"{one.driver}/{one.pool}/{one.device}: {'; '.join(terms)}"] if terms else []


def render_all(found: ClusterExplanation) -> str:
    """The explanation for many nodes: counts by reason."""
    total = len(found.nodes)
    lines = [f"fits on {len(found.fitting)} of {total} nodes"]
    for reason, count, example in found.reasons:
        lines.append(f"  {count} nodes, such as {example}: {reason}")
    return "\n".join(lines)
