"""The values of the metrics: in a small cluster whose truth is known, and on made objects for what it does not show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.observe.metric_world import CLASS, NAMESPACE, NODE_NAME, claim, in_cluster, moment, pod, running

from regauge.allocator.reasons import CHOSEN, FREE, NEARNESS
from regauge.audit import AuditInput
from regauge.base import Where
from regauge.cluster.control_plane import CONTROLLER_MANAGER
from regauge.features import rules
from regauge.model import Document, NodeReport, Object, PluginDeviceHolder, PluginDeviceReport, Snapshot
from regauge.model.kinds import POD, RESOURCE_CLAIM
from regauge.observe import DeviceReading, ErrorReading, LatencyReading, Measure, Part, Readings, Trouble
from regauge.observe.advancing import advance
from regauge.observe.families import Buckets
from regauge.observe.history import History
from regauge.observe.metric_moment import Moment, Upkeep
from regauge.observe.pending import OF_DEVICES, Reason
from regauge.observe.registry import FAMILIES
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.watching import apply

BY_NAME = {family.name: family for family in FAMILIES}
Values = Mapping[tuple[str, ...], Any]


def values(found: Moment, name: str) -> Values:
    """The series of a family, by the values of its labels."""
    series = list(BY_NAME[name].samples(found))
    by_labels = dict(series)
    assert len(by_labels) == len(series), f"{name} has a series twice"
    assert all(len(labels) == len(BY_NAME[name].labels) for labels, _ in series)
    return by_labels


# -- a small cluster


async def _busy(world: NodeWorld) -> Moment:
    for object_ in (
        claim("one", kind="ResourceClaimTemplate"),
        claim("both", 2),
        claim("many", 3),
        claim("none", selector=f'device.attributes["{CLASS}"].model == "no such model"'),
        claim("unused"),
        pod("counting", count=3),
        pod("single", claims=(("mine", {"resourceClaimTemplateName": "one"}),)),
        pod("first", claims=(("ours", {"resourceClaimName": "both"}),)),
        pod("second", claims=(("ours", {"resourceClaimName": "both"}),)),
    ):
        await apply(world.kube, object_)
    await running(world, "counting", "single", "first", "second")
    await apply(world.kube, pod("greedy", claims=(("mine", {"resourceClaimName": "many"}),)))
    await apply(world.kube, pod("hopeless", claims=(("mine", {"resourceClaimName": "none"}),)))
    await world.clock.sleep(30.0)
    found = await moment(world)
    found.history = advance(History(), found, whole=True)
    return found


@pytest.fixture(scope="module")
def busy() -> Moment:
    return in_cluster(_busy)


@pytest.mark.row(122, how="unit")
def test_slices_are_counted_by_driver_pool_and_node(busy: Moment) -> None:
    place = (CLASS, NODE_NAME, NODE_NAME)
    assert values(busy, "resourceslices") == {place: 1}
    assert values(busy, "resourceslice_devices") == {place: 4}
    assert values(busy, "resourceslice_pool_complete") == {(CLASS, NODE_NAME): 1.0}


@pytest.mark.row(123, how="unit")
def test_slices_tell_when_they_were_written(busy: Moment) -> None:
    ((_, when_s),) = values(busy, "resourceslice_updated_timestamp_seconds").items()
    ((_, age_s),) = values(busy, "resourceslice_age_seconds").items()
    assert 30.0 < age_s < 120.0 and when_s + age_s == busy.now_s


@pytest.mark.row(124, how="unit")
def test_classes_tell_what_they_select(busy: Moment) -> None:
    ((name, extended, hash_),) = values(busy, "deviceclass_info")
    assert (name, extended) == (CLASS, "") and re.fullmatch("[0-9a-f]{12}", hash_)
    assert values(busy, "deviceclass_devices") == {(CLASS,): 4}
    assert values(busy, "deviceclass_devices_free") == {(CLASS,): 1}
    assert values(busy, "deviceclass_valid") == {(CLASS,): 1.0}


@pytest.mark.row(125, how="unit")
def test_claims_are_counted_by_state(busy: Moment) -> None:
    assert values(busy, "resourceclaims") == {
        (NAMESPACE, CLASS, "pending"): 3,
        (NAMESPACE, CLASS, "reserved"): 2,
    }


@pytest.mark.row(126, how="unit")
def test_allocated_devices_are_told_by_claim(busy: Moment) -> None:
    found = values(busy, "resourceclaim_device_info")
    assert set(found.values()) == {1}
    assert sorted(labels[4].split("-")[0] for labels in found) == ["both", "both", "single"]
    assert len({labels[:3] for labels in found}) == 3
    assert values(busy, "devices") == {
        ("device-plugin", f"{CLASS}/accelerator", NODE_NAME, "held"): 3,
        ("device-plugin", f"{CLASS}/accelerator", NODE_NAME, "free"): 1,
        ("dra", CLASS, NODE_NAME, "held"): 3,
        ("dra", CLASS, NODE_NAME, "free"): 1,
    }


@pytest.mark.row(127, how="unit")
def test_claims_that_wait_say_why(busy: Moment) -> None:
    assert values(busy, "resourceclaims_pending") == {
        (NAMESPACE, "devices-in-use"): 1,
        (NAMESPACE, "not-selected"): 1,
        (NAMESPACE, "unused"): 1,
    }
    ages = values(busy, "resourceclaims_pending_age_seconds")
    assert ages[NAMESPACE, "unused"] >= ages[NAMESPACE, "devices-in-use"] >= 30.0


@pytest.mark.row(129, how="unit")
def test_durations_are_told_as_histograms(busy: Moment) -> None:
    for name in ("resourceclaim_allocation_duration_seconds", "resourceclaim_preparation_duration_seconds"):
        ((labels, found),) = values(busy, name).items()
        assert labels == (CLASS,) and isinstance(found, Buckets)
        assert found.counts[-1][1] == 2 and 0.0 <= found.total < 60.0


@pytest.mark.row(132, how="unit")
@pytest.mark.row(139, how="unit")
def test_holders_are_told_down_to_the_container(busy: Moment) -> None:
    rows = [
        dict(zip(BY_NAME["device_holder_info"].labels, labels, strict=True))
        for labels in values(busy, "device_holder_info")
    ]
    assert len(rows) == 3 + 1 + 2 * 2
    for row in rows:
        assert row["uuid"].startswith("ACCEL-") and row["pci_bus_id"] and row["pod_uid"] and row["container"] == "main"
        assert bool(row["claim"]) == (row["stack"] == "dra") == bool(row["driver"])
    counted = {row["uuid"] for row in rows if row["stack"] == "device-plugin"}
    assert len(counted) == 3 and {row["pod"] for row in rows if row["uuid"] in counted} == {"counting"}


def test_what_workloads_hold_adds_up_to_what_is_held(busy: Moment) -> None:
    found = values(busy, "workload_devices")
    assert found[NAMESPACE, "Pod", "first", "dra"] == 1.0  # half of two
    assert sum(found.values()) == 6.0


@pytest.mark.row(135, how="unit")
@pytest.mark.row(140, how="unit")
def test_readings_are_joined_with_every_container_that_holds_the_device(busy: Moment) -> None:
    """Two pods on one node, one device of each stack, one that two pods share, one free, and one that nobody knows."""
    by_pod: dict[str, str] = {one.pod: one.uuid for one in busy.correlation.holdings}
    free = next(
        item.identity for item in busy.devices if not item.holders and item.advertisements[0].stack.value == "dra"
    )
    told = {by_pod["counting"]: 0.25, by_pod["single"]: 0.5, by_pod["first"]: 0.75, free: 0.0, "GPU-strange": 1.0}
    readings = tuple(
        DeviceReading(NODE_NAME, Measure.UTILIZATION, value, "s", uuid=uuid) for uuid, value in told.items()
    )
    joined = Moment(busy.given, [Readings("s", devices=readings)])
    labels = BY_NAME["device_utilization_ratio"].labels
    rows = [
        (dict(zip(labels, found, strict=True)), value)
        for found, value in values(joined, "device_utilization_ratio").items()
    ]
    assert sorted((row["pod"], value) for row, value in rows) == [
        ("", 0.0), ("", 1.0), ("counting", 0.25), ("first", 0.75), ("second", 0.75), ("single", 0.5),
    ]  # fmt: skip
    for row, _ in rows:
        if row["pod"]:
            assert row["container"] == "main" and row["namespace"] == NAMESPACE
            assert bool(row["claim"]) == (row["pod"] != "counting")


@pytest.mark.row(279, how="unit")
def test_a_source_that_loses_the_pod_with_the_move_to_claims_is_told_and_the_pod_is_not_lost(busy: Moment) -> None:
    """As an exporter that asks the kubelet for counted devices: it names their pods, and nobody for devices of claims."""
    by_pod = {one.pod: one.uuid for one in busy.correlation.holdings}
    told = {"counting": "counting", "single": None, "first": "stranger"}
    readings = tuple(
        DeviceReading(NODE_NAME, Measure.UTILIZATION, 0.5, "dcgm", uuid=by_pod[pod_], pod=said)
        for pod_, said in told.items()
    )
    silent = DeviceReading(NODE_NAME, Measure.UTILIZATION, 0.5, "nvml", uuid=by_pod["single"])
    found = Moment(busy.given, [Readings("dcgm", devices=readings), Readings("nvml", devices=(silent,))])
    assert values(found, "source_attributed_devices") == {
        ("dcgm", "device-plugin", "right"): 1,
        ("dcgm", "dra", "missing"): 1,
        ("dcgm", "dra", "wrong"): 1,
    }
    place = BY_NAME["device_utilization_ratio"].labels.index("pod")
    assert {labels[place] for labels in values(found, "device_utilization_ratio")} >= {"counting", "single", "first"}


async def _failing(world: NodeWorld) -> tuple[Values, Values, Values]:
    """A pod whose claim cannot be made, because its template is not there; seen before, while and after."""
    before = await moment(world)
    history = advance(History(), before)
    await apply(world.kube, pod("lost", claims=(("mine", {"resourceClaimTemplateName": "missing"}),)))
    found = []
    for _ in range(3):
        await world.clock.sleep(40.0)
        seen = await moment(world, history)
        seen.history = history = advance(history, seen)
        found.append(values(seen, "resourceclaim_failures"))
    return found[0], found[1], found[2]


@pytest.mark.row(128, how="unit")
def test_failures_are_counted_by_reason_and_never_twice() -> None:
    first, second, third = in_cluster(_failing)
    key = (NAMESPACE, "FailedResourceClaimCreation")
    assert 1 <= first[key] <= second[key] <= third[key]
    assert set(third) == {key}


async def _leaking(world: NodeWorld) -> list[tuple[Values, Values, Values]]:
    """A claim that is deleted while its pod runs; the pod goes, and the controllers that would release it are away."""
    await apply(world.kube, claim("kept", 2))
    await apply(world.kube, pod("user", claims=(("mine", {"resourceClaimName": "kept"}),)))
    await running(world, "user")
    found = []

    async def look() -> None:
        seen = await moment(world)
        seen.upkeep = Upkeep(read=("pods",))
        names = (
            "resourceclaims_unreleased",
            "resourceclaims_unreleased_devices",
            "resourceclaims_unreleased_age_seconds",
        )
        one, two, three = (values(seen, name) for name in names)
        found.append((one, two, three))

    await look()
    await world.kube.delete(RESOURCE_CLAIM, "kept", NAMESPACE)
    await look()
    world.control.kill(CONTROLLER_MANAGER)
    await world.kube.delete(POD, "user", NAMESPACE)
    await world.clock.sleep(60.0)
    await look()
    world.control.revive(CONTROLLER_MANAGER)
    await world.clock.sleep(60.0)
    await look()
    return found


@pytest.mark.row(136, how="unit")
def test_allocations_that_stay_after_deletion_are_told_until_they_go() -> None:
    calm, deleted, leaked, released = in_cluster(_leaking)
    assert calm == ({}, {}, {}) == deleted, "a deleted claim whose pod still runs is as it should be"
    key = (NAMESPACE, "deleted")
    assert (leaked[0], leaked[1]) == ({key: 1}, {key: 2})
    assert 60.0 <= leaked[2][key] < 75.0
    assert released == ({}, {}, {})


# -- made objects

STAMP = "2026-11-30T00:00:00Z"
NOW_S = 1_796_000_400.0


def made(*objects: Object, reports: tuple[NodeReport, ...] = (), readings: tuple[Readings, ...] = ()) -> Moment:
    snapshot = Snapshot.of(Document(one, Where()) for one in objects)
    found = Moment(AuditInput(snapshot, rules("1.36", {}), "made", NOW_S, reports=reports), readings)
    found.history = advance(History(), found, whole=True)
    return found


def slice_(*devices: Object, name: str = "s", count: int = 1, generation: int = 1, **spec: Any) -> Object:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "creationTimestamp": STAMP},
        "spec": {"driver": "d", "nodeName": "n1", "pool": pool, "devices": list(devices), **spec},
    }


def allocated(name: str, device: str, reserved: list[Object] | None = None, **more: Any) -> Object:
    result = {"request": "r", "driver": "d", "pool": "n1", "device": device, **more.pop("result", {})}
    status = {"allocation": {"devices": {"results": [result]}, "allocationTimestamp": STAMP}}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": STAMP, **more}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        "status": {**status, "reservedFor": reserved or []},
    }


@pytest.mark.row(123, how="unit")
def test_the_last_writer_tells_when_a_slice_was_written() -> None:
    one = slice_({"name": "a"})
    assert values(made(one), "resourceslice_updated_timestamp_seconds") == {("d", "n1", "n1"): 1_795_996_800.0}
    one["metadata"]["managedFields"] = [{"manager": "x", "time": f"2026-11-30T00:0{minute}:00Z"} for minute in (3, 1)]
    assert values(made(one), "resourceslice_updated_timestamp_seconds") == {("d", "n1", "n1"): 1_795_996_980.0}
    assert values(made(one), "resourceslice_age_seconds") == {("d", "n1", "n1"): NOW_S - 1_795_996_980.0}


def test_an_incomplete_pool_and_what_is_left_of_the_old_one_are_told() -> None:
    found = made(slice_({"name": "a"}, count=2, generation=2), slice_({"name": "b"}, name="old"))
    assert values(found, "resourceslice_pool_complete") == {("d", "n1"): 0.0}
    assert values(found, "resourceslice_outdated") == {("d", "n1"): 1}
    assert values(found, "resourceslices") == {("d", "n1", "n1"): 1}
    assert values(found, "resourceslice_pool_generation") == {("d", "n1"): 2}


@pytest.mark.row(133, how="unit")
def test_health_is_told_with_its_reason_for_both_stacks() -> None:
    taints = [{"key": "d/xid", "effect": "NoExecute"}, {"key": "d/note", "effect": "None"}]
    status = {"allocatedResourcesStatus": [{"name": "a/x", "resources": [{"resourceID": "p1", "health": "Unhealthy"}]}]}
    using = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", **status}]},
    }
    report = NodeReport(
        "n1",
        tuple(
            PluginDeviceReport("a/x", name, healthy) for name, healthy in (("p0", True), ("p1", True), ("p2", False))
        ),
        (PluginDeviceHolder("ns", "p", "c", "a/x", ("p1",)),),
    )
    bad = allocated("claim", "c")
    bad["status"]["devices"] = [
        {"driver": "d", "pool": "n1", "device": "c", "conditions": [{"type": "Ready", "status": "False"}]}
    ]
    objects = (slice_({"name": "a"}, {"name": "b", "taints": taints}, {"name": "c"}), using, bad)
    found = values(made(*objects, reports=(report,)), "device_healthy")
    assert {(labels[0], labels[3], labels[6]): value for labels, value in found.items()} == {
        ("dra", "n1/a", ""): 1,
        ("dra", "n1/b", "d/xid"): 0,
        ("dra", "n1/c", "claim-status"): 0,
        ("device-plugin", "p0", ""): 1,
        ("device-plugin", "p1", "pod-status"): 0,
        ("device-plugin", "p2", "device-plugin"): 0,
    }


@pytest.mark.row(134, how="unit")
def test_shared_capacity_and_counters_are_told_used_and_total() -> None:
    shared = {"name": "big", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    counters = [{"name": "set", "counters": {"slots": {"value": "7"}}}]
    parts = [
        {"name": f"part-{n}", "consumesCounters": [{"counterSet": "set", "counters": {"slots": {"value": "3"}}}]}
        for n in range(2)
    ]
    claims = [
        allocated(f"c{n}", "big", result={"shareID": f"s{n}", "consumedCapacity": {"memory": amount}})
        for n, amount in enumerate(("10Gi", "1536Mi"))
    ]
    found = made(slice_(shared, *parts, sharedCounters=counters), *claims, allocated("c9", "part-0"))
    assert values(found, "device_capacity") == {("d", "n1", "big", "memory"): 80 * 2.0**30}
    assert values(found, "device_capacity_consumed") == {("d", "n1", "big", "memory"): 11.5 * 2.0**30}
    assert values(found, "device_shares") == {("d", "n1", "big"): 2}
    assert values(found, "shared_counter") == {("d", "n1", "set", "slots"): 7.0}
    assert values(found, "shared_counter_consumed") == {("d", "n1", "set", "slots"): 3.0}


@pytest.mark.row(136, how="unit")
def test_reservations_of_the_dead_and_of_nobody_are_told_apart() -> None:
    ended = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [{"name": "c"}]},
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": "2026-11-30T00:02:00Z"}}}],
        },
    }
    found = made(
        ended,
        allocated("dead", "a", [{"resource": "pods", "name": "p", "uid": "u"}]),
        allocated("gone", "b", [{"resource": "pods", "name": "q", "uid": "v"}]),
        allocated("group", "c", [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "w"}]),
        allocated("idle", "d"),
    )
    assert values(found, "resourceclaims_unreleased") == {
        ("ns", "reserved-by-dead-pods"): 2,
        ("ns", "reserved-by-nobody"): 1,
    }
    ages = values(found, "resourceclaims_unreleased_age_seconds")
    assert ages["ns", "reserved-by-nobody"] - ages["ns", "reserved-by-dead-pods"] == 120.0


def test_in_a_dump_without_pods_nobody_is_said_to_be_dead() -> None:
    found = made(allocated("gone", "b", [{"resource": "pods", "name": "q", "uid": "v"}]))
    assert values(found, "resourceclaims_unreleased") == {}


def test_double_ownership_is_told_by_node_and_device() -> None:
    uuid = "GPU-aaaaaaaa-0000-4000-8000-000000000000"
    device = {"name": "a", "attributes": {"uuid": {"string": uuid}}}
    found = made(slice_(device), reports=(NodeReport("n1", (PluginDeviceReport("a/x", uuid),)),))
    assert values(found, "devices_doubly_owned") == {("n1",): 1}
    assert values(found, "device_double_owner_info") == {("n1", uuid, "", "a/x+d"): 1}


@pytest.mark.row(130, how="unit")
@pytest.mark.row(131, how="unit")
@pytest.mark.row(137, how="unit")
@pytest.mark.row(138, how="unit")
def test_what_drivers_tell_of_themselves_is_told_by_part() -> None:
    buckets = ((0.1, 3.0), (float("inf"), 5.0))
    readings = Readings(
        "s",
        errors=(
            ErrorReading("d", "n1", Part.NODE_PLUGIN, "NodePrepareResources", "Internal", 2),
            ErrorReading("d", "n1", Part.CONTROLLER, "reconcile", "error", 1),
            ErrorReading("d", "n1", Part.API, "PUT", "500", 4),
        ),
        latencies=(
            LatencyReading("d", "n1", Part.CONTROLLER, "reconcile", buckets, 1.5),
            LatencyReading("d", "n1", Part.API, "PUT", buckets, 1.5),
            LatencyReading("d", "n1", Part.API, "PUT", buckets, 0.5),
        ),
        troubles=(Trouble("s", "there", "unreachable", "no"),),
    )
    found = made(readings=(readings,))
    assert values(found, "driver_node_plugin_errors") == {("d", "n1", "NodePrepareResources", "Internal"): 2}
    assert values(found, "driver_controller_errors") == {("d", "n1", "reconcile", "error"): 1}
    assert values(found, "driver_api_errors") == {("d", "n1", "PUT", "500"): 4}
    assert values(found, "driver_reconcile_duration_seconds") == {("d", "n1", "reconcile"): Buckets(buckets, 1.5)}
    doubled = ((0.1, 6.0), (float("inf"), 10.0))
    assert values(found, "driver_api_request_duration_seconds") == {("d", "n1", "PUT"): Buckets(doubled, 2.0)}
    assert values(found, "source_up") == {("s",): 0.0}
    assert values(found, "source_troubles") == {("s", "unreachable"): 1}


def test_every_word_of_the_allocator_has_a_reason() -> None:
    assert set(OF_DEVICES) == set(NEARNESS) - {FREE, CHOSEN}
    assert set(OF_DEVICES.values()) <= set(Reason)
