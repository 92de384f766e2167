"""`regauge up --estate`: what runs on its nodes, what it refuses, and that it is there again after its death."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cluster.up.program import Program, running
from tests.unit.rehearsal import dumps
from tests.unit.rehearsal.plans import written_estate

from regauge.base import InputError
from regauge.features import rules
from regauge.model.kinds import NODE
from regauge.rehearsal.up_estate import estate_stands, read_estate, stand_ins_of

RULES = rules("1.36")
GPU, DRIVER = "nvidia.com/gpu", "gpu.nvidia.com"


def written(directory: Path) -> Path:
    objects = [document.object for document in written_estate().all_documents()]
    place = directory / "estate.json"
    place.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return place


def test_nodes_get_the_driver_they_would_go_to_without_a_plan() -> None:
    found = stand_ins_of(read_estate("sample").snapshot, RULES)
    assert set(found.more["a100-0"].plugins) == {DRIVER} and not found.more["a100-0"].instead
    assert DRIVER in found.more["canary-0"].instead and not found.more["canary-0"].plugins
    assert "mig-0" not in found.more  # partitions: no driver is known for them
    assert {GPU} <= found.serves["gpu-system/nvidia-device-plugin"]
    assert found.serves["gpu-system/nvidia-dra-driver"] == {DRIVER}
    assert ("a100-0", GPU) not in found.apart and ("h100-0", "rdma/hca") in found.apart
    assert any("rdma/hca" in note for note in found.notes)


@pytest.mark.parametrize("name", ["../../x", "a/b", "A", "", "a..b"])
def test_a_node_whose_name_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    things = [dumps.namespace(), {**dumps.gpu_node("a"), "metadata": {"name": name, "uid": "1"}}]
    with pytest.raises(InputError, match="no name"):
        read_estate(dumps.write(tmp_path, things))


def test_a_directory_is_of_one_estate(tmp_path: Path) -> None:
    sample, other = read_estate("sample"), read_estate(str(written(tmp_path)))
    fresh, old = tmp_path / "fresh", tmp_path / "old"
    fresh.mkdir()
    old.mkdir()
    assert not estate_stands(fresh, sample)
    with pytest.raises(InputError, match="was not finished"):
        estate_stands(fresh, sample)
    (old / "store.db").touch()
    assert not estate_stands(old, None)
    with pytest.raises(InputError, match="without an estate"):
        estate_stands(old, other)


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rg-") as name:
        yield Path(name)


def pods(up: Program) -> dict[str, str]:
    found = json.loads(up.kubectl("get", "pods", "-A", "-o", "json"))["items"]
    return {item["metadata"]["uid"]: item["status"]["phase"] for item in found}


def counted(up: Program, node: str) -> str:
    return up.kubectl("get", NODE.plural, node, "-o", r"jsonpath={.status.allocatable.nvidia\.com/gpu}")


def test_it_is_there_again_after_its_death_and_holds_no_other_estate(directory: Path) -> None:
    options = ("--estate", str(written(directory)))
    with running(directory / "s", *options) as up:
        before = pods(up)
        assert set(before.values()) == {"Running"} and counted(up, "g0") == "2"
        assert "g0" in up.kubectl("get", "pods", "-A", "-o", "wide")
        assert up.end(signal.SIGKILL) == -signal.SIGKILL
    with running(directory / "s", *options) as up:
        up.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=20s")
        deadline = time.monotonic() + 20
        while counted(up, "g0") != "2":  # its plugin comes with the pod of its DaemonSet
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert pods(up) == before
        up.end(signal.SIGTERM)
    other = Program(directory / "s", "--estate", "sample")
    assert other.process.wait(30) == 2 and "holds an estate, and not this one" in other.said()
    bare = Program(directory / "s")
    assert bare.process.wait(30) == 2 and "holds an estate, and not this one" in bare.said()


@pytest.mark.parametrize(
    "options", [("--run-commands",), ("--devices", "x.yaml"), ("--topology-policy", "restricted")], ids=lambda it: it[0]
)
def test_what_the_estate_says_is_not_said_twice_and_no_command_of_it_is_run(
    directory: Path, options: tuple[str, ...]
) -> None:
    up = Program(directory / "s", "--estate", "sample", *options)
    assert up.process.wait(30) == 2 and f"--estate and {options[0]} exclude each other" in up.said()
    assert not (directory / "s" / "store.db").exists()
