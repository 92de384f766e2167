"""What a real Kueue did in its recorded stories, and what it left to others: it charges quota and touches no device."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.support import shared
from tests.unit.scheduler.kueue_stories import names

pytestmark = pytest.mark.row(5, 8, how="vectors")


def admitted(workload: dict[str, list[dict[str, str]]]) -> bool:
    return any(one["type"] == "Admitted" and one["status"] == "True" for one in workload["conditions"])


@pytest.fixture(scope="module")
def steps() -> list[dict[str, Any]]:
    found = []
    for name in names():
        story = json.loads(shared(f"vectors/kueue/{name}/story.json").read_text())
        found += [{"story": name, **step["observed"]} for step in story["steps"]]
    return found


def test_it_admits_amounts_of_names_and_selects_no_device(steps: list[dict[str, Any]]) -> None:
    """An admission has flavors and amounts; the devices that the same pods got are in claims, and in claims only."""
    told = held = 0
    for step in steps:
        admissions = json.dumps([one.get("admission") for one in step.get("workloads", ())])
        devices = {one for some in (step.get("devicesAllocated") or {}).values() for one in some}
        told += '"resourceUsage"' in admissions
        held += bool(devices)
        assert [one for one in devices if one.rpartition("/")[2] in admissions or one in admissions] == []
    assert told > 50 and held > 30


def test_what_it_admits_is_bound_and_allocated_by_the_scheduler_or_not_at_all(steps: list[dict[str, Any]]) -> None:
    """No claim has devices before its pod has a node, and some that are admitted have neither."""
    placed = waiting = 0
    for step in steps:
        nodes = {pod["name"]: pod["node"] for pod in step.get("pods") or ()}
        for claim in step.get("claims") or ():
            users = [user for user in claim["reservedFor"] or () if user in nodes]
            if claim["allocation"]:
                placed += 1
                assert all(nodes[user] for user in users), (step["story"], claim["name"])
        good = any(admitted(one) for one in step.get("workloads") or ())
        waiting += good and any(node is None for node in nodes.values())
    assert placed > 50 and waiting > 5


def test_what_it_does_not_admit_has_no_pod_that_may_be_placed(steps: list[dict[str, Any]]) -> None:
    """Quota comes first: a workload without it has no pods, or pods behind a scheduling gate."""
    refused = 0
    for step in steps:
        owners = {one["owner"] for one in step.get("workloads") or () if not admitted(one)}
        refused += len(owners)
        for pod in step.get("pods") or ():
            if pod["owner"] is None and f"Pod/{pod['name']}" in owners:
                assert pod["node"] is None and pod["schedulingGates"], (step["story"], pod["name"])
    assert refused > 20


def test_it_says_nothing_of_devices(steps: list[dict[str, Any]]) -> None:
    """None of its events names a device, a pool, a slice or a preparation."""
    spoken = 0
    for name in names():
        story = json.loads(shared(f"vectors/kueue/{name}/story.json").read_text())
        devices = {
            one.rpartition("/")[2]
            for step in story["steps"]
            for some in (step["observed"].get("devicesAllocated") or {}).values()
            for one in some
        }
        for event in story["events"] or ():
            if "kueue" in event["from"]:
                spoken += 1
                words = set(re.findall(r"[\w.-]+", event["text"]))
                assert not words & devices, (name, event)
    assert spoken > 50
