"""Can a gang be placed as a whole: a search that goes back on earlier choices, which upstream's does not. Pure.

Nodes and the order of unlike pods are tried out, devices being the allocator's choice for each pod in that order; then all
pods of a node at once, where the allocator goes back on devices, too. Pods with the same demands count as one kind, and what
was found to lead nowhere is not tried again.

The scheduler takes the pods of one priority in an order that is drawn once (kube-scheduler keeps them in a map until they
are tried first), and picks by chance among nodes of the same score. So its answer is asked for several draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from regauge.allocator import DeviceId
from regauge.base import Randomness
from regauge.model.core import Pod
from regauge.scheduler.claims import owned_by, pod_claims, shared_allocations, with_fresh_shares
from regauge.scheduler.cycle import Cycle, begin
from regauge.scheduler.gang_joint import Choice, Joint, give_back, is_plain, take
from regauge.scheduler.gang_orders import orders
from regauge.scheduler.placing import attempt_alone, held_by_itself
from regauge.scheduler.results import ClaimAllocation, Held, Refusal, Scheduled, SchedulerError
from regauge.scheduler.state import State

DEFAULT_STEPS = 4000

_Mark = tuple[tuple[tuple[int, str], ...], frozenset[DeviceId]]


@dataclass(frozen=True, slots=True)
class GangPlaces:
    """Where pods of a gang go together: (pod, node) pairs. `complete` False: the search was given up, so none is no answer.

    `drawn`: how many draws of chance were tried, `lucky`: in how many of them the scheduler finds places, pod by pod.
    `why`: how many fit, or the first refusal in order. `choices` are the places with all that is given there.
    """

    choices: tuple[Choice, ...]
    fits: bool
    lucky: int
    drawn: int
    complete: bool
    why: str = ""

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        return tuple((pod.metadata.name, outcome.node) for pod, outcome in self.choices)

    @property
    def in_order(self) -> bool:
        """Whether the scheduler finds places, whatever chance decides."""
        return self.fits and self.lucky == self.drawn


def place_together(
    pods: Sequence[Pod],
    needed: int,
    state: State,
    random: Randomness,
    steps: int = DEFAULT_STEPS,
    *,
    quick: bool = False,
) -> GangPlaces:
    """Places for at least `needed` of pods that wait. The state is as before when this returns.

    `quick`: the draws end with the first that goes well, so that they do not tell how likely that is.
    """
    if needed <= 0:
        return GangPlaces((), True, 0, 0, True)
    start = state.start
    try:
        return _placed(pods, needed, state, random, steps, quick)
    finally:
        state.start = start


def _placed(pods: Sequence[Pod], needed: int, state: State, random: Randomness, steps: int, quick: bool) -> GangPlaces:
    search = _Search(state, random, steps, _kinds(pods, state))
    most = search.most(needed)
    if most < needed:
        _, why = in_order(pods[:1], state, random)
        return GangPlaces((), False, 0, 1, True, f"at most {most} of {needed} fit{f': {why}' if why else ''}")
    lucky = drawn = 0
    best: list[Choice] = []
    first_why = ""
    for order in orders(pods, search.kinds, random):
        choices, why = in_order(order, state, random, search.refused, needed)
        drawn += 1
        if len(choices) >= needed:
            lucky, best = lucky + 1, best or choices
            if quick or (len(search.kinds) == 1 and lucky == drawn and not search.is_social):
                break  # like pods: the order says nothing, and each node takes its number whichever comes first
        first_why = first_why or (why if len(choices) < needed else "")
    if best:
        return GangPlaces(tuple(best), True, lucky, drawn, True, first_why)
    found = search.run(needed)
    complete = bool(found) or search.steps > 0
    if not found and not search.is_social:
        joint = Joint(state, random, steps, search.kinds)
        found = joint.run(tuple(search.takers), needed)
        complete = bool(found) or (complete and joint.steps > 0)
    return GangPlaces(found, bool(found), 0, drawn, complete, first_why)


def in_order(
    pods: Sequence[Pod],
    state: State,
    random: Randomness,
    refused: dict[int, dict[str, Refusal]] | None = None,
    needed: int = 0,
) -> tuple[list[Choice], str]:
    """As the scheduler does: one pod after the other, each on the best node for it alone. The state is as before afterwards.

    Ended early where fewer than `needed` can find places. `refused`: by pod (its identity), nodes that refuse it already.
    """
    taken: list[tuple[Pod, tuple[str, ...]]] = []
    choices: list[Choice] = []
    why, left = "", len(pods)
    mine = {} if refused is None else {key: dict(value) for key, value in _distinct(refused)}
    for pod in pods:
        if len(choices) + left < needed:
            break
        left -= 1
        waits = held_by_itself(pod, state)
        known = None if refused is None else mine.get(id(refused.get(id(pod))))
        outcome = waits if waits is not None else attempt_alone(pod, state, random, known)
        if isinstance(outcome, Scheduled):
            taken.append((pod, take(state, pod, outcome)))
            choices.append((pod, outcome))
        else:
            said = outcome.reason if isinstance(outcome, Held) else outcome.message
            why = why or f"pod {pod.metadata.name}: {said}"
    for pod, fresh in reversed(taken):
        give_back(state, pod, fresh)
    return choices, why


def _distinct(refused: dict[int, dict[str, Refusal]]) -> Iterable[tuple[int, dict[str, Refusal]]]:
    """Each of the shared dictionaries once, by its identity."""
    return {id(one): one for one in refused.values()}.items()


def demands(pods: Sequence[Pod], state: State) -> frozenset[tuple[bytes, int]]:
    """What pods ask for together: of two gangs with the same demands either finds the places of the other."""
    return frozenset((key, len(kind)) for key, kind in _by_demand(pods, state).items())


def _kinds(pods: Sequence[Pod], state: State) -> list[list[Pod]]:
    """Pods by what they ask for: those of one kind can take each other's places."""
    return list(_by_demand(pods, state).values())


