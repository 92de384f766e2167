"""One node from a stack to the other. Ownership is single all the way: the old stack is gone before the new one begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from regauge.base import Clock
from regauge.inventory import whole
from regauge.kube import ApiError, KubeClient, NotFound
from regauge.migrate.plans import NOBODY, Reference, ServedCount, Stack, Switch
from regauge.migrate.rollout.acts import Acts, Pause, StepFailed
from regauge.migrate.rollout.looking import Looking
from regauge.model import Object
from regauge.model.core import Pod
from regauge.model.kinds import DAEMON_SET, NODE, POD

Differs = Callable[[], Awaitable[list[str]]]
OTHER = {Stack.DRA: Stack.DEVICE_PLUGIN, Stack.DEVICE_PLUGIN: Stack.DRA}
TOO_MANY = 429


class NodeBefore(msgspec.Struct, frozen=True):
    """A node's labels (None: absent) and whether it was cordoned, before it was switched."""

    labels: dict[str, str | None]
    cordoned: bool


class Switching:
    """Does and undoes switches. `tell` hears what is waited for, whenever that changes: some of it takes minutes."""

    def __init__(
        self, kube: KubeClient, clock: Clock, looking: Looking, acts: Acts, label: str, tell: Callable[[str], None]
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._looking = looking
        self._acts = acts
        self._label = label
        self._tell = tell
        self._waits_for = ""

    def _waits(self, node: str, what: str) -> None:
        text = f"{node} waits: {what}"
        if text != self._waits_for:
            self._waits_for = text
            self._tell(text)

    async def before(self, action: Switch) -> NodeBefore:
        """What has to be remembered. Raises `StepFailed` where the node is not there."""
        try:
            node = await self._kube.get(NODE, action.node)
        except NotFound:
            raise StepFailed(f"there is no node {action.node}") from None
        labels = node["metadata"].get("labels") or {}
        names = (self._label, *action.labels)
        return NodeBefore(
            {name: labels.get(name) for name in names}, bool((node.get("spec") or {}).get("unschedulable"))
        )

    async def do(self, action: Switch, before: NodeBefore, pause: Pause) -> None:
        """To the stack of the action."""
        await self._to(action, action.to, {**action.labels, self._label: action.to.value}, before.cordoned, pause)

    async def undo(self, action: Switch, before: NodeBefore, pause: Pause) -> None:
        """Back to the stack and the labels that were before."""
        await self._to(action, OTHER[action.to], before.labels, before.cordoned, pause)

    async def _to(
        self, action: Switch, to: Stack, labels: Mapping[str, str | None], cordoned: bool, pause: Pause
    ) -> None:
        if await self._is_there(action, to, labels, cordoned):
            return
        await self._patch(action.node, {"spec": {"unschedulable": True}})
        await self._drain(action, OTHER[to], pause)
        await self._patch(action.node, {"metadata": {"labels": {self._label: NOBODY}}})
        gone = f"{action.node} still has {_words(action.served, OTHER[to])} after {action.gone_within_s} s"
        await self._until(action.node, lambda: self._count(action, OTHER[to], 0), action.gone_within_s, gone, pause)
        await self._patch(action.node, {"metadata": {"labels": dict(labels)}})
        there = f"{action.node} has not {_words(action.served, to)} within {action.served_within_s} s"
        await self._until(action.node, lambda: self._count(action, to, 1), action.served_within_s, there, pause)
        if not cordoned:
            await self._patch(action.node, {"spec": {"unschedulable": None}})

    async def _is_there(self, action: Switch, to: Stack, labels: Mapping[str, str | None], cordoned: bool) -> bool:
        node = await self._looking.node(action.node)
        if node is None:
            raise StepFailed(f"there is no node {action.node}")
        has = node.metadata.labels or {}
        same = all(has.get(name) == value for name, value in labels.items())
        if not same or bool(node.spec.unschedulable) != cordoned:
            return False
        return not await self._count(action, OTHER[to], 0) and not await self._count(action, to, 1)

    async def _patch(self, node: str, patch: Object) -> None:
        await self._acts.patch(Reference("v1", NODE.kind, node), patch)

    # -- who holds devices

    async def _drain(self, action: Switch, stack: Stack, pause: Pause) -> None:
        """Evict whoever holds devices of the stack that goes, by the eviction API: disruption budgets are kept."""
        began_s = self._clock.monotonic_s()
        why = ""
        while holders := await self._holders(action, stack):
            if self._clock.monotonic_s() - began_s > action.drain_within_s:
                names = ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in holders)
                raise StepFailed(f"{action.node} is not free within {action.drain_within_s} s: {names} {why}".strip())
            for pod in holders:
                if pod.metadata.deletion_timestamp is None:
                    why = await self._evict(pod) or why
            self._waits(action.node, f"{len(holders)} pods hold devices {why}".strip())
            await pause()

    async def _holders(self, action: Switch, stack: Stack) -> list[Pod]:
        pods = await self._looking.pods_on(action.node)
        if stack is Stack.DEVICE_PLUGIN:
            names = {item.resource_name for item in action.served}
            return [pod for pod in pods if names & _counted(pod)]
        drivers = {item.driver for item in action.served}
        users = {
            user.uid
            for claim in await self._looking.claims()
            if claim.status.allocation is not None
            and any(item.driver in drivers for item in claim.status.allocation.devices.results)
            for user in claim.status.reserved_for
        }
        return [pod for pod in pods if pod.metadata.uid in users]

    async def _evict(self, pod: Pod) -> str:
        """Why a pod cannot be evicted now; empty text when it is."""
        title = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if any(owner.kind == DAEMON_SET.kind for owner in pod.metadata.owner_references or ()):
            raise StepFailed(f"pod {title} of a DaemonSet holds devices: an evicted one would come back to the node")
        body = {"metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace}}
        try:
            await self._kube.create(POD, body, pod.metadata.namespace, subresource="eviction")
        except NotFound:
            return ""
        except ApiError as error:
            if error.code == TOO_MANY:
                return f"({error.message})"
            raise StepFailed(f"pod {title} cannot be evicted: {error.message}") from None
        return ""

    # -- what a node has

    async def _count(self, action: Switch, stack: Stack, share: int) -> list[str]:
        """What differs from having all devices of a stack (share 1) or none (share 0); empty when it is so."""
        if stack is Stack.DEVICE_PLUGIN:
            node = await self._looking.node(action.node)
            capacity = node.status.capacity if node is not None else {}
            usable = node.status.allocatable if node is not None else {}
            pairs = [(item, whole(capacity.get(item.resource_name, 0))) for item in action.served]
            if share:
                pairs += [(item, whole(usable.get(item.resource_name, 0))) for item in action.served]
            found = [(item.resource_name, count, item.devices * share) for item, count in pairs]
        else:
            slices = await self._looking.slices_on(action.node)
            newest: dict[tuple[str, str], int] = {}
            for slice_ in slices:
                key = (slice_.spec.driver, slice_.spec.pool.name)
                newest[key] = max(newest.get(key, 0), slice_.spec.pool.generation)
            found = []
            for driver, devices in _by_driver(action.served).items():
                own = [
                    item
                    for item in slices
                    if item.spec.driver == driver and item.spec.pool.generation == newest[(driver, item.spec.pool.name)]
                ]
                found.append((driver, sum(len(item.spec.devices) for item in own), devices * share))
        return [f"{name}: {count}, not {wanted}" for name, count, wanted in found if count != wanted]

    async def _until(self, node: str, differs: Differs, within_s: float, failed: str, pause: Pause) -> None:
        began_s = self._clock.monotonic_s()
        while told := await differs():
            if self._clock.monotonic_s() - began_s > within_s:
                raise StepFailed(f"{failed} ({'; '.join(told)})")
            self._waits(node, "; ".join(told))
            await pause()


def _counted(pod: Pod) -> set[str]:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return {name for item in containers for name in (*item.resources.limits, *item.resources.requests)}


def _by_driver(served: Iterable[ServedCount]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for item in served:
        found[item.driver] = found.get(item.driver, 0) + item.devices
    return found


def _words(served: Iterable[ServedCount], stack: Stack) -> str:
    if stack is Stack.DEVICE_PLUGIN:
        return ", ".join(f"{item.devices} {item.resource_name}" for item in served)
    return ", ".join(f"{count} devices of {driver}" for driver, count in _by_driver(served).items())
