"""A cluster with its gangs, for trying out: what each holds, where it would go, and what is so without one of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace as view_with

from regauge.allocator import DeviceId
from regauge.base import Randomness
from regauge.model import Rules, Snapshot
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim
from regauge.scheduler.gang_claims import with_group_claims
from regauge.scheduler.gang_kinds import Gang, TopologyWish
from regauge.scheduler.gang_members import find_gangs
from regauge.scheduler.gang_search import DEFAULT_STEPS, Choice, GangPlaces, give_back, in_order, place_together, take
from regauge.scheduler.gang_topology import Asked, InTopology, most_in_order, place_in_topology
from regauge.scheduler.nodes import Key
from regauge.scheduler.state import State, group_key
from regauge.scheduler.stored import as_stored


@dataclass(frozen=True, slots=True)
class GangHolder:
    """A pod of a gang that is placed: since when (None: not noted), and the devices that it holds.

    It holds them from the time that its first claim was allocated, or it was placed, or it started; whatever is noted.
    """

    pod: str
    node: str
    since: str | None
    devices: tuple[DeviceId, ...]


@dataclass
class GangWorld:
    """All gangs, and the state that they are tried in. Scheduling gates are taken away: what happens once they are gone.

    `held`: what gangs took while something is tried out, in the order in which they took it.
    """

    gangs: tuple[Gang, ...]
    state: State
    claims: Sequence[ResourceClaim]
    random: Randomness
    steps: int = DEFAULT_STEPS
    held: dict[str, list[tuple[Choice, tuple[str, ...]]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        rules: Rules,
        random: Randomness,
        steps: int = DEFAULT_STEPS,
        known: Sequence[Gang] | None = None,
    ) -> GangWorld:
        """The world of a snapshot, of its gangs or of `known` ones. Raises `InputError` for an object that cannot be read."""
        gangs = find_gangs(snapshot) if known is None else tuple(known)
        made = [one for gang in gangs for one in gang.made]
        whole = Snapshot.of([*snapshot.all_documents(), *made])
        stored = as_stored(with_group_claims(whole, rules))
        state = State.of(stored, rules)
        for info in list(state.pods.values()):
            if info.pod.spec.scheduling_gates:
                state.put_pod(view_with(info.pod, spec=view_with(info.pod.spec, scheduling_gates=())))
        return cls(gangs, state, stored.claims, random, steps)

    # -- who is where

    def pods(self, gang: Gang) -> list[Pod]:
        """Its pods as they are now."""
        return [self.state.pods[key].pod for key in gang.keys if key in self.state.pods]

    def placed(self, gang: Gang) -> list[Pod]:
        return [one for one in self.pods(gang) if one.spec.node_name]

    def lacks(self, gang: Gang) -> int:
        """How many more of its pods have to be placed."""
        return max(gang.least - gang.done - len(self.placed(gang)), 0)

    def is_partial(self, gang: Gang) -> bool:
        """Whether it holds nodes and devices, and cannot run yet."""
        return bool(self.placed(gang)) and self.lacks(gang) > 0

    @cached_property
    def _by_user(self) -> dict[str, list[ResourceClaim]]:
        found: dict[str, list[ResourceClaim]] = {}
        for claim in self.claims:
            if claim.status.allocation is not None:
                for user in claim.status.reserved_for:
                    key = user.uid if user.resource == "pods" else f"{claim.metadata.namespace}/{user.name}"
                    found.setdefault(key, []).append(claim)
        return found

    def claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """The claims with devices that a pod has, by itself or through its group."""
        group = group_key(pod)
        return [
            *self._by_user.get(pod.metadata.uid, ()),
            *(self._by_user.get("/".join(group), ()) if group is not None else ()),
        ]

    def holders(self, gang: Gang) -> tuple[GangHolder, ...]:
        """Its pods that are placed, in the cluster itself."""
        return tuple(self.holder(one) for one in self.placed(gang))

    def holder(self, pod: Pod) -> GangHolder:
        """What a placed pod holds."""
        devices: dict[DeviceId, None] = {}
        placed = [one.last_transition_time for one in pod.status.conditions if one.type == "PodScheduled"]
        times = [pod.status.start_time, *placed]
        for claim in self.claims_of(pod):
            assert claim.status.allocation is not None
            times.append(claim.status.allocation.allocation_timestamp)
            for one in claim.status.allocation.devices.results:
                devices[DeviceId(one.driver, one.pool, one.device)] = None
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        return GangHolder(name, pod.spec.node_name, min(filter(None, times), default=None), tuple(devices))

    # -- where it would go

    def place(self, gang: Gang, *, quick: bool = False) -> InTopology:
        """Places for as many of its pods as it lacks. `quick`: one draw that goes well is enough."""
        pods = self.pods(gang)
        waiting = [one for one in pods if not one.spec.node_name]
        wish = self._wish(gang)
        if wish is None:
            found = place_together(waiting, self.lacks(gang), self.state, self.random, self.steps, quick=quick)
            return InTopology(found, (), "")
        asked = Asked(waiting, self.placed(gang), self.lacks(gang), self.steps, quick)
        return place_in_topology(asked, wish, self.state, self.random)

    def _wish(self, gang: Gang) -> TopologyWish | None:
        """Its topology, if somebody heeds it: for pod groups of Kubernetes that takes a gate."""
        heeded = gang.about.gate == "" or self.state.rules.on("TopologyAwareWorkloadScheduling")
        return gang.topology if heeded else None

    def in_order(self, gang: Gang) -> tuple[list[Choice], str]:
        """The places that its pods would get one by one, enough of them or not, in one domain if it has to be one."""
        waiting = [one for one in self.pods(gang) if not one.spec.node_name]
        start = self.state.start
        wish = self._wish(gang)
        try:
            if wish is not None and wish.required:
                asked = Asked(waiting, self.placed(gang), self.lacks(gang), self.steps)
                return most_in_order(asked, wish, self.state, self.random), ""
            return in_order(waiting, self.state, self.random)
        finally:
            self.state.start = start

    # -- trying out

    def hold(self, gang: Gang, choices: Sequence[Choice]) -> None:
        """The cluster as if these pods of a gang were placed; `clear` undoes it."""
        for pod, outcome in choices:
            fresh = take(self.state, pod, outcome)
            self.held.setdefault(gang.name, []).append(((pod, outcome), fresh))

    def clear(self) -> None:
        """Give back everything that was held for trying out."""
        for taken in self.held.values():
            for (pod, _), fresh in reversed(taken):
                give_back(self.state, pod, fresh)
        self.held.clear()

    @contextmanager
    def without(self, gang: Gang) -> Iterator[None]:
        """The cluster as if the placed pods of a gang had given everything back."""
        tried = self.held.pop(gang.name, [])
        for (pod, _), fresh in reversed(tried):
            give_back(self.state, pod, fresh)
        try:
            with self.without_pods([(one.metadata.namespace, one.metadata.name) for one in self.placed(gang)]):
                yield
        finally:
            self.hold(gang, [choice for choice, _ in tried])

    @contextmanager
    def without_pods(self, keys: Sequence[Key]) -> Iterator[None]:
        """The cluster as if some placed pods were gone, with what nobody else uses of their claims."""
        infos = [self.state.pods[key] for key in keys]
        uids = {info.pod.metadata.uid for info in infos}
        claims = {
            claim.metadata.uid: claim
            for info in infos
            for claim in self.claims_of(info.pod)
            if all(user.uid in uids or user.resource != "pods" for user in claim.status.reserved_for)
        }
        waiting = [view_with(info.pod, spec=view_with(info.pod.spec, node_name="")) for info in infos]
        released = {
            uid: view_with(claim, status=view_with(claim.status, allocation=None, reserved_for=()))
            for uid, claim in claims.items()
        }
        for claim in released.values():
            self.state.put_claim(claim)
        for pod in waiting:
            self.state.put_pod(pod)
        try:
            yield
        finally:
            for uid in released:
                self.state.put_claim(claims[uid])
            for info in infos:
                self.state.put_pod(info.pod)


def scheduler_places(found: GangPlaces) -> bool:
    """Whether the scheduler itself finds places, in some draw of chance at least."""
    return found.fits and (found.lucky > 0 or found.drawn == 0)


__all__ = ["GangHolder", "GangWorld", "scheduler_places"]
