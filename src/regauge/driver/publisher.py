"""Keeps the ResourceSlices of this node as they should be: at the API server, or in a file where there is none.

A starting kubelet deletes the slices of every driver on its node, and so does one whose connection to the driver broke for
30 s. So the slices are watched, and what is missing is written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from regauge.base import Clock, Files, InputError, RegaugeError, TransientError, Where, pretty_json
from regauge.driver.description import Device, Stack
from regauge.driver.fleet import Fleet
from regauge.driver.meter import Meter, timed
from regauge.driver.notices import Notice, Tell
from regauge.driver.server import Server
from regauge.driver.signals import Rate, Signal, wait_at_most
from regauge.driver.slices import Memory, Pool, Writes, content, dropped, writes
from regauge.kube import AlreadyExists, Conflict, Gone, KubeClient, NotFound
from regauge.model import Object, read_documents
from regauge.model.kinds import NODE, RESOURCE_SLICE

RETRY_FIRST_S = 0.5
RETRY_LAST_S = 30.0
LOOK_AGAIN_S = 600.0
BURST, PERIOD_S = 10, 1.0  # whatever happens to the slices, they are looked at so often at once, then every second
COUNTERS_BESIDE = "allocator-counters-by-slice"  # counters count for the devices of their own slice only

# The gate behind each field that an API server may drop, for the message.
_GATES = {
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "taints": "DRADeviceTaints",
    "consumesCounters": "DRAPartitionableDevices",
    "sharedCounters": "DRAPartitionableDevices",
    "requestPolicy": "DRAConsumableCapacity",
    "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions",
    "bindsToNode": "DRADeviceBindingConditions",
    "ints": "DRAListTypeAttributes",
    "bools": "DRAListTypeAttributes",
    "strings": "DRAListTypeAttributes",
    "versions": "DRAListTypeAttributes",
}


class ApiPublisher:
    """Slices at an API server. `settled` tells when what is published is what the fleet had at that version."""

    def __init__(self, fleet: Fleet, pool: Pool, kube: KubeClient, clock: Clock, tell: Tell, meter: Meter) -> None:
        self._meter = meter
        self._fleet = fleet
        self._pool = pool
        self._kube = kube
        self._clock = clock
        self._tell = tell
        self._server = Server(kube, tell)
        self._rate = Rate(BURST, PERIOD_S)
        self._touched = Signal()
        self.generation = 0
        self._sent: dict[str, tuple[str, Object]] = {}
        self._dropped: tuple[str, ...] = ()
        self.settled = Signal()
        self.published: frozenset[str] = frozenset()
        self.slices = 0

    async def run(self) -> None:
        """Publish, and again whenever the devices or the slices change. Runs until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._follow_fleet())
            await self._reconcile()

    async def _follow_fleet(self) -> None:
        seen = self._fleet.changed.version
        while True:
            seen = await self._fleet.changed.wait(seen)
            self._touched.set()

    async def _reconcile(self) -> None:
        retry_s = RETRY_FIRST_S
        while True:
            seen = self._touched.version
            try:
                with timed(self._meter, self._clock, "Reconcile"):
                    await self._publish()
                retry_s, pause_s = RETRY_FIRST_S, LOOK_AGAIN_S
            except (Conflict, AlreadyExists, NotFound, Gone):
                pause_s = RETRY_FIRST_S  # somebody else was quicker: look again
            except RegaugeError as error:
                text = f"slices are not published: {error}; trying again in {retry_s:g} s"
                self._tell(Notice("publish-failed", text, "error", self._pool.driver))
                pause_s, retry_s = retry_s, min(retry_s * 2, RETRY_LAST_S)
            await wait_at_most(self._touched, seen, self._clock, pause_s)
            await self._clock.sleep(self._rate.pause_s(self._clock.monotonic_s()))

    async def _publish(self) -> None:
        devices = self._fleet.of(Stack.DRA)
        if not self._pool.node_uid:
            node = await self._node()
            self._pool = replace(self._pool, node_uid=node["metadata"]["uid"])
        beside = COUNTERS_BESIDE in (await self._server.rules()).quirks
        plan = writes(self._pool, devices, await self._actual(), Memory(self.generation, self._sent), beside)
        self.generation = max(self.generation, plan.generation)
        lost: list[str] = []
        for slice_ in plan.creates:
            lost += self._remember(slice_, await self._kube.create(RESOURCE_SLICE, slice_))
        for slice_ in plan.updates:
            lost += self._remember(slice_, await self._kube.update(RESOURCE_SLICE, slice_))
        if plan.creates or plan.updates:
            self._tell_dropped(tuple(dict.fromkeys(lost)))
        for slice_ in plan.deletes:
            await self._kube.delete(RESOURCE_SLICE, slice_["metadata"]["name"], uid=slice_["metadata"]["uid"])
        self._report(plan, devices)

    async def _node(self) -> Object:
        try:
            return await self._kube.get(NODE, self._pool.node_name)
        except NotFound:
            raise TransientError(
                f"there is no node {self._pool.node_name} (yet): check --node, and that the kubelet registered it"
            ) from None

    async def _actual(self) -> Sequence[Object]:
        found = await self._kube.list(RESOURCE_SLICE, field_selector=self._pool.field_selector)
        return [one for one in found.items if self._pool.has(one)]

    def _report(self, plan: Writes, devices: Sequence[Device]) -> None:
        self.published = frozenset(device.name for device in devices)
        self.slices = plan.slices
        self.settled.set()
        if plan:
            count = len(plan.creates) + len(plan.updates)
            text = f"{len(devices)} devices in {count} slices, generation {plan.generation}"
            self._tell(Notice("published", text, about=self._pool.driver))

    def _remember(self, sent: Object, stored: Object) -> tuple[str, ...]:
        """A dropped field is no reason to write the same again for ever. Returns the fields that were dropped."""
        version = stored["metadata"].get("resourceVersion", "")
        self._sent[sent["metadata"]["name"]] = (version, content(sent["spec"]))
        return dropped(sent["spec"], stored.get("spec", {}))

    def _tell_dropped(self, lost: tuple[str, ...]) -> None:
        """Once, until other fields are."""
        if lost and lost != self._dropped:
            gates = sorted({_GATES[name] for place in lost for name in place.split(".") if name in _GATES})
            text = f"the API server dropped {', '.join(lost)}" + (f": gate {', '.join(gates)} is off" if gates else "")
            self._tell(Notice("fields-dropped", text, "error", self._pool.driver))
        self._dropped = lost

    async def _watch(self) -> None:
        """Wake the writer at each change of a slice that was not ours to make."""
        pause_s = RETRY_FIRST_S
        while True:
            try:
                start = (
                    await self._kube.list(RESOURCE_SLICE, field_selector=self._pool.field_selector)
                ).resource_version
                self._touched.set()
                async for event in self._kube.watch(
                    RESOURCE_SLICE, resource_version=start, field_selector=self._pool.field_selector
                ):
                    pause_s = RETRY_FIRST_S
                    generation = event.object.get("spec", {}).get("pool", {}).get("generation", 0)
                    if event.type == "DELETED" or generation != self.generation:
                        self._touched.set()
            except Gone:
                pass  # the changes since then are forgotten; the list has them
            except RegaugeError as error:
                self._tell(Notice("watch-failed", f"slices are not watched: {error}", "warning", self._pool.driver))
                pause_s = min(pause_s * 2, RETRY_LAST_S)
            await self._clock.sleep(pause_s)


