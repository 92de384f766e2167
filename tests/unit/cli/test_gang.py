"""`regauge gang check`: gangs of every kind, those that hold and wait, those that block each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.goldens import DIRECTORY, compare
from tests.support import ROOT
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cli.gang_document import age, age_s, check_schema, whatif_schema

RUNNER = CliRunner()
DRIVER = "gpu.example.com"
Object = dict[str, Any]


def run(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["gang", "check", *arguments])
    assert "Traceback" not in result.output and "a bug of ours" not in result.output, result.output
    return result.exit_code, result.stdout, result.stderr


def cluster(*devices: int) -> list[Object]:
    """Nodes n0, n1, ... with so many devices each."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    found = [object_("resource.k8s.io/v1", "DeviceClass", DRIVER, spec={"selectors": [selector]})]
    for index, count in enumerate(devices):
        name = f"n{index}"
        room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        found.append(object_("v1", "Node", name, status={"allocatable": room, "capacity": room}))
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(count)],
        }
        found.append(object_("resource.k8s.io/v1", "ResourceSlice", name, spec=spec))
    template = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": DRIVER, "count": 2}}]}}
    found.append(object_("resource.k8s.io/v1", "ResourceClaimTemplate", "two", "team", spec={"spec": template}))
    return found


def object_(version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


POD_SPEC: Object = {
    "containers": [{"name": "main", "image": "x"}],
    "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "two"}],
}


def kueue_pod(name: str, group: str, total: int, node: str = "", devices: tuple[str, ...] = ()) -> list[Object]:
    """A pod of a group; with devices it is placed, and its claim has them."""
    labels = {"kueue.x-k8s.io/pod-group-name": group}
    notes = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    uid = f"uid-{name}"
    pod = object_("v1", "Pod", name, "team", metadata={"labels": labels, "annotations": notes}, spec=dict(POD_SPEC))
    if not node:
        return [pod]
    pod["metadata"]["uid"] = uid
    pod["spec"]["nodeName"] = node
    pod["status"] = {
        "phase": "Running",
        "startTime": "2026-11-29T10:00:00Z",
        "resourceClaimStatuses": [{"name": "g", "resourceClaimName": f"{name}-g"}],
    }
    results = [{"request": "g", "driver": DRIVER, "pool": node, "device": one} for one in devices]
    request = {"name": "g", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 2}}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    claim = object_(
        "resource.k8s.io/v1",
        "ResourceClaim",
        f"{name}-g",
        "team",
        metadata={"uid": f"uid-{name}-g", "ownerReferences": [owner]},
        spec={"devices": {"requests": [request]}},
        status={
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        },
    )
    return [pod, claim]


