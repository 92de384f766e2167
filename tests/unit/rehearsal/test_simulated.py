"""The first move in virtual time: what it shows, that it holds, and that it can be repeated to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.rehearsal.program import Place, children_cpu_s, steady

from regauge.rehearsal import Mode, RehearsalOptions, Report, rehearse


def silent(title: str, step: object) -> None:
    """Nobody listens."""


def simulated(seed: int, version: str | None = None) -> Report:
    return rehearse(None, RehearsalOptions(mode=Mode.SIMULATED, seed=seed, kube_version=version), silent)


@pytest.fixture(scope="module")
def report() -> Report:
    return simulated(1)


def seen(report: Report, step: str, what: str) -> str:
    (check,) = [
        check for item in report.steps if item.name == step for check in item.checks if check.what.startswith(what)
    ]
    assert check.holds
    return check.seen


@pytest.mark.row(1, how="unit")
@pytest.mark.row(11, how="unit")
def test_devices_are_capacity_of_the_node(report: Report) -> None:
    assert seen(report, "node", "the node counts 4 accel.regauge.dev/accelerator") == "4"


@pytest.mark.row(9, how="unit")
@pytest.mark.row(192, how="unit")
def test_the_description_is_what_both_stacks_serve(report: Report) -> None:
    assert seen(report, "node", "4 devices are published") == "4"
    assert seen(report, "ownership", "device-plugin serves") == str([f"accel-{n}" for n in range(4)])
    assert seen(report, "ownership", "dra serves") == str([f"accel-{n}" for n in range(4, 8)])


@pytest.mark.row(207, how="unit")
@pytest.mark.row(208, how="unit")
@pytest.mark.row(234, how="unit")
def test_both_stacks_on_one_node_own_different_devices(report: Report) -> None:
    assert {row.node for row in report.ownership} == {"node-1"}
    assert [row.stacks for row in report.ownership] == [("device-plugin",)] * 4 + [("dra",)] * 4
    assert len({row.identity for row in report.ownership}) == 8


@pytest.mark.row(15, how="unit")
@pytest.mark.row(17, how="unit")
@pytest.mark.row(50, how="unit")
def test_containers_get_what_their_devices_have_and_nothing_more(report: Report) -> None:
    for step, numbers in (("limits", (0, 1)), ("claim", (4, 5))):
        env = seen(report, step, "its container sees the variables")
        nodes = seen(report, step, "its container finds the device nodes")
        assert re.findall(r"ACCEL_(\d)'", env) == [str(number) for number in numbers]
        assert re.findall(r"/dev/accel(\d)", nodes) == [str(number) for number in numbers]


@pytest.mark.row(235, how="unit")
def test_the_moved_workload_is_compared(report: Report) -> None:
    (compared,) = report.comparisons
    assert (compared.before.stack, compared.after.stack) == ("device-plugin", "dra")
    assert compared.before.node == compared.after.node == "node-1"
    assert len(compared.before.devices) == len(compared.after.devices) == 2
    assert compared.before.start_s is not None and compared.after.start_s is not None


@pytest.mark.row(45, how="unit")
@pytest.mark.row(51, how="unit")
def test_claims_come_with_their_pods_and_go_with_them(report: Report) -> None:
    claim = report.states["claim of trainer-b"]
    assert claim[:2] == ["unallocated", "allocated, reserved"]
    assert claim[-1] == "gone"
    assert report.states["pod of trainer-a"].count("gone") == 2


def test_the_states_of_the_first_move_are_these(report: Report) -> None:
    pod = ["waiting for a node", "starting", "running", "terminating", "gone"]
    assert report.states["pod of trainer-a"] == [*pod, *pod]
    assert report.states["pod of trainer-b"] == pod


def test_the_transcript_and_the_report_are_these(here: Place, golden: Callable[[str, str], None]) -> None:
    done = here.run("rehearse", "--simulated", "--seed", "7", "--report", str(here.directory / "r.json"))
    assert done.code == 0
    golden("rehearsal/sample.txt", steady(done.err + done.out.replace(str(here.directory), "DIR")))
    document = json.loads((here.directory / "r.json").read_text())
    golden("rehearsal/sample.json", steady_json(document))
    here.assert_nothing_left()


def steady_json(document: dict[str, Any]) -> str:
    for step in document["steps"]:
        step["began_s"] = step["ended_s"] = "<seconds>"
    for compared in document["comparisons"]:
        for side in ("before", "after"):
            compared[side]["start_s"] = "<seconds>"
    return steady(json.dumps(document, indent=1, sort_keys=True)) + "\n"


def test_the_same_seed_gives_the_same_bytes_in_less_than_three_seconds(here: Place) -> None:
    began_s = children_cpu_s()
    arguments = ("rehearse", "--simulated", "--seed", "3", "-o", "json")
    runs = [here.run(*arguments, PYTHONHASHSEED=number) for number in ("1", "2")]
    assert children_cpu_s() - began_s < 2 * 3.0
    assert runs[0].out == runs[1].out
    assert [run.code for run in runs] == [0, 0]
    assert all(run.err == "" for run in runs)


def test_another_seed_gives_other_names_and_the_same_verdict(report: Report) -> None:
    other = simulated(2)
    assert other.holds and report.holds
    assert other.states == report.states
    assert [row.holders for row in other.ownership] != [row.holders for row in report.ownership]
    assert [step.name for step in other.steps] == [step.name for step in report.steps]


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
def test_it_holds_on_every_version_with_claims(version: str) -> None:
    assert simulated(1, version).holds
