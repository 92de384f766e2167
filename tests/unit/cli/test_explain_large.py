"""Large clusters: five thousand nodes with forty thousand devices are loaded and explained within bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regauge.cli.app import app

DRIVER = "gpu.example.com"
SECONDS = 5.0
MEMORY_MIB = 1024
SLACK = 3
MEASURED = """
import resource, sys, time
start = time.perf_counter()
from regauge.cli.app import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(time.perf_counter() - start, used.ru_maxrss // 1024, file=sys.stderr)
"""


def device(node: int, number: int) -> dict[str, Any]:
    attributes = {
        "model": {"string": "ABC"[node % 3]},
        "uuid": {"string": f"GPU-{node}-{number}"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02x}"},
        "address": {"string": f"0000:{number:02x}:00.0"},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def objects(nodes: int) -> list[dict[str, Any]]:
    """Nodes of eight devices each; on every other one five are in use. Two claims: one that fits, one that cannot."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    items: list[dict[str, Any]] = []
    for number in range(nodes):
        name = f"n{number:05}"
        meta = {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}}
        items.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": room}})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": [device(number, one) for one in range(8)]}
        items.append(resource("ResourceSlice", f"s-{name}", spec))
        if number % 2:
            results = [{"request": "r", "driver": DRIVER, "pool": name, "device": f"gpu-{one}"} for one in range(5)]
            items.append(claim(f"c{number}", "true", 5) | {"status": {"allocation": {"devices": {"results": results}}}})
    items.append(
        resource("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]})
    )
    return [*items, claim("fits", model("A"), 4), claim("never", model("D"), 4), *map(pod, ("fits", "never"))]


def model(letter: str) -> str:
    return f"device.attributes['{DRIVER}'].model == '{letter}'"


def resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": name, "uid": name, **({"namespace": "team"} if kind == "ResourceClaim" else {})}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": meta, "spec": spec}


def claim(name: str, expression: str, count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    request = {"name": "r", "exactly": {**exactly, "selectors": [{"cel": {"expression": expression}}]}}
    return resource("ResourceClaim", name, {"devices": {"requests": [request]}})


def pod(name: str) -> dict[str, Any]:
    claims = [{"name": "g", "resourceClaimName": name}]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": spec,
    }


def written(nodes: int, place: Path) -> Path:
    place.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects(nodes)}))
    return place


def test_many_nodes_are_told_by_reason_and_a_hundred_in_full(tmp_path: Path) -> None:
    dump = str(written(240, tmp_path / "all.json"))
    found = json.loads(CliRunner().invoke(app, ["explain", "claim", "never", "--from", dump, "-o", "json"]).stdout)
    assert sum(one["nodes"] for one in found["reasons"]) == 240 and len(found["reasons"]) < 10
    assert (len(found["nodes"]), found["nodesLeftOut"]) == (100, 140)
    found = json.loads(CliRunner().invoke(app, ["explain", "pod", "fits", "--from", dump, "-o", "json"]).stdout)
    assert len(found["fitting"]) == 40 and found["good"]
    assert any("of 240 nodes kube-scheduler stops looking after" in note for note in found["notes"])
    table = CliRunner().invoke(app, ["whatif", "--from", dump, "--add-node-like", "n00000"]).stdout
    assert "gpu.example.com: 241 pools" in table and "n00000-like-1" in table and len(table.splitlines()) < 20


@pytest.mark.soak
@pytest.mark.parametrize("asked", [("claim", "fits"), ("claim", "never"), ("pod", "fits"), ("pod", "never")])
def test_five_thousand_nodes_within_bounds(asked: tuple[str, str], tmp_path: Path) -> None:
    """From the start of the program to its answer; three times the bound, because the machine may be busy."""
    dump = str(written(5_000, tmp_path / "all.json"))
    command = [sys.executable, "-c", MEASURED, "explain", *asked, "--from", dump]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == (0 if asked[1] == "fits" else 1)
    seconds, mebibytes = done.stderr.splitlines()[-1].split()
    assert float(seconds) < SLACK * SECONDS
    assert int(mebibytes) < MEMORY_MIB
