"""Gangs that hold devices and wait: who is in whose way, which wait for each other for good, which one to pause. Pure.

Whoever can be placed is taken to run, to end, and to give everything back; those that still cannot be placed after that, and
could if the others gave back what they hold, are in a deadlock. A pause is only recommended after it was tried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from regauge.scheduler.gang_kinds import Gang
from regauge.scheduler.gang_world import GangWorld, scheduler_places

MOST_PAUSES = 8


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Gangs none of which can run before another one gives back what it holds.

    `circle`: some of them, each waiting for the next and the last for the first; () where one waits for several at once.
    `pause`: the gang that should give back what it holds, "" where no single one is enough; `advice`: how, in words.
    `goes`: those that are placed then, in their order, the paused one last if it comes to that.
    """

    gangs: tuple[str, ...]
    circle: tuple[str, ...]
    pause: str
    advice: str
    goes: tuple[str, ...]


def in_the_way(world: GangWorld, gang: Gang, others: Sequence[Gang]) -> tuple[tuple[str, ...], bool]:
    """The gangs without which it could be placed: each of them is enough, or (True) all of them are needed."""
    single = []
    for other in others:
        with world.without(other):
            if world.place(gang, quick=True).places.fits:
                single.append(other.name)
    if single or len(others) < 2:
        return tuple(single), False
    if not _fits_without(world, gang, others):
        return (), False
    needed = list(others)
    for other in others:
        fewer = [one for one in needed if one is not other]
        if _fits_without(world, gang, fewer):
            needed = fewer
    return tuple(one.name for one in needed), True


def _fits_without(world: GangWorld, gang: Gang, others: Sequence[Gang]) -> bool:
    with ExitStack() as gone:
        for other in others:
            gone.enter_context(world.without(other))
        return world.place(gang, quick=True).places.fits


def run_out(world: GangWorld, gangs: Sequence[Gang]) -> tuple[tuple[Gang, ...], tuple[Gang, ...]]:
    """Those that run and end one after the other, each giving back what it held, and those that never can."""
    left, done = list(gangs), []
    with ExitStack() as gone:
        moved = True
        while moved:
            moved = False
            for gang in list(left):
                if scheduler_places(world.place(gang, quick=True).places):
                    gone.enter_context(world.without(gang))
                    left.remove(gang)
                    done.append(gang)
                    moved = True
    return tuple(done), tuple(left)


def deadlocks(world: GangWorld, partial: Sequence[Gang]) -> tuple[Deadlock, ...]:
    """The deadlocks among gangs that hold and wait."""
    done, left = run_out(world, partial)
    with ExitStack() as gone:
        for gang in done:
            gone.enter_context(world.without(gang))
        edges = {gang.name: in_the_way(world, gang, [one for one in left if one is not gang]) for gang in left}
        found = []
        by_name = {gang.name: gang for gang in left}
        for names in _groups(edges):
            members = [by_name[name] for name in names]
            found.append(_deadlock(world, members, edges))
    return tuple(found)


def _groups(edges: Mapping[str, tuple[tuple[str, ...], bool]]) -> list[list[str]]:
    """Gangs that wait for each other, directly or through others."""
    reach = {name: _reachable(name, edges) for name in edges}
    found: list[list[str]] = []
    told: set[str] = set()
    for name in edges:
        if name not in told:
            group = [one for one in edges if one in reach[name] and name in reach[one]]
            told |= {name, *group}
            if len(group) > 1:
                found.append(group)
    return found


def _reachable(start: str, edges: Mapping[str, tuple[tuple[str, ...], bool]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in edges.get(waiting.pop(), ((), False))[0]:
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def _deadlock(world: GangWorld, members: Sequence[Gang], edges: Mapping[str, tuple[tuple[str, ...], bool]]) -> Deadlock:
    names = tuple(one.name for one in members)
    pause, goes = _best_pause(world, members)
    advice = ""
    if pause is not None:
        others = [name for name in goes if name != pause.name]
        last = f", and {pause.name} once they have ended" if goes[-1] == pause.name else ""
        advice = (
            f"let {pause.name} give back what it holds: {pause.pause}; then {', '.join(others)} can be placed{last}"
        )
    return Deadlock(names, _circle(names, edges), pause.name if pause else "", advice, goes)


def _circle(names: Sequence[str], edges: Mapping[str, tuple[tuple[str, ...], bool]]) -> tuple[str, ...]:
    """A shortest way from the first back to itself."""
    ways: list[tuple[str, ...]] = [(names[0],)]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for name in edges[way[-1]][0]:
            if name == names[0]:
                return way
            if name in names and name not in seen:
                seen.add(name)
                ways.append((*way, name))
    return ()


def _best_pause(world: GangWorld, members: Sequence[Gang]) -> tuple[Gang | None, tuple[str, ...]]:
    """The gang whose pause lets most others run, of those the one that loses the fewest devices."""
    best: tuple[int, int, str] | None = None
    chosen: Gang | None = None
    order: tuple[str, ...] = ()
    for gang in members[:MOST_PAUSES]:
        with world.without(gang):
            done, _ = run_out(world, [one for one in members if one is not gang])
            with ExitStack() as gone:
                for one in done:
                    gone.enter_context(world.without(one))
                after = (gang.name,) if scheduler_places(world.place(gang, quick=True).places) else ()
        if not done:
            continue
        lost = sum(len(world.holder(pod).devices) for pod in world.placed(gang))
        rank = (-len(done), lost, gang.name)
        if best is None or rank < best:
            best, chosen, order = rank, gang, (*(one.name for one in done), *after)
    return chosen, order


__all__ = ["Deadlock", "deadlocks", "in_the_way", "run_out"]
