"""Why claims and pods wait: one word each, held against the scheduler's own words and against what is there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import shared
from tests.unit.observe.metric_world import NAMESPACE, claim, in_cluster, moment, pod, running
from tests.unit.observe.test_families import allocated, made, slice_, values

from regauge.audit import AuditInput, Ground
from regauge.base import Where
from regauge.collect import load_estate
from regauge.features import rules
from regauge.model import Document, Object, Snapshot
from regauge.observe.metric_moment import Moment
from regauge.observe.pending import Explained, Reason
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.watching import apply

COUNTED = "example.com/gpu"


def node(name: str = "n1", count: int = 0) -> Object:
    room = {"cpu": "8", "memory": "8Gi", "pods": "110", **({COUNTED: str(count)} if count else {})}
    labels = {"kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def class_(expression: str = "true", **spec: Any) -> Object:
    spec |= {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": spec}


def waiting(name: str, claims: tuple[str, ...] = (), limits: dict[str, str] | None = None, **spec: Any) -> Object:
    resources: Object = {"claims": [{"name": one} for one in claims]} | ({"limits": limits} if limits else {})
    entries = [{"name": one, "resourceClaimName": one} for one in claims]
    containers = [{"name": "c", "resources": resources}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {"containers": containers, "resourceClaims": entries, **spec},
        "status": {"phase": "Pending"},
    }


def asking(name: str = "wanted", count: int = 1, *, cls: str = "c", **exactly: Any) -> Object:
    found = allocated(name, "-")
    found["spec"]["devices"]["requests"][0]["exactly"] = {
        "deviceClassName": cls, "allocationMode": "ExactCount", "count": count, **exactly,
    }  # fmt: skip
    found["status"] = {}
    return found


def selecting(expression: str) -> Any:
    return [{"cel": {"expression": expression}}]


GATED: Any = {"schedulingGates": [{"name": "g"}]}
FREE = {"name": "a", "attributes": {"model": {"string": "x"}}}
OTHER = {"name": "b", "attributes": {"model": {"string": "y"}}}
TAINTED = {"name": "t", "taints": [{"key": "k", "effect": "NoSchedule"}]}
SHARED = {
    "name": "s", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}},
}  # fmt: skip
PART = {"name": "p", "consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": "3"}}}]}
COUNTERS = [{"name": "s", "counters": {"slots": {"value": "4"}}}]

DELETED = asking()
DELETED["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"

CASES: dict[str, tuple[Reason, tuple[Object, ...]]] = {
    "no pod uses it": (Reason.UNUSED, (node(), class_(), slice_(FREE), asking())),
    "its pod has a gate": (Reason.GATED, (node(), class_(), slice_(FREE), asking(), waiting("p", ("wanted",), **GATED))),
    "devices are there": (Reason.SCHEDULER, (node(), class_(), slice_(FREE), asking(), waiting("p", ("wanted",)))),
    "its class is not there": (Reason.NO_CLASS, (node(), slice_(FREE), asking(), waiting("p", ("wanted",)))),
    "no nodes": (Reason.NO_NODES, (class_(), slice_(FREE), asking(), waiting("p", ("wanted",)))),
    "no devices": (Reason.NO_DEVICES, (node(), class_(), asking(), waiting("p", ("wanted",)))),
    "its pool is incomplete": (
        Reason.INCOMPLETE, (node(), class_(), slice_(FREE, count=2), asking(), waiting("p", ("wanted",))),
    ),
    "all are held": (
        Reason.IN_USE, (node(), class_(), slice_(FREE), allocated("held", "a"), asking(), waiting("p", ("wanted",))),
    ),
    "one that is held was not wanted": (
        Reason.NOT_SELECTED,
        (
            node(), class_(), slice_(FREE, OTHER), allocated("held", "a"),
            asking(selectors=selecting('device.attributes["d"].model == "z"')), waiting("p", ("wanted",)),
        ),
    ),
    "a held one was wanted, a free one is another": (
        Reason.IN_USE,
        (
            node(), class_(), slice_(FREE, OTHER), allocated("held", "a"),
            asking(selectors=selecting('device.attributes["d"].model == "x"')), waiting("p", ("wanted",)),
        ),
    ),
    "the only one is tainted": (Reason.TAINTED, (node(), class_(), slice_(TAINTED), asking(), waiting("p", ("wanted",)))),
    "its selector fails": (
        Reason.ERROR,
        (
            node(), class_(), slice_(FREE), asking(selectors=selecting('device.attributes["d"].none == "z"')),
            waiting("p", ("wanted",)),
        ),
    ),
    "shares of others leave too little": (
        Reason.CAPACITY,
        (
            node(), class_(), slice_(SHARED),
            allocated("held", "s", result={"shareID": "1", "consumedCapacity": {"memory": "6Gi"}}),
            asking(capacity={"requests": {"memory": "4Gi"}}), waiting("p", ("wanted",)),
        ),
    ),
    "partitions leave too little of a counter": (
        Reason.COUNTERS,
        (
            node(), class_(), slice_({**FREE, **PART}, {**OTHER, **PART, "name": "q"}, count=2),
            slice_(name="counters", count=2, sharedCounters=COUNTERS), allocated("held", "q"),
            asking(selectors=selecting('device.attributes["d"].model == "x"')), waiting("p", ("wanted",)),
        ),
    ),
    "more than there are, and some are held": (
        Reason.TOO_MANY,
        (node(), class_(), slice_(FREE, OTHER), allocated("held", "a"), asking(count=3), waiting("p", ("wanted",))),
    ),
    "more than there are": (
        Reason.TOO_MANY, (node(), class_(), slice_(FREE, OTHER), asking(count=3), waiting("p", ("wanted",))),
    ),
    "it is being deleted": (
        Reason.DELETED,
        (node(), class_(), slice_(FREE), DELETED),
    ),
}  # fmt: skip


@pytest.mark.row(127, how="unit")
@pytest.mark.parametrize("case", CASES)
def test_why_a_claim_waits(case: str) -> None:
    reason, objects = CASES[case]
    snapshot = Snapshot.of(Document(one, Where()) for one in objects)
    gates = {"DRAConsumableCapacity": True, "DRAPartitionableDevices": True}
    found = Moment(AuditInput(snapshot, rules("1.36", gates), "made", 1_796_000_400.0))
    assert found.pending["ns", "wanted"] is reason


def test_a_pod_that_fits_nowhere_for_something_else_says_so() -> None:
    pod_ = waiting("p", ("wanted",))
    pod_["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    assert made(node(), class_(), slice_(FREE), asking(), pod_).pending["ns", "wanted"] is Reason.ELSEWHERE


# -- pods of both stacks


@pytest.mark.row(127, how="unit")
@pytest.mark.parametrize(
    ("limits", "stack", "reason"),
    [
        ({COUNTED: "9"}, "device-plugin", Reason.TOO_MANY),
        ({COUNTED: "3"}, "device-plugin", Reason.IN_USE),
        ({COUNTED: "2"}, "device-plugin", Reason.SCHEDULER),
        ({"example.com/none": "1"}, "device-plugin", Reason.NO_DEVICES),
        ({"example.com/bridged": "1"}, "dra", Reason.IN_USE),
        ({"example.com/bridged": "2"}, "dra", Reason.TOO_MANY),
        ({"deviceclass.resource.kubernetes.io/c": "1"}, "dra", Reason.IN_USE),
        ({"cpu": "1"}, "", Reason.UNUSED),
    ],
)
def test_why_a_pod_that_counts_waits(limits: dict[str, str], stack: str, reason: Reason) -> None:
    """Eight are counted, six of them by a pod that runs; the one device of the class is held."""
    busy = waiting("busy", limits={COUNTED: "6"}, nodeName="n1")
    busy["status"] = {"phase": "Running"}
    objects = (
        node(count=8), class_(extendedResourceName="example.com/bridged"), slice_(FREE), allocated("held", "a"), busy,
    )  # fmt: skip
    found = values(made(*objects, waiting("p", limits=limits)), "pods_waiting_for_devices")
    assert found == ({("ns", stack, reason.value): 1} if stack else {})


@pytest.mark.parametrize("status", [[], [{"name": "other", "resourceClaimName": "wanted"}]])
def test_a_pod_whose_claim_was_not_made_says_so(status: list[Object]) -> None:
    by_template = waiting("p", ("mine",), resourceClaims=[{"name": "mine", "resourceClaimTemplateName": "none"}])
    by_template["status"]["resourceClaimStatuses"] = status
    by_name = waiting("q", ("absent",))
    found = values(made(node(), class_(), slice_(FREE), asking(), by_template, by_name), "pods_waiting_for_devices")
    assert found == {("ns", "dra", "claim-missing"): 2}


def test_a_pod_that_asks_both_stacks_counts_for_each() -> None:
    both = waiting("p", ("wanted",), {COUNTED: "1"})
    found = values(made(node(), class_(), slice_(FREE), asking(), both), "pods_waiting_for_devices")
    assert found == {("ns", "device-plugin", "no-devices"): 1, ("ns", "dra", "waits-for-scheduler"): 1}


async def _crowded(world: NodeWorld) -> Moment:
    await apply(world.kube, claim("two", 2, kind="ResourceClaimTemplate"))
    await apply(world.kube, pod("counting", count=3))
    await apply(world.kube, pod("holding", claims=(("mine", {"resourceClaimTemplateName": "two"}),)))
    await running(world, "counting", "holding")
    await apply(world.kube, claim("three", 3, kind="ResourceClaimTemplate"))
    await apply(world.kube, pod("next", count=2))
    await apply(world.kube, pod("never", count=5))
    await apply(world.kube, pod("claims", claims=(("mine", {"resourceClaimTemplateName": "three"}),)))
    await world.clock.sleep(30.0)
    return await moment(world)


@pytest.mark.row(127, how="unit")
def test_pods_that_a_real_scheduler_refused_say_why() -> None:
    assert values(in_cluster(_crowded), "pods_waiting_for_devices") == {
        (NAMESPACE, "device-plugin", "devices-in-use"): 1,
        (NAMESPACE, "device-plugin", "too-many-for-a-node"): 1,
        (NAMESPACE, "dra", "devices-in-use"): 1,
    }


# -- what it costs


def test_in_a_large_cluster_claims_take_turns_and_none_is_forgotten() -> None:
    selectors = [f'device.attributes["d"].model == "m{number}"' for number in range(5)]
    claims = [asking(f"w{number}", selectors=selecting(text)) for number, text in enumerate(selectors)]
    pods = [waiting(f"p{number}", (f"w{number}",)) for number in range(5)]
    snapshot = Snapshot.of(Document(one, Where()) for one in (node(), class_(), slice_(FREE), *claims, *pods))
    explained = Explained(most_devices=2)
    left = []
    for look in range(4):
        ground = Ground(AuditInput(snapshot, rules("1.36", {}), "made", 1_796_000_400.0 + look))
        reasons = explained.reasons(ground)
        assert len(reasons) == 5
        left.append(sum(one is Reason.NOT_EXAMINED for one in reasons.values()))
    assert left == [3, 1, 0, 0]


@pytest.mark.row(127, how="vectors")
def test_the_recorded_pods_that_wait_are_told_with_their_reason() -> None:
    """A real control plane left two pods waiting: one counts more than any node has, the other's selector fails."""
    estate = load_estate(str(shared("estates/small")))
    found = Moment(AuditInput(estate.snapshot, rules("1.36", {}), "small", 1_795_973_000.0))
    told = {pod.metadata.name.split("-")[1]: (stack.value, reason) for pod, stack, reason in found.pending_pods}
    assert told == {"big": ("device-plugin", Reason.TOO_MANY), "stuck": ("dra", Reason.ERROR)}
