"""Can a gang be placed as a whole: a search that goes back on earlier choices, which upstream's does not. Pure.

Nodes and the order of unlike pods are tried out; devices on a node are the allocator's choice for each pod in that order.
Pods with the same demands count as one kind, and what was found to lead nowhere is not tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from regauge.allocator import DeviceId
from regauge.base import Randomness
from regauge.model.core import Pod
from regauge.scheduler.claims import pod_claims, shared_allocations, with_fresh_shares
from regauge.scheduler.cycle import Cycle, begin
from regauge.scheduler.placing import attempt_alone, held
from regauge.scheduler.results import ClaimAllocation, Held, Refusal, Scheduled, SchedulerError
from regauge.scheduler.state import State

DEFAULT_STEPS = 4000

Choice = tuple[Pod, Scheduled]
_Mark = tuple[tuple[tuple[int, str], ...], frozenset[DeviceId]]


@dataclass(frozen=True, slots=True)
class GangPlaces:
    """Where pods of a gang go together: (pod, node) pairs. `complete` False: the search was given up, so none is no answer.

    `in_order`: the scheduler finds it, pod by pod. `why`: how many fit, or the first refusal in order.
    """

    places: tuple[tuple[str, str], ...]
    fits: bool
    in_order: bool
    complete: bool
    why: str = ""


def place_together(
    pods: Sequence[Pod], needed: int, state: State, random: Randomness, steps: int = DEFAULT_STEPS
) -> GangPlaces:
    """Places for at least `needed` of pods that wait. The state is as before when this returns."""
    if needed <= 0:
        return GangPlaces((), True, True, True)
    search = _Search(state, random, steps, _kinds(pods, state))
    most = search.most(needed)
    if most < needed:
        _, why = _in_order(pods[:1], state, random)
        return GangPlaces((), False, False, True, f"at most {most} of {needed} fit{f': {why}' if why else ''}")
    greedy, why = _in_order(pods, state, random)
    if len(greedy) >= needed:
        return GangPlaces(_named(greedy), True, True, True)
    found = search.run(needed)
    complete = bool(found) or search.steps > 0
    return GangPlaces(_named(found), bool(found), False, complete, why)


def _named(choices: Iterable[Choice]) -> tuple[tuple[str, str], ...]:
    return tuple((pod.metadata.name, outcome.node) for pod, outcome in choices)


def _in_order(pods: Sequence[Pod], state: State, random: Randomness) -> tuple[list[Choice], str]:
    """As the scheduler does: one pod after the other, each on the best node for it alone."""
    taken: list[tuple[Pod, tuple[str, ...]]] = []
    choices: list[Choice] = []
    why = ""
    for pod in pods:
        waits = held(_alone(pod), state)
        outcome = waits if waits is not None else attempt_alone(pod, state, random)
        if isinstance(outcome, Scheduled):
            taken.append((pod, _take(state, pod, outcome)))
            choices.append((pod, outcome))
        else:
            said = outcome.reason if isinstance(outcome, Held) else outcome.message
            why = why or f"pod {pod.metadata.name}: {said}"
    for pod, fresh in reversed(taken):
        _give_back(state, pod, fresh)
    return choices, why


def _alone(pod: Pod) -> Pod:
    """The pod without its group: what holds it back besides that."""
    return replace(pod, spec=replace(pod.spec, scheduling_group=None))


def _take(state: State, pod: Pod, outcome: Scheduled) -> tuple[str, ...]:
    state.assume(state.info(pod), outcome)
    fresh = tuple(item.uid for item in outcome.allocations if item.uid not in state.pending)
    for item in outcome.allocations:
        state.pending.setdefault(item.uid, item.allocation)
    return fresh


def _give_back(state: State, pod: Pod, fresh: tuple[str, ...]) -> None:
    state.forget(pod, fresh)
    for uid in fresh:
        state.pending.pop(uid, None)


def _kinds(pods: Sequence[Pod], state: State) -> list[list[Pod]]:
    """Pods by what they ask for: those of one kind can take each other's places."""
    found: dict[bytes, list[Pod]] = {}
    labels_count = state.befriended or any(_is_social(pod) for pod in pods)
    for pod in pods:
        if held(_alone(pod), state) is not None:
            continue
        claims = pod_claims(state, pod)
        specs = [] if isinstance(claims, str) else [claim.spec for claim in claims]
        shared = [] if isinstance(claims, str) else [one.metadata.uid for one in claims if one.status.reserved_for]
        spec = replace(pod.spec, resource_claims=())
        found.setdefault(
            msgspec.json.encode([spec, specs, shared, pod.metadata.labels if labels_count else None]), []
        ).append(pod)
    return list(found.values())


