"""What is wrong with the device pools that a node sees: slices that are missing, out of date, or disagree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regauge.allocator.inventory import SliceEntry
from regauge.allocator.pools import COMPLETE, INCOMPLETE, INVALID, NodeView, PoolView

STALE, REMARK = "stale", "remark"
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class PoolNote:
    """What is wrong with a device pool on this node, in a sentence; of an incomplete one also in names.

    `missing` slices are not there, those of `present` are; `outdated` are slices of older generations, and `lost` the
    devices that the generation before had and no slice has now: what they stood in is what is missing.
    """

    pool: str
    state: str
    text: str
    missing: int = 0
    present: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def pool_notes(view: NodeView) -> tuple[PoolNote, ...]:
    """The remarks on all pools of a node, in search order."""
    notes = [PoolNote(str(pool), STALE, "is ignored: a newer generation is published elsewhere") for pool in view.stale]
    for pool in view.pools:
        if pool.state == INCOMPLETE:
            notes.append(_incomplete(pool))
        elif pool.state == INVALID:
            notes.append(PoolNote(str(pool.id), INVALID, f"is invalid: {pool.reason}"))
        notes += [PoolNote(str(pool.id), REMARK, text) for text in _remarks(pool)]
    return tuple(notes)


def _incomplete(pool: PoolView) -> PoolNote:
    missing = pool.announced - pool.seen
    text = f"is incomplete: generation {pool.generation} has {pool.seen} of {pool.announced} slices"
    text += f", {missing} missing" if missing > 0 else ", more than its resourceSliceCount says"
    if pool.past:
        text += f"; {len(pool.past)} stale slices of older generations"
    present = sorted(entry.name for entry in pool.present)
    text += f"; there is {_some(present)}" if missing > 0 and present else ""
    before = max((entry.generation for entry in pool.past), default=0)
    gone = _devices(entry for entry in pool.past if entry.generation == before) - _devices(pool.present)
    if missing > 0 and gone:
        text += f", and not {_some(sorted(gone))}, which generation {before} had"
    return PoolNote(
        str(pool.id),
        INCOMPLETE,
        text,
        max(missing, 0),
        tuple(present),
        tuple(sorted(entry.name for entry in pool.past)),
        tuple(sorted(gone)),
    )


def _devices(entries: Iterable[SliceEntry]) -> set[str]:
    return {device.name for entry in entries for device in entry.view.spec.devices}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _remarks(pool: PoolView) -> list[str]:
    """What works by luck, or will fail as soon as a device is chosen."""
    remarks = []
    counts = sorted({entry.announced for entry in (*pool.slices, *pool.elsewhere, *pool.present)})
    if len(counts) > 1 and pool.state in (COMPLETE, INCOMPLETE):
        said = ", ".join(map(str, counts))
        remarks.append(f"disagrees with itself: its slices say resourceSliceCount {said}, and the first one decides")
    for entry in pool.slices:
        spec = entry.view.spec
        owners = [("", spec.node_selector)]
        if spec.per_device_node_selection:
            owners = [(f", device {device.name}", device.node_selector) for device in spec.devices]
        remarks += [
            f"slice {entry.name}{owner}: its node selector must have exactly one term, has "
            f"{len(selector.node_selector_terms)}; choosing it ends the attempt with an error"
            for owner, selector in owners
            if selector is not None and len(selector.node_selector_terms) > 1
        ]
    return remarks
