"""`regauge inventory`: devices by physical identity, from published attributes and nodes' own records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_docs import documented, fields
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.collect import Estate, bundle_bytes
from regauge.model import Snapshot, read_documents
from regauge.model.node_files import NodeFile, NodeFiles

UUIDS = tuple(f"GPU-0000000{number}-0000-0000-0000-000000000000" for number in range(4))
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def node(name: str) -> dict[str, Any]:
    capacity = {"nvidia.com/gpu": "2"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": capacity}}


def pod(name: str, on: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [container]},
    }


def published(on: str, *uuids: str) -> dict[str, Any]:
    devices = [{"name": f"gpu-{index}", "attributes": {"uuid": {"string": uuid}}} for index, uuid in enumerate(uuids)]
    spec = {
        "driver": "gpu.nvidia.com", "nodeName": on, "devices": devices,
        "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
    }  # fmt: skip
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": on}, "spec": spec}


def recorded(held: str, *uuids: str) -> NodeFiles:
    entry = {"PodUID": held, "ContainerName": "main", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": [uuids[0]]}}
    data = {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {"nvidia.com/gpu": list(uuids)}}, "Checksum": 1}
    return NodeFiles("a", kubelet=(NodeFile(CHECKPOINT, json.dumps(data).encode()),))


def bundle(place: Path, published_on_a: tuple[str, ...]) -> str:
    """Node `a` with a record, node `b` without one."""
    items = [node("a"), node("b"), pod("holds", "a"), pod("unseen", "b"), published("a", *published_on_a)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    snapshot = Snapshot.of(read_documents(text.encode(), "made.json"))
    estate = Estate(snapshot, "made", "v1.36.3", nodes={"a": recorded("uid-holds", *UUIDS[:2])})
    path = place / "estate.zip"
    path.write_bytes(bundle_bytes(estate, "2026-01-01T00:00:00Z"))
    return str(path)


def inventory(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, ["inventory", *arguments, "-o", "json"])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.row(101, how="unit")
def test_devices_of_both_stacks_are_told_apart_with_their_holders(tmp_path: Path) -> None:
    code, found = inventory(bundle(tmp_path, UUIDS[2:]))
    assert code == 0
    devices = {device["identity"]: device for device in found["devices"]}
    assert set(devices) == set(UUIDS)
    assert [devices[uuid]["stacks"] for uuid in UUIDS] == [["device-plugin"]] * 2 + [["dra"]] * 2
    assert devices[UUIDS[0]]["holders"] == ["pod team/holds"] and devices[UUIDS[1]]["holders"] == []
    counted = {item["node"]: item for item in found["counted"]}
    assert (counted["a"]["seen"], counted["b"]["seen"], counted["b"]["requested"]) == (True, False, 1)


@pytest.mark.row(84, how="unit")
@pytest.mark.row(219, how="unit")
def test_one_device_under_both_stacks_is_found_and_ends_with_one(tmp_path: Path) -> None:
    place = bundle(tmp_path, (UUIDS[1], UUIDS[3]))
    code, found = inventory(place)
    assert code == 1
    twice = [device for device in found["devices"] if device["advertisedTwice"]]
    assert [(device["identity"], device["stacks"]) for device in twice] == [(UUIDS[1], ["device-plugin", "dra"])]
    told = CliRunner().invoke(app, ["inventory", place])
    assert told.exit_code == 1 and "device-plugin AND dra" in told.stdout and "advertised twice" in told.stdout
    assert inventory(place, "--node", "b")[0] == 0


def test_what_only_a_kubelet_knows_is_unknown_and_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["inventory", bundle(tmp_path, UUIDS[2:])])
    row = next(line for line in done.stdout.splitlines() if line.startswith("b "))
    assert row.split() == ["b", "nvidia.com/gpu", "2", "1", "unknown"]
    assert "2 counted on nodes without a record" in done.stderr and "regauge collect node" in done.stderr


def test_fields_are_those_of_its_page(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    told, opaque = documented("inventory.md")
    assert opaque == {"devices[].advertisements[].identity"}
    _, found = inventory(bundle(tmp_path, UUIDS[2:]))
    held = {**found, "notRead": [{"what": "x", "why": "y"}]}
    claimed = found["devices"][0]["advertisements"][0] | {"holders": ["pod a/b"]}
    held["devices"] = [*found["devices"], {**found["devices"][0], "advertisements": [claimed], "holders": ["pod a/b"]}]
    assert fields(held, opaque) == told
