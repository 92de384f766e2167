"""Each gang: whether it is placed, could be, or holds devices while it waits, what is in its way, what frees it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from regauge.base import Randomness
from regauge.model import Rules, Snapshot
from regauge.scheduler.claims import pod_claims
from regauge.scheduler.gang_kinds import Gang, GangKind
from regauge.scheduler.gang_search import DEFAULT_STEPS, GangPlaces, demands
from regauge.scheduler.gang_topology import GangDomain
from regauge.scheduler.gang_waiting import Deadlock, deadlocks, in_the_way
from regauge.scheduler.gang_world import GangHolder, GangWorld
from regauge.scheduler.nodes import Key

PLACED = "is placed"
IN_ORDER = "can be placed"
BY_CHANCE = "may be placed, by chance"
TOGETHER = "can be placed together only"
NOWHERE = "cannot be placed"
UNKNOWN = "not determined"
MOST_OTHERS = 16
MOST_SINGLES = 32
MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class GangAnswer:
    """What is so for one gang. `state` is one of the words above; `kind` says who keeps it together.

    `done`: pods that ended well. `places`: where the pods that wait would go. `chance`: in how many of so many draws the
    scheduler places it. `holders`: its pods that are placed. `would_hold`: how many of its pods would get places, and
    devices with them, while the rest waits, if it started now; 0 where it is placed as a whole or not at all.
    `domains`, `conflict`: where it may go by its topology, and how that and its devices are in each other's way.
    `blocked_by`: gangs that hold devices and wait, too: one of them is enough to make room, or all of them if `jointly`.
    `freed_by`: pods of no gang, each of which is enough.
    """

    gang: str
    kind: GangKind
    least: int
    pods: int
    placed: int
    done: int
    state: str
    why: str = ""
    places: tuple[tuple[str, str], ...] = ()
    chance: tuple[int, int] = (0, 0)
    holders: tuple[GangHolder, ...] = ()
    would_hold: int = 0
    topology: str = ""
    domains: tuple[GangDomain, ...] = ()
    conflict: str = ""
    blocked_by: tuple[str, ...] = ()
    jointly: bool = False
    freed_by: tuple[str, ...] = ()
    advice: str = ""

    @property
    def partial(self) -> bool:
        """Whether it holds nodes and devices, and cannot run yet."""
        return bool(self.placed) and self.placed + self.done < self.least

    @property
    def good(self) -> bool:
        return self.state in (PLACED, IN_ORDER) and not self.partial

    @property
    def since(self) -> str | None:
        """When the first of its placed pods started, if that is noted."""
        return min((one.since for one in self.holders if one.since), default=None)

    @property
    def devices(self) -> int:
        """How many devices it holds."""
        return len({device for one in self.holders for device in one.devices})


@dataclass(frozen=True, slots=True)
class GangCheck:
    """All gangs, and groups of them that wait for each other for good."""

    gangs: tuple[GangAnswer, ...]
    deadlocks: tuple[Deadlock, ...]

    @property
    def good(self) -> bool:
        return all(one.good for one in self.gangs)


def check_gangs(snapshot: Snapshot, rules: Rules, random: Randomness, steps: int = DEFAULT_STEPS) -> GangCheck:
    """All gangs, each as if it were the only one that waits. Raises `InputError` for an object that cannot be read."""
    world = GangWorld.of(snapshot, rules, random, steps)
    answers = [answer(world, gang) for gang in world.gangs]
    waiting = [gang for gang, one in zip(world.gangs, answers, strict=True) if one.partial][:MOST_OTHERS]
    stuck = deadlocks(world, waiting)
    advice = {name: one for one in stuck for name in one.gangs}
    ways = _Ways(world, waiting)
    told = tuple(
        _with_advice(world, gang, ways.told(gang, one), advice.get(gang.name))
        for gang, one in zip(world.gangs, answers, strict=True)
    )
    return GangCheck(told, stuck)


def answer(world: GangWorld, gang: Gang) -> GangAnswer:
    """What is so for one gang, the others as they are."""
    pods, placed = world.pods(gang), world.placed(gang)
    told = GangAnswer(
        gang.name, gang.about, gang.least, len(pods), len(placed), gang.done, UNKNOWN, holders=world.holders(gang)
    )
    if not world.lacks(gang):
        return replace(told, state=PLACED)
    if gang.unsupported:
        return replace(told, why=gang.unsupported)
    if len(pods) + gang.done < gang.least:
        return replace(told, state=NOWHERE, why=f"it has {len(pods) + gang.done} of {gang.least} pods")
    found = world.place(gang)
    places = found.places
    state = word(places)
    alone = state != IN_ORDER and not gang.about.is_kept_together(world.state.rules)
    return replace(
        told,
        state=state,
        why=found.conflict or _why(state, places, _has_alternatives(world, gang)),
        places=places.places,
        chance=(places.lucky, places.drawn),
        would_hold=len(world.in_order(gang)[0]) if alone else 0,
        topology=str(gang.topology or ""),
        domains=found.domains,
        conflict=found.conflict,
    )


def word(found: GangPlaces) -> str:
    """The answer in a word."""
    if not found.fits:
        return NOWHERE if found.complete else UNKNOWN
    if found.in_order:
        return IN_ORDER
    return BY_CHANCE if found.lucky else TOGETHER


def _has_alternatives(world: GangWorld, gang: Gang) -> bool:
    """Whether a pod of it asks for alternatives, of which the scheduler takes the first that goes."""
    asked = (pod_claims(world.state, pod) for pod in world.pods(gang))
    return any(
        request.first_available
        for claims in asked
        if not isinstance(claims, str)
        for claim in claims
        for request in claim.spec.devices.requests
    )


def _why(state: str, found: GangPlaces, alternatives: bool) -> str:
    if state == TOGETHER:
        text = f"the scheduler does not go back on earlier choices: {found.why}"
        told = "; name the smaller alternative first, or use one claim for all of its pods"
        return text + told if alternatives else text
    if state == BY_CHANCE:
        return (
            f"in {found.lucky} of {found.drawn} draws of the order of its pods and of like nodes the scheduler finds places; "
            f"in the others: {found.why}"
        )
    return "" if state == IN_ORDER else found.why


# -- what is in the way


@dataclass(slots=True)
class _Ways:
    """What is in the way of gangs; of those that hold nothing and ask for the same it is worked out once."""

    world: GangWorld
    waiting: Sequence[Gang]
    known: dict[object, tuple[tuple[str, ...], bool, tuple[str, ...]]] = field(default_factory=dict)

    def told(self, gang: Gang, found: GangAnswer) -> GangAnswer:
        """The answer with the gangs and pods that are in the way."""
        if found.state != NOWHERE or found.pods + found.done < found.least:
            return found
        key: object = gang.name
        if not found.placed:
            key = (demands(self.world.pods(gang), self.world.state), self.world.lacks(gang), gang.topology)
        if key not in self.known:
            others = [one for one in self.waiting if one is not gang]
            gangs, jointly = in_the_way(self.world, gang, others)
            freed = () if gangs else tuple(_pods_in_the_way(self.world, gang))
            self.known[key] = gangs, jointly, freed
        gangs, jointly, freed = self.known[key]
        return replace(found, blocked_by=gangs, jointly=jointly, freed_by=freed)


def _pods_in_the_way(world: GangWorld, gang: Gang) -> Iterator[str]:
    """Pods of no gang that hold devices, each of which makes room by leaving."""
    members = {key for one in world.gangs for key in one.keys}
    told = 0
    for key in list(_holders_of_devices(world, members))[:MOST_SINGLES]:
        if told < MOST_TOLD:
            with world.without_pods([key]):
                enough = world.place(gang, quick=True).places.fits
            if enough:
                told += 1
                yield "/".join(key)


def _holders_of_devices(world: GangWorld, members: set[Key]) -> Iterable[Key]:
    for key, info in world.state.pods.items():
        if info.pod.spec.node_name and key not in members and world.claims_of(info.pod):
            yield key


def _with_advice(world: GangWorld, gang: Gang, found: GangAnswer, stuck: Deadlock | None) -> GangAnswer:
    """The answer with what to do, for one that holds and waits."""
    if not found.partial:
        return found
    if stuck is not None and stuck.advice:
        return replace(found, advice=stuck.advice)
    text = f"make room for {world.lacks(gang)} more of its pods"
    if found.freed_by:
        text += f", as by deleting pod {found.freed_by[0]}"
    elif found.state in (IN_ORDER, BY_CHANCE):
        text = f"there are places for {world.lacks(gang)} more of its pods: nothing has to be done"
        return replace(found, advice=text)
    return replace(found, advice=f"{text}; or let it give back what it holds: {gang.pause}")


__all__ = [
    "BY_CHANCE",
    "IN_ORDER",
    "NOWHERE",
    "PLACED",
    "TOGETHER",
    "UNKNOWN",
    "GangAnswer",
    "GangCheck",
    "answer",
    "check_gangs",
    "word",
]
