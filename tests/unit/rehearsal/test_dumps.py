"""A dump in the rehearsal: as it was, where it differs and why, and dumps that are not in order."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import shared
from tests.unit.rehearsal.dumps import (
    GPU,
    Thing,
    big,
    deployment,
    device_class,
    gpu_node,
    namespace,
    node,
    pod,
    slice_,
    sound,
    thing,
    write,
)
from tests.unit.rehearsal.program import Place, children_cpu_s, steady
from typer.testing import CliRunner, Result

from regauge.cli.app import app
from regauge.rehearsal import RehearsalOptions, Report, rehearse


def report_of(directory: Path, things: list[Thing]) -> Report:
    return rehearse(write(directory, things), RehearsalOptions(), lambda title, step: None)


def told(directory: Path, things: list[Thing], *options: str) -> Result:
    return said(write(directory, things), *options)


def said(*arguments: str) -> Result:
    """The verb in this process; whatever it raises that is not told in words fails the test."""
    done = CliRunner().invoke(app, ["rehearse", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "a bug of ours" not in done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_dump_in_order(tmp_path: Path) -> None:
    report = report_of(tmp_path, sound())
    assert report.holds, report.steps
    assert [row.agrees for row in report.pods] == [True, True]
    (compared,) = report.comparisons
    assert (compared.before.node, compared.after.node) == ("counting", "publishing")
    assert len(compared.after.devices) == 2


def test_live_it_says_the_same(here: Place) -> None:
    done = here.run("rehearse", "--live", write(here.directory, sound()), "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert done.document["mode"] == "live"
    assert [row["agrees"] for row in done.document["pods"]] == [True, True]
    here.assert_nothing_left()


def test_the_same_dump_twice_is_the_same_report(tmp_path: Path) -> None:
    reports = [report_of(tmp_path, sound()) for _ in range(2)]
    assert reports[0] == reports[1]


def test_a_pod_on_a_node_that_refuses_it(tmp_path: Path) -> None:
    report = report_of(tmp_path, [*sound(), pod("greedy", "counting", 9)])
    assert not report.holds
    (row,) = [row for row in report.pods if row.pod == "greedy"]
    assert (row.agrees, row.found) == (False, "pending")
    assert row.why == f"counting refuses it: Insufficient {GPU}"


def test_a_pod_on_a_node_that_is_not_in_the_dump(tmp_path: Path) -> None:
    report = report_of(tmp_path, [*sound(), pod("lost", "elsewhere", 0)])
    (row,) = [row for row in report.pods if not row.agrees]
    assert (row.pod, row.expected, row.why) == ("lost", "elsewhere", "the dump has no node elsewhere")


def test_a_node_without_capacity(tmp_path: Path) -> None:
    empty = thing("Node", "empty", spec={}, status={})
    report = report_of(tmp_path, [*sound(), empty])
    assert report.holds, report.steps


def claim(name: str, device: str, users: list[Thing]) -> Thing:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]}}
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": "publishing", "device": device}
    reserved = [
        {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]} for user in users
    ]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    return thing("ResourceClaim", name, "team", "resource.k8s.io/v1", spec=spec, status=status)


def claiming(name: str, claim_name: str, second: int) -> Thing:
    found = pod(name, "publishing", 0, second)
    found["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": claim_name}]
    found["spec"]["containers"][0]["resources"]["claims"] = [{"name": "d"}]
    return found


def test_a_claim_that_two_pods_share(tmp_path: Path) -> None:
    users = [claiming("one", "shared", 1), claiming("two", "shared", 2)]
    report = report_of(tmp_path, [*sound(), *users, claim("shared", "gpu-0", users)])
    assert report.holds, report.steps
    rows = {row.pod: row.found for row in report.pods}
    assert rows["one"] == rows["two"] == "publishing (gpu-0)"


def test_claims_without_slices(tmp_path: Path) -> None:
    user = claiming("one", "alone", 1)
    things = [namespace(), node("publishing"), device_class(), user, claim("alone", "gpu-0", [user])]
    report = report_of(tmp_path, things)
    (row,) = report.pods
    assert not row.agrees
    assert "cannot allocate all claims" in row.why


def test_a_dump_without_pods(tmp_path: Path) -> None:
    report = report_of(tmp_path, [namespace(), gpu_node("counting"), slice_("publishing"), device_class()])
    assert report.holds, report.steps
    assert report.pods == ()


def test_a_workload_of_no_replicas_moves_without_pods(tmp_path: Path) -> None:
    things = [item for item in sound() if item["kind"] not in ("Deployment", "ReplicaSet", "Pod")]
    report = report_of(tmp_path, [*things, *deployment("idle", [], replicas=0)])
    assert report.holds, report.steps


@pytest.mark.parametrize("things", [[], [thing("Widget", "w", api_version="example.com/v1")]])
def test_nothing_that_is_known(tmp_path: Path, things: list[Thing]) -> None:
    done = told(tmp_path, things)
    assert done.exit_code == 2
    assert "there is no node in it (get nodes too" in done.stderr or "no Kubernetes objects were found" in done.stderr


def test_malformed_yaml_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("apiVersion: v1\nkind: [unclosed\n")
    done = said(str(tmp_path))
    assert done.exit_code == 2
    assert "bad.yaml:" in done.stderr


def test_a_field_of_the_wrong_type_names_the_object(tmp_path: Path) -> None:
    broken = slice_("publishing")
    broken["spec"]["devices"] = "many"
    done = told(tmp_path, [namespace(), node("publishing"), broken])
    assert done.exit_code == 2
    assert "slice-publishing" in done.stderr


def test_two_pods_of_the_same_name(tmp_path: Path) -> None:
    other = copy.deepcopy(sound()[-1])
    other["spec"]["nodeName"] = "publishing"
    done = told(tmp_path, [*sound(), other])
    assert done.exit_code == 2
    assert "stands twice with different content" in done.stderr


@pytest.mark.parametrize("version", ["v1.37.2", "v1.34.1"])
def test_a_dump_of_another_known_version(tmp_path: Path, version: str) -> None:
    (tmp_path / "version.json").write_text(json.dumps({"serverVersion": {"gitVersion": version}}))
    report = report_of(tmp_path, sound())
    assert report.kube_version == version[1:5]
    assert report.holds, report.steps


@pytest.mark.parametrize("version", ["v1.20.1", "v1.99.0", "nonsense"])
def test_a_dump_of_a_version_that_is_not_known(tmp_path: Path, version: str) -> None:
    (tmp_path / "version.json").write_text(json.dumps({"serverVersion": {"gitVersion": version}}))
    done = told(tmp_path, sound())
    assert done.exit_code == 2
    assert version.lstrip("v")[:4] in done.stderr
    assert told(tmp_path, sound(), "--kube-version", "1.36").exit_code == 0


def test_a_hundred_thousand_units_of_a_name_are_counted(tmp_path: Path) -> None:
    report = report_of(tmp_path, [*sound(), gpu_node("units", "100000"), pod("user", "units", 5000)])
    assert report.holds, report.steps
    assert [row.found for row in report.pods if row.pod == "user"] == ["units"]


def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    things = json.loads(json.dumps(sound()).replace('"counting"', '"count\\u001b[31ming"'))
    done = told(tmp_path, things)
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("broken", [{"metadata": None}, {"metadata": {}}, {"spec": None}, {"spec": []}, {"status": []}])
@pytest.mark.parametrize("kind", ["Node", "Pod", "Deployment", "ResourceSlice"])
def test_objects_with_parts_missing_end_in_words(tmp_path: Path, kind: str, broken: dict[str, Any]) -> None:
    things = sound()
    place = next(number for number, item in enumerate(things) if item["kind"] == kind)
    things[place] = {**things[place], **broken}
    assert told(tmp_path, things).exit_code in (0, 1, 2)


@pytest.mark.parametrize(
    ("nodes", "pods", "limit_s"), [(50, 400, 30.0), pytest.param(200, 2000, 60.0, marks=pytest.mark.soak)]
)
def test_a_big_dump_ends_soon(here: Place, nodes: int, pods: int, limit_s: float) -> None:
    where = write(here.directory, big(nodes=nodes, pods=pods, publishing=nodes // 10))
    began_s = children_cpu_s()
    done = here.run("rehearse", where, "-o", "json")
    assert children_cpu_s() - began_s < limit_s
    assert done.code == 0, done.err
    assert done.document["holds"]
    assert len(done.document["pods"]) == pods


@pytest.mark.row(176)
def test_an_estate_of_a_real_control_plane(here: Place, golden: Callable[[str, str], None]) -> None:
    """Pods that wait do so for the dump's reason; what cannot move is told why; the least at stake moves."""
    done = here.run("rehearse", str(shared("estates/small")))
    assert done.code == 0, done.err
    golden("rehearsal/estate-small.txt", without_choice(steady(done.out)))
    assert (
        "Deployment team-train/pending-big  pending-big-fc8b7fc77-ckkp6  16 nvidia.com/gpu  pending  pending"
        in steady(done.out)
    )


def without_choice(text: str) -> str:
    """The devices and nodes that a moved workload got are one choice of several."""
    return re.sub(r"^( *after .*<made>)  .*$", r"\1  <chosen>", text, flags=re.MULTILINE)


def test_the_estate_live(here: Place) -> None:
    done = here.run("rehearse", "--live", str(shared("estates/small")), "-o", "json")
    assert done.code == 0, done.err + done.out
    assert all(row["agrees"] for row in done.document["pods"])
    assert len(done.document["pods"]) == 48
    here.assert_nothing_left()
