"""A feature is there when the version has it, the gate is on, and the driver shows it; unknown is never a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regauge.base import Where
from regauge.cli.app import app
from regauge.features import rules
from regauge.migrate import DriverSupport, Supported, driver_support
from regauge.model import Document, Object, Snapshot

pytestmark = pytest.mark.row(69, how="unit")
DRIVER = "gpu.example.com"
COUNTERS = [{"counterSet": "board", "counters": {"memory": {"value": "1Gi"}}}]


def slice_(*devices: Object, driver: str = DRIVER, generation: int = 1, **spec: Any) -> Object:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{driver}-{generation}"},
        "spec": {"driver": driver, "nodeName": "n1", "pool": pool, "devices": list(devices), **spec},
    }


def supported(objects: list[Object], minor: str = "1.36", gates: dict[str, bool] | None = None) -> list[DriverSupport]:
    snapshot = Snapshot.of(Document(one, Where("test", line)) for line, one in enumerate(objects))
    return list(driver_support(snapshot, rules(minor, gates)))


def answers(objects: list[Object], minor: str = "1.36", gates: dict[str, bool] | None = None) -> dict[str, str]:
    (found,) = supported(objects, minor, gates)
    return {one.feature: one.answer.value for one in found.features}


@pytest.mark.parametrize(
    ("feature", "device", "gate"),
    [
        ("partitionable", {"consumesCounters": COUNTERS}, "DRAPartitionableDevices"),
        ("consumable-capacity", {"allowMultipleAllocations": True}, "DRAConsumableCapacity"),
        ("taints", {"taints": [{"key": "sick", "effect": "NoSchedule"}]}, "DRADeviceTaints"),
        ("binding-conditions", {"bindingConditions": ["ready"]}, "DRADeviceBindingConditions"),
    ],
)
def test_what_a_driver_shows_is_there_when_version_and_gate_are(feature: str, device: Object, gate: str) -> None:
    plain, shown = slice_({"name": "gpu-0"}), slice_({"name": "gpu-0", **device})
    assert answers([plain])[feature] == Supported.NOT_SHOWN
    assert answers([shown])[feature] == Supported.YES
    assert answers([shown], gates={gate: False})[feature] == Supported.GATE_OFF
    assert answers([slice_({"name": "gpu-0", **device}), slice_({"name": "gpu-0"}, generation=2)])[feature] == (
        Supported.NOT_SHOWN
    )


def test_a_version_without_the_gate() -> None:
    assert answers([slice_({"name": "gpu-0"})], "1.34")["workload-claims"] == Supported.NOT_THERE
    assert answers([slice_({"name": "gpu-0"})], "1.36")["workload-claims"] == Supported.GATE_OFF
    assert answers([slice_({"name": "gpu-0"})], "1.36")["optional-node-ops"] == Supported.NOT_THERE


def test_what_takes_nothing_of_a_driver_goes_by_its_gate() -> None:
    plain = [slice_({"name": "gpu-0"})]
    assert answers(plain)["prioritized-list"] == Supported.YES
    assert answers(plain, "1.35")["extended-resource"] == Supported.GATE_OFF
    assert answers(plain, "1.36")["extended-resource"] == Supported.YES


def test_drivers_are_told_apart_and_each_answer_has_its_evidence() -> None:
    other = slice_({"name": "nic-0", "allowMultipleAllocations": True}, driver="nic.example.com")
    found = supported([slice_({"name": "gpu-0"}, {"name": "gpu-1"}), other])
    assert [(one.driver, one.devices) for one in found] == [(DRIVER, 2), ("nic.example.com", 1)]
    by_driver = {one.driver: {item.feature: item for item in one.features} for one in found}
    assert by_driver["nic.example.com"]["consumable-capacity"].evidence == "1 devices that allow several allocations"
    assert "nothing that it publishes shows it" in by_driver[DRIVER]["consumable-capacity"].evidence
    assert all(item.evidence for one in found for item in one.features)
    assert supported([]) == []


def test_claims_show_that_a_driver_writes_their_status() -> None:
    status = {"devices": [{"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": []}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": status,
    }
    assert answers([slice_({"name": "gpu-0"}), claim])["claim-device-status"] == Supported.YES
    assert answers([slice_({"name": "gpu-0"})])["claim-device-status"] == Supported.NOT_SHOWN


def test_it_is_printed_with_the_image_of_the_driver(tmp_path: Path) -> None:
    run = CliRunner().invoke
    text = run(app, ["features", "support", "sample"]).output
    assert "gpu.nvidia.com: 20 devices, served by nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0" in text
    (tmp_path / "slice.json").write_text(json.dumps(slice_({"name": "gpu-0"})))
    result = run(app, ["features", "support", str(tmp_path), "--kube-version", "1.35", "-o", "json"])
    document = json.loads(result.stdout)
    assert (document["schema"], document["kubeVersion"]) == ("regauge.support/v1", "1.35")
    told = {one["feature"]: one["answer"] for one in document["drivers"][0]["features"]}
    assert told["consumable-capacity"] == "gate off"
    assert run(app, ["features", "watch", "sample"]).exit_code == 2
