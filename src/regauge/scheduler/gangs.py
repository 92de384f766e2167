"""One attempt for a whole pod group: its pods in order, each as if those before it were placed already; all or nothing.

Source: kube-scheduler schedule_one_podgroup.go, plugins/gangscheduling, framework/preemption/podgrouppreemption.go of
1.36 (KEP-4671, KEP-5729, KEP-5710, KEP-5732). A group with a topology (spec.schedulingConstraints) is tried in each domain by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from regauge.base import Randomness
from regauge.model.core import Pod
from regauge.model.scheduling import PodGroup
from regauge.scheduler.group_domains import NO_DOMAIN, best_domain, domains_of, topology_label
from regauge.scheduler.nodes import Key, PodInfo
from regauge.scheduler.placing import attempt_alone
from regauge.scheduler.results import Outcome, Scheduled, SchedulerError, Unschedulable
from regauge.scheduler.state import State, group_key

NOT_ALL = "pod group is unschedulable"
WAITS = (
    f"{NOT_ALL}, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
PREEMPTS = f"{NOT_ALL}, pod group is waiting for preemption to complete"
NO_PREEMPTION = "workload aware preemption is not supported for pod groups with scheduling constraints"
TOPOLOGY_PREEMPTION = "unsupported: preemption for a pod group with a topology (spec.schedulingConstraints)"
NO_VICTIMS = "No preemption victims found for incoming preemptor"


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """What became of one attempt.

    `pods`: each pod with its own outcome, in the order of the attempt; pods after an error have none. `fits`: those that
    are `Scheduled` may be bound. `error`: the attempt was given up. `victims`: pods (namespace, name) that have to go
    first. `message` is what the group's condition says.
    """

    pods: tuple[tuple[Pod, Outcome], ...]
    fits: bool
    message: str = ""
    error: str = ""
    victims: tuple[Key, ...] = ()


def schedule_group(key: Key, pods: Sequence[Pod], state: State, random: Randomness) -> GroupOutcome:
    """Where the waiting pods of a group go. Nothing holds any of them. The state is as before when this returns; take
    what fits over with `State.assume`, one pod after the other.
    """
    group = state.groups.get(key)
    label = topology_label(group)
    if label and state.rules.on("TopologyAwareWorkloadScheduling"):
        return _in_a_domain(key, label, pods, state, random)
    found = _Attempt(key, group, state, random).run(pods)
    if found.fits or found.error or found.victims or group is None or not state.rules.on("WorkloadAwarePreemption"):
        return found
    victims = _victims(group, pods, state, random)
    if isinstance(victims, str):
        return GroupOutcome(found.pods, False, f"{found.message}, {victims}")
    return GroupOutcome(found.pods, False, found.message, "", victims)


def _in_a_domain(key: Key, label: str, pods: Sequence[Pod], state: State, random: Randomness) -> GroupOutcome:
    """The best of all domains that take the group."""
    domains = domains_of(key, label, state)
    if isinstance(domains, str):
        return GroupOutcome((), False, error=domains)
    if not domains:
        return GroupOutcome(tuple((pod, Unschedulable(NO_DOMAIN, {})) for pod in pods), False, NO_DOMAIN)
    found: dict[str, GroupOutcome] = {}
    for name, nodes in domains.items():
        with state.only(nodes):
            found[name] = _Attempt(key, state.groups.get(key), state, random, len(domains)).run(pods)
        if found[name].error:
            return found[name]
    good = {name: one for name, one in found.items() if one.fits or one.victims}
    if good:
        placed = {
            name: [pod for pod, outcome in one.pods if isinstance(outcome, Scheduled)] for name, one in good.items()
        }
        return good[best_domain(placed, domains, key, state, random)]
    first = next(iter(found.values()))
    if not state.rules.on("WorkloadAwarePreemption"):
        return first
    if "scheduler-bars-preemption-by-topology" in state.rules.quirks:
        return replace(first, message=f"{first.message}, {NO_PREEMPTION}")
    return GroupOutcome((), False, error=TOPOLOGY_PREEMPTION)


@dataclass(slots=True)
class _Attempt:
    """One pass over the pods. What is assumed on the way is taken back at its end. `domains`: how many are tried in all."""

    key: Key
    group: PodGroup | None
    state: State
    random: Randomness
    domains: int = 1
    taken_back: list[tuple[Pod, tuple[str, ...]]] = field(default_factory=list)
    victims: list[Key] = field(default_factory=list)
    fits: bool = False

    def run(self, pods: Sequence[Pod]) -> GroupOutcome:
        outcomes: list[tuple[Pod, Outcome]] = []
        try:
            for pod in pods:
                outcome = attempt_alone(pod, self.state, self.random)
                if isinstance(outcome, Scheduled):
                    outcome = self._permitted(pod, outcome)
                elif isinstance(outcome, Unschedulable) and outcome.preemption is not None:
                    self._promised(pod, outcome)
                outcomes.append((pod, outcome))
                if isinstance(outcome, SchedulerError):
                    text = f"failed to schedule other pod from a pod group: {outcome.message}"
                    return GroupOutcome(tuple(outcomes), False, error=text)
        finally:
            self._take_back()
        if self.fits and not self.victims:
            return GroupOutcome(tuple(outcomes), True)
        victims = tuple(dict.fromkeys(self.victims)) if self.fits else ()
        return GroupOutcome(tuple(outcomes), False, self._told(), "", victims)

    def _told(self) -> str:
        said = PREEMPTS if self.fits else NOT_ALL
        if not self.state.rules.on("TopologyAwareWorkloadScheduling"):
            return said
        return f"0/{self.domains} placements are available, first placement status: {said}"

    def _permitted(self, pod: Pod, outcome: Scheduled) -> Outcome:
        """Assume the pod; whether the group has enough with it."""
        if self.group is None:
            namespace, name = self.key
            text = f'failed to get podGroup {namespace}/{name}: podgroup.scheduling.k8s.io "{name}" not found'
            return SchedulerError(text)
        self.state.assume(self.state.info(pod), outcome)
        fresh = tuple(item.uid for item in outcome.allocations if item.uid not in self.state.pending)
        for item in outcome.allocations:
            self.state.pending.setdefault(item.uid, item.allocation)
        self.taken_back.append((pod, fresh))
        self._count()
        return outcome

    def _promised(self, pod: Pod, outcome: Unschedulable) -> None:
        """A pod that fits once others have left: the rest of the group sees it placed."""
        assert outcome.preemption is not None
        node = outcome.preemption.node
        self.victims += outcome.preemption.victims
        self.state.assume(self.state.info(pod), Scheduled(node, (node,), (node,), {}))
        self.taken_back.append((pod, ()))
        self._count()

    def _count(self) -> None:
        gang = self.group.spec.scheduling_policy.gang if self.group is not None else None
        placed = sum(1 for info in self.state.members(self.key) if info.pod.spec.node_name)
        if gang is None or not self.state.rules.on("GangScheduling") or placed >= gang.min_count:
            self.fits = True

    def _take_back(self) -> None:
        for pod, uids in reversed(self.taken_back):
            self.state.forget(pod, uids)
            for uid in uids:
                self.state.pending.pop(uid, None)


# -- preemption for a whole group


@dataclass(frozen=True, slots=True)
class _Victim:
    """Pods that go together: one, or all of a group that may only be disrupted as one."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_group: bool

    @property
    def importance(self) -> tuple[int, bool, int, str]:
        """The most important first."""
        started = min((info.pod.status.start_time or "~" for info in self.pods), default="~")
        return -self.priority, not self.is_group, -len(self.pods) if self.is_group else 0, started


