"""Devices with their state: what is free, held, shared, blocked, gone, ill, and what is only counted."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.observe import metric_world as played
from tests.unit.observe.view_objects import DRIVER, claim, device, node, pod, result, slice_, snapshot

from regauge.features import rules
from regauge.inventory import Stack
from regauge.kube import read_snapshot
from regauge.model import NodeReport, Object, PluginDeviceHolder, PluginDeviceReport
from regauge.observe.device_facts import Amount
from regauge.observe.devices_view import DeviceLine, DeviceState, DevicesView, view_devices
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.watching import apply

UUID = "GPU-00000000-0000-0000-0000-000000000001"


def lines(*objects: Object, reports: tuple[NodeReport, ...] = ()) -> dict[str, DeviceLine]:
    return {line.name.rpartition("/")[2]: line for line in view_devices(snapshot(*objects), reports).devices}


def test_free_and_held_and_where() -> None:
    found = lines(
        node("n1", "big"),
        slice_("n1", device("gpu-0", UUID), device("gpu-1")),
        claim("c", result("n1", "gpu-0"), users=("p",)),
        pod("p", "n1", "c"),
    )
    held, free = found["gpu-0"], found["gpu-1"]
    assert (held.state, free.state) == (DeviceState.held, DeviceState.free)
    assert (held.node_pool, held.node, held.uuid, held.stack) == ("big", "n1", UUID, Stack.DRA)
    assert [(one.namespace, one.pod, one.container, one.claim) for one in held.holders] == [("team", "p", "main", "c")]
    assert held.trouble == free.trouble == () and free.holders == ()


@pytest.mark.row(221, how="unit")
def test_admin_access_looks_on_and_takes_nothing() -> None:
    found = lines(
        node("n1"), slice_("n1", device("gpu-0")), claim("c", result("n1", "gpu-0", adminAccess=True), users=("p",)),
        pod("p", "n1", "c"),
    )["gpu-0"]  # fmt: skip
    assert found.state is DeviceState.free and found.holders == ()
    assert [one.pod for one in found.admins] == ["p"]


def test_a_device_for_several_tells_what_is_used_of_it_once_a_share() -> None:
    shared = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
    part = {"consumedCapacity": {"memory": "10Gi"}}
    found = lines(
        node("n1"),
        slice_("n1", shared),
        claim("a", result("n1", "gpu-0", shareID="s1", **part), users=("p", "q")),
        claim("b", result("n1", "gpu-0", shareID="s2", **part), users=("r",)),
        pod("p", "n1", "a"), pod("q", "n1", "a"), pod("r", "n1", "b"),
    )["gpu-0"]  # fmt: skip
    assert found.state is DeviceState.shared and len(found.holders) == 3
    assert found.capacity == (Amount("memory", "20Gi", "40Gi"),)


def partitions() -> Object:
    def uses(amount: str) -> list[Object]:
        return [{"counterSet": "gpu-0", "counters": {"memory": {"value": amount}}}]

    sets = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    return slice_(
        "n1",
        device("whole", consumesCounters=uses("80Gi")),
        device("half-0", consumesCounters=uses("40Gi")),
        device("half-1", consumesCounters=uses("40Gi")),
        sharedCounters=sets,
    )


def test_a_partition_that_is_held_blocks_the_whole_and_not_its_sibling() -> None:
    found = lines(node("n1"), partitions(), claim("c", result("n1", "half-0"), users=("p",)), pod("p", "n1", "c"))
    assert found["whole"].state is DeviceState.blocked
    assert found["whole"].trouble == ("half-0 leaves too little memory of gpu-0",)
    assert found["half-1"].state is DeviceState.free and found["half-0"].state is DeviceState.held
    admin = lines(node("n1"), partitions(), claim("c", result("n1", "half-0", adminAccess=True), users=("p",)))
    assert {line.state for line in admin.values()} == {DeviceState.free}


def test_what_is_held_and_not_published_is_gone() -> None:
    found = lines(
        node("n1"), slice_("n1", device("gpu-1")), claim("c", result("n1", "gpu-0"), users=("p",)), pod("p", "n1", "c")
    )
    assert found["gpu-0"].state is DeviceState.gone and found["gpu-0"].node == "n1"
    assert found["gpu-0"].trouble == ("no slice publishes it any more",)


RULE: Object = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": {"key": "k", "value": "v", "effect": "NoSchedule"}},
}


def test_taints_of_slices_and_of_rules_where_these_are_heeded() -> None:
    tainted = device("gpu-0", taints=[{"key": "t", "effect": "NoExecute"}])
    there = snapshot(node("n1"), slice_("n1", tainted, device("gpu-1")), RULE)

    def troubles(version: str | None, **gates: bool) -> list[tuple[str, ...]]:
        heeded = rules(version, gates) if version else None
        return [line.trouble for line in view_devices(there, rules=heeded).devices]

    both = [("tainted t:NoExecute",), ("tainted k=v:NoSchedule",)]
    assert troubles(None) == both
    assert troubles("1.37", DRADeviceTaintRules=True) == both
    assert troubles("1.37", DRADeviceTaintRules=False) == [("tainted t:NoExecute",), ()]


def health(resource: str, *items: tuple[str, str, str]) -> Object:
    resources = [{"resourceID": id_, "health": word, "message": text} for id_, word, text in items]
    return {
        "containerStatuses": [
            {"name": "main", "allocatedResourcesStatus": [{"name": resource, "resources": resources}]}
        ]
    }


@pytest.mark.parametrize(
    ("id_", "told"),
    [
        (f"{DRIVER}/n1/gpu-1", [(), ("Unhealthy: hot",)]),
        ("vendor.com/gpu=uid-c-gpu-1", [(), ("Unhealthy: hot",)]),
        ("vendor.com/claim=opaque", [("Unhealthy: hot (of one device of the claim)",)] * 2),
    ],
)
def test_health_that_a_pods_status_tells(id_: str, told: list[tuple[str, ...]]) -> None:
    found = lines(
        node("n1"),
        slice_("n1", device("gpu-0"), device("gpu-1")),
        claim("c", result("n1", "gpu-0"), result("n1", "gpu-1"), users=("p",)),
        pod("p", "n1", "c", status=health("claim:mine/g", (id_, "Unhealthy", "hot"))),
    )
    assert [line.trouble for line in found.values()] == told


def test_what_drivers_say_in_the_claim() -> None:
    said = {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    bad = {"type": "Ready", "status": "False", "reason": "Link", "message": "link down"}
    good = {"type": "Degraded", "status": "False", "reason": "x", "message": ""}
    found = lines(
        node("n1"), slice_("n1", device("gpu-0")),
        claim("c", result("n1", "gpu-0"), users=("p",), devices=({**said, "conditions": [bad, good]},)),
        pod("p", "n1", "c"),
    )["gpu-0"]  # fmt: skip
    assert found.trouble == ("Ready=False: link down",)


@pytest.mark.row(139, how="unit")
def test_devices_of_a_plugin_are_known_where_there_is_a_record() -> None:
    reports = (
        NodeReport(
            "n1",
            (PluginDeviceReport("example.com/gpu", UUID), PluginDeviceReport("example.com/gpu", "sick", healthy=False)),
            (PluginDeviceHolder("team", "p", "main", "example.com/gpu", (UUID,), "uid-p"),),
        ),
    )
    there = snapshot(node("n1", **{"example.com_gpu": 2}), pod("p", "n1", limits={"example.com/gpu": "1"}))
    found = view_devices(there, reports)
    assert found.counted == ()
    by_name = {line.device: line for line in found.devices}
    assert by_name[UUID].state is DeviceState.held and by_name[UUID].name == f"example.com/gpu {UUID}"
    assert [(one.pod, one.container) for one in by_name[UUID].holders] == [("p", "main")]
    assert by_name["sick"].trouble == ("unhealthy",) and by_name["sick"].stack is Stack.DEVICE_PLUGIN


@pytest.mark.row(174, how="unit")
def test_without_a_record_devices_of_a_plugin_stay_a_count() -> None:
    there = snapshot(
        node("n1", **{"example.com_gpu": 4}),
        pod("p", "n1", limits={"example.com/gpu": "2"}),
        pod("q", "n1", limits={"example.com/gpu": "1"}),
        pod("ended", "n1", phase="Succeeded", limits={"example.com/gpu": "1"}),
    )
    found = view_devices(there)
    assert found.devices == ()
    (line,) = found.counted
    assert (line.node_pool, line.node, line.resource, line.capacity, line.asked) == (
        "big",
        "n1",
        "example.com/gpu",
        4,
        3,
    )
    assert [(one.pod, one.count) for one in line.askers] == [("p", 2), ("q", 1)]
    assert found.unknown and "n1" in found.unknown[0]


def test_one_physical_device_in_both_stacks_is_told_on_both_lines() -> None:
    report = NodeReport("n1", (PluginDeviceReport("example.com/gpu", UUID),))
    found = view_devices(snapshot(node("n1", **{"example.com_gpu": 1}), slice_("n1", device("gpu-0", UUID))), (report,))
    plugin, dra = found.devices
    assert plugin.also == (f"{DRIVER}/n1/gpu-0",) and dra.also == (f"example.com/gpu {UUID}",)
    assert all("both stacks or two drivers advertise it" in line.trouble for line in found.devices)


def test_the_order_is_pool_then_node_then_number() -> None:
    names = [f"gpu-{number}" for number in (10, 9, 1)]
    found = view_devices(
        snapshot(
            node("b", "z"), node("a", "z"), node("c", "a"),
            slice_("b", *map(device, names)), slice_("a", device("x")), slice_("c", device("x")),
        )
    )  # fmt: skip
    assert [(line.node, line.device) for line in found.devices] == [
        ("c", "x"), ("a", "x"), ("b", "gpu-1"), ("b", "gpu-9"), ("b", "gpu-10"),
    ]  # fmt: skip


# -- against a cluster whose containers say what they were given


async def _both_stacks(world: NodeWorld) -> tuple[DevicesView, DevicesView, dict[str, set[str]]]:
    """Without and with what the kubelet tells; and what the containers of three pods were given."""
    for made in (
        played.claim("both", 2),
        played.pod("counts", count=2),
        played.pod("first", claims=(("ours", {"resourceClaimName": "both"}),)),
        played.pod("second", claims=(("ours", {"resourceClaimName": "both"}),)),
    ):
        await apply(world.kube, made)
    uids = await played.running(world, "counts", "first", "second")
    given = {}
    for name, uid in uids.items():
        container = world.seen(uid, "main")
        assert container is not None
        given[name] = {value for key, value in container.env.items() if key.startswith("ACCEL_")}
    there = await read_snapshot(world.kube, played.KINDS)
    return view_devices(there), view_devices(there, await world.node_reports()), given


@pytest.mark.row(132, how="unit")
@pytest.mark.row(139, how="unit")
@pytest.mark.row(174, how="unit")
def test_holders_are_those_who_were_given_the_devices() -> None:
    bare, known, given = played.in_cluster(_both_stacks)

    def held(view: DevicesView) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for line in view.devices:
            for one in line.holders:
                found.setdefault(one.pod, set()).add(line.uuid)
        return found

    assert {name: len(devices) for name, devices in given.items()} == {"counts": 2, "first": 2, "second": 2}
    assert held(known) == given and known.counted == ()
    assert held(bare) == {name: given[name] for name in ("first", "second")}
    (counted,) = bare.counted
    assert (counted.asked, counted.allocatable, [one.pod for one in counted.askers]) == (2, 4, ["counts"])
    states = Counter((line.stack, line.state) for line in known.devices)
    assert states == {(stack, state): 2 for stack in Stack for state in (DeviceState.held, DeviceState.free)}
