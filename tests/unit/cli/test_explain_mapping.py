"""`regauge explain` about devices that stand for resources of their nodes, or burden them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support import shared
from tests.unit.cli.test_explain_features import CLASS, NODE, claim, pod, slice_of, told
from tests.unit.scheduler.live import objects_of
from typer.testing import CliRunner

from regauge.cli.app import app

GATE_OF_MAPPING = "DRANodeAllocatableResources"


def test_devices_that_stand_for_the_nodes_own_cpu() -> None:
    setup, created = objects_of(shared("vectors/stories/scenarios/073-node-allocatable-multiplier"))
    pods = [one for one in created if one["kind"] == "Pod"]
    objects = [*setup, *(one for one in created if one["kind"] != "Pod"), pods[0]]
    found = told("pod", "a", objects, DRANodeAllocatableResources=True)
    assert found["answer"] == "can be scheduled"
    (detail,) = found["nodes"][0]["details"]
    assert "takes of the node's own cpu 3 for main" in detail and detail in found["words"]


@pytest.mark.row(245, how="unit")
def test_kep_5517_devices_map_to_resources_of_the_node_and_burden_them() -> None:
    taken = {
        "cpu": {"mapping": {"deviceMultiplier": "3"}},
        "memory": {"overhead": {"perPod": "1Gi", "perContainer": "64Mi"}},
    }
    device = {"name": "a", "nodeAllocatableResources": taken}
    claims = [{"name": "g", "resourceClaimName": "c"}]
    using = {"name": "main", "resources": {"claims": [{"name": "g"}]}}
    objects = [NODE, CLASS, slice_of(device), claim(), pod(resourceClaims=claims, containers=[using])]
    found = told("pod", "p", objects, "1.37", **{GATE_OF_MAPPING: True})
    assert found["answer"] == "can be scheduled"
    (detail,) = found["nodes"][0]["details"]
    assert detail == "claim c takes of the node's own cpu 3, memory 1Gi and 1 times 64Mi (overhead) for main"
    off = told("pod", "p", objects, "1.37")
    assert off["answer"] == "can be scheduled" and not off["nodes"][0]["details"]


def test_which_device_asks_too_much_of_the_node() -> None:
    def asking(amount: str) -> list[dict[str, Any]]:
        mapped = {"name": "a", "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": amount}}}}
        main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        waiting = pod(resourceClaims=[{"name": "g", "resourceClaimName": "c"}], containers=[main])
        return [NODE, CLASS, slice_of(mapped), claim(), waiting]

    found = told("pod", "p", asking("400"), "1.37", **{GATE_OF_MAPPING: True})
    assert found["answer"] == "cannot be scheduled" and "Insufficient cpu" in found["text"]
    short, blamed = found["nodes"][0]["details"]
    assert short.startswith("cpu: asks for 401, ") and short.endswith("more than the whole node has")
    assert blamed == "cpu: device d/n1/a of claim c stands for 400"
    broken = json.dumps({"apiVersion": "v1", "kind": "List", "items": asking("none")})
    words = [
        "explain",
        "pod",
        "p",
        "--from",
        "-",
        "--kube-version",
        "1.37",
        "--feature-gates",
        f"{GATE_OF_MAPPING}=true",
    ]
    done = CliRunner().invoke(app, words, input=broken)
    assert done.exit_code == 2
    assert "device d/n1/a" in done.output and "nodeAllocatableResources.cpu.mapping.deviceMultiplier" in done.output
