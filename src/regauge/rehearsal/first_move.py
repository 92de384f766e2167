"""The first move: one node, both stacks, one workload on each; the one that counts devices moves to a claim.

Seven steps, each checked. Everything is done through the API, as on a real cluster; what a container got is proven by what
it prints (live) or by its OCI configuration (simulated).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.base import Where
from regauge.driver import Description, Stack
from regauge.inventory import Inventory, whole
from regauge.migrate import to_claim
from regauge.model import Document, Object, view
from regauge.model.core import Node, Pod
from regauge.model.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from regauge.rehearsal.ownership import inventory_of, ownership_rows
from regauge.rehearsal.report import Comparison, OpenStep, Ownership, Placement, Recorder
from regauge.rehearsal.watching import StateLog, apply, is_ready, pods_of, remove, until
from regauge.rehearsal.world import Seen, World

READY_WITHIN_S = 30.0
RUNS_WITHIN_S = 60.0
"""A pod whose driver was away when it came is tried again at its kubelet's next look."""
GONE_WITHIN_S = 40.0
BACK_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What the first move starts from. `counting` is workload A, `claiming` workload B; `before` comes first."""

    namespace: str
    node: str
    description: Description
    before: tuple[Object, ...]
    counting: Object
    claiming: Object
    device_class: str

    def names(self, stack: Stack) -> frozenset[str]:
        return frozenset(device.name for device in self.description.devices if device.stack is stack)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is kept of the run beside its steps."""

    ownership: tuple[Ownership, ...]
    comparisons: tuple[Comparison, ...]
    states: Mapping[str, list[str]]


async def first_move(world: World, sample: Sample, recorder: Recorder) -> Outcome:
    """Run all steps. A step that fails ends the run early, but what was made is removed all the same."""
    run = _Run(world, sample, recorder)
    log = StateLog(world.kube, sample.namespace)
    try:
        if await run.node_step() and await run.ownership_step():
            for object_ in sample.before:
                await apply(world.kube, object_)
            await log.start()
            if await run.workload_step(
                "limits", "Workload A runs by resources.limits", sample.counting, Stack.DEVICE_PLUGIN
            ):
                await run.later_steps()
        await run.release_step()
    finally:
        await log.stop()
    return Outcome(run.ownership, tuple(run.comparisons), log.states)


