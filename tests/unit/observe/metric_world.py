"""A small cluster in virtual time to take metrics of: one node with the sample's devices, four for each stack."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from regauge.audit import AuditInput
from regauge.cluster import VirtualClock, run_virtual
from regauge.cluster.kubelet import KubeletOptions
from regauge.features import rules
from regauge.kube import read_snapshot
from regauge.model import Object
from regauge.model.kinds import (
    CORE_EVENT,
    DEPLOYMENT,
    DEVICE_CLASS,
    NODE,
    POD,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from regauge.observe.history import History
from regauge.observe.metric_moment import Moment
from regauge.rehearsal.nodes import MemoryMachine, NodePlan, NodeWorld
from regauge.rehearsal.report import Mode
from regauge.rehearsal.samples import facts_of, load_sample, sample_devices
from regauge.rehearsal.watching import apply, until
from regauge.rehearsal.world import TIMINGS

T = TypeVar("T")
KINDS = (
    NODE, POD, DEPLOYMENT, REPLICA_SET, DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, CORE_EVENT,
)  # fmt: skip
NAMESPACE = "team-a"
CLASS = "accel.regauge.dev"
COUNTED = "accel.regauge.dev/accelerator"
NODE_NAME = "node-1"
EPOCH_S = 1_796_000_000.0


def in_cluster(play: Callable[[NodeWorld], Awaitable[T]], minor: str = "1.36") -> T:
    """What `play` gives back, played in a cluster whose node is ready and whose namespace and class are there."""

    async def main(clock: VirtualClock) -> T:
        found = rules(minor, {})
        world = NodeWorld(Mode.SIMULATED, clock, found, Random(5), MemoryMachine)
        world.control.start()
        try:
            sample = load_sample()
            kubelet = KubeletOptions(rules=found, timings=TIMINGS)
            plugins = {"driver": world.driver_plugin(sample_devices())}
            await world.add_node(NodePlan(NODE_NAME, kubelet, plugins, facts_of(sample.description, NODE_NAME)))
            await apply(world.kube, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            for object_ in sample.before:
                await apply(world.kube, object_)
            await until(world, lambda: _served(world), 60.0)
            return await play(world)
        finally:
            await world.stop()

    return run_virtual(main, epoch_s=EPOCH_S, limit_s=7200.0)


async def _served(world: NodeWorld) -> bool:
    node = await world.kube.get(NODE, NODE_NAME)
    slices = await world.kube.list(RESOURCE_SLICE)
    registered = {COUNTED, "accel.regauge.dev"} <= set(world.registered)
    return registered and bool(slices.items) and node["status"].get("capacity", {}).get(COUNTED) == "4"


async def moment(world: NodeWorld, history: History | None = None) -> Moment:
    """The cluster now, with what its kubelets tell."""
    snapshot = await read_snapshot(world.kube, KINDS)
    given = AuditInput(
        snapshot, rules("1.36", {}), "here", world.clock.now_s(), reports=await world.node_reports()
    )  # fmt: skip
    return Moment(given, history=history)


def pod(
    name: str, *, count: int = 0, claims: tuple[tuple[str, dict[str, str]], ...] = (), container: str = "main"
) -> Object:
    """A pod that counts devices, or uses claims: (entry's name, what it names)."""
    resources: dict[str, Any] = {"claims": [{"name": entry} for entry, _ in claims]} if claims else {}
    if count:
        resources["limits"] = {COUNTED: str(count)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": container, "image": "registry.k8s.io/x:1", "command": ["sleep"], "resources": resources}
            ],
            "resourceClaims": [{"name": entry, **what} for entry, what in claims],
        },
    }


def claim(name: str, count: int = 1, *, kind: str = "ResourceClaim", selector: str = "") -> Object:
    """A claim, or a template of claims, for some devices."""
    exactly: dict[str, Any] = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    spec: dict[str, Any] = {"devices": {"requests": [{"name": "accel", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec if kind == "ResourceClaim" else {"spec": spec},
    }


async def running(world: NodeWorld, *names: str) -> dict[str, str]:
    """Wait until these pods run; their uids by name."""

    async def probe() -> dict[str, str] | None:
        found = {name: await world.kube.get(POD, name, NAMESPACE) for name in names}
        phases = {item.get("status", {}).get("phase") for item in found.values()}
        return {name: item["metadata"]["uid"] for name, item in found.items()} if phases == {"Running"} else None

    uids = await until(world, probe, 120.0)
    assert uids is not None, [(name, (await world.kube.get(POD, name, NAMESPACE)).get("status")) for name in names]
    return uids
