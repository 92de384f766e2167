"""Each gang: whether it is placed, could be, or holds devices while it waits, and which gang is in its way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from msgspec.structs import replace as view_with

from regauge.allocator import DeviceId
from regauge.base import Randomness
from regauge.model import Rules, Snapshot
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim
from regauge.scheduler.claims import reserved_for
from regauge.scheduler.gang_members import Gang, find_gangs
from regauge.scheduler.gang_search import DEFAULT_STEPS, GangPlaces, place_together
from regauge.scheduler.state import State
from regauge.scheduler.stored import as_stored

PLACED = "is placed"
IN_ORDER = "can be placed"
TOGETHER = "can be placed together only"
NOWHERE = "cannot be placed"
UNKNOWN = "not determined"
MOST_OTHERS = 16


@dataclass(frozen=True, slots=True)
class GangHolder:
    """A pod of a gang that is placed: since when (None: not noted), and the devices that it holds."""

    pod: str
    node: str
    since: str | None
    devices: tuple[DeviceId, ...]


@dataclass(frozen=True, slots=True)
class GangAnswer:
    """What is so for one gang. `state` is one of the words above.

    `places`: where the pods that wait would go. `holders`: its pods that are placed. `blocked_by`: gangs that hold
    devices and wait, too, and without which it could be placed.
    """

    gang: str
    least: int
    pods: int
    placed: int
    state: str
    why: str
    places: tuple[tuple[str, str], ...]
    holders: tuple[GangHolder, ...]
    blocked_by: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether it holds nodes and devices, and cannot run yet."""
        return 0 < self.placed < self.least

    @property
    def good(self) -> bool:
        return self.state in (PLACED, IN_ORDER) and not self.partial


def check_gangs(
    snapshot: Snapshot, rules: Rules, random: Randomness, steps: int = DEFAULT_STEPS
) -> tuple[GangAnswer, ...]:
    """All gangs, each as if it were the only one that waits. Raises `InputError` for an object that cannot be read."""
    gangs = find_gangs(snapshot)
    made = [one for gang in gangs for one in gang.made]
    stored = as_stored(Snapshot.of([*snapshot.all_documents(), *made]))
    state = State.of(stored, rules)
    for info in list(state.pods.values()):
        if info.pod.spec.scheduling_gates:
            state.put_pod(view_with(info.pod, spec=view_with(info.pod.spec, scheduling_gates=())))
    check = _Check(state, stored.claims, random, steps)
    answers = [check.answer(gang) for gang in gangs]
    waiting = [(gang, one) for gang, one in zip(gangs, answers, strict=True) if one.partial][:MOST_OTHERS]
    return tuple(check.with_blockers(gang, one, waiting) for gang, one in zip(gangs, answers, strict=True))


@dataclass(slots=True)
class _Check:
    state: State
    claims: Sequence[ResourceClaim]
    random: Randomness
    steps: int

    def answer(self, gang: Gang) -> GangAnswer:
        pods = self._pods(gang)
        placed = [one for one in pods if one.spec.node_name]
        holders = tuple(self._holder(one) for one in placed)
        counts = (gang.name, gang.least, len(pods), len(placed))
        if len(placed) >= gang.least:
            return GangAnswer(*counts, PLACED, "", (), holders)
        if len(pods) < gang.least:
            why = f"it has {len(pods)} of {gang.least} pods"
            return GangAnswer(*counts, NOWHERE, why, (), holders)
        found = self._search(gang)
        word = IN_ORDER if found.in_order else TOGETHER if found.fits else NOWHERE if found.complete else UNKNOWN
        why = found.why
        if word == TOGETHER:
            why = f"the scheduler does not go back on earlier choices: {why}"
        return GangAnswer(*counts, word, why, found.places, holders)

    def with_blockers(self, gang: Gang, answer: GangAnswer, waiting: Iterable[tuple[Gang, GangAnswer]]) -> GangAnswer:
        """The answer with the gangs that are in the way."""
        if answer.state != NOWHERE or answer.pods < answer.least:
            return answer
        found = []
        for other, _ in waiting:
            if other is not gang:
                with self._without(other):
                    if self._search(gang).fits:
                        found.append(other.name)
        return replace(answer, blocked_by=tuple(found))

    def _search(self, gang: Gang) -> GangPlaces:
        pods = self._pods(gang)
        placed = sum(bool(one.spec.node_name) for one in pods)
        left = [one for one in pods if not one.spec.node_name]
        return place_together(left, gang.least - placed, self.state, self.random, self.steps)

    def _pods(self, gang: Gang) -> list[Pod]:
        keys = (*gang.pods, *((one.namespace, one.name) for one in gang.made))
        return [self.state.pods[key].pod for key in keys if key in self.state.pods]

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        for claim in self.claims:
            if claim.status.allocation is not None and reserved_for(claim, pod):
                yield claim

    def _holder(self, pod: Pod) -> GangHolder:
        devices = [
            DeviceId(one.driver, one.pool, one.device)
            for claim in self._claims_of(pod)
            if claim.status.allocation is not None
            for one in claim.status.allocation.devices.results
        ]
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        return GangHolder(name, pod.spec.node_name, pod.status.start_time, tuple(devices))

    @contextmanager
    def _without(self, gang: Gang) -> Iterator[None]:
        """The cluster as if the placed pods of a gang had given everything back."""
        pods = [one for one in self._pods(gang) if one.spec.node_name]
        infos = [self.state.pods[one.metadata.namespace, one.metadata.name] for one in pods]
        claims = {
            claim.metadata.uid: claim
            for one in pods
            for claim in self._claims_of(one)
            if all(user.name in {item.metadata.name for item in pods} for user in claim.status.reserved_for)
        }
        for info in infos:
            self.state.lift(info)
        for uid in claims:
            self.state.devices.release(uid)
        try:
            yield
        finally:
            for claim in claims.values():
                if claim.status.allocation is not None:
                    self.state.devices.hold(claim, claim.status.allocation)
            for info in infos:
                self.state.lower(info)


__all__ = ["IN_ORDER", "NOWHERE", "PLACED", "TOGETHER", "UNKNOWN", "GangAnswer", "GangHolder", "check_gangs"]