class FilePublisher:
    """Slices in a file, as a List of objects. For nodes without an API server, and to look at."""

    def __init__(self, fleet: Fleet, pool: Pool, files: Files, path: str, tell: Tell) -> None:
        self._fleet = fleet
        self._pool = pool
        self._files = files
        self._path = path
        self._tell = tell
        self.settled = Signal()
        self.published: frozenset[str] = frozenset()
        self.generation = self.slices = 0

    async def run(self) -> None:
        """Write, and again whenever the devices change. Runs until it is cancelled."""
        while True:
            seen = self._fleet.changed.version
            try:
                self._publish()
            except OSError as error:
                text = f"slices are not written: {error}; tried again at the next change"
                self._tell(Notice("publish-failed", text, "error", self._path))
            await self._fleet.changed.wait(seen)

    def _publish(self) -> None:
        devices = self._fleet.of(Stack.DRA)
        actual = self._actual()
        plan = writes(self._pool, devices, actual)
        if plan:
            items = sorted([*plan.creates, *plan.updates], key=lambda one: str(one["metadata"]["name"]))
            document = {"apiVersion": "v1", "kind": "List", "items": items}
            self._files.write(self._path, (pretty_json(document) + "\n").encode())
            self._tell(Notice("published", f"{len(devices)} devices, generation {plan.generation}", about=self._path))
        self.published = frozenset(device.name for device in devices)
        self.generation, self.slices = plan.generation, plan.slices
        self.settled.set()

    def _actual(self) -> Sequence[Object]:
        try:
            data = self._files.read(self._path)
        except FileNotFoundError:
            return ()
        try:
            found = [document.object for document in read_documents(data, self._path)]
        except InputError as error:
            raise InputError(
                f"the file of slices cannot be read: {error}",
                where=Where(file=self._path),
                fix="move it away; it is not overwritten",
            ) from None
        if any(one.get("kind") != RESOURCE_SLICE.kind for one in found):
            raise InputError(
                "it holds other things than ResourceSlices", where=Where(file=self._path), fix="give another file"
            )
        if not all(self._pool.has(one) for one in found):
            raise InputError(
                "it holds slices of another driver or node", where=Where(file=self._path), fix="give another file"
            )
        return found
