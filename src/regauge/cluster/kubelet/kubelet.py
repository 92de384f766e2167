"""The kubelet of one node: pods bound to it are admitted in order and live in a worker each.

Everything it needs of the world comes through ports, so the same kubelet serves a rehearsal in virtual time and a live
node. `stop` ends it in order, `kill` at once; both leave checkpoints and containers as they are, and another kubelet made
with the same files and runtime takes over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from regauge.base import Clock, Files, InputError
from regauge.cluster.kubelet.device_manager import AdmissionRefused, DeviceManager, NotAligned
from regauge.cluster.kubelet.dra_manager import DRAManager
from regauge.cluster.kubelet.dra_plugins import DRAPlugins
from regauge.cluster.kubelet.node import NodeParts
from regauge.cluster.kubelet.node_status import NodeReporter
from regauge.cluster.kubelet.options import KubeletOptions
from regauge.cluster.kubelet.plugin_registry import PluginRegistry
from regauge.cluster.kubelet.pod_feed import PodFeed
from regauge.cluster.kubelet.pod_plan import PodEvent
from regauge.cluster.kubelet.pod_resources import PodResourcesServer
from regauge.cluster.kubelet.pod_status import rejected_status
from regauge.cluster.kubelet.pod_worker import PodWorker
from regauge.cluster.kubelet.work import Work
from regauge.cluster.port import ClusterApi
from regauge.cluster.runtimes import ContainerState, Runtime
from regauge.kube import WatchEvent
from regauge.model import Object
from regauge.model.core import ENDED_PHASES, Pod
from regauge.pluginapi import PluginNet, Served, Services
from regauge.scheduler import NOT_ALIGNED_REASON


class Kubelet:
    """One node. Many nodes of one process share a `feed` of pods.

    `start` raises `InputError` when the claim state is corrupt or a socket is in use.
    """

    def __init__(
        self,
        name: str,
        api: ClusterApi,
        net: PluginNet,
        files: Files,
        clock: Clock,
        runtime: Runtime,
        options: KubeletOptions,
        feed: PodFeed | None = None,
    ) -> None:
        self.name = name
        self._given_feed = feed
        self._net, self._files = net, files
        self._work = Work(f"kubelet {name}", options.say)
        self.devices = DeviceManager(net, files, clock, options, self._work, self._wake)
        self.dra = DRAManager(api, files, clock, options, self._work, self._active_or_none, self._wake)
        self.dra.plugins = DRAPlugins(name, api, net, clock, options, self._work, self.dra.heard)
        self._registry = PluginRegistry(net, clock, options, self._work, self.dra.plugins, self.devices)
        self._node = NodeParts(name, api, clock, runtime, options, self._work, self.devices, self.dra)
        self._reporter = NodeReporter(self._node)
        self._workers: dict[str, PodWorker] = {}
        self._gone: set[str] = set()
        self._queue: deque[tuple[str, Object]] = deque()
        self._queued = asyncio.Event()
        self._known_all = False
        self._ends: list[Callable[[], Any]] = []
        self._served: Served | None = None

    async def start(self) -> None:
        """Restore, serve, register the node, take over the pods that are here, then go on in the background."""
        options = self._node.options
        for directory in (
            options.directory,
            options.plugins_registry,
            f"{options.directory}/plugins",
            options.pod_resources,
        ):
            self._files.make_directory(directory, 0o750)
        self.dra.restore()
        await self.devices.start()
        lister = PodResourcesServer(self._active_pods, self.devices, self.dra)
        address = f"{options.pod_resources}/kubelet.sock"
        self._served = await self._net.serve(address, Services(pod_resources=lister))
        self._reporter.start()
        self.dra.start()
        self._registry.start()
        feed = self._given_feed or PodFeed(self._node.api)
        self._ends = [
            self._node.runtime.on_exit(self._exited),
            feed.subscribe(self.name, self._heard),
        ]
        if self._given_feed is None:
            self._ends.append(feed.close)
        self._queue = deque(sorted(self._queue, key=lambda item: item[1]["metadata"].get("creationTimestamp") or ""))
        self._queue.append(("READY", {}))
        self._work.start(self._sync_loop(), "pods")

    async def stop(self) -> None:
        """End in order. Containers go on; sockets of the kubelet are removed."""
        for end in self._ends:
            end()
        self._ends.clear()
        await self._work.stop()
        if self._served is not None:
            await self._served.stop()
            self._served = None
        await self.devices.stop()
        await self.dra.plugins.stop()

    async def kill(self) -> None:
        """End as a crash does: nothing is said to anybody. Whatever was written is there for the next kubelet."""
        await self.stop()

    def pod_worker(self, uid: str) -> PodWorker | None:
        """The worker of a pod, for those who watch states."""
        return self._workers.get(uid)

    def _heard(self, event: WatchEvent) -> None:
        """Note a change of a pod of this node; it is dealt with in order by the loop."""
        self._queue.append((event.type, event.object))
        self._queued.set()

    def _exited(self, state: ContainerState) -> None:
        worker = self._workers.get(state.request.pod_uid)
        if worker is not None:
            worker.exited(state)

    def _wake(self, uids: Collection[str]) -> None:
        for uid in sorted(uids):
            worker = self._workers.get(uid)
            if worker is not None:
                worker.wake()

    def _active_pods(self) -> list[Pod]:
        return [worker.pod for worker in self._workers.values() if worker.active]

    def _active(self) -> set[str]:
        return {uid for uid, worker in self._workers.items() if worker.active}

    def _active_or_none(self) -> set[str] | None:
        return self._active() if self._known_all else None

    async def _sync_loop(self) -> None:
        """One event after the other: a slow admission holds up everything, as it does upstream."""
        await self._node.clock.sleep(self._node.options.timings.first_pods_s)
        while True:
            while self._queue:
                type_, object_ = self._queue.popleft()
                if type_ == "READY":
                    self._known_all = True
                    self._work.start(self._end_orphans(), "orphans")
                else:
                    await self._take(type_, object_)
            self._queued.clear()
            await self._queued.wait()

    async def _take(self, type_: str, object_: Object) -> None:
        try:
            await (self._deleted(object_) if type_ == "DELETED" else self._changed(object_))
        except InputError as error:
            meta = object_["metadata"]
            self._node.options.say(f"pod {meta.get('namespace')}/{meta.get('name')} is not understood: {error}")

    async def _changed(self, object_: Object) -> None:
        worker = self._workers.get(object_["metadata"]["uid"])
        if worker is None:
            await self._added(object_)
            return
        wake = _differs(worker.object, object_)
        worker.update(object_, wake=wake)
        if object_["metadata"].get("deletionTimestamp"):
            self._end(worker)

    async def _added(self, object_: Object) -> None:
        worker = PodWorker(self._node, object_, self._ended)
        self._workers[worker.uid] = worker
        if object_.get("status", {}).get("phase") in ENDED_PHASES:
            worker.machine.step(PodEvent.ADOPTED)
        else:
            await self._admit(worker)
        if object_["metadata"].get("deletionTimestamp"):
            self._end(worker)

    async def _admit(self, worker: PodWorker) -> None:
        running = worker.adopt_running()
        active = self._active() if self._known_all else None
        found_running: Collection[str] = () if self._known_all else running
        try:
            await self.devices.admit(worker.pod, active, found_running)
        except NotAligned as refused:
            await self._reject(worker, NOT_ALIGNED_REASON, str(refused))
            return
        except AdmissionRefused as refused:
            message = f"Allocate failed due to {refused}, which is unexpected"
            await self._reject(worker, "UnexpectedAdmissionError", message)
            return
        worker.start()

    async def _reject(self, worker: PodWorker, reason: str, message: str) -> None:
        worker.machine.step(PodEvent.REFUSED)
        self._node.event(worker.object, "Warning", reason, message)
        old = self._node.status_of(worker.pod)
        status = rejected_status(reason, message, old, self._node.clock.now_s())
        self._work.start(self._insist(lambda: self._node.write_status(worker.pod, status)), "rejected pod")

    def _end(self, worker: PodWorker) -> None:
        """A pod is marked for deletion: end it, or remove it when it has ended."""
        if worker.finished:
            self._work.start(self._insist(lambda: self._node.delete_finally(worker.pod)), "removal of a pod")
            return
        grace = worker.pod.metadata.deletion_grace_period_seconds
        worker.terminate(float(grace) if grace is not None else None)

    def _ended(self, worker: PodWorker) -> None:
        """A worker is done with its pod."""
        if worker.uid in self._gone:
            self._work.start(self._forget(worker), "deleted pod")
        elif worker.object["metadata"].get("deletionTimestamp"):
            self._end(worker)

    async def _deleted(self, object_: Object) -> None:
        """The pod's object is gone: whatever still runs ends soon, what is left of it is forgotten."""
        worker = self._workers.get(object_["metadata"]["uid"])
        if worker is None:
            return
        if worker.finished:
            await self._forget(worker)
            return
        self._gone.add(worker.uid)
        worker.orphan()

    async def _forget(self, worker: PodWorker) -> None:
        if self._workers.pop(worker.uid, None) is None:
            return
        self._gone.discard(worker.uid)
        worker.machine.step(PodEvent.DELETED)
        for state in self._node.runtime.containers():
            if state.request.pod_uid == worker.uid:
                if state.running:
                    await self._node.runtime.stop(state.id, 1.0)
                await self._node.runtime.remove(state.id)

    async def _end_orphans(self) -> None:
        """Containers of pods that nobody knows any more: their pods were removed while the kubelet was away."""
        for state in self._node.runtime.containers():
            if state.request.pod_uid not in self._workers and self._is_here(state):
                await self._node.runtime.stop(state.id, 1.0)
                await self._node.runtime.remove(state.id)

    def _is_here(self, state: ContainerState) -> bool:
        return any(one.id == state.id for one in self._node.runtime.containers())

    async def _insist(self, write: Callable[[], bool]) -> None:
        while not write():
            await self._node.clock.sleep(self._node.options.timings.status_retry_s)


def _differs(old: Object, new: Object) -> bool:
    """Whether a pod's object changed in what makes the kubelet look at the pod: not in its status."""
    before, now = old["metadata"], new["metadata"]
    keys = ("labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds")
    return old.get("spec") != new.get("spec") or any(
        (before.get(key) or None) != (now.get(key) or None) for key in keys
    )
