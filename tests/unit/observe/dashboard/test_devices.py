"""What the page says of each device: who serves it, what it is doing, how it is, who holds it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.observe.dashboard.estates import DRIVER, claim, gpu, node, pod, slice_of, snapshot_of

from regauge.features import rules
from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport, Snapshot
from regauge.observe.dashboard import devices
from regauge.observe.dashboard.details import device_details
from regauge.observe.dashboard.devices import ANYWHERE, MOST_COUNTED, device_tables
from regauge.observe.dashboard.looking import Look
from regauge.observe.dashboard.tables import Row

NOW_S = 1_796_000_000.0
GPU_0, GPU_1 = f"{DRIVER}/a/gpu-0", f"{DRIVER}/a/gpu-1"


def look_at(snapshot: Snapshot, *reports: NodeReport, gates: dict[str, bool] | None = None) -> Look:
    return Look(snapshot, rules("1.36", gates or {}), NOW_S, reports)


def rows(*objects: dict[str, Any], reports: tuple[NodeReport, ...] = ()) -> dict[str, Row]:
    return dict(device_tables(look_at(snapshot_of(*objects), *reports))["devices"])


def estate(*more: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (node("a"), slice_of("a", 2), *more)


def test_a_device_that_nobody_holds_is_free_and_its_row_is_short() -> None:
    assert rows(*estate())[GPU_0] == {"node": "a", "source": DRIVER, "model": "H100", "identity": "GPU-a-0"}


def test_the_holder_is_pod_container_claim_and_request() -> None:
    row = rows(*estate(claim("c", [("a", "gpu-0")], "p"), pod("p", "a", "c")))[GPU_0]
    assert row["state"] == "allocated"
    (holder,) = row["holders"]
    assert (holder["pod"], holder["container"], holder["claim"], holder["request"]) == (
        "team/p",
        "main",
        "team/c",
        "gpu",
    )


def test_a_device_is_reserved_until_its_pod_is_started_with_it() -> None:
    held = (claim("c", [("a", "gpu-0")], "p"), pod("p", "a", "c", "Pending"))
    assert rows(*estate(*held))[GPU_0]["state"] == "reserved"
    held[1]["status"]["conditions"].append({"type": "PodReadyToStartContainers", "status": "True"})
    assert rows(*estate(*held))[GPU_0]["state"] == "allocated"


def test_rows_that_are_remembered_are_those_of_a_first_look() -> None:
    """Whatever happened between two looks: held, let go, tainted, ill, published anew, moved, gone."""
    free = snapshot_of(node("a"), slice_of("a", 3))
    other = slice_of("a", 2)
    other["spec"]["devices"][0]["taints"] = [{"key": "ecc", "effect": "NoSchedule"}]
    moved = slice_of("a", 3)
    moved["spec"]["nodeName"] = "b"
    ill = claim("c", [("a", "gpu-1")], "p")
    ill["status"]["devices"] = [
        {"driver": DRIVER, "pool": "a", "device": "gpu-2", "conditions": [{"type": "Ready", "status": "False"}]}
    ]
    looks = [free, free.replaced({kind: free.documents(kind) for kind in free.kinds()})]
    looks += [snapshot_of(*estate(ill, pod("p", "a", "c"))), free, snapshot_of(node("a"), other)]
    looks += [snapshot_of(node("a"), node("b"), moved), snapshot_of(node("a")), free]
    idle = devices.Idle()
    for snapshot in looks:
        assert device_tables(look_at(snapshot), idle) == device_tables(look_at(snapshot))


def test_a_row_of_a_device_that_nothing_happened_to_is_the_same_object() -> None:
    free, idle = snapshot_of(*estate()), devices.Idle()
    first, second = (device_tables(look_at(free), idle)["devices"] for _ in range(2))
    assert all(first[name] is row for name, row in second.items())


def test_two_pods_on_one_claim_share_a_device() -> None:
    shared = claim("c", [("a", "gpu-0")], "p")
    shared["status"]["reservedFor"].append({"resource": "pods", "name": "q", "uid": "uid-q"})
    found = rows(*estate(shared, pod("p", "a", "c"), pod("q", "a", "c")))[GPU_0]
    assert found["state"] == "shared"
    assert {one["pod"] for one in found["holders"]} == {"team/p", "team/q"}


def test_two_containers_of_one_pod_are_no_sharing() -> None:
    both = pod("p", "a", "c")
    both["spec"]["containers"].append({"name": "second", "resources": {"claims": [{"name": "gpu"}]}})
    found = rows(*estate(claim("c", [("a", "gpu-0")], "p"), both))[GPU_0]
    assert found["state"] == "allocated"
    assert [one["container"] for one in found["holders"]] == ["main", "second"]


@pytest.mark.parametrize("gone", ["absent", "ended", "another of its name"])
def test_a_device_of_users_that_are_gone_is_leaked(gone: str) -> None:
    user = pod("p", "a", "c", "Succeeded" if gone == "ended" else "Running")
    if gone == "another of its name":
        user["metadata"]["uid"] = "uid-of-another"
    users = [pod("other", "a")] if gone == "absent" else [user]
    row = rows(*estate(claim("c", [("a", "gpu-0")], "p"), *users))[GPU_0]
    assert row["state"] == "leaked"
    assert row["holders"][0]["gone"] is True


def test_what_was_let_go_a_moment_ago_is_not_leaked_yet() -> None:
    held = claim("c", [("a", "gpu-0")], "p")
    held["status"]["allocation"]["allocationTimestamp"] = "2026-11-29T00:00:00Z"
    held["metadata"]["deletionTimestamp"] = "2026-11-30T00:53:00Z"  # twenty seconds before the look
    assert rows(*estate(held, pod("other", "a")))[GPU_0]["state"] == "allocated"
    held["metadata"]["deletionTimestamp"] = "2026-11-30T00:51:00Z"
    assert rows(*estate(held, pod("other", "a")))[GPU_0]["state"] == "leaked"


def test_where_no_pods_were_read_nobody_is_said_to_be_gone() -> None:
    row = rows(*estate(claim("c", [("a", "gpu-0")], "p")))[GPU_0]
    assert row["state"] == "allocated"
    assert "gone" not in row["holders"][0]


@pytest.mark.row(221)
def test_admin_access_looks_on_and_takes_nothing() -> None:
    looking = claim("c", [("a", "gpu-0")], "p", result={"adminAccess": True})
    row = rows(*estate(looking, pod("p", "a", "c")))[GPU_0]
    assert "state" not in row
    assert row["holders"][0]["admin"] is True


def test_the_bridge_is_told_by_the_name_that_was_asked_for() -> None:
    user = pod("p", "a")
    user["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "gpu"}
    user["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "c", "requestMappings": [mapping]}
    row = rows(*estate(claim("c", [("a", "gpu-0")], "p"), user))[GPU_0]
    assert (row["stack"], row["holders"][0]["resource"]) == ("bridge", "example.com/gpu")


def test_a_device_of_two_owners_is_one_device_and_says_both() -> None:
    listed = (PluginDeviceReport("example.com/gpu", "GPU-a-0", identity={"uuid": "GPU-a-0"}),)
    found = rows(*estate(), reports=(NodeReport("a", listed),))
    assert (found[GPU_0]["stack"], found[GPU_0]["source"]) == ("both", f"example.com/gpu + {DRIVER}")
    assert len(found) == 2


def test_a_plugin_device_is_told_with_its_holder_and_its_health() -> None:
    listed = (PluginDeviceReport("example.com/nic", "n0"), PluginDeviceReport("example.com/nic", "n1", healthy=False))
    held = (PluginDeviceHolder("team", "p", "main", "example.com/nic", ("n0",)),)
    found = rows(node("a"), pod("p", "a"), reports=(NodeReport("a", listed, held),))
    assert found["a/example.com/nic/n0"]["state"] == "allocated"
    assert found["a/example.com/nic/n0"]["holders"][0]["pod"] == "team/p"
    assert "unhealthy" in found["a/example.com/nic/n1"]["trouble"]
    assert found["a/example.com/nic/n1"]["stack"] == "plugin"


def counting(count: int, allocatable: int) -> dict[str, Any]:
    made = node("a")
    made["status"]["capacity"] = {"example.com/gpu": str(count)}
    made["status"]["allocatable"]["example.com/gpu"] = str(allocatable)
    return made


def test_devices_that_are_only_counted_are_counted_and_say_so() -> None:
    user = pod("p", "a")
    user["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "2"}}
    found = rows(counting(4, 3), user)
    assert [row.get("state", "free") for row in found.values()] == ["allocated", "allocated", "free", "free"]
    assert found["a/example.com/gpu/1"]["holders"] == [{"pod": "team/p", "container": "main"}]
    assert "trouble" in found["a/example.com/gpu/3"] and "trouble" not in found["a/example.com/gpu/2"]
    assert all(row["counted"] and "kubelet" in row["note"] for row in found.values())


def test_what_is_counted_by_the_thousand_is_one_row() -> None:
    (row,) = rows(counting(MOST_COUNTED + 1, MOST_COUNTED + 1)).values()
    assert str(MOST_COUNTED + 1) in row["note"]


def test_with_too_many_counted_devices_a_node_has_one_row_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "MOST_ROWS", 3)
    (row,) = rows(counting(4, 4)).values()
    assert "4 are counted" in row["note"]


def test_what_a_kubelet_still_notes_for_a_pod_that_is_gone_is_free_and_says_so() -> None:
    listed = (PluginDeviceReport("example.com/gpu", "g0"),)
    held = (PluginDeviceHolder("team", "old", "main", "example.com/gpu", ("g0",)),)
    (row,) = rows(node("a"), reports=(NodeReport("a", listed, held),)).values()
    assert "state" not in row and "team/old" in row["note"]


def test_partitions_that_others_of_their_chip_leave_no_room_for_are_blocked() -> None:
    half = {"counterSet": "gpu", "counters": {"memory": {"value": "40Gi"}}}
    whole = {"counterSet": "gpu", "counters": {"memory": {"value": "80Gi"}}}
    devices = [{**gpu("a", number), "consumesCounters": [part]} for number, part in enumerate((whole, half, half))]
    counters = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    chip = slice_of("a", 0, sharedCounters=counters)
    chip["spec"]["devices"] = devices
    found = rows(node("a"), chip, claim("c", [("a", "gpu-1")], "p"), pod("p", "a", "c"))
    assert [found[f"{DRIVER}/a/gpu-{number}"].get("state", "free") for number in range(3)] == [
        "blocked",
        "allocated",
        "free",
    ]


def test_taints_of_drivers_and_of_rules_are_told() -> None:
    tainted = slice_of("a", 1)
    tainted["spec"]["devices"][0]["taints"] = [{"key": "ecc", "value": "double", "effect": "NoExecute"}]
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "a"},
            "taint": {"key": "service", "effect": "NoSchedule"},
        },
    }
    gates = {"DRADeviceTaintRules": True, "DRADeviceTaints": True}
    look = look_at(snapshot_of(node("a"), tainted, rule), gates=gates)
    assert device_tables(look)["devices"][GPU_0]["taints"] == ["ecc=double:NoExecute", "service:NoSchedule"]


def test_what_claims_and_pods_tell_of_health_is_trouble() -> None:
    held = claim("c", [("a", "gpu-0"), ("a", "gpu-1")], "p")
    bad = {"type": "Ready", "status": "False", "reason": "XID", "message": "79"}
    held["status"]["devices"] = [{"driver": DRIVER, "pool": "a", "device": "gpu-1", "conditions": [bad]}]
    found = rows(*estate(held, pod("p", "a", "c")))
    assert "79" in found[GPU_1]["trouble"]
    assert "trouble" not in found[GPU_0]


def test_a_device_that_a_claim_holds_and_nobody_publishes_is_there_all_the_same() -> None:
    found = rows(*estate(claim("c", [("a", "gpu-7")], "p"), pod("p", "a", "c")))[f"{DRIVER}/a/gpu-7"]
    assert "publishes" in found["trouble"]
    assert found["holders"][0]["pod"] == "team/p"


def test_nodes_have_their_pool_and_what_is_wrong_with_them() -> None:
    bad = node("a")
    bad["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    bad["spec"] = {"unschedulable": True}
    anywhere = slice_of("x", 1)
    del anywhere["spec"]["nodeName"]
    anywhere["spec"]["allNodes"] = True
    nodes = device_tables(look_at(snapshot_of(bad, node("b", "infer"), anywhere, slice_of("lost", 1))))["nodes"]
    assert nodes["a"] == {"pool": "train", "trouble": "not ready, cordoned"}
    assert nodes["b"] == {"pool": "infer"}
    assert "trouble" not in nodes[ANYWHERE]
    assert nodes["lost"]["trouble"] == "no Node object"


def test_whoever_opens_a_device_sees_what_is_published_of_it() -> None:
    look = look_at(snapshot_of(*estate()))
    details = device_details(look, GPU_0)
    assert details is not None
    assert details["attributes"] == {"index": "0", "productName": "H100", "uuid": "GPU-a-0"}
    assert details["capacity"] == {"memory": "80Gi"}
    assert details["slice"] == "a-gpu"
    assert device_details(look, "no/such/device") is None


@pytest.mark.row(134)
def test_of_a_device_that_several_may_use_it_is_told_how_much_they_take() -> None:
    chip = slice_of("a", 1)
    chip["spec"]["devices"][0]["allowMultipleAllocations"] = True
    objects = [node("a"), chip]
    for name, memory in (("c", "20Gi"), ("d", "30Gi")):
        share = {"shareID": f"share-{name}", "consumedCapacity": {"memory": memory}}
        objects += [claim(name, [("a", "gpu-0")], f"p-{name}", result=share), pod(f"p-{name}", "a", name)]
    look = look_at(snapshot_of(*objects))
    row = device_tables(look)["devices"][GPU_0]
    assert row["state"] == "shared"
    assert {(one["share"], one["takes"]) for one in row["holders"]} == {
        ("share-c", "memory 20Gi"),
        ("share-d", "memory 30Gi"),
    }
    assert (device_details(look, GPU_0) or {})["capacity"] == {"memory": "50Gi of 80Gi"}


def test_health_that_no_driver_tells_of_is_no_trouble() -> None:
    user = pod("p", "a", "c")
    told = [{"name": "claim:gpu", "resources": [{"resourceID": "x", "health": "Unknown"}]}]
    user["status"]["containerStatuses"] = [{"name": "main", "allocatedResourcesStatus": told}]
    held = claim("c", [("a", "gpu-0")], "p")
    assert "trouble" not in rows(*estate(held, user))[GPU_0]
    told[0]["resources"] = [{"resourceID": "x", "health": "Unhealthy", "message": "too hot"}]
    assert "too hot" in rows(*estate(held, user))[GPU_0]["trouble"]


@pytest.mark.row(222)
def test_it_works_where_no_device_is_free() -> None:
    full = estate(claim("c", [("a", "gpu-0"), ("a", "gpu-1")], "p"), pod("p", "a", "c"))
    assert {row["state"] for row in rows(*full).values()} == {"allocated"}
