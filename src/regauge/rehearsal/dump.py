"""The rehearsal of a dump: set up as it was, placed anew, compared, and one workload per resource moved to claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from regauge.base import InputError, Where
from regauge.cluster.kubelet import KubeletOptions, Timings
from regauge.inventory import whole
from regauge.kube import ApiError
from regauge.migrate import find_workloads
from regauge.model import Kind, Object, Rules, Snapshot, view
from regauge.model.core import Node, Pod
from regauge.model.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.resource import ResourceClaim
from regauge.pluginapi import PluginNet
from regauge.rehearsal.dump_moves import choose_moves, move_workload
from regauge.rehearsal.dump_plan import DumpNode, DumpPlan, ExpectedPod, claimed_devices, plan_dump
from regauge.rehearsal.nodes import NodePlan, NodeWorld, Place, Plugin
from regauge.rehearsal.ownership import inventory_of, snapshot_of
from regauge.rehearsal.report import Attribution, Comparison, PodRow, Recorder
from regauge.rehearsal.stand_ins import StandInDriver, StandInPlugin
from regauge.rehearsal.watching import until
from regauge.rehearsal.world import TIMINGS, NodeFacts
from regauge.scheduler import Refusal, SchedulerError, check_node

PLUGINS_WITHIN_S = 30.0
SETTLE_WITHIN_S = 300.0
BETWEEN_PODS_S = 0.02
SETTLE_S = 2.0
GATE = "regauge.dev/rehearsal"
SHOWN = 5


@dataclass(frozen=True, slots=True)
class DumpOutcome:
    """What is kept of the run beside its steps."""

    pods: tuple[PodRow, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]
    attribution: tuple[Attribution, ...] = ()


@dataclass(frozen=True, slots=True)
class MorePlugins:
    """What a node gets beside what its dump shows: plugins that are off at first, and what is known of its devices.

    `instead` are plugins in the place of those that the dump shows.
    """

    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    facts: NodeFacts = field(default_factory=NodeFacts)
    instead: Mapping[str, Plugin] = field(default_factory=dict)


async def set_up_dump(
    world: NodeWorld,
    snapshot: Snapshot,
    rules: Rules,
    recorder: Recorder,
    more: Mapping[str, MorePlugins] | None = None,
    timings: Timings = TIMINGS,
) -> DumpOutcome:
    """The dump as it was, placed and compared; the world goes on. `more` is by node."""
    plan = plan_dump(snapshot)
    run = _DumpRun(world, snapshot, plan, recorder, _workload_titles(snapshot))
    await run.set_up(tuple(node_plans(plan, rules, more or {}, timings)))
    await run.place()
    await run.check_held()
    return DumpOutcome(tuple(run.rows), (), plan.notes)


def node_plans(
    plan: DumpPlan, rules: Rules, more: Mapping[str, MorePlugins], timings: Timings = TIMINGS
) -> Iterator[NodePlan]:
    """The nodes of a dump with the plugins that stand in for its drivers; `more` is by node."""
    for node in plan.nodes:
        options = KubeletOptions(rules=rules, capacity=node.capacity, timings=timings)
        own, shown = more.get(node.name, MorePlugins()), _plugins(node)
        off = frozenset(own.plugins) - frozenset(shown)
        yield NodePlan(node.name, options, {**own.plugins, **shown, **own.instead}, own.facts, off)


async def rehearse_dump(world: NodeWorld, snapshot: Snapshot, rules: Rules, recorder: Recorder) -> DumpOutcome:
    """Run all steps. A pod that is placed otherwise fails its step and is told with the reason; the run goes on."""
    stands = await set_up_dump(world, snapshot, rules, recorder)
    moves, unmoved = choose_moves(snapshot, rules)
    comparisons = []
    for move in moves:
        compared = await move_workload(world, recorder, move)
        comparisons.extend([compared] if compared else [])
    return DumpOutcome(stands.pods, tuple(comparisons), (*stands.notes, *unmoved))


def _workload_titles(snapshot: Snapshot) -> Mapping[str, tuple[str, str]]:
    """By pod uid, its workload's title and what it asks for."""
    found = {}
    for workload in find_workloads(snapshot):
        asks = ", ".join(f"{ask.count or 'all'} {ask.name}" for ask in workload.asks)
        for pod in workload.pods:
            found[pod.metadata.uid] = (workload.title, asks)
    return found


