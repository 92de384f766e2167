"""All pods of a gang that go to one node at once, as if they were one pod: devices are gone back on, too. Pure.

The allocator goes back on every choice for the claims of one pod, never on those of another pod. Asked for the claims of
several pods together it finds what they could have had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from msgspec.structs import replace

from regauge.base import Randomness
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim
from regauge.scheduler.claims import pod_claims, with_fresh_shares
from regauge.scheduler.cycle import begin
from regauge.scheduler.results import ClaimAllocation, Refusal, Scheduled, SchedulerError
from regauge.scheduler.state import State

Choice = tuple[Pod, Scheduled]
Taken = list[tuple[Pod, tuple[str, ...]]]


def take(state: State, pod: Pod, outcome: Scheduled) -> tuple[str, ...]:
    """Count a pod and its devices as placed. Returns what `give_back` needs."""
    state.assume(state.info(pod), outcome)
    fresh = tuple(item.uid for item in outcome.allocations if item.uid not in state.pending)
    for item in outcome.allocations:
        state.pending.setdefault(item.uid, item.allocation)
    return fresh


def give_back(state: State, pod: Pod, fresh: tuple[str, ...]) -> None:
    """Undo `take`; the latest first."""
    state.forget(pod, fresh)
    for uid in fresh:
        state.pending.pop(uid, None)


def is_plain(state: State, pod: Pod) -> bool:
    """Whether the devices that one such pod takes leave as many like it as any others would: none of them is special."""
    claims = pod_claims(state, pod)
    if isinstance(claims, str) or any(entry.resource_claim_template_name is None for entry in pod.spec.resource_claims):
        return False
    if any(claim.spec.devices.constraints for claim in claims):
        return False
    requests = [one for claim in claims for one in claim.spec.devices.requests]
    # Several requests may want different ones of the same devices; parts of a device get in each other's way.
    return len(requests) <= 1 and all(one.exactly is not None for one in requests) and not state.devices.has_parts


@dataclass(slots=True)
class Joint:
    """A search over nodes: how many pods of which kind go to each, all of a node at once. `steps` bounds it."""

    state: State
    random: Randomness
    steps: int
    kinds: Sequence[Sequence[Pod]]
    chosen: list[Choice] = field(default_factory=list)

    def run(self, nodes: Sequence[str], needed: int) -> tuple[Choice, ...]:
        """Choices for so many pods on these nodes, or none. Nothing is held afterwards."""
        return self._go_on(nodes, [len(kind) for kind in self.kinds], needed)

    def most_on(self, kind: Sequence[Pod], node: str) -> int:
        """How many pods of one kind fit on a node together; doubled until it does not go, then halved."""
        low, high = 0, 1
        while high <= len(kind) and self._fits(kind[:high], node):
            low, high = high, high * 2
        high = min(high, len(kind) + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(kind[:middle], node) else (low, middle)
        return low

    def _fits(self, pods: Sequence[Pod], node: str) -> bool:
        taken: Taken = []
        try:
            return self._take_all(pods, node, taken) is not None
        finally:
            self._undo(taken)

    def _go_on(self, nodes: Sequence[str], left: list[int], needed: int) -> tuple[Choice, ...]:
        if needed <= 0:
            return tuple(self.chosen)
        if not nodes:
            return ()
        for counts in _vectors(left, needed):
            if self.steps <= 0:
                return ()
            self.steps -= 1
            found = self._try(nodes, left, counts, needed)
            if found:
                return found
        return ()

    def _try(self, nodes: Sequence[str], left: list[int], counts: tuple[int, ...], needed: int) -> tuple[Choice, ...]:
        pods = [
            pod
            for kind, count, rest in zip(self.kinds, counts, left, strict=True)
            for pod in kind[len(kind) - rest : len(kind) - rest + count]
        ]
        taken: Taken = []
        before = len(self.chosen)
        try:
            choices = self._take_all(pods, nodes[0], taken)
            if choices is None:
                return ()
            self.chosen += choices
            after = [rest - count for rest, count in zip(left, counts, strict=True)]
            return self._go_on(nodes[1:], after, needed - len(pods))
        finally:
            del self.chosen[before:]
            self._undo(taken)

    def _undo(self, taken: Taken) -> None:
        for pod, fresh in reversed(taken):
            give_back(self.state, pod, fresh)

    def _take_all(self, pods: Sequence[Pod], node: str, taken: Taken) -> list[Choice] | None:
        """All these pods on the node, with devices for all their claims together; what was taken is noted in `taken`."""
        choices = []
        claims: dict[str, ResourceClaim] = {}
        for pod in pods:
            asked = pod_claims(self.state, pod)
            if isinstance(asked, str) or not self._has_room(pod, node):
                return None
            claims |= {one.metadata.uid: one for one in asked if one.status.allocation is None}
            outcome = Scheduled(node, (node,), (node,), {})
            taken.append((pod, take(self.state, pod, outcome)))
            choices.append((pod, outcome))
        if not claims:
            return choices
        plan = self.state.devices.plan(tuple(claims.values()))
        found = plan.on(self.state.nodes[node].identity)
        if isinstance(found, (str, Refusal)):
            return None
        given = [
            with_fresh_shares(
                ClaimAllocation(one.metadata.namespace, one.metadata.name, one.metadata.uid, result), self.random
            )
            for one, result in zip(plan.claims, found, strict=True)
        ]
        return [(pod, self._with_devices(pod, outcome, given, taken)) for pod, outcome in choices]

    def _with_devices(self, pod: Pod, outcome: Scheduled, given: Sequence[ClaimAllocation], taken: Taken) -> Scheduled:
        """The pod with its own of the devices that were found, taken over."""
        asked = pod_claims(self.state, pod)
        own = {one.metadata.uid for one in asked} if not isinstance(asked, str) else set()
        mine = tuple(item for item in given if item.uid in own)
        whole = Scheduled(outcome.node, outcome.ties, outcome.feasible, {}, mine)
        index = next(place for place, (other, _) in enumerate(taken) if other is pod)
        give_back(self.state, pod, taken[index][1])
        taken[index] = (pod, take(self.state, pod, whole))
        return whole

    def _has_room(self, pod: Pod, node: str) -> bool:
        """Whether the node takes the pod, its claims aside."""
        bare = replace(pod, spec=replace(pod.spec, resource_claims=()))
        cycle = begin(self.state, self.state.info(bare))
        if isinstance(cycle, (Refusal, SchedulerError)):
            return False
        return not isinstance(cycle.check(self.state.nodes[node]), (Refusal, SchedulerError))


def _vectors(left: Sequence[int], needed: int) -> Iterator[tuple[int, ...]]:
    """How many of each kind, the most pods first."""
    every = product(*(range(min(count, needed), -1, -1) for count in left))
    yield from sorted(every, key=lambda counts: -sum(counts))


__all__ = ["Choice", "Joint", "give_back", "is_plain", "take"]
