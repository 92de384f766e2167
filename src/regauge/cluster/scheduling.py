"""The scheduler of the cluster: pods that wait are tried one at a time, and bound.

A `Controller` with one key: each `reconcile` is one step, either one attempt for one pod or the whole binding of one, so
that other programs run in between. Bindings lag behind attempts, as upstream binds in the background: pods that share a
claim meet it while it is being allocated. Restart: everything is learned again from the API.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from regauge.base import Clock, Randomness, RegaugeError
from regauge.cluster.port import ClusterApi, Key
from regauge.cluster.scheduling_binding import PRE_BIND, Binder, BindingTrouble
from regauge.cluster.scheduling_notes import Notes
from regauge.cluster.scheduling_queue import SchedulingQueue, Waiting
from regauge.cluster.scheduling_view import WATCHED, SchedulerView
from regauge.kube import WatchEvent
from regauge.model import Kind, Rules, view
from regauge.model.core import Pod
from regauge.model.kinds import POD, RESOURCE_CLAIM
from regauge.model.resource import ResourceClaim
from regauge.scheduler import (
    BINDING_TIMEOUT_S,
    WAITS,
    GroupOutcome,
    Held,
    Outcome,
    Preemption,
    Scheduled,
    SchedulerError,
    State,
    Unschedulable,
    binding_conditions_on,
    group_key,
    has_binding_conditions,
    is_ready,
    is_timed_out,
    schedule,
    schedule_group,
)

LOOP: Key = ("", "schedule")
BINDINGS_UNDER_WAY = 8
BINDING_CHECK_S = 5.0
REFUSED, ERROR = "Unschedulable", "SchedulerError"


@dataclass(slots=True)
class Binding:
    """A pod whose place is chosen. `due_s`: when its devices are looked at again; `deadline_s`: when that ends."""

    waiting: Waiting
    pod: Pod
    outcome: Scheduled
    due_s: float = 0.0
    deadline_s: float | None = None


class SchedulingLoop:
    """`Controller` of the scheduler. `recorder`: the API as the actor that events come from."""

    def __init__(
        self,
        api: ClusterApi,
        clock: Clock,
        random: Randomness,
        rules: Rules,
        *,
        recorder: ClusterApi | None = None,
        binding_timeout_s: float = BINDING_TIMEOUT_S,
    ) -> None:
        self._api = api
        self._notes = Notes(api, recorder or api, clock)
        self._clock = clock
        self._random = random
        self._rules = rules
        self._queue = SchedulingQueue()
        self._view = SchedulerView(State(rules), self._queue, self._abandon)
        self.state = self._view.state
        self.state.binding_timeout_s = binding_timeout_s
        self._timeout_s = binding_timeout_s
        self._binder = Binder(api, self.state, clock, rules)
        self._chosen: deque[Binding] = deque()
        self._pending: dict[Key, Binding] = {}

    @property
    def name(self) -> str:
        return "kube-scheduler"

    @property
    def watches(self) -> tuple[Kind, ...]:
        return WATCHED

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        """Take the change in; there is always the one key."""
        self._view.observe(kind, event, self._clock.now_s())
        return (LOOP,)

    def reconcile(self, key: Key) -> float | None:
        """One step. Seconds after which the next one is due, or None when only a change can bring work."""
        now_s = self._clock.now_s()
        self.state.now_s = now_s
        self._queue.tick(now_s, self._view.holder)
        due = next((item for item in self._pending.values() if item.due_s <= now_s), None)
        if due is not None:
            self._look_again(due)
        elif self._chosen and (len(self._chosen) > BINDINGS_UNDER_WAY or not self._queue.has_work):
            self._bind(self._chosen.popleft())
        else:
            waiting = self._queue.pop()
            if waiting is not None:
                self._try(waiting)
        return self._next_s(now_s)

    def _next_s(self, now_s: float) -> float | None:
        if self._chosen or self._queue.has_work:
            return 0.0
        times = [item.due_s for item in self._pending.values()]
        queued = self._queue.next_s()
        if queued is not None:
            times.append(queued)
        return max(0.0, min(times) - now_s) if times else None

    # -- one attempt

    def _try(self, waiting: Waiting) -> None:
        pod = self._view.pod(waiting.key)
        if pod is None or pod.metadata.uid != waiting.uid or self.state.is_assumed(waiting.key):
            return
        if pod.metadata.deletion_timestamp is not None:
            text = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            self._notes.event(pod, "Warning", "FailedScheduling", text)
            return
        group = group_key(pod) if self._rules.on("GenericWorkload") else None
        if group is not None:
            self._try_group(group, waiting)
            return
        outcome = schedule(pod, self.state, self._rules, self._random)
        match outcome:
            case Scheduled():
                self.state.assume(self.state.info(pod), outcome)
                self._chosen.append(Binding(waiting, pod, outcome))
            case Unschedulable():
                self._refuse(waiting, pod, outcome)
            case SchedulerError():
                self._queue.failed(waiting, self._clock.now_s())
                self._notes.not_scheduled(pod, ERROR, outcome.message, nominated="")
            case Held():
                self._queue.hold(waiting, outcome.plugin)

    # -- one attempt for a whole group

    def _try_group(self, group: Key, first: Waiting) -> None:
        """All pods of the group that wait, whatever they waited for, are tried together."""
        waiting = self._group_in_order(group, first)
        pods = [pod for item in waiting if (pod := self._view.pod(item.key)) is not None]
        outcome = schedule_group(group, pods, self.state, self._random)
        found = {pod.metadata.uid: result for pod, result in outcome.pods}
        for item, pod in zip(waiting, pods):
            self._settle_member(item, pod, found.get(pod.metadata.uid), outcome)
        if outcome.victims:
            self._evict_for_group(group, outcome.victims)
        if outcome.fits:
            self._notes.group_condition(group, "True", "Scheduled", "")
        elif outcome.error:
            self._notes.group_condition(group, "False", ERROR, outcome.error)
        else:
            self._notes.group_condition(group, "False", REFUSED, outcome.message)

    def _group_in_order(self, group: Key, first: Waiting) -> list[Waiting]:
        members = {info.key for info in self.state.members(group) if not info.pod.spec.node_name}
        others = [item for key in sorted(members - {first.key}) if (item := self._queue.take(key)) is not None]
        return sorted([first, *others], key=lambda item: (-item.priority, item.born))

    def _settle_member(self, item: Waiting, pod: Pod, result: Outcome | None, group: GroupOutcome) -> None:
        """What the group's attempt means for one of its pods."""
        if group.error or result is None or isinstance(result, SchedulerError):
            own = result.message if isinstance(result, SchedulerError) else group.error
            self._queue.failed(item, self._clock.now_s())
            self._notes.not_scheduled(pod, ERROR, own, nominated="")
        elif isinstance(result, Scheduled):
            if group.fits:
                self.state.assume(self.state.info(pod), result)
                self._chosen.append(Binding(item, pod, result))
                return
            self._queue.failed(item, self._clock.now_s())
            nominated = result.node if group.victims else ""
            self._notes.not_scheduled(pod, REFUSED, group.message if group.victims else WAITS, nominated=nominated)
        elif isinstance(result, Unschedulable):
            self._refuse(item, pod, result)
        else:
            self._queue.hold(item, result.plugin)

    def _evict_for_group(self, group: Key, victims: tuple[Key, ...]) -> None:
        found = self.state.groups.get(group)
        scheduler = next((info.pod.spec.scheduler_name for info in self.state.members(group)), "")
        if found is not None:
            self._evict(victims, scheduler, f"Preempted by podgroup {found.metadata.uid} on node cluster")

    def _refuse(self, waiting: Waiting, pod: Pod, outcome: Unschedulable) -> None:
        if outcome.plugins:
            self._queue.refused(waiting, outcome.plugins, self._clock.now_s())
        else:
            self._queue.failed(waiting, self._clock.now_s())
        try:
            if outcome.deallocate is not None:
                self._binder.deallocate(outcome.deallocate)
            if outcome.delete is not None:
                self._binder.delete_claim(outcome.delete)
            if outcome.unreserve is not None:
                self._binder.unreserve_group(*outcome.unreserve)
        except RegaugeError:
            self._queue.drop(waiting.key)
            self._queue.failed(waiting, self._clock.now_s())
        if outcome.preemption is None:
            self._notes.not_scheduled(pod, REFUSED, outcome.message, nominated="")
        else:
            self._preempt(pod, outcome.preemption, outcome.message)

    def _preempt(self, pod: Pod, preemption: Preemption, message: str) -> None:
        text = f"Preempted by pod {pod.metadata.uid} on node {preemption.node}"
        self._evict(
            preemption.victims,
            pod.spec.scheduler_name,
            text,
            lambda: self._notes.not_scheduled(pod, REFUSED, message, nominated=preemption.node),
        )

    def _evict(
        self, keys: tuple[Key, ...], scheduler: str, text: str, between: Callable[[], None] = lambda: None
    ) -> None:
        """Pods make room for one of higher priority. `between`: what is written once they are told and not yet deleted."""
        victims = [found for key in keys if (found := self._view.pod(key)) is not None]
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        }
        leaving = [item for item in victims if item.metadata.deletion_timestamp is None]
        for victim in leaving:
            self._notes.condition(victim, condition)
        between()
        for victim in leaving:
            try:
                self._api.delete(POD, victim.metadata.name, victim.metadata.namespace, uid=victim.metadata.uid)
            except RegaugeError:
                continue
            self._notes.event(victim, "Normal", "Preempted", text)

    # -- binding

    def _bind(self, binding: Binding) -> None:
        """All writes of one binding, unless its devices have to get ready first."""
        pod, outcome = binding.pod, binding.outcome
        current = self._view.pod(binding.waiting.key)
        if current is None or current.metadata.uid != pod.metadata.uid:
            return
        if outcome.binding:
            self._binder.nominate(pod, outcome.node)
        try:
            self._binder.pre_bind(pod, outcome)
            if self._must_wait(binding):
                text = f"waiting for binding conditions for device on node {outcome.node}"
                self._notes.event(pod, "Normal", "BindingConditionsPending", text)
                binding.deadline_s = self._clock.now_s() + self._timeout_s
                self._pending[binding.waiting.key] = binding
                self._look_again(binding)
                return
            self._finish(binding)
        except BindingTrouble as trouble:
            self._give_up(binding, str(trouble))

    def _claims(self, binding: Binding) -> list[ResourceClaim]:
        namespace = binding.pod.metadata.namespace
        found = [self._api.find(RESOURCE_CLAIM, name, namespace) for name in binding.outcome.claims]
        return [view(claim, ResourceClaim) for claim in found if claim is not None]

    def _must_wait(self, binding: Binding) -> bool:
        return binding_conditions_on(self._rules) and any(map(has_binding_conditions, self._claims(binding)))

    def _look_again(self, binding: Binding) -> None:
        """Are the devices ready? Looked at every 5 s until the time is over."""
        now_s = self._clock.now_s()
        claims = self._claims(binding)
        over = binding.deadline_s is not None and now_s >= binding.deadline_s
        late = "device binding timeout: context deadline exceeded" if over else ""
        trouble = late or _device_trouble(claims, now_s, self._timeout_s)
        if not trouble and not all(is_ready(claim) is True for claim in claims):
            binding.due_s = min(now_s + BINDING_CHECK_S, binding.deadline_s or now_s + BINDING_CHECK_S)
            return
        self._pending.pop(binding.waiting.key, None)
        try:
            if trouble:
                raise BindingTrouble(PRE_BIND + trouble)
            self._finish(binding)
        except BindingTrouble as error:
            self._give_up(binding, str(error))

    def _finish(self, binding: Binding) -> None:
        pod, node = binding.pod, binding.outcome.node
        self._binder.bind(pod, node)
        title = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._notes.event(pod, "Normal", "Scheduled", f"Successfully assigned {title} to {node}")

    def _give_up(self, binding: Binding, message: str) -> None:
        """The binding failed: nothing stays assumed, the pod backs off."""
        pod = binding.pod
        self._binder.unreserve(pod, binding.outcome)
        current = self._view.pod(binding.waiting.key)
        self.state.forget(current or pod, [item.uid for item in binding.outcome.allocations])
        if current is None or current.metadata.uid != pod.metadata.uid:
            self.state.drop_pod(binding.waiting.key)
            return
        if not current.spec.node_name:
            self._queue.failed(binding.waiting, self._clock.now_s())
        self._view.freed(self._clock.now_s())
        self._notes.not_scheduled(pod, ERROR, message, nominated="")

    def _abandon(self, key: Key) -> None:
        """The pod is gone while its binding was under way: what was chosen for it is free again."""
        gone = [item for item in self._chosen if item.waiting.key == key]
        for item in gone:
            self._chosen.remove(item)
        pending = self._pending.pop(key, None)
        for item in (*gone, *((pending,) if pending else ())):
            for allocation in item.outcome.allocations:
                self.state.landed(allocation.uid)


def _device_trouble(claims: list[ResourceClaim], now_s: float, timeout_s: float) -> str:
    for claim in claims:
        ready = is_ready(claim)
        if isinstance(ready, str):
            return ready
        if not ready and is_timed_out(claim, now_s, timeout_s):
            return f"device binding timeout: claim={claim.metadata.name}"
        if not ready:
            return ""
    return ""
