"""The life of a claim, told from what a cluster in virtual time left behind, held against the instants it really happened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from tests.unit.observe.metric_world import NAMESPACE, NODE_NAME, claim, in_cluster, pod, running

from regauge.base import MemoryFiles
from regauge.kube import NotFound, read_snapshot
from regauge.model import Kind, Object, Snapshot, view
from regauge.model.kinds import CORE_EVENT, DEVICE_TAINT_RULE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.node_files import NodeFile, NodeFiles, PathFacts
from regauge.model.resource import ResourceClaim
from regauge.observe.timeline import Certainty, Moment, PeriodKind, Step, Timeline, timeline_of
from regauge.observe.timeline_following import seen_between
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.watching import apply, until

KINDS = (NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, DEVICE_TAINT_RULE, CORE_EVENT)
AWAY_S = 40.0


@dataclass
class Watched:
    """When the first of each thing was seen to happen, by the clock of the cluster, and every state of the claim."""

    at: dict[str, float] = field(default_factory=dict)
    claims: list[tuple[float, ResourceClaim | None]] = field(default_factory=list)

    def note(self, what: str, at_s: float) -> None:
        self.at.setdefault(what, at_s)

    def claim(self, object_: Object, gone: bool, at_s: float) -> None:
        status = object_.get("status") or {}
        self.claims.append((at_s, None if gone else view(object_, ResourceClaim)))
        if status.get("allocation"):
            self.note("allocated", at_s)
        for one in status.get("reservedFor") or ():
            self.note(f"reserved {one['name']}", at_s)
        if "allocated" in self.at and not status.get("allocation"):
            self.note("released", at_s)
        if gone:
            self.note("gone", at_s)

    def pod(self, object_: Object, gone: bool, at_s: float) -> None:
        name = object_["metadata"]["name"]
        if object_["spec"].get("nodeName"):
            self.note(f"placed {name}", at_s)
        if gone:
            self.note(f"gone {name}", at_s)


@contextlib.asynccontextmanager
async def watched(world: NodeWorld) -> AsyncIterator[Watched]:
    found = Watched()

    async def follow(kind: Kind) -> None:
        note = found.claim if kind is RESOURCE_CLAIM else found.pod
        async for event in world.kube.watch(kind, NAMESPACE):
            note(event.object, event.type == "DELETED", world.clock.now_s())

    async def prepared() -> None:
        while not any(b"PrepareCompleted" in data for data in checkpoints(world).values()):
            await world.clock.sleep(0.05)
        found.note("prepared", world.clock.now_s())

    tasks = [asyncio.create_task(one) for one in (follow(POD), follow(RESOURCE_CLAIM), prepared())]
    try:
        yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Played:
    known: dict[str, float]
    running: Timeline
    ending: Timeline
    recorded: Timeline
    seen: list[Moment]


async def _life(world: NodeWorld) -> Played:
    """A claim is made, waits for a pod, is allocated; the driver is away before it prepares; the pod runs, is deleted."""
    node = world.nodes[NODE_NAME]
    async with watched(world) as found:
        found.note("created", world.clock.now_s())
        await apply(world.kube, claim("ours"))
        await world.clock.sleep(7.3)
        node.switch_plugin("driver", False)
        await world.clock.sleep(2.0)
        found.note("pod created", world.clock.now_s())
        await apply(world.kube, pod("first", claims=(("mine", {"resourceClaimName": "ours"}),)))
        await world.clock.sleep(AWAY_S)
        node.switch_plugin("driver", True)
        await running(world, "first")
        told = await _timeline(world)
        recorded = await _timeline(world, {NODE_NAME: _record(world)})
        await world.clock.sleep(21.0)
        found.note("deleted", world.clock.now_s())
        await world.kube.delete(POD, "first", NAMESPACE)
        ending = await _timeline(world)
        await until(world, lambda: _gone(world, POD, "first"), 60.0)
        await until(world, lambda: _free(world), 60.0)
        await world.kube.delete(RESOURCE_CLAIM, "ours", NAMESPACE)
        await until(world, lambda: _gone(world, RESOURCE_CLAIM, "ours"), 60.0)
        await world.clock.sleep(0.5)
    states = found.claims
    seen = [one for (_, old), (at_s, new) in pairwise(states) for one in seen_between(old, new, at_s)]
    return Played(found.at, told, ending, recorded, seen)


async def _timeline(world: NodeWorld, nodes: dict[str, NodeFiles] | None = None) -> Timeline:
    snapshot: Snapshot = await read_snapshot(world.kube, KINDS)
    (one,) = [item for item in snapshot.claims if item.metadata.name == "ours"]
    return timeline_of(one, snapshot, nodes or {}, world.clock.now_s())


def checkpoints(world: NodeWorld) -> dict[str, bytes]:
    """What the node keeps of claims: the kubelet's file and the driver's."""
    files = world.nodes[NODE_NAME].machine.files
    assert isinstance(files, MemoryFiles)
    names = ("/dra_manager_state", "/checkpoint.json")
    return {path: data for path, data in files.content.items() if path.endswith(names)}


def _record(world: NodeWorld) -> NodeFiles:
    """The checkpoints as `regauge collect node` records them, with when they were written."""
    facts = PathFacts("file", modified_s=world.clock.now_s())
    return NodeFiles("node", checkpoints=tuple(NodeFile(*item, facts) for item in checkpoints(world).items()))


async def _gone(world: NodeWorld, kind: Kind, name: str) -> bool:
    try:
        await world.kube.get(kind, name, NAMESPACE)
    except NotFound:
        return True
    return False


async def _free(world: NodeWorld) -> bool:
    found = await world.kube.get(RESOURCE_CLAIM, "ours", NAMESPACE)
    return not (found.get("status") or {}).get("allocation")


@pytest.fixture(scope="module")
def played() -> Played:
    return in_cluster(_life)


def one(timeline: Timeline, step: Step, subject: str = "claim") -> Moment:
    (found,) = [item for item in timeline.moments if item.step is step and item.subject == subject]
    return found


def holds(moment: Moment, really_s: float) -> bool:
    """Whether what is told of a moment is true of when it really happened. Times of the API are whole seconds."""
    if moment.certainty is Certainty.noted:
        return 0.0 <= really_s - moment.at_s < 1.0
    assert moment.certainty in (Certainty.between, Certainty.at_most)
    return (moment.from_s is None or moment.from_s <= really_s) and really_s - moment.at_s < 1.0


@pytest.mark.row(132, how="unit")
@pytest.mark.row(175, how="unit")
def test_what_is_noted_is_when_it_happened(played: Played) -> None:
    known, told = played.known, played.running
    assert holds(one(told, Step.created), known["created"])
    assert holds(one(told, Step.pod_created, "pod first"), known["pod created"])
    assert one(told, Step.allocated).certainty is Certainty.noted
    assert holds(one(told, Step.allocated), known["allocated"])
    assert holds(one(told, Step.scheduled, "pod first"), known["placed first"])
    assert known["allocated"] - known["created"] > 9.0  # the moments are far enough apart to be mistaken for each other
    assert told.state == "allocated,reserved" and told.node == NODE_NAME and told.not_known == ()


def test_what_is_inferred_has_bounds_that_hold(played: Played) -> None:
    known, told = played.known, played.running
    reserved = one(told, Step.reserved)
    assert reserved.inferred and holds(reserved, known["reserved first"])
    prepared = one(told, Step.prepared, "pod first")
    assert prepared.certainty is Certainty.between and holds(prepared, known["prepared"])
    assert prepared.from_s is not None and prepared.at_s - prepared.from_s >= AWAY_S - 1.0
    started = one(told, Step.started, "pod first")
    assert started.at_s >= prepared.at_s - 1.0 and started.certainty is Certainty.noted
    assert known["prepared"] - known["allocated"] > AWAY_S - 1.0


def test_trouble_on_the_way_is_told(played: Played) -> None:
    (trouble,) = [item for item in played.running.moments if item.step is Step.trouble][:1]
    assert "Failed to prepare dynamic resources" in trouble.text and trouble.source.startswith("event ")
    assert played.known["placed first"] - 1.0 <= trouble.at_s <= played.known["prepared"]


def test_checkpoints_tell_that_it_is_prepared(played: Played) -> None:
    found = [item for item in played.recorded.moments if item.subject == f"node {NODE_NAME}"]
    assert {item.text for item in found} == {
        "noted by the kubelet as prepared",
        "noted by the driver (PrepareCompleted)",
    }
    assert all(item.certainty is Certainty.at_most and item.at_s >= played.known["prepared"] for item in found)


def test_the_end_is_told_from_the_deletion_and_its_grace_period(played: Played) -> None:
    deleted = one(played.ending, Step.pod_deleted, "pod first")
    assert holds(deleted, played.known["deleted"])
    assert not any(item.step is Step.pod_deleted for item in played.running.moments)


def test_what_is_seen_while_following_is_seen_when_it_happens(played: Played) -> None:
    steps = [(item.step, item.text) for item in played.seen]
    assert [step for step, _ in steps] == [
        Step.allocated, Step.reserved, Step.unreserved, Step.released, Step.gone,
    ]  # fmt: skip
    at = {item.step: item.at_s for item in played.seen}
    known = played.known
    assert at[Step.allocated] == known["allocated"] and at[Step.reserved] == known["reserved first"]
    assert at[Step.released] == known["released"] and at[Step.gone] == known["gone"]
    assert known["deleted"] <= at[Step.unreserved] <= at[Step.released]


def test_what_lasted(played: Played) -> None:
    lasted = {(item.subject, item.kind): (item.from_s, item.to_s) for item in played.running.periods}
    begin, end = lasted[("claim", PeriodKind.waiting)]
    assert end is not None and abs(end - begin - (played.known["allocated"] - played.known["created"])) <= 1.0
    assert lasted[("claim", PeriodKind.allocated)][1] is None
    begin, end = lasted[("pod first", PeriodKind.starting)]
    assert end is not None and end - begin >= AWAY_S - 1.0
    assert lasted[("pod first", PeriodKind.running)][1] is None


RULE: Object = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "broken"},
    "spec": {
        "deviceSelector": {"driver": "accel.regauge.dev"},
        "taint": {"key": "example.com/broken", "effect": "NoExecute"},
    },
}


async def _evicted(world: NodeWorld) -> tuple[float, float, Timeline]:
    await apply(world.kube, claim("ours"))
    kept = pod("first", claims=(("mine", {"resourceClaimName": "ours"}),))
    kept["metadata"]["finalizers"] = ["example.com/kept"]
    kept["spec"]["terminationGracePeriodSeconds"] = 30
    await apply(world.kube, kept)
    await running(world, "first")
    await world.clock.sleep(33.0)
    tainted_s = world.clock.now_s()
    task = asyncio.create_task(apply(world.kube, RULE))
    async for event in world.kube.watch(POD, NAMESPACE):
        if event.object["metadata"].get("deletionTimestamp"):
            break
    await task
    return tainted_s, world.clock.now_s(), await _timeline(world)


@pytest.mark.row(132, how="unit")
def test_a_taint_and_the_eviction_that_it_brings() -> None:
    tainted_s, deleted_s, told = in_cluster(_evicted, "1.37")
    (taint,) = [item for item in told.moments if item.step is Step.tainted]
    assert taint.subject.startswith(f"device {NODE_NAME}/accel-") and "by rule broken" in taint.text
    assert holds(taint, tainted_s)
    evictions = [item for item in told.moments if item.step is Step.evicted]
    assert {item.source.split()[0] for item in evictions} == {"pod", "event"}
    assert any("deleting due to NoExecute taint" in item.text for item in evictions)
    assert all(tainted_s - 1.0 <= item.at_s <= deleted_s for item in evictions)
    gone = one(told, Step.pod_deleted, "pod first")
    assert tainted_s - 1.0 <= gone.at_s <= deleted_s and "with 30 s to end" in gone.text