def job_set(replicas: int, parallelism: int) -> Object:
    template = {"spec": {"parallelism": parallelism, "template": {"spec": POD_SPEC}}}
    jobs = [{"name": "workers", "replicas": replicas, "template": template}]
    return object_("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "team", spec={"replicatedJobs": jobs})


def leader_worker_set(replicas: int, size: int) -> Object:
    shape = {"size": size, "workerTemplate": {"spec": POD_SPEC}}
    spec = {"replicas": replicas, "leaderWorkerTemplate": shape}
    return object_("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", "team", spec=spec)


def checked(place: Path, objects: list[Object]) -> tuple[int, list[Object]]:
    (place / "dump.yaml").write_text(yaml.safe_dump_all(objects))
    code, out, said = run(str(place), "-o", "json")
    assert out, said
    document = json.loads(out)
    assert document["schema"] == "regauge.gang-check/v1" and (code == 0) is document["good"]
    return code, document["gangs"]


@pytest.mark.parametrize(("devices", "answer"), [((4, 4), "can be placed"), ((4, 3), "cannot be placed")])
def test_a_job_set_is_placed_as_a_whole_or_not(tmp_path: Path, devices: tuple[int, ...], answer: str) -> None:
    code, (gang,) = checked(tmp_path, [*cluster(*devices), job_set(2, 2)])
    assert (gang["gang"], gang["pods"], gang["least"]) == ("JobSet team/train", 4, 4)
    assert gang["answer"] == answer and code == (answer != "can be placed")
    assert len(gang["places"]) == (4 if code == 0 else 0)


def test_each_group_of_a_leader_worker_set_is_a_gang(tmp_path: Path) -> None:
    code, gangs = checked(tmp_path, [*cluster(4), leader_worker_set(2, 2)])
    assert [one["gang"] for one in gangs] == [f"LeaderWorkerSet team/serve, group {index}" for index in (0, 1)]
    assert code == 0 and {one["answer"] for one in gangs} == {"can be placed"}


@pytest.mark.row(77, how="unit")
@pytest.mark.row(116, how="unit")
@pytest.mark.row(233, how="unit")
@pytest.mark.row(269, how="unit")
def test_gangs_that_hold_and_wait_block_each_other(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    objects = cluster(4)
    for group, devices in (("a", ("gpu-0", "gpu-1")), ("b", ("gpu-2", "gpu-3"))):
        objects += kueue_pod(f"{group}-0", group, 2, "n0", devices)
        objects += kueue_pod(f"{group}-1", group, 2)
    code, gangs = checked(tmp_path, objects)
    assert code == 1
    for one, other in (gangs, reversed(gangs)):
        assert one["answer"] == "cannot be placed" and one["partial"] and one["blockedBy"] == [other["gang"]]
    assert gangs[0]["holders"] == [
        {
            "pod": "team/a-0",
            "node": "n0",
            "since": "2026-11-29T10:00:00Z",
            "devices": [f"{DRIVER}/n0/gpu-0", f"{DRIVER}/n0/gpu-1"],
        }
    ]
    _, out, _ = run(str(tmp_path))
    assert "They block each other" in out and "HOLDS AND WAITS" in out
    assert "deadlock: pod group of Kueue team/a -> pod group of Kueue team/b -> pod group of Kueue team/a" in out
    assert "pod group of Kueue team/a holds 2 devices and cannot run: it is in the deadlock below" in out
    compare(DIRECTORY / "gang", "deadlock.txt", out, rewrite=request.config.getoption("--rewrite"))


def test_a_gang_whose_pods_are_all_placed_is_good(tmp_path: Path) -> None:
    objects = [*cluster(4), *kueue_pod("a-0", "a", 1, "n0", ("gpu-0", "gpu-1"))]
    code, (gang,) = checked(tmp_path, objects)
    assert code == 0 and gang["answer"] == "is placed" and not gang["partial"]


def test_a_gang_that_lacks_pods_says_so(tmp_path: Path) -> None:
    code, (gang,) = checked(tmp_path, [*cluster(4), *kueue_pod("a-0", "a", 3)])
    assert code == 1 and gang["why"] == "it has 1 of 3 pods"


def test_without_gangs(tmp_path: Path) -> None:
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump_all(cluster(1)))
    code, out, _ = run(str(tmp_path))
    assert code == 0 and "There are no gangs." in out


def test_pod_groups(tmp_path: Path) -> None:
    group = object_(
        "scheduling.k8s.io/v1alpha2", "PodGroup", "pg", "team", spec={"schedulingPolicy": {"gang": {"minCount": 2}}}
    )
    pods = []
    for index in range(3):
        spec = {**POD_SPEC, "schedulingGroup": {"podGroupName": "pg"}}
        pods.append(object_("v1", "Pod", f"p{index}", "team", spec=spec))
    code, (gang,) = checked(tmp_path, [*cluster(4), group, *pods])
    assert (gang["pods"], gang["least"], gang["answer"], code) == (3, 2, "can be placed", 0)
    code, (gang,) = checked(tmp_path, [*cluster(3), group, *pods])
    assert (gang["answer"], code) == ("cannot be placed", 1)


@pytest.mark.row(117, how="unit")
def test_a_topology_in_the_way_of_devices_is_shown(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    objects = cluster(2, 4, 2, 2)
    for one in objects:
        if one["kind"] == "Node":
            one["metadata"]["labels"] = {"rack": f"r{int(one['metadata']['name'][1:]) // 2}"}
    set_ = job_set(2, 2)
    inner = set_["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    inner["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump_all([*objects, set_]))
    code, out, _ = run(str(tmp_path))
    assert code == 1
    compare(DIRECTORY / "gang", "topology.txt", out, rewrite=request.config.getoption("--rewrite"))


# -- gang whatif


def whatif(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["gang", "whatif", *arguments])
    assert "Traceback" not in result.output and "a bug of ours" not in result.output, result.output
    return result.exit_code, result.stdout, result.stderr


def competing(place: Path) -> str:
    dump = place / "dump.yaml"
    dump.write_text(yaml.safe_dump_all([*cluster(4), job_set(1, 2), leader_worker_set(1, 2)]))
    return str(dump)


@pytest.mark.row(233, how="unit")
def test_gangs_that_compete(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = competing(tmp_path)
    code, out, _ = whatif(place)
    assert code == 1
    compare(DIRECTORY / "gang", "compete.txt", out, rewrite=request.config.getoption("--rewrite"))
    code, out, _ = whatif(place, "--add-node-like", "n0", "--first", "team/serve")
    assert code == 0 and "1 gangs find a place, 0 lose theirs." in out
    assert out.index("LeaderWorkerSet team/serve") < out.index("JobSet team/train")


def test_the_forecast_as_json_has_its_schema(tmp_path: Path) -> None:
    code, out, _ = whatif(competing(tmp_path), "--priority", "team/serve=7", "-o", "json")
    found = json.loads(out)
    assert code == 1 and found["lost"] == ["JobSet team/train"]
    assert found["after"]["order"][0]["gang"] == "LeaderWorkerSet team/serve, group 0"
    assert found["after"]["atOnceDeadlocks"][0]["pause"]
    Draft202012Validator(whatif_schema()).validate(found)


def test_the_answers_as_json_have_their_schema(tmp_path: Path) -> None:
    objects = cluster(4)
    for group, devices in (("a", ("gpu-0", "gpu-1")), ("b", ("gpu-2", "gpu-3"))):
        objects += [*kueue_pod(f"{group}-0", group, 2, "n0", devices), *kueue_pod(f"{group}-1", group, 2)]
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump_all(objects))
    _, out, _ = run(str(tmp_path), "-o", "json")
    found = json.loads(out)
    Draft202012Validator(check_schema()).validate(found)
    assert found["deadlocks"][0]["circle"] and found["gangs"][0]["kept"]["kind"] == "kueue-pods"
    assert found["gangs"][0]["since"] == "2026-11-29T10:00:00Z" and found["gangs"][0]["ageSeconds"] is None


@pytest.mark.parametrize(("verb", "name"), [("check", "gang-check"), ("whatif", "gang-whatif")])
def test_the_schemas_that_are_shipped_are_those_that_are_printed(verb: str, name: str) -> None:
    result = RUNNER.invoke(app, ["gang", verb, "--schema"])
    assert result.exit_code == 0
    Draft202012Validator.check_schema(json.loads(result.stdout))
    assert (ROOT / "docs" / f"{name}.schema.json").read_text() == result.stdout


@pytest.mark.parametrize("arguments", [("--priority", "train"), ("--priority", "=4"), ("--first", "no-such-gang")])
def test_wrong_usage_ends_with_2(tmp_path: Path, arguments: tuple[str, str]) -> None:
    result = RUNNER.invoke(app, ["gang", "whatif", competing(tmp_path), *arguments])
    assert result.exit_code == 2 and "Traceback" not in result.output


def test_ages_are_told_in_one_unit() -> None:
    assert age_s("2026-11-29T10:00:00Z", 1796040000.0 + 90) is not None
    assert age_s(None, 1.0) is None and age_s("2026-11-29T10:00:00Z", None) is None and age_s("no time", 1.0) is None
    assert [age(value) for value in (None, 5.0, 300.0, 7200.0, 864000.0)] == ["-", "5s", "5m", "2h", "10d"]
