"""Who serves devices, and what can be asked for: drivers with their slices, device plugins, classes with their claims."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.observe.dashboard.estates import DRIVER, claim, device_class, node, pod, slice_of, snapshot_of

from regauge.audit import AuditInput, Ground
from regauge.features import rules
from regauge.observe.dashboard.looking import Look
from regauge.observe.dashboard.supply import supply_tables
from regauge.observe.dashboard.tables import Table

NOW_S = 1_796_000_000.0
RULES = rules("1.36", {})


def supply(*objects: dict[str, Any]) -> dict[str, Table]:
    snapshot = snapshot_of(*objects)
    return supply_tables(Ground(AuditInput(snapshot, RULES, "test", NOW_S)), Look(snapshot, RULES, NOW_S))


@pytest.mark.row(122)
@pytest.mark.row(123)
def test_a_driver_is_told_with_its_slices_pools_and_when_they_were_written() -> None:
    old, new, half = slice_of("a", 2), slice_of("a", 3), slice_of("b", 1)
    new["metadata"] |= {"name": "a-gpu-2", "managedFields": [{"manager": "driver", "time": "2026-11-29T12:00:00Z"}]}
    new["spec"]["pool"]["generation"] = 2
    half["spec"]["pool"]["resourceSliceCount"] = 2
    (row,) = supply(node("a"), node("b"), old, new, half)["drivers"].values()
    assert row == {
        "stack": "dra",
        "slices": 2,
        "outdated": 1,
        "pools": 2,
        "nodes": 2,
        "devices": 4,
        "incomplete": ["b"],
        "incompleteCount": 1,
        "writtenS": 1795953600,
    }


def test_a_device_plugin_is_told_by_what_its_nodes_count() -> None:
    counting = node("a")
    counting["status"]["capacity"] = {"example.com/gpu": "4", "cpu": "8"}
    counting["status"]["allocatable"]["example.com/gpu"] = "3"
    user = pod("p", "a")
    user["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "2"}}
    drivers = supply(counting, user)["drivers"]
    assert drivers == {"example.com/gpu": {"stack": "plugin", "nodes": 1, "devices": 4, "unhealthy": 1, "asked": 2}}


@pytest.mark.row(124)
@pytest.mark.row(125)
def test_a_class_is_told_with_its_devices_and_its_claims_by_state() -> None:
    named = device_class()
    named["spec"]["extendedResourceName"] = "example.com/gpu"
    narrow = device_class("narrow")
    expression = f'device.attributes["{DRIVER}"].index == 1 && device.attributes["{DRIVER}"].missing == "x"'
    narrow["spec"]["selectors"] = [{"cel": {"expression": expression}}]
    broken = device_class("broken")
    broken["spec"]["selectors"] = [{"cel": {"expression": "device."}}]
    going = claim("going", [("a", "gpu-1")], "gone")
    going["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    held = claim("c", [("a", "gpu-0")], "p")
    classes = supply(
        node("a"), slice_of("a", 4), named, narrow, broken, held, pod("p", "a", "c"), going, claim("waits", [])
    )["classes"]
    assert classes["gpu"] == {
        "devices": 4,
        "free": 2,
        "claims": {"reserved": 1, "deleting": 1, "pending": 1},
        "resource": "example.com/gpu",
    }
    assert classes["narrow"] == {"devices": 0, "free": 0, "failing": 1}
    assert classes["broken"] == {"devices": 0, "free": 0, "broken": True}