class _Run:
    """One run of the scenario: what the steps hand on to each other."""

    def __init__(self, world: World, sample: Sample, recorder: Recorder) -> None:
        self.world = world
        self.sample = sample
        self.recorder = recorder
        self.placements: dict[str, Placement] = {}
        self.comparisons: list[Comparison] = []
        self.ownership: tuple[Ownership, ...] = ()
        self.objects: list[Object] = [sample.counting, sample.claiming]

    async def later_steps(self) -> None:
        claiming = self.sample.claiming
        if await self.workload_step("claim", "Workload B runs by ResourceClaim", claiming, Stack.DRA):
            await self.restart_step()
            await self.move_step()

    # A pod that comes before the kubelet knows its driver waits for the kubelet's next look. So every step that starts
    # a pod waits until the driver has said that it is registered.

    async def node_step(self) -> bool:
        step = self.recorder.begin("node", "The node is ready; the driver serves both stacks")
        counted, published = (len(self.sample.names(stack)) for stack in (Stack.DEVICE_PLUGIN, Stack.DRA))
        resource = self.sample.description.resource

        async def probe() -> Node | None:
            found = (await self.world.kube.list(NODE, field_selector=f"metadata.name={self.sample.node}")).items
            nodes = [view(item, Node) for item in found]
            if not nodes or not _node_ready(nodes[0]):
                return None
            inventory = await inventory_of(self.world)
            here = [device for device in inventory.devices if device.node == self.sample.node]
            if not {resource, self.sample.description.driver} <= set(self.world.registered):
                return None
            everything = (
                whole(nodes[0].status.capacity.get(resource, 0)) == counted and len(here) == counted + published
            )
            return nodes[0] if everything else None

        node = await until(self.world, probe, READY_WITHIN_S)
        step.check(
            f"the node is Ready with its devices within {READY_WITHIN_S:g} s",
            node is not None,
            "it is" if node else "no",
        )
        capacity = str(node.status.capacity.get(resource, "0")) if node else "-"
        step.check(f"the node counts {counted} {resource}", capacity == str(counted), capacity)
        inventory = await inventory_of(self.world)
        names = _advertised(inventory, self.sample.description.driver)
        step.check(
            f"{published} devices are published by {self.sample.description.driver}",
            len(names) == published,
            len(names),
        )
        return step.end().holds

    async def ownership_step(self) -> bool:
        step = self.recorder.begin("ownership", "Every device is owned by exactly one stack")
        inventory = await inventory_of(self.world)
        self.ownership = ownership_rows(inventory)
        self._check_single_owners(step, inventory)
        for stack, source in (
            (Stack.DEVICE_PLUGIN, self.sample.description.resource),
            (Stack.DRA, self.sample.description.driver),
        ):
            names = _advertised(inventory, source)
            step.check(
                f"{stack} serves what the description gives it", names == self.sample.names(stack), sorted(names)
            )
        return step.end().holds

    def _check_single_owners(self, step: OpenStep, inventory: Inventory) -> None:
        double = [device.identity for device in inventory.doubly_owned]
        step.check("no device is advertised twice", not double, double or "none is")
        total = len(self.sample.description.devices)
        step.check(f"there are {total} devices", len(inventory.devices) == total, len(inventory.devices))

    async def workload_step(self, name: str, title: str, workload: Object, stack: Stack) -> bool:
        step = self.recorder.begin(name, title)
        placement = await self._start(step, workload, stack)
        if placement is not None:
            self.placements[workload["metadata"]["name"]] = placement
        return step.end().holds

    async def _start(self, step: OpenStep, workload: Object, stack: Stack) -> Placement | None:
        """Apply a workload of one pod, wait until it runs, check what it was given."""
        app = workload["metadata"]["name"]
        began_s = self.world.clock.monotonic_s()
        await apply(self.world.kube, workload)

        async def probe() -> tuple[Pod, Seen] | None:
            pods = [pod for pod in await pods_of(self.world.kube, self.sample.namespace, app) if is_ready(pod)]
            seen = self.world.seen(pods[0].metadata.uid, pods[0].spec.containers[0].name) if pods else None
            return (pods[0], seen) if seen is not None else None

        running = await until(self.world, probe, RUNS_WITHIN_S)
        took_s = self.world.clock.monotonic_s() - began_s
        step.check(
            f"its pod runs within {RUNS_WITHIN_S:g} s",
            running is not None,
            f"{took_s:.1f} s" if running else await self._why(app),
        )
        if running is None:
            return None
        pod, seen = running
        devices = self._held(await inventory_of(self.world), pod)
        asked = 2
        step.check(
            f"it holds {asked} devices of the {stack} stack",
            len(devices) == asked and devices <= self.sample.names(stack),
            sorted(devices),
        )
        self._check_seen(step, seen, devices)
        return Placement(app, stack.value, pod.spec.node_name, tuple(sorted(devices)), round(took_s, 2))

    def _check_seen(self, step: OpenStep, seen: Seen, devices: frozenset[str]) -> None:
        """The container was given the variables and device nodes of its devices, and of no other."""
        held = [device for device in self.sample.description.devices if device.name in devices]
        env = dict(item.partition("=")[::2] for device in held for item in device.edits.env)
        nodes = {node.path for device in held for node in device.edits.device_nodes}
        step.check("its container sees the variables of these devices only", dict(seen.env) == env, dict(seen.env))
        step.check(
            "its container finds the device nodes of these devices only", set(seen.devices) == nodes, dict(seen.devices)
        )

    def _held(self, inventory: Inventory, pod: Pod) -> frozenset[str]:
        holder = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        return frozenset(
            item.name.rpartition("/")[2]
            for device in inventory.devices
            for item in device.advertisements
            if holder in item.holders
        )

    async def _why(self, app: str) -> str:
        """What stands in the way of a workload's pod, in its own words."""
        words = [
            f"{condition.reason}: {condition.message}"
            for pod in await pods_of(self.world.kube, self.sample.namespace, app)
            for condition in pod.status.conditions
            if condition.status == "False" and condition.message
        ]
        return "; ".join(words) or "no pod was made"

    async def restart_step(self) -> None:
        step = self.recorder.begin("driver-restart", "The driver is killed and comes back; nothing is lost")
        before = self._running(await self._all_pods())
        held = ownership_rows(await inventory_of(self.world))
        known = self.world.registered
        await self.world.restart_driver()

        async def probe() -> Inventory | None:
            if any(self.world.registered.get(name, 0) <= count for name, count in known.items()):
                return None
            inventory = await inventory_of(self.world)
            return inventory if len(inventory.devices) == len(self.sample.description.devices) else None

        back = await until(self.world, probe, BACK_WITHIN_S)
        step.check(
            f"both stacks are served again within {BACK_WITHIN_S:g} s", back is not None, "yes" if back else "no"
        )
        after_uids = self._running(await self._all_pods())
        step.check("the pods went on", after_uids == before, f"{len(after_uids & before)} of {len(before)}")
        after = ownership_rows(back) if back else ()
        step.check("every device is owned and held as before", after == held, _changes(held, after))
        step.end()

    async def _all_pods(self) -> list[Pod]:
        return [view(item, Pod) for item in (await self.world.kube.list(POD, self.sample.namespace)).items]

    @staticmethod
    def _running(pods: Iterable[Pod]) -> frozenset[str]:
        return frozenset(pod.metadata.uid for pod in pods if is_ready(pod))

    async def move_step(self) -> None:
        step = self.recorder.begin("move", "Workload A moves to a claim; placement and start are compared")
        old = self.sample.counting
        app = old["metadata"]["name"]
        moved = to_claim(Document(old, Where(object=app)), self.sample.description.resource, self.sample.device_class)
        self.objects += [*moved.objects, moved.workload]
        await remove(self.world.kube, old)
        free = await until(self.world, lambda: self._free(app), GONE_WITHIN_S)
        step.check("its old pod is gone and its devices are free", bool(free), "yes" if free else "still there")
        for object_ in moved.objects:
            await apply(self.world.kube, object_)
        after = await self._start(step, moved.workload, Stack.DRA)
        before = self.placements[app]
        if after is not None:
            self.comparisons.append(Comparison(f"Deployment {self.sample.namespace}/{app}", before, after))
            step.check("it runs on the same node", after.node == before.node, after.node)
        inventory = await inventory_of(self.world)
        self.ownership = ownership_rows(inventory)
        self._check_single_owners(step, inventory)
        twice = [device.identity for device in inventory.devices if len(device.holders) > 1]
        step.check("no device is held by two pods", not twice, twice or "none is")
        step.end()

    async def _free(self, app: str) -> bool:
        pods = await pods_of(self.world.kube, self.sample.namespace, app)
        held = self.sample.names(Stack.DEVICE_PLUGIN)
        inventory = await inventory_of(self.world)
        busy = [item for item in inventory.devices for ad in item.advertisements if ad.name in held and ad.holders]
        return not pods and not busy

    async def release_step(self) -> None:
        step = self.recorder.begin("release", "Everything is released")
        for object_ in self.objects:
            await remove(self.world.kube, object_)

        async def probe() -> bool:
            kinds = (POD, RESOURCE_CLAIM)
            left = [item for kind in kinds for item in (await self.world.kube.list(kind, self.sample.namespace)).items]
            held = [device for device in (await inventory_of(self.world)).devices if device.holders]
            return not left and not held

        done = await until(self.world, probe, GONE_WITHIN_S)
        step.check(
            f"no pod, claim or held device is left within {GONE_WITHIN_S:g} s",
            bool(done),
            "yes" if done else await self._left(),
        )
        for kind in (RESOURCE_CLAIM_TEMPLATE,):
            for item in (await self.world.kube.list(kind, self.sample.namespace)).items:
                await remove(self.world.kube, {"apiVersion": kind.api_version, "kind": kind.kind, **item})
        step.end()

    async def _left(self) -> str:
        pods = [pod.metadata.name for pod in await self._all_pods()]
        claims = [
            item["metadata"]["name"]
            for item in (await self.world.kube.list(RESOURCE_CLAIM, self.sample.namespace)).items
        ]
        held = [device.identity for device in (await inventory_of(self.world)).devices if device.holders]
        return f"pods {pods}, claims {claims}, devices {held}"


def _advertised(inventory: Inventory, source: str) -> frozenset[str]:
    return frozenset(
        item.name.rpartition("/")[2]
        for device in inventory.devices
        for item in device.advertisements
        if item.source == source
    )


def _node_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def _changes(before: tuple[Ownership, ...], after: tuple[Ownership, ...]) -> Any:
    return [row.device for row in after if row not in before] or "unchanged"
