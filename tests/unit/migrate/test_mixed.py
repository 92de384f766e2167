"""A label is true of a node; whether it is true of each device there is another question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regauge.base import Where
from regauge.cli.app import app
from regauge.features import rules
from regauge.migrate import MixedLabel, find_mixed, find_workloads, ground_of
from regauge.model import Document, Object, Snapshot

PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"


def node(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {PRODUCT: "NVIDIA-A100", **labels}},
    }


def slice_(name: str, *products: str, driver: str = "gpu.nvidia.com", memory: str = "40Gi") -> Object:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"productName": {"string": product}},
            "capacity": {"memory": {"value": memory}},
        }
        for number, product in enumerate(products)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def chooses(name: str, **spec: Any) -> Object:
    containers = [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    pod = {"metadata": {"labels": {"a": name}}, "spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"a": name}}, "template": pod},
    }


def mixed(*objects: Object) -> tuple[MixedLabel, ...]:
    snapshot = Snapshot.of(Document(one, Where("test", line)) for line, one in enumerate(objects))
    return find_mixed(snapshot.nodes, find_workloads(snapshot), ground_of(rules("1.36"), snapshot))


@pytest.mark.row(56, how="unit")
def test_two_models_on_one_node_under_one_label() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": ["NVIDIA-A100"]}]}
    ]}}  # fmt: skip
    (found,) = mixed(
        node("n1"),
        slice_("n1", "NVIDIA A100", "NVIDIA A100", "NVIDIA L4"),
        chooses("by-selector", nodeSelector={PRODUCT: "NVIDIA-A100"}),
        chooses("by-affinity", affinity={"nodeAffinity": required}),
        chooses("elsewhere", nodeSelector={PRODUCT: "NVIDIA-H100"}),
        chooses("anywhere"),
    )
    assert (found.node, found.label, found.value) == ("n1", PRODUCT, "NVIDIA-A100")
    assert (found.devices, found.as_said) == (3, 2)
    assert found.seen == ("2 x NVIDIA A100", "1 x NVIDIA L4")
    assert found.workloads == ("Deployment team/by-affinity", "Deployment team/by-selector")


@pytest.mark.row(56, how="unit")
def test_a_label_that_holds_for_no_device_is_told_too() -> None:
    (found,) = mixed(node("n1"), slice_("n1", "NVIDIA L4"))
    assert (found.devices, found.as_said, found.seen) == (1, 0, ("1 x NVIDIA L4",))


@pytest.mark.row(56, how="unit")
def test_where_it_says_enough_nothing_is_told() -> None:
    assert mixed(node("n1"), slice_("n1", "NVIDIA A100", "NVIDIA A100")) == ()
    assert mixed(node("n1"), slice_("n2", "NVIDIA A100", "NVIDIA L4")) == ()
    assert mixed(node("n1"), slice_("n1", "NVIDIA L4", driver="gpu.other.com")) == ()
    assert mixed(node("n1", **{MEMORY: "40960"}), slice_("n1", "NVIDIA A100")) == ()


def test_capacities_are_held_to_their_label() -> None:
    (found,) = mixed(node("n1", **{MEMORY: "81920"}), slice_("n1", "NVIDIA A100"))
    assert (found.label, found.as_said, found.seen) == (MEMORY, 0, ("1 x 40Gi",))


@pytest.mark.row(56, how="unit")
def test_an_assessment_shows_it(tmp_path: Path) -> None:
    items = [node("n1"), slice_("n1", "NVIDIA A100", "NVIDIA L4"), chooses("x", nodeSelector={PRODUCT: "NVIDIA-A100"})]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    text = CliRunner().invoke(app, ["assess", str(tmp_path)]).output
    assert "DEVICES THAT ARE SO" in text and "1 of 2" in text
    (told,) = json.loads(CliRunner().invoke(app, ["assess", str(tmp_path), "-o", "json"]).stdout)["mixedLabels"]
    assert (told["asSaid"], told["workloads"]) == (1, ["Deployment team/x"])
    assert "1 x NVIDIA L4" in CliRunner().invoke(app, ["assess", str(tmp_path), "-o", "markdown"]).output


@pytest.mark.row(172, how="unit")
def test_an_assessment_on_a_managed_control_plane(tmp_path: Path) -> None:
    managed = node("n1", **{"eks.amazonaws.com/nodegroup": "gpus"})
    (tmp_path / "all.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [managed, chooses("x")]})
    )
    run = CliRunner().invoke
    document = json.loads(run(app, ["assess", str(tmp_path), "-o", "json"]).stdout)
    assert document["platform"] == "eks" and "DRADeviceTaintRules" in document["fixedGates"]
    assert "Amazon EKS: The feature gates" in run(app, ["assess", str(tmp_path)]).output
    result = run(app, ["assess", str(tmp_path), "--feature-gates", "DRADeviceTaintRules=true"])
    assert result.exit_code == 2 and "cannot be on on Amazon EKS" in result.output
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1")]}))
    document = json.loads(run(app, ["assess", str(tmp_path), "-o", "json"]).stdout)
    assert (document["platform"], document["fixedGates"]) == ("", [])
    document = json.loads(run(app, ["assess", str(tmp_path), "--platform", "eks", "-o", "json"]).stdout)
    assert document["platform"] == "eks"
