"""The checklist end to end: a cluster that has moved, reports made by our own verbs, all ten items answered; each can fail.

The cluster is `regauge up` with an estate, moved by its own plan over HTTPS. Asked are the live cluster and its bundle.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.cluster.up.program import Program, running
from tests.unit.rehearsal.plans import written_estate
from typer.testing import CliRunner

from regauge.base import Where
from regauge.cli.app import app
from regauge.collect import Estate, bundle_bytes, load_estate
from regauge.model import Document, Snapshot
from regauge.model.kinds import NODE
from regauge.model.node_files import HostFunction, NodeFile, NodeFiles

SCENARIOS = {
    "lifecycle": ("3-deleted", "3-recreated", "7-reallocated", "5-notready", "4-driver"),
    "failures": ("F-4", "F-5", "F-19", "F-27"),
    "checklist": ("3-tainted", "6-diagnosed"),
}
REPORTS = ("lifecycle", "failures", "checklist", "rehearsal", "assess")
NODES = ("g0", "d0")
TEN = list(range(1, 11))
HEAD = "apiVersion: regauge.dev/v1alpha1\nkind: Scenario\nmetadata: {name: broken}\ntitle: broken\nbase: gpus\n"


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, f"{words}: {done.exit_code}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass
class Moved:
    """A cluster after its move, the evidence, the completed contract, and a bundle of it."""

    place: Path
    up: Program

    def at(self, name: str) -> str:
        return str(self.place / name)

    def reports(self, **instead: str) -> list[str]:
        files = {name: self.at(f"{name}.json") for name in REPORTS} | instead
        return [word for file in files.values() for word in ("--evidence", file)]

    def ask(self, *words: str, contract: str = "", **reports: str) -> dict[int, dict[str, Any]]:
        """The ten items by number."""
        asked = ("--profile", "production", "--contract", contract or self.at("contract.yaml"), "--fail-on", "never")
        told = run("audit", *words, *asked, *self.reports(**reports), "-o", "json")
        return {one["number"]: one for one in json.loads(told)["checklist"]}

    def live(self) -> tuple[str, ...]:
        return "--kubeconfig", str(self.up.state / "kubeconfig")


@pytest.fixture(scope="module")
def moved() -> Iterator[Moved]:
    with tempfile.TemporaryDirectory(prefix="rg-") as name:
        place = Path(name)
        objects = [document.object for document in written_estate(nodes=1).all_documents()]
        (place / "estate.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        with running(place / "s", "--estate", str(place / "estate.json"), "--forget-after", "1") as up:
            found = Moved(place, up)
            _evidence(found)
            _move(found)
            yield found


def _evidence(found: Moved) -> None:
    """What our own verbs say of the cluster before the move, and of what the software does when its parts fail."""
    run("collect", *found.live(), "-o", found.at("before.zip"))
    for name, words in (("rehearsal", ("rehearse", found.at("before.zip"), "--plan", "auto")),
                        ("assess", ("assess", found.at("before.zip")))):  # fmt: skip
        Path(found.at(f"{name}.json")).write_text(run(*words, "-o", "json"))
    for suite, names in SCENARIOS.items():
        only = [word for one in names for word in ("--only", one)]
        Path(found.at(f"{suite}.json")).write_text(run("verify", suite, *only, "-o", "json"))


def _move(found: Moved) -> None:
    """The move itself, records of the nodes, the contract with what a person says, and the bundle."""
    run("plan", "--write", found.at("plan.yaml"), *found.live())
    run("rollout", "run", found.at("plan.yaml"), "--approve", "*", "--poll", "0.5", *found.live())
    records = found.place / "records"
    records.mkdir()
    for node in NODES:
        root = str(found.up.state / "nodes" / node)
        run("collect", "node", "--root", root, "--node", node, "-o", str(records / f"{node}.json"))
    evidence = ("--evidence", found.at("rehearsal.json"), "--evidence", found.at("assess.json"))
    run("contract", "init", *found.live(), "--name", "east", "-w", found.at("contract.yaml"), *evidence)
    contract = yaml.safe_load(Path(found.at("contract.yaml")).read_text())
    (canary,) = (one for one in contract["nodePools"] if one["name"] == "dra")
    assert canary["rationale"] == ""  # nobody has said why the canary pool began with DRA: a person does
    canary["rationale"] = "the canary pool, where drivers are tried first"
    Path(found.at("contract.yaml")).write_text(yaml.safe_dump(contract, sort_keys=False))
    run("collect", *found.live(), "--nodes", str(records), "-o", found.at("estate.zip"))


@pytest.mark.row(156, 157, 158, 159, 160, 161, 162, 163, 164, 165, how="unit")
def test_all_ten_pass_on_the_live_cluster_and_on_its_bundle(moved: Moved) -> None:
    live = moved.ask(*moved.live(), "--nodes", moved.at("records"))
    bundle = moved.ask(moved.at("estate.zip"))
    for found in (live, bundle):
        assert {number: one["answer"] for number, one in found.items()} == dict.fromkeys(TEN, "pass"), found
        assert all(one["evidence"] for one in found.values())
    assert "a change of dra is tried on node g0: it is there" in str(live[8]["evidence"])
    assert "V7: it needs what a count cannot say" in str(live[2]["evidence"])


def test_the_contract_is_kept_live_and_in_the_bundle(moved: Moved) -> None:
    for where in (moved.live(), (moved.at("estate.zip"),)):
        evidence = ("--evidence", moved.at("rehearsal.json"))
        document = json.loads(run("contract", "check", moved.at("contract.yaml"), *where, *evidence, "-o", "json"))
        assert document["holds"] and document["counts"]["not known"] == 0
    assert json.loads(run("contract", "diff", moved.at("contract.yaml"), moved.at("estate.zip"), "-o", "json"))["same"]


def test_without_evidence_it_is_not_known_and_never_passed(moved: Moved) -> None:
    told = run("audit", moved.at("before.zip"), "--profile", "production", "--fail-on", "never", "-o", "json")
    found = {one["number"]: one["answer"] for one in json.loads(told)["checklist"]}
    assert [number for number, answer in found.items() if answer == "pass"] == [3, 7]
    assert "fail" not in found.values()


# -- a fault for each


def changed(moved: Moved, change: Callable[[Estate], Estate]) -> str:
    """The bundle with one thing changed in it."""
    path = moved.at("changed.zip")
    Path(path).write_bytes(bundle_bytes(change(load_estate(moved.at("estate.zip"))), "2026-11-30T00:00:00Z"))
    return path


def with_objects(*objects: dict[str, Any]) -> Callable[[Estate], Estate]:
    def change(estate: Estate) -> Estate:
        more = [Document(one, Where("more", at)) for at, one in enumerate(objects, 1)]
        return replace(estate, snapshot=Snapshot.of([*estate.snapshot.all_documents(), *more]))

    return change


def without_object(kind: str, name: str) -> Callable[[Estate], Estate]:
    def change(estate: Estate) -> Estate:
        kept = [one for one in estate.snapshot.all_documents() if (one.kind, one.name) != (kind, name)]
        return replace(estate, snapshot=Snapshot.of(kept))

    return change


def with_record(change: Callable[[NodeFiles], NodeFiles]) -> Callable[[Estate], Estate]:
    return lambda estate: replace(estate, nodes={**estate.nodes, "g0": change(estate.nodes["g0"])})


def _unbound(files: NodeFiles) -> NodeFiles:
    return replace(files, functions=(HostFunction("0000:17:00.0", "0x10de", "0x2330", "0x030200"),))


def _listed_twice(estate: Estate) -> Estate:
    """The kubelet counts a device, which it lists by its UUID, that DRA publishes."""
    devices = [one for slice_ in estate.snapshot.slices if slice_.spec.node_name == "g0" for one in slice_.spec.devices]
    uuid = next(one.attributes["uuid"].string_value for one in devices)
    data = {"Data": {"RegisteredDevices": {"nvidia.com/gpu": [uuid]}}, "Checksum": 0}
    path = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    files = replace(estate.nodes["g0"], kubelet=(NodeFile(path, json.dumps(data).encode()),))
    (node,) = (one for one in estate.snapshot.documents(NODE) if one.name == "g0")
    counted = {**node.object["status"], "capacity": {**node.object["status"]["capacity"], "nvidia.com/gpu": "1"}}
    estate = with_objects({**node.object, "status": counted})(without_object("Node", "g0")(estate))
    return replace(estate, nodes={**estate.nodes, "g0": files})


def _open_to_all(files: NodeFiles) -> NodeFiles:
    assert any(one.facts for one in files.spec_directories)
    opened = [
        replace(one, facts=replace(one.facts, mode=0o777)) if one.facts else one for one in files.spec_directories
    ]
    return replace(files, spec_directories=tuple(opened))


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "team"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "2"}},
}
SCALER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "cluster-autoscaler", "namespace": "kube-system"},
    "spec": {
        "template": {
            "spec": {"containers": [{"name": "a", "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1"}]}
        }
    },
}
FAULTS: dict[int, tuple[Callable[[Estate], Estate], str]] = {
    1: (with_record(_unbound), "DRIVER-MISSING"),
    3: (_listed_twice, "OWN-TWICE"),
    4: (with_record(_open_to_all), "CDI-"),
    5: (without_object("Node", "g0"), "CLAIM-NODE-GONE"),
    6: (with_objects(QUOTA), "QUOTA-OLD-NAMES"),
    7: (with_objects(SCALER), "cluster-autoscaler is seen"),
    9: (without_object("DeviceClass", "gpu.nvidia.com"), "DeviceClass gpu.nvidia.com: broken: there is none"),
}


@pytest.mark.row(156, 157, 158, 159, 160, 161, 162, 163, 164, 165, how="unit")
@pytest.mark.parametrize("number", FAULTS)
def test_a_fault_in_the_cluster_fails_its_item(moved: Moved, number: int) -> None:
    change, told = FAULTS[number]
    found = moved.ask(changed(moved, change))[number]
    assert found["answer"] == "fail"
    assert told in str(found["evidence"])


@pytest.mark.row(157, 163, how="unit")
@pytest.mark.parametrize(
    ("number", "old", "new", "told"),
    [
        (2, "the canary pool, where drivers are tried first", "", "why dra is served by dra: to be said"),
        (8, "canary: node g0", "canary: node g9", "there is no node g9 with devices"),
        (9, "version: v1.36.3", "version: v1.36.1", "it is v1.36.3"),
    ],
)
def test_a_contract_that_is_not_kept_or_not_complete_fails_its_item(
    moved: Moved, number: int, old: str, new: str, told: str
) -> None:
    text = Path(moved.at("contract.yaml")).read_text()
    assert text.count(old) == 1
    other = moved.place / "other.yaml"
    other.write_text(text.replace(old, new or "''"))
    found = moved.ask(moved.at("estate.zip"), contract=str(other))[number]
    assert (found["answer"], told in str(found["evidence"])) == ("fail", True)
    assert f"{other}:" in str(found["evidence"])  # with its line


@pytest.mark.row(160, 165, how="unit")
@pytest.mark.parametrize(("number", "row", "suite"), [(5, "72", "lifecycle"), (10, "165", "checklist")])
def test_a_scenario_that_does_not_hold_fails_its_item(moved: Moved, number: int, row: str, suite: str) -> None:
    scenario, report = moved.place / "broken.yaml", moved.place / "broken.json"
    scenario.write_text(f"{HEAD}rows: [{row}]\nsteps:\n- expect: {{bundle: '*'}}\n")
    report.write_text(run("verify", str(scenario), "-o", "json", code=1))
    found = moved.ask(moved.at("estate.zip"), **{suite: str(report)})[number]
    assert (found["answer"], "broken does not hold" in str(found["evidence"])) == ("fail", True)


@pytest.mark.row(165, how="unit")
def test_an_ill_device_of_a_live_cluster_starts_a_diagnosis(moved: Moved) -> None:
    into = moved.place / "diagnoses"
    assert run("collect", "watch", str(into), "--once", *moved.live()) == "Every device is well.\n"
    ill = {"name": "gpu-9", "taints": [{"key": "example.com/broken", "effect": "NoSchedule"}]}
    spec = {"driver": "x.example.com", "nodeName": "d0", "devices": [ill],
            "pool": {"name": "d0", "generation": 1, "resourceSliceCount": 1}}  # fmt: skip
    slice_ = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "ill"}, "spec": spec}
    moved.up.kubectl("apply", "-f", "-", stdin=json.dumps(slice_))
    said = run("collect", "watch", str(into), "--once", "--nodes", moved.at("records"), *moved.live())
    assert "x.example.com/d0/gpu-9 on d0 is tainted example.com/broken:NoSchedule" in said
    (bundle,) = into.iterdir()
    assert bundle.stat().st_mode & 0o777 == 0o600
    estate = load_estate(str(bundle))
    assert set(estate.nodes) == set(NODES) and estate.whole
    assert "ill" in {one.metadata.name for one in estate.snapshot.slices}