def _by_demand(pods: Sequence[Pod], state: State) -> dict[bytes, list[Pod]]:
    found: dict[bytes, list[Pod]] = {}
    labels_count = state.befriended or any(_is_social(pod) for pod in pods)
    for pod in pods:
        if held_by_itself(pod, state) is not None:
            continue
        claims = pod_claims(state, pod)
        specs = [] if isinstance(claims, str) else [claim.spec for claim in claims]
        shared = [] if isinstance(claims, str) else [one.metadata.uid for one in claims if one.status.reserved_for]
        spec = replace(pod.spec, resource_claims=())
        found.setdefault(
            msgspec.json.encode([spec, specs, shared, pod.metadata.labels if labels_count else None]), []
        ).append(pod)
    return found


def _is_social(pod: Pod) -> bool:
    """Whether it matters to the pod which others are where."""
    return pod.spec.affinity is not None or bool(pod.spec.topology_spread_constraints)


def _may_share(state: State, pod: Pod) -> bool:
    """Whether a claim of the pod may be another pod's, too."""
    claims = pod_claims(state, pod)
    return (
        isinstance(claims, str)
        or any(entry.resource_claim_template_name is None for entry in pod.spec.resource_claims)
        or any(not owned_by(claim, pod) for claim in claims)
    )


@dataclass(slots=True)
class _Search:
    state: State
    random: Randomness
    steps: int
    kinds: list[list[Pod]]
    chosen: list[Choice] = field(default_factory=list)
    dead: set[_Mark] = field(default_factory=set)
    refused: dict[int, dict[str, Refusal]] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    takers: dict[str, None] = field(default_factory=dict)

    @property
    def is_social(self) -> bool:
        """Whether it matters which pods are where."""
        return any(_is_social(kind[0]) for kind in self.kinds)

    def most(self, enough: int) -> int:
        """How many fit at most, each kind as if it had the cluster to itself; no more than `enough` are counted."""
        most = 0
        for kind in self.kinds:
            if self.is_social:
                return enough
            takers = self._on(kind[0], self.state.nodes)
            self._keep_refusals(kind)
            self.takers |= dict.fromkeys(takers)
            own = 0
            plain = is_plain(self.state, kind[0])
            joint = Joint(self.state, self.random, self.steps, [kind])
            for node in takers:
                few = kind[: enough - own]
                own += self._most_on(few, node) if plain else joint.most_on(few, node)
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
            taken.append((pod, take(self.state, pod, outcome)))
        for pod, fresh in reversed(taken):
            give_back(self.state, pod, fresh)
        return len(taken)

    def _keep_refusals(self, kind: list[Pod]) -> None:
        """Remember which nodes refuse this kind. With a claim of several pods one of them may open a node for the next."""
        if not any(_may_share(self.state, pod) for pod in kind):
            for pod in kind:
                self.refused[id(pod)] = self.refusals

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
        fresh = take(self.state, pod, outcome)
        self.chosen.append((pod, outcome))
        try:
            return self.run(needed - 1)
        finally:
            self.chosen.pop()
            give_back(self.state, pod, fresh)

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
        self.refusals = {}
        for name in nodes:
            verdict = cycle.check(self.state.nodes[name])
            if isinstance(verdict, Refusal):
                self.refusals[name] = verdict
            elif not isinstance(verdict, SchedulerError):
                own = tuple(with_fresh_shares(item, self.random) for item in verdict.allocations)
                found[name] = Scheduled(
                    name, (name,), (name,), {}, own + _shared(cycle), (), verdict.extended, verdict.mapped
                )
        return found


def _shared(cycle: Cycle) -> tuple[ClaimAllocation, ...]:
    return tuple(shared_allocations(cycle.state, cycle.attempt.claims)) if cycle.attempt is not None else ()


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


__all__ = ["DEFAULT_STEPS", "Choice", "GangPlaces", "demands", "give_back", "in_order", "place_together", "take"]