def _victims(group: PodGroup, pods: Sequence[Pod], state: State, random: Randomness) -> tuple[Key, ...] | str:
    """The pods that have to go so that the group fits, or why none would help."""
    if group.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    priority = group.spec.priority or 0
    possible = sorted((one for one in _units(state) if one.priority < priority), key=lambda one: one.importance)
    if not possible:
        return NO_VICTIMS
    key = (group.metadata.namespace, group.metadata.name)
    away = {info.key: info for one in possible for info in one.pods}
    for info in away.values():
        state.lift(info)
    try:

        def fits() -> bool:
            return _Attempt(key, group, state, random).run(pods).fits

        if not fits():
            return NOT_ALL
        return _reprieved(possible, away, state, fits)
    finally:
        for info in away.values():
            state.lower(info)


def _reprieved(
    possible: Sequence[_Victim], away: dict[Key, PodInfo], state: State, fits: Callable[[], bool]
) -> tuple[Key, ...]:
    """Let as many as possible stay: those that a budget guards first, each with the most important first."""
    guarded, free = _split(possible, state)
    victims: list[_Victim] = []
    for one in (*guarded, *free):
        for info in one.pods:
            state.lower(info)
            away.pop(info.key)
        if fits():
            continue
        victims.append(one)
        for info in one.pods:
            state.lift(info)
            away[info.key] = info
    victims.sort(key=lambda one: one.importance)
    return tuple(info.key for one in victims for info in one.pods)


def _split(victims: Sequence[_Victim], state: State) -> tuple[list[_Victim], list[_Victim]]:
    """Those that a disruption budget has nothing left for, and the others."""
    budgets = list(state.around.budgets)
    left = [budget.status.disruptions_allowed for budget in budgets]
    guarded: list[_Victim] = []
    free: list[_Victim] = []
    for one in victims:
        broken = False
        for info in one.pods:
            for index, budget in enumerate(budgets):
                if budget.covers(info.pod):
                    left[index] -= 1
                    broken = broken or left[index] < 0
        (guarded if broken else free).append(one)
    return guarded, free


def _units(state: State) -> Iterator[_Victim]:
    """Everything that is placed, as it may be disrupted."""
    together: dict[Key, list[PodInfo]] = {}
    for node in state.nodes.values():
        for info in node.pods.values():
            key = group_key(info.pod)
            group = state.groups.get(key) if key is not None else None
            if key is not None and group is not None and group.goes_as_one:
                together.setdefault(key, []).append(info)
            else:
                yield _Victim((info,), info.priority, key is not None)
    for key, infos in together.items():
        yield _Victim(tuple(infos), state.groups[key].spec.priority or 0, True)
