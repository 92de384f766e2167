"""What waits is told with the scheduler's own reason, once for pods of one shape; findings and rollouts as they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.observe.dashboard.estates import claim, device_class, node, pod, slice_of, snapshot_of

from regauge.audit import AuditInput, Layer, Severity, audit_estate
from regauge.features import rules
from regauge.migrate.rollout import Record, RolloutState, StepRecord, StepState
from regauge.migrate.rollout.record import write_record
from regauge.model import Snapshot
from regauge.observe.dashboard.findings import finding_tables
from regauge.observe.dashboard.looking import Look
from regauge.observe.dashboard.rollouts import rollout_tables
from regauge.observe.dashboard.tables import Table
from regauge.observe.dashboard.waiting import Asking, Explained, waiting_table
from regauge.scheduler import State

NOW_S = 1_796_000_000.0
RULES = rules("1.36", {})


def waiting(snapshot: Snapshot, explained: Explained | None = None, go_on: Callable[[], bool] = lambda: True) -> Table:
    asking = Asking(explained or Explained(), State.of(snapshot, RULES), random.Random(0), go_on)
    return waiting_table(Look(snapshot, RULES, NOW_S), asking)


def crowd(count: int, *more: dict[str, Any]) -> Snapshot:
    """A full node, and so many pods that wait for a device each."""
    full = (node("a"), slice_of("a", 1), device_class(), claim("c", [("a", "gpu-0")], "p"), pod("p", "a", "c"))
    waits = [pod(f"w{number}", "", f"w{number}", "Pending") for number in range(count)]
    return snapshot_of(*full, *waits, *(claim(f"w{number}", []) for number in range(count)), *more)


@pytest.mark.row(4)
def test_pods_and_claims_that_wait_have_the_reason_and_its_layer() -> None:
    found = waiting(crowd(1))
    assert set(found) == {"pod/team/w0", "claim/team/w0"}
    row = found["pod/team/w0"]
    assert row["layer"] == "scheduling"
    assert row["state"] == "cannot be scheduled"
    assert "needs 1 device" in row["reason"] and "w0" not in row["reason"]
    assert row["reasons"][0][1:] == [1, "a"]
    assert found["claim/team/w0"]["asks"] == "1 gpu"
    assert found["claim/team/w0"]["reason"] == row["reason"]


@pytest.mark.row(127)
def test_pods_of_one_shape_are_asked_for_once_and_have_one_reason() -> None:
    asked = []
    found = waiting(crowd(40), go_on=lambda: asked.append(1) or True)
    assert len(asked) == 1
    assert len({row["reason"] for row in found.values()}) == 1
    assert len(found) == 80


def test_what_there_is_no_time_for_is_told_in_the_clusters_words_and_comes_next_time() -> None:
    other = pod("big", "", "", "Pending")
    other["spec"]["containers"][0]["resources"] = {
        "requests": {"example.com/gpu": "9"},
        "limits": {"example.com/gpu": "9"},
    }
    said = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/1 nodes are available: 1 Insufficient x. preemption: no",
    }
    other["status"]["conditions"] = [said]
    snapshot, explained = crowd(1, other), Explained()
    turns = iter((True, False))
    first = waiting(snapshot, explained, lambda: next(turns))
    assert "reasons" in first["pod/team/w0"] and "reasons" not in first["pod/team/big"]
    assert first["pod/team/big"]["reason"] == "0/1 nodes are available: 1 Insufficient x"
    turns = iter((True, False))
    second = waiting(snapshot, explained, lambda: next(turns))
    assert "reasons" in second["pod/team/big"] and "reasons" in second["pod/team/w0"]


def test_a_pod_that_its_node_does_not_start_waits_for_injection() -> None:
    stuck = pod("p", "a", "c", "Pending")
    told = {"waiting": {"reason": "CreateContainerError", "message": "unresolvable CDI devices"}}
    stuck["status"]["containerStatuses"] = [{"name": "main", "state": told}]
    found = waiting(snapshot_of(node("a"), slice_of("a", 1), claim("c", [("a", "gpu-0")], "p"), stuck))
    row = found["pod/team/p"]
    assert (row["layer"], row["reason"]) == ("injection", "placed, not started: CreateContainerError")
    assert "unresolvable CDI devices" in row["text"]


def test_gated_pods_wait_for_quota() -> None:
    gated = pod("p", "", "c", "Pending", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    found = waiting(snapshot_of(node("a"), slice_of("a", 1), device_class(), claim("c", []), gated))
    assert found["pod/team/p"]["layer"] == "quota"


@pytest.mark.parametrize("change", ["runs", "ended", "deleted", "asks for no device"])
def test_others_do_not_wait(change: str) -> None:
    one = pod("p", "a" if change == "runs" else "", "" if change == "asks for no device" else "c", "Pending")
    if change in ("runs", "ended"):
        one["status"]["phase"] = "Running" if change == "runs" else "Failed"
    if change == "deleted":
        one["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    assert waiting(snapshot_of(node("a"), claim("c", []), device_class(), one)) == {}


@pytest.mark.row(4)
def test_every_finding_has_its_layer_and_the_devices_it_is_about() -> None:
    snapshot = crowd(1)
    audit = audit_estate(AuditInput(snapshot, RULES, "test", NOW_S))
    tables = finding_tables(audit, [("pods", "the verb list is missing")])
    rows = tables["findings"].values()
    assert len(rows) == len(audit.findings) > 0
    assert all(row["layer"] in {layer.value for layer in Layer} for row in rows)
    assert all(row["severity"] in {one.value for one in Severity} and row["why"] and row["fix"] for row in rows)
    assert sorted(row["rank"] for row in rows) == list(range(len(rows)))
    assert tables["unknown"]["pods"] == {"why": "the verb list is missing"}


def config_map(text: str, name: str = "regauge-rollout-move") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "regauge"},
        "data": {"record.json": text},
    }


def test_rollouts_are_told_step_by_step() -> None:
    steps = {"pin": StepRecord(StepState.DONE, 10.0, 25.0), "switch-a": StepRecord(StepState.ACTING, 30.0)}
    record = Record("move", "abc", steps, RolloutState.RUNNING)
    tables = rollout_tables(snapshot_of(config_map(write_record(record)), config_map("{}", "other")))
    assert tables["rollouts"] == {"regauge/move": {"state": "running"}}
    assert tables["steps"]["regauge/move/pin"]["state"] == "done"
    assert tables["steps"]["regauge/move/pin"]["endedS"] == 25
    assert [row["number"] for row in tables["steps"].values()] == [0, 1]


def test_a_record_that_cannot_be_read_is_a_rollout_in_trouble() -> None:
    (row,) = rollout_tables(snapshot_of(config_map("{")))["rollouts"].values()
    assert row["state"] == "unreadable" and "cannot be read" in row["reason"]
