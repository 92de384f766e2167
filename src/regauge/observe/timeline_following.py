"""What is seen of a claim while it is followed: the steps between two looks at it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.model.resource import ResourceClaim
from regauge.observe.timeline_parts import CLAIM, Certainty, Moment, Step


def seen_between(before: ResourceClaim | None, after: ResourceClaim | None, at_s: float) -> Iterator[Moment]:
    """The steps that lead from one look to the next, which was at `at_s`. None: there is no such claim."""
    if before is None or after is None:
        if before is not None:
            yield _seen(at_s, Step.gone, "gone")
        return
    old, new = before.status, after.status
    if old.allocation is None and new.allocation is not None:
        devices = ", ".join(f"{one.pool}/{one.device}" for one in new.allocation.devices.results) or "no devices"
        yield _seen(at_s, Step.allocated, f"allocated {devices}")
    was = {one.uid: one for one in old.reserved_for}
    now = {one.uid: one for one in new.reserved_for}
    for uid, one in now.items():
        if uid not in was:
            yield _seen(at_s, Step.reserved, f"reserved for {_who(one.resource)} {one.name}")
    for uid, one in was.items():
        if uid not in now:
            yield _seen(at_s, Step.unreserved, f"no longer reserved for {_who(one.resource)} {one.name}")
    if old.allocation is not None and new.allocation is None:
        yield _seen(at_s, Step.released, "released: its devices are free")


def _who(resource: str) -> str:
    return "pod" if resource == "pods" else resource


def _seen(at_s: float, step: Step, text: str) -> Moment:
    return Moment(at_s, step, CLAIM, text, "seen while following", Certainty.seen)
