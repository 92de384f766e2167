"""A small estate with both stacks, and a world in which its plan is rolled out."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, TypeVar

from tests.unit.rehearsal import dumps
from tests.unit.rehearsal.dumps import Thing, thing

from regauge.base import Clock, TransientError
from regauge.cluster import run_virtual
from regauge.features import rules
from regauge.kube import KubeClient
from regauge.migrate import Plan, PlanOptions, plan
from regauge.migrate.rollout import Holder, Options, Record, Rollout
from regauge.model import Document, Snapshot, read_documents
from regauge.model.kinds import DAEMON_SET, DEPLOYMENT
from regauge.rehearsal.completing import completed
from regauge.rehearsal.dump import set_up_dump
from regauge.rehearsal.nodes import MemoryMachine, NodeWorld
from regauge.rehearsal.plan_run import MortalClient, on_our_nodes
from regauge.rehearsal.plan_state import EstateState, state_of
from regauge.rehearsal.plan_world import Daemons, OwnerWatch, more_plugins, served_of, serves_of, switches_of
from regauge.rehearsal.report import Mode, Recorder

T = TypeVar("T")
RULES = rules("1.36")
VERSION = "v1.36.3"
PRODUCT = "nvidia.com/gpu.product"
EPOCH_S = 1_800_000_000.0


def _only(node: str) -> Thing:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _daemon_set(name: str, path: str, selector: dict[str, str], nodes: list[str]) -> list[Thing]:
    spec = {
        "containers": [{"name": "p", "image": f"example.com/{name}:1"}],
        "nodeSelector": selector,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "v", "hostPath": {"path": path}}],
    }
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    generation = {"annotations": {"deprecated.daemonset.template.generation": "1"}}
    set_ = thing("DaemonSet", name, "gpu-system", "apps/v1", status={}, metadata=generation)
    set_["spec"] = {"selector": {"matchLabels": labels}, "template": template, "updateStrategy": strategy}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": name,
        "uid": set_["metadata"]["uid"],
        "controller": True,
    }
    found = [set_]
    for node in nodes:
        placed = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": dumps.WHEN}]
        found.append(
            thing(
                "Pod",
                f"{name}-{node}",
                "gpu-system",
                metadata={"labels": {**labels, "pod-template-generation": "1"}, "ownerReferences": [owner]},
                spec={**spec, "nodeName": node, "affinity": _only(node)},
                status={"phase": "Running", "conditions": placed},
            )
        )
    return found


@cache
def estate() -> Snapshot:
    """The estate as a server holds it: a real dump has every default filled in."""
    bare = written_estate()
    kinds = (DEPLOYMENT, DAEMON_SET)

    async def run(clock: Clock) -> dict[str, Thing]:
        world = NodeWorld(Mode.SIMULATED, clock, RULES, Random(0), MemoryMachine, git_version=VERSION)
        try:
            await set_up_dump(world, bare, RULES, Recorder(clock.monotonic_s, lambda _title, _step: None))
            lists = [(await world.kube.list(kind)).items for kind in kinds]
            return {item["metadata"]["uid"]: item for items in lists for item in items}
        finally:
            await world.stop()

    filled = run_virtual(run, epoch_s=EPOCH_S, limit_s=86_400.0)
    documents = []
    for document in bare.all_documents():
        live = filled.get(document.object["metadata"].get("uid", ""))
        documents.append(
            document if live is None else Document({**document.object, "spec": live["spec"]}, document.where)
        )
    return Snapshot.of(documents)


def written_estate(nodes: int = 2, devices: int = 2) -> Snapshot:
    """So many nodes with a device plugin, one with a DRA driver, and a workload that needs what a label says."""
    names = [f"g{number}" for number in range(nodes)]
    things: list[Thing] = [dumps.namespace(), thing("Namespace", "gpu-system", status={"phase": "Active"})]
    for name in names:
        one = dumps.gpu_node(name, str(devices))
        one["metadata"]["labels"] |= {"node-pool": "gpus", "present": "true", PRODUCT: "NVIDIA-X"}
        things.append(one)
    canary = dumps.node("d0")
    canary["metadata"]["labels"] |= {"gpu-stack": "dra", "node-pool": "dra"}
    slice_ = dumps.slice_("d0", devices)
    for number, device in enumerate(slice_["spec"]["devices"]):
        device["attributes"] = {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA Y"},
            "uuid": {"string": f"GPU-{number}"},
        }
    things += [canary, slice_, dumps.device_class()]
    things += _daemon_set("nvidia-device-plugin", "/var/lib/kubelet/device-plugins", {"present": "true"}, names)
    things += _daemon_set("nvidia-dra-driver", "/var/lib/kubelet/plugins_registry", {"gpu-stack": "dra"}, ["d0"])
    workload = dumps.deployment("serve", [names[0]])
    for one in workload:
        spec = one["spec"]["template"]["spec"] if "template" in one["spec"] else one["spec"]
        spec["nodeSelector"] = {PRODUCT: "NVIDIA-X"}
    things += workload
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": things}).encode()
    return completed(Snapshot.of(read_documents(data, "estate.json")))


def small_plan(snapshot: Snapshot, **options: Any) -> Plan:
    return plan(snapshot, RULES, PlanOptions(**options), VERSION)


@dataclass(slots=True)
class Stage:
    """The running world of a plan."""

    world: NodeWorld
    plan: Plan
    owners: OwnerWatch
    numbers: list[int]

    def client(self) -> MortalClient:
        return MortalClient(self.world.control.api.as_actor("rollout"))

    def rollout(
        self, client: KubeClient | None = None, tell: Callable[[str], None] = lambda _: None, **options: Any
    ) -> Rollout:
        self.numbers.append(len(self.numbers))
        holder = Holder(f"test-{len(self.numbers)}")
        given = Options(holder, **{"approve": frozenset("*"), "poll_s": 2.0, **options})
        return Rollout(client or self.client(), self.world.clock, self.plan, given, self.world.node_reports, tell)

    async def state(self) -> EstateState:
        return state_of(await self.rollout().sight())

    async def until_it_ends(self, go: Callable[[Rollout], Awaitable[Record]]) -> Record:
        """Started again by somebody else until its lease is free and it comes to an end."""
        while True:
            try:
                return await go(self.rollout())
            except TransientError:
                await self.world.clock.sleep(31.0)


def staged(
    body: Callable[[Stage], Awaitable[T]],
    snapshot: Snapshot | None = None,
    *,
    missing: dict[str, int] | None = None,
    change: Callable[[Plan], Plan] = lambda plan: plan,
) -> T:
    """Run a test in a world where the estate stands and its plugins follow their DaemonSets."""
    snapshot = snapshot or estate()
    made = change(unpinned(small_plan(snapshot)))

    async def run(clock: Clock) -> T:
        world = NodeWorld(Mode.SIMULATED, clock, RULES, Random(0), MemoryMachine, git_version=VERSION)
        try:
            recorder = Recorder(clock.monotonic_s, lambda _title, _step: None)
            await set_up_dump(world, snapshot, RULES, recorder, more_plugins(served_of(made), snapshot, missing))
            assert all(step.holds for step in recorder.steps), [
                c for s in recorder.steps for c in s.checks if not c.holds
            ]
            daemons = Daemons(world, serves_of(made), frozenset(item.node for item in switches_of(made)))
            owners = OwnerWatch(world.kube, switches_of(made))
            await daemons.start()
            await owners.start()
            try:
                return await body(Stage(world, made, owners, []))
            finally:
                await owners.stop()
                await daemons.stop()
        finally:
            await world.stop()

    return run_virtual(run, epoch_s=EPOCH_S, limit_s=86_400.0)


def unpinned(made: Plan) -> Plan:
    """The plan without the versions of node software, which a world has its own of."""
    return on_our_nodes(made)