class _DumpRun:
    """One run: what the steps hand on to each other."""

    def __init__(
        self,
        world: NodeWorld,
        snapshot: Snapshot,
        plan: DumpPlan,
        recorder: Recorder,
        titles: Mapping[str, tuple[str, str]],
    ) -> None:
        self.world = world
        self.snapshot = snapshot
        self.plan = plan
        self.recorder = recorder
        self.titles = titles
        self.rows: list[PodRow] = []

    async def set_up(self, nodes: Iterable[NodePlan]) -> None:
        step = self.recorder.begin("setup", f"{len(self.plan.nodes)} nodes stand with the devices that the dump shows")
        for node, stands in zip(self.plan.nodes, nodes):
            self._put(NODE, node.object)
            await self.world.add_node(stands)
        wanted = {
            (node.name, plugin.resource_name): plugin.healthy for node in self.plan.nodes for plugin in node.plugins
        }
        counted = await until(self.world, lambda: self._counted(wanted), PLUGINS_WITHIN_S)
        seen = "all are" if counted is not None else f"not within {PLUGINS_WITHIN_S:g} s"
        step.check(f"{len(wanted)} resources are counted as in the dump", counted is not None, seen)
        # A kubelet that starts removes the slices of its node, and a driver that comes keeps them: so they come now.
        for object_ in self.plan.slices:
            self._put(RESOURCE_SLICE, object_)
        for kind, object_ in self.plan.objects:
            self._put(kind, object_)
        for pod in self.plan.pods:
            self._put(POD, _gated(pod))
        for claim in self.plan.generated:
            self._put(RESOURCE_CLAIM, claim)
        self.world.control.start()
        await self.world.clock.sleep(SETTLE_S)
        published = len((await self.world.kube.list(RESOURCE_SLICE)).items)
        step.check(f"{len(self.plan.slices)} slices are published", published == len(self.plan.slices), published)
        step.end()

    def _put(self, kind: Kind, object_: Object) -> None:
        """Load an object as it was, its uid kept: owners and owned find each other again."""
        try:
            self.world.control.api.restore(kind, object_)
        except (ApiError, ValueError) as error:
            metadata = object_["metadata"]
            title = "/".join(part for part in (metadata.get("namespace", ""), metadata["name"]) if part)
            raise InputError(
                f"no API server would hold it: {error}",
                where=Where(object=f"{kind.kind} {title}"),
                fix="mend it or leave it out of the dump",
            ) from None

    async def _counted(self, wanted: Mapping[tuple[str, str], int]) -> bool:
        nodes = {item["metadata"]["name"]: view(item, Node) for item in (await self.world.kube.list(NODE)).items}
        return all(
            node in nodes and whole(nodes[node].status.allocatable.get(name, -1)) == count
            for (node, name), count in wanted.items()
        )

    async def place(self) -> None:
        step = self.recorder.begin("placement", f"{len(self.plan.pods)} pods are placed as the dump shows")
        for pod in self.plan.pods:  # one after the other, in the order in which the dump's scheduler placed them
            metadata = pod["metadata"]
            body = {"spec": {"schedulingGates": pod["spec"].get("schedulingGates") or None}}
            await self.world.kube.patch(POD, metadata["name"], body, metadata["namespace"])
            await self.world.clock.sleep(BETWEEN_PODS_S)
        await until(self.world, self._settled, SETTLE_WITHIN_S)
        self.rows = await self._compare()
        running = [row for row in self.rows if row.expected != "pending"]
        differing = [row for row in running if not row.agrees]
        step.check(
            f"{len(running)} pods run where the dump has them, with its devices", not differing, _some(differing)
        )
        waiting = [row for row in self.rows if row.expected == "pending"]
        wrong = [row for row in waiting if not row.agrees]
        step.check(f"{len(waiting)} pods wait for the reason that the dump gives", not wrong, _some(wrong))
        step.end()

    async def _settled(self) -> bool:
        pods = {item["metadata"]["uid"]: view(item, Pod) for item in (await self.world.kube.list(POD)).items}
        return all(_is_settled(pods.get(expected.uid), expected) for expected in self.plan.expected)

    async def _compare(self) -> list[PodRow]:
        now = await snapshot_of(self.world.kube)
        claims = {(item.metadata.namespace, item.metadata.name): item for item in now.claims}
        pods = {pod.metadata.uid: pod for pod in now.pods}
        return [self._row(expected, pods.get(expected.uid), claims) for expected in self.plan.expected]

    def _row(self, expected: ExpectedPod, pod: Pod | None, claims: Mapping[tuple[str, str], ResourceClaim]) -> PodRow:
        workload, asks = self.titles.get(expected.uid, (f"Pod {expected.namespace}/{expected.name}", "-"))
        row = PodRow(
            namespace=expected.namespace,
            workload=workload,
            pod=expected.name,
            asks=asks,
            expected=_place(expected.node, expected.devices),
            found="gone",
            agrees=False,
            why="the pod is gone",
        )
        if pod is None:
            return row
        devices = claimed_devices(pod, claims)
        found = _place(pod.spec.node_name, devices)
        message = _waiting_message(pod)
        if not expected.node:
            agrees = not pod.spec.node_name and message == expected.message
            why = message if agrees else f"the dump says: {expected.message}; here: {message or 'it was placed'}"
            return replace(row, found=found, agrees=agrees, why=why)
        if pod.spec.node_name != expected.node:
            return replace(row, found=found, why=self._why_not(pod, expected.node) or message)
        if devices != expected.devices:
            return replace(row, found=found, why="on the same node, with other devices")
        running = pod.status.phase == "Running"
        return replace(row, found=found, agrees=running, why="" if running else f"placed, but {pod.status.phase}")

    def _why_not(self, pod: Pod, node: str) -> str:
        """Why the scheduler would not put the pod where the dump has it, asked now."""
        state = self.world.control.scheduler.state
        if node not in state.nodes:
            return f"the dump has no node {node}"
        verdict = check_node(pod, node, state)
        if isinstance(verdict, Refusal):
            return f"{node} refuses it: {', '.join(verdict.reasons)}"
        return verdict.message if isinstance(verdict, SchedulerError) else f"{node} would take it now"

    async def check_held(self) -> None:
        step = self.recorder.begin("held", "No device is held twice, and what is unknown is told")
        inventory = await inventory_of(self.world)
        double = [device.identity for device in inventory.doubly_owned]
        step.check("no device is advertised by two stacks", not double, double or "none is")
        over = [f"{item.node} {item.resource_name}" for item in inventory.counted if item.requested > item.capacity]
        step.check("no node gives away more than it counts", not over, over or "none does")
        step.end()


