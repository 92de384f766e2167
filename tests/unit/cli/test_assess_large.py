"""The assessment of a made estate: what it says at a twentieth of the size; its limits, in long runs, at the whole."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from bench._estate import DEVICES, POD_BYTES, PODS_PER_WORKLOAD, POOLS, made_pods, write_estate
from bench.assess import NODES, PODS, Run, measured, rows

SLACK = 3
FEW, MORE, FEW_NODES = 2_500, 5_000, 256
LAZY_MIB = 140
"""Far more than a run of this size takes; whoever decodes every pod to the last variable takes more."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("estate")
    write_estate(place / "few.zip", FEW, FEW_NODES)
    write_estate(place / "more.zip", MORE, FEW_NODES)
    return place


@pytest.fixture(scope="module")
def more(place: Path) -> Run:
    return measured(place, "assess", str(place / "more.zip"), "-o", "json")


def test_every_workload_is_found_with_all_of_its_pods(more: Run) -> None:
    found = json.loads(more.out)
    workloads = MORE // PODS_PER_WORKLOAD
    asking = [number for number in range(workloads) if number % 32 in (1, 3, 5, 7, 9, 11)]
    assert {row["name"] for row in found["workloads"]} == {f"app-{number}" for number in asking}
    assert {row["kind"] for row in found["workloads"]} == {"Deployment"}
    assert {row["state"] for row in found["workloads"]} == {f"{PODS_PER_WORKLOAD} running"}
    stacks = Counter(row["stack"] for row in found["workloads"])
    by_claim = sum(number % 32 == 11 for number in asking)
    assert stacks == {"dra": by_claim, "device-plugin": len(asking) - by_claim}
    assert all(row["nodePools"] for row in found["workloads"])


def test_every_device_of_every_pool_is_counted(more: Run) -> None:
    pools = {pool["name"]: pool for pool in json.loads(more.out)["nodePools"]}
    each = FEW_NODES // len(POOLS)
    assert set(pools) == set(POOLS) and {pool["nodes"] for pool in pools.values()} == {each}
    assert pools["dra"]["dra"] == {"gpu.nvidia.com": each * DEVICES} and not pools["dra"]["devicePlugin"]
    assert pools["a100"]["devicePlugin"] == {"nvidia.com/gpu": each * DEVICES}
    assert pools["l4"]["devicePlugin"] == {"nvidia.com/gpu": each * DEVICES * 4}


def test_it_grows_with_the_size_and_no_faster(place: Path, more: Run) -> None:
    """Twice the pods take at most about twice as long, beyond what starting takes; and memory stays far from all objects."""
    few = measured(place, "assess", str(place / "few.zip"), "-o", "json")
    start = measured(place, "features")
    assert more.processor_s - start.processor_s < 3.5 * max(few.processor_s - start.processor_s, 0.2)
    assert more.peak_mib - start.peak_mib < LAZY_MIB, (more.peak_mib, start.peak_mib)


def test_pods_are_as_large_as_those_of_clusters() -> None:
    sizes = [len(json.dumps(pod, separators=(",", ":"))) for pod in made_pods(400, 8)]
    assert max(sizes) <= POD_BYTES and sum(sizes) > 0.94 * POD_BYTES * len(sizes)


@pytest.mark.soak
def test_the_limits_on_the_large_estate() -> None:
    found = list(rows(PODS, NODES, SLACK))
    assert [row.what for row in found if row.wrong] == []
