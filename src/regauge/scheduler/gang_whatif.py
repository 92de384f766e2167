"""What a change would do to the gangs of a cluster: other orders and priorities, gangs that go, nodes and devices that come.

Pure. Every gang is told before and after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from regauge.base import InputError, Randomness, Where
from regauge.model import Document, Object, Rules, Snapshot
from regauge.model.kinds import POD, RESOURCE_CLAIM
from regauge.scheduler.changing import Change, changed
from regauge.scheduler.finding import near
from regauge.scheduler.gang_contest import Contest, contest, in_turn
from regauge.scheduler.gang_kinds import Gang
from regauge.scheduler.gang_search import DEFAULT_STEPS
from regauge.scheduler.gang_world import GangWorld
from regauge.scheduler.stored import as_stored
from regauge.scheduler.templates import controller, part


@dataclass(frozen=True, slots=True)
class GangChange:
    """What is to be tried: `first` go before all others in this order, `without` are taken away with what they hold."""

    first: tuple[str, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class GangWhatIf:
    """All gangs before and after. `order`: in which they come then."""

    before: Contest
    after: Contest
    notes: tuple[str, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """Gangs that are placed before and not after, though they are still there."""
        good = {one.gang for one in self.before.turns if one.good}
        return tuple(one.gang for one in self.after.turns if one.gang in good and not one.good)

    @property
    def gained(self) -> tuple[str, ...]:
        """Gangs that are placed after and not before."""
        good = {one.gang for one in self.before.turns if one.good}
        return tuple(one.gang for one in self.after.turns if one.good and one.gang not in good)


def gang_what_if(
    snapshot: Snapshot, rules: Rules, change: GangChange, random: Randomness, steps: int = DEFAULT_STEPS
) -> GangWhatIf:
    """The gangs before and after a change. Raises `InputError` for what cannot be read, and for names of nothing."""
    before = GangWorld.of(snapshot, rules, random, steps)
    if change == GangChange():
        same = contest(before, in_turn(before.gangs))
        return GangWhatIf(same, same, ())
    gone = [named(before.gangs, one) for one in change.without]
    left = _without(snapshot, gone)
    later = changed(as_stored(left), change.changes)
    after = GangWorld.of(later.snapshot, rules, random, steps)
    priorities = {named(after.gangs, name).name: value for name, value in change.priorities.items()}
    names = {one.name for one in gone}
    after.gangs = tuple(
        replace(one, priority=priorities.get(one.name, one.priority)) for one in after.gangs if one.name not in names
    )
    first = [named(after.gangs, one) for one in change.first]
    order = [*first, *(one for one in in_turn(after.gangs) if one not in first)]
    return GangWhatIf(contest(before, in_turn(before.gangs)), contest(after, order), later.notes)


def named(gangs: Sequence[Gang], name: str) -> Gang:
    """The gang that a user names: as it is told, or NAMESPACE/NAME, or NAME where there is one such."""
    found = [one for one in gangs if one.name == name]
    found = found or [one for one in gangs if name in (f"{one.namespace}/{one.own}", one.own)]
    found = found or [one for one in gangs if name and one.name.endswith(f" {name}")]
    if len(found) == 1:
        return found[0]
    if found:
        names = "; ".join(one.name for one in found)
        raise InputError("is the name of several gangs", where=Where(object=name), fix=f"write one of: {names}")
    known = [one.name for one in gangs]
    raise InputError("is no gang", where=Where(object=name), fix=near(name, known, "gangs"))


def _without(snapshot: Snapshot, gangs: Sequence[Gang]) -> Snapshot:
    """The snapshot without the pods of gangs, and without the claims that only those have."""
    pods = {key for gang in gangs for key in gang.pods}
    uids = {
        part(one.object, "metadata").get("uid") for one in snapshot.documents(POD) if (one.namespace, one.name) in pods
    }
    kept = []
    for document in snapshot.all_documents():
        if document.known == POD and (document.namespace, document.name) in pods:
            continue
        if document.known == RESOURCE_CLAIM:
            new = _released(document, uids)
            if new is not None:
                kept.append(new)
            continue
        kept.append(document)
    return Snapshot.of(kept) if gangs else snapshot


def _released(claim: Document, uids: set[object]) -> Document | None:
    """A claim without users that are gone; None for one that was made for such a user."""
    owner = controller(claim.object)
    if owner is not None and owner.get("uid") in uids:
        return None
    status = part(claim.object, "status")
    users = status.get("reservedFor") or []
    left = [one for one in users if one.get("uid") not in uids]
    if len(left) == len(users):
        return claim
    new: Object = {**status, "reservedFor": left} if left else {}
    return Document({**claim.object, "status": new}, claim.where)


__all__ = ["GangChange", "GangWhatIf", "gang_what_if"]