def _gated(pod: Object) -> Object:
    """The pod held back by a gate of ours, until it is its turn. Its owner sees that it is there all along."""
    gates = [*(pod["spec"].get("schedulingGates") or ()), {"name": GATE}]
    return {**pod, "spec": {**pod["spec"], "schedulingGates": gates}}


def _plugins(node: DumpNode) -> dict[str, Plugin]:
    found: dict[str, Plugin] = {}
    for plugin in node.plugins:
        found[plugin.resource_name] = _plugin(plugin)
    for driver in node.drivers:
        found[driver] = _driver(driver)
    return found


def _plugin(stand_in: StandInPlugin) -> Plugin:
    async def plugin(net: PluginNet, place: Place) -> None:
        await stand_in.run(net, place.kubelet_dir)

    return plugin


def _driver(name: str) -> Plugin:
    async def plugin(net: PluginNet, place: Place) -> None:
        await StandInDriver(name, place.kube, place.files, place.cdi_dir).run(net, place.kubelet_dir)

    return plugin


def _is_settled(pod: Pod | None, expected: ExpectedPod) -> bool:
    if pod is None:
        return True
    if not expected.node:
        return bool(pod.spec.node_name or _waiting_message(pod))
    return pod.status.phase == "Running" or bool(_waiting_message(pod))


def _waiting_message(pod: Pod) -> str:
    found = [item.message for item in pod.status.conditions if item.type == "PodScheduled" and item.status == "False"]
    return (found or [""])[0]


def _place(node: str, devices: Iterable[str]) -> str:
    if not node:
        return "pending"
    names = sorted(device.rpartition("/")[2] for device in devices)
    return f"{node} ({', '.join(names)})" if names else node


def _some(rows: list[PodRow]) -> str:
    told = [f"{row.pod}: {row.expected} -> {row.found}: {row.why}" for row in rows[:SHOWN]]
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return "; ".join(told) + more if told else "all do"
