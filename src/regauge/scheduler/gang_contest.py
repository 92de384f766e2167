"""Gangs that compete: one after the other, all pods at the same time, in every order; who takes what others need.

As the scheduler goes: a gang that is kept together takes places for enough of its pods or none; of any other the pods that
have places keep them, and it waits with them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations

from regauge.scheduler.gang_checking import MOST_OTHERS, PLACED, UNKNOWN, word
from regauge.scheduler.gang_kinds import Gang
from regauge.scheduler.gang_search import Choice, demands
from regauge.scheduler.gang_waiting import Deadlock, deadlocks
from regauge.scheduler.gang_world import GangWorld, scheduler_places
from regauge.scheduler.placing import attempt_alone, held
from regauge.scheduler.results import Held, Scheduled

GETS = "is placed then"
HOLDS = "holds and waits"
WAITS = "waits"
MOST_GANGS = 4
MOST_PAIRS = 8


@dataclass(frozen=True, slots=True)
class Turn:
    """What becomes of one gang in its turn: one of the words above, or that it is placed already or not determined.

    `placed` of `least` pods have places then, with so many `devices`.
    """

    gang: str
    outcome: str
    why: str
    placed: int
    least: int
    devices: int
    places: tuple[tuple[str, str], ...]

    @property
    def good(self) -> bool:
        return self.outcome in (PLACED, GETS)


@dataclass(frozen=True, slots=True)
class Contention:
    """`taker` can be placed, and after it `loser`, which could be placed before, can not."""

    taker: str
    loser: str


@dataclass(frozen=True, slots=True)
class Contest:
    """What becomes of all gangs.

    `turns`: one after the other, in the order that is given. `at_once`: if their pods come at the same time, one pod of
    each in turn. `deadlocks`, `at_once_deadlocks`: those that wait for each other for good after either; `best`: an order
    of those that have places at all in which the most are placed, with how many; `orders`: how many orders were tried.
    """

    turns: tuple[Turn, ...]
    at_once: tuple[Turn, ...]
    deadlocks: tuple[Deadlock, ...]
    at_once_deadlocks: tuple[Deadlock, ...]
    contention: tuple[Contention, ...]
    best: tuple[str, ...]
    best_count: int
    orders: int

    @property
    def count(self) -> int:
        """How many gangs are placed in the given order."""
        return sum(one.good for one in self.turns)


def in_turn(gangs: Iterable[Gang]) -> list[Gang]:
    """Gangs in the order in which they come: by priority, those with pods first, by age, by name."""
    return sorted(gangs, key=lambda one: (-(one.priority or 0), not one.pods, one.created or "~", one.name))


def contest(world: GangWorld, order: Sequence[Gang]) -> Contest:
    """What becomes of gangs in an order. The world is as before when this returns."""
    waiting = [one for one in order if world.lacks(one) and not one.unsupported]
    with _tried(world):
        turns = tuple(_turn(world, gang) for gang in order)
        stuck = deadlocks(world, [one for one in waiting if world.is_partial(one)][:MOST_OTHERS])
    with _tried(world):
        at_once = _at_once(world, order)
        at_once_stuck = deadlocks(world, [one for one in waiting if world.is_partial(one)][:MOST_OTHERS])
    able = _able(world, waiting)
    best, count, tried = _best(world, able)
    gained = sum(one.outcome == GETS for one in turns)
    if count <= gained:
        best, count = tuple(one.name for one in able), gained
    return Contest(
        turns,
        at_once,
        stuck,
        at_once_stuck,
        tuple(_contention(world, able[:MOST_PAIRS])),
        best,
        count + sum(one.outcome == PLACED for one in turns),
        tried,
    )


@contextmanager
def _tried(world: GangWorld) -> Iterator[None]:
    """Whatever is held inside is given back at the end."""
    start = world.state.start
    try:
        yield
    finally:
        world.clear()
        world.state.start = start


def _turn(world: GangWorld, gang: Gang) -> Turn:
    """One gang in its turn; it keeps what it gets."""
    if not world.lacks(gang):
        return _told(world, gang, PLACED, "")
    if gang.unsupported:
        return _told(world, gang, UNKNOWN, gang.unsupported)
    found = world.place(gang)
    if scheduler_places(found.places):
        world.hold(gang, found.places.choices)
        return _told(world, gang, GETS, "", found.places.places)
    why = found.conflict or f"{word(found.places)}: {found.places.why}"
    if not gang.about.is_kept_together(world.state.rules):
        choices, _ = world.in_order(gang)
        world.hold(gang, choices)
        return _told(world, gang, HOLDS if world.placed(gang) else WAITS, why, _named(choices))
    return _told(world, gang, HOLDS if world.placed(gang) else WAITS, why)


def _named(choices: Iterable[Choice]) -> tuple[tuple[str, str], ...]:
    return tuple((pod.metadata.name, outcome.node) for pod, outcome in choices)


def _told(world: GangWorld, gang: Gang, outcome: str, why: str, places: tuple[tuple[str, str], ...] = ()) -> Turn:
    tried = sum(
        len(item.allocation.devices.results)
        for (_, chosen), _ in world.held.get(gang.name, ())
        for item in chosen.allocations
    )
    devices = tried + sum(len(world.holder(pod).devices) for pod in world.placed(gang))
    return Turn(gang.name, outcome, why, len(world.placed(gang)) + gang.done, gang.least, devices, places)


def _at_once(world: GangWorld, order: Sequence[Gang]) -> tuple[Turn, ...]:
    """One pod of each gang after the other; gangs that are kept together go as a whole when their first pod comes."""
    early = {}
    for gang in order:
        if gang.about.is_kept_together(world.state.rules) or gang.topology is not None or gang.unsupported:
            early[gang.name] = _turn(world, gang)
    loose = [one for one in order if one.name not in early and world.lacks(one)]
    waiting = {one.name: [pod for pod in world.pods(one) if not pod.spec.node_name] for one in loose}
    whys: dict[str, str] = {}
    while any(waiting.values()):
        for gang in loose:
            if waiting[gang.name]:
                pod = waiting[gang.name].pop(0)
                outcome = held(pod, world.state) or attempt_alone(pod, world.state, world.random)
                if isinstance(outcome, Scheduled):
                    world.hold(gang, [(pod, outcome)])
                elif gang.name not in whys:
                    said = outcome.reason if isinstance(outcome, Held) else outcome.message
                    whys[gang.name] = f"pod {pod.metadata.name}: {said}"
    return tuple(early.get(one.name) or _afterwards(world, one, whys.get(one.name, "")) for one in order)


def _afterwards(world: GangWorld, gang: Gang, why: str) -> Turn:
    tried = _named(choice for choice, _ in world.held.get(gang.name, ()))
    if not world.lacks(gang):
        return _told(world, gang, GETS if tried else PLACED, "", tried)
    return _told(world, gang, HOLDS if world.placed(gang) else WAITS, why, tried)


def _able(world: GangWorld, waiting: Sequence[Gang]) -> list[Gang]:
    """Those that would be placed if they came first: no other order helps the rest, as others only take away."""
    known: dict[object, bool] = {}
    found = []
    for gang in waiting:
        key: object = gang.name
        if not world.placed(gang):
            key = (demands(world.pods(gang), world.state), world.lacks(gang), gang.topology)
        if key not in known:
            known[key] = scheduler_places(world.place(gang, quick=True).places)
        if known[key]:
            found.append(gang)
    return found


def _best(world: GangWorld, able: Sequence[Gang]) -> tuple[tuple[str, ...], int, int]:
    """An order in which the most gangs are placed: of all orders of a few, of each one first among many."""
    best: tuple[str, ...] = ()
    count, tried = -1, 0
    for order in _orders(able):
        tried += 1
        with _tried(world):
            placed = sum(_turn(world, gang).outcome == GETS for gang in order)
        if placed > count:
            best, count = tuple(one.name for one in order), placed
        if placed == len(able):
            break
    return best, max(count, 0), tried


def _orders(waiting: Sequence[Gang]) -> Iterable[Sequence[Gang]]:
    if len(waiting) <= MOST_GANGS:
        return permutations(waiting)
    firsts = waiting[: MOST_PAIRS * 2]
    return ([first, *(one for one in waiting if one is not first)] for first in firsts)


def _contention(world: GangWorld, able: Sequence[Gang]) -> Iterable[Contention]:
    """Pairs of gangs of which either could be placed, but not one after the other."""
    for taker in able:
        alone = world.place(taker, quick=True).places
        with _tried(world):
            world.hold(taker, alone.choices)
            for loser in able:
                if loser is not taker and not scheduler_places(world.place(loser, quick=True).places):
                    yield Contention(taker.name, loser.name)


__all__ = ["Contention", "Contest", "Turn", "contest", "in_turn"]
