"""An explanation as plain text."""

from __future__ import annotations

from regauge.allocator.explaining import ClusterExplanation, Explanation, SlotNote
from regauge.allocator.reasons import CHOSEN, FREE

_MOST_DEVICES = 10


def render(found: Explanation, devices: int = _MOST_DEVICES) -> str:
    """The explanation for one node, with at most `devices` devices for each request."""
    lines = [f"node {found.node}: {found.outcome}" if found.node else found.outcome, f"  {found.text}"]
    for pool in found.pools:
        lines.append(f"  pool {pool.pool} {pool.text}")
    for note in found.requests:
        lines += _slot_lines(note, devices)
    if found.would_fit:
        lines.append("  what would help:")
        lines += [f"    {one.text}" for one in found.would_fit]
    lines += [f"  {one.text}" for one in found.missed]
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


def render_all(found: ClusterExplanation) -> str:
    """The explanation for many nodes: counts by reason."""
    total = len(found.nodes)
    lines = [f"fits on {len(found.fitting)} of {total} nodes"]
    for reason, count, example in found.reasons:
        lines.append(f"  {count} nodes, such as {example}: {reason}")
    return "\n".join(lines)