def _is_social(pod: Pod) -> bool:
    """Whether it matters to the pod which others are where."""
    return pod.spec.affinity is not None or bool(pod.spec.topology_spread_constraints)


@dataclass(slots=True)
class _Search:
    state: State
    random: Randomness
    steps: int
    kinds: list[list[Pod]]
    chosen: list[Choice] = field(default_factory=list)
    dead: set[_Mark] = field(default_factory=set)

    def most(self, enough: int) -> int:
        """How many fit at most, each kind as if it had the cluster to itself; no more than `enough` are counted."""
        most = 0
        for kind in self.kinds:
            if _is_social(kind[0]):
                return enough
            takers = self._on(kind[0], self.state.nodes)
            own = 0
            for node in takers:
                own += self._most_on(kind[: enough - own], node)
                if own >= min(len(kind), enough):
                    break
            most += min(len(kind), own)
            if most >= enough:
                return enough
        return most

    def _most_on(self, kind: list[Pod], node: str) -> int:
        taken: list[tuple[Pod, tuple[str, ...]]] = []
        for pod in kind:
            outcome = self._on(pod, [node]).get(node)
            if outcome is None:
                break
            taken.append((pod, _take(self.state, pod, outcome)))
        for pod, fresh in reversed(taken):
            _give_back(self.state, pod, fresh)
        return len(taken)

    def run(self, needed: int) -> tuple[Choice, ...]:
        """Choices for so many pods, or none."""
        if needed == 0:
            return tuple(self.chosen)
        mark = self._mark()
        if mark in self.dead:
            return ()
        for index, kind in enumerate(self.kinds):
            pod = next((one for one in kind if not self.state.is_assumed(_key(one))), None)
            if pod is None:
                continue
            for outcome in self._on(pod, self.state.nodes).values():
                if self.steps <= 0:
                    return ()
                self.steps -= 1
                found = self._try(index, pod, outcome, needed)
                if found:
                    return found
        if self.steps > 0:
            self.dead.add(mark)
        return ()

    def _try(self, index: int, pod: Pod, outcome: Scheduled, needed: int) -> tuple[Choice, ...]:
        fresh = _take(self.state, pod, outcome)
        self.chosen.append((pod, outcome))
        try:
            return self.run(needed - 1)
        finally:
            self.chosen.pop()
            _give_back(self.state, pod, fresh)

    def _mark(self) -> _Mark:
        """What the rest of the search depends on: how many of which kind are where, and which devices are taken."""
        kind_of = {id(pod): index for index, kind in enumerate(self.kinds) for pod in kind}
        where = tuple(sorted((kind_of[id(pod)], outcome.node) for pod, outcome in self.chosen))
        devices = frozenset(
            DeviceId(one.driver, one.pool, one.device)
            for _, outcome in self.chosen
            for item in outcome.allocations
            for one in item.allocation.devices.results
        )
        return where, devices

    def _on(self, pod: Pod, nodes: Iterable[str]) -> dict[str, Scheduled]:
        """What would become of the pod on each node that takes it."""
        cycle = begin(self.state, self.state.info(pod))
        if isinstance(cycle, (Refusal, SchedulerError)):
            return {}
        found = {}
        for name in nodes:
            verdict = cycle.check(self.state.nodes[name])
            if not isinstance(verdict, (Refusal, SchedulerError)):
                own = tuple(with_fresh_shares(item, self.random) for item in verdict.allocations)
                found[name] = Scheduled(
                    name, (name,), (name,), {}, own + _shared(cycle), (), verdict.extended, verdict.mapped
                )
        return found


def _shared(cycle: Cycle) -> tuple[ClaimAllocation, ...]:
    return tuple(shared_allocations(cycle.state, cycle.attempt.claims)) if cycle.attempt is not None else ()


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


__all__ = ["DEFAULT_STEPS", "GangPlaces", "place_together"]
