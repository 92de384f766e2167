"""Looking at a cluster through its API: waiting for something, and noting the states of pods and claims."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from regauge.kube import Gone, KubeClient, NotFound
from regauge.model import Kind, Object, find_kind, view
from regauge.model.core import ENDED_PHASES, Pod
from regauge.model.kinds import POD, RESOURCE_CLAIM
from regauge.rehearsal.world import World

T = TypeVar("T")
POLL_S = 0.1
POLL_SHARE = 0.1


async def until(world: World, probe: Callable[[], Awaitable[T | None]], timeout_s: float) -> T | None:
    """The first answer of `probe` that is not None or empty, or None after `timeout_s` seconds of the world's clock.

    It looks often at first and then ever less: a look at a big cluster costs, and what took long need not be told exactly.
    """
    began_s = world.clock.monotonic_s()
    while True:
        world.check()
        found = await probe()
        if found:
            return found
        waited_s = world.clock.monotonic_s() - began_s
        if waited_s >= timeout_s:
            return None
        await world.clock.sleep(min(max(POLL_S, waited_s * POLL_SHARE), timeout_s - waited_s))


async def apply(kube: KubeClient, object_: Object) -> Object:
    """Create an object of a known kind."""
    kind = find_kind(str(object_["apiVersion"]), str(object_["kind"]))
    if kind is None:
        raise ValueError(f"{object_['kind']} is not a kind of the sample")
    return await kube.create(kind, object_, object_.get("metadata", {}).get("namespace", ""))


async def remove(kube: KubeClient, object_: Object) -> None:
    """Delete an object of a known kind; one that is gone is fine."""
    kind = find_kind(str(object_["apiVersion"]), str(object_["kind"]))
    metadata = object_["metadata"]
    if kind is not None:
        with contextlib.suppress(NotFound):
            await kube.delete(kind, metadata["name"], metadata.get("namespace", ""), propagation_policy="Background")


async def pods_of(kube: KubeClient, namespace: str, app: str) -> list[Pod]:
    """The pods with the label `app`, as views."""
    found = await kube.list(POD, namespace, label_selector=f"app={app}")
    return [view(item, Pod) for item in found.items]


class StateLog:
    """Every state that the pods and claims of a namespace go through, in order, told without generated names.

    A pod is named by its `app` label, a claim by the app of the pod that it was made for. The same scenario gives the same
    log live and simulated.
    """

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._last: dict[str, str] = {}
        self._apps: dict[str, str] = {}
        self.states: dict[str, list[str]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Nothing that comes after this returns is missed."""
        for kind, read in ((POD, self._pod), (RESOURCE_CLAIM, self._claim)):
            listed = asyncio.Event()
            follow = self._follow(kind, read, listed)
            self._tasks.append(asyncio.create_task(follow, name=f"states of {kind.plural}"))
            await listed.wait()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: Kind, read: Callable[[Object, bool], None], listed: asyncio.Event) -> None:
        while True:
            found = await self._kube.list(kind, self._namespace)
            for item in found.items:
                read(item, False)
            listed.set()
            with contextlib.suppress(Gone):
                async for event in self._kube.watch(kind, self._namespace, resource_version=found.resource_version):
                    if event.type != "BOOKMARK":
                        read(event.object, event.type == "DELETED")

    def _pod(self, object_: Object, gone: bool) -> None:
        pod = view(object_, Pod)
        app = (pod.metadata.labels or {}).get("app", pod.metadata.name)
        self._apps[pod.metadata.name] = app
        self._note(f"pod of {app}", pod.metadata.uid, "gone" if gone else pod_state(pod))

    def _claim(self, object_: Object, gone: bool) -> None:
        metadata = object_["metadata"]
        owners = [owner["name"] for owner in metadata.get("ownerReferences") or ()]
        app = self._apps.get(owners[0], owners[0]) if owners else metadata["name"]
        status = object_.get("status") or {}
        if gone:
            state = "gone"
        elif status.get("allocation"):
            state = "allocated, reserved" if status.get("reservedFor") else "allocated"
        else:
            state = "unallocated"
        self._note(f"claim of {app}", metadata["uid"], state)

    def _note(self, name: str, uid: str, state: str) -> None:
        if self._last.get(uid) != state:
            self._last[uid] = state
            self.states.setdefault(name, []).append(state)


def pod_state(pod: Pod) -> str:
    """A pod's state in a few words, coarse enough not to depend on how status writes fall together."""
    if pod.metadata.deletion_timestamp:
        return "terminating"
    if pod.status.phase in ENDED_PHASES:
        return f"{pod.status.phase} {pod.status.reason}".strip()
    if not pod.spec.node_name:
        return "waiting for a node"
    return "running" if pod.status.phase == "Running" and is_ready(pod) else "starting"


def is_ready(pod: Pod) -> bool:
    """Whether the pod's Ready condition is true."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
