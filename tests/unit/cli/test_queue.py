"""`regauge queue`: recorded stories of a real Kueue as files, tables, documents, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.goldens import DIRECTORY, compare
from tests.support import ROOT
from tests.unit.scheduler.kueue_stories import play
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.scheduler import kueue_shapes

RUNNER = CliRunner()
CHANGED = "26-template-recreated-after-admission"


def run(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["queue", *arguments])
    assert "Traceback" not in result.output and "a bug of ours" not in result.output, result.output
    return result.exit_code, result.stdout, result.stderr


def story(name: str, place: Path) -> list[dict[str, Any]]:
    *_, last = play(name)
    (place / "dump.yaml").write_text(yaml.safe_dump_all(last.objects))
    return last.objects


def test_a_difference_is_told_with_its_cause(tmp_path: Path) -> None:
    story(CHANGED, tmp_path)
    code, out, said = run("check", str(tmp_path))
    assert code == 1 and "Kueue's rules as of 0.19.0" in said
    assert re.search(r"q26 +f-q26 +example.com/gpus +3 +3 +5 +DIFFER", out)
    assert re.search(r"gpu.example.com +example.com/gpus +8 +5 +3", out)
    assert "template-changed: " in out and "Job/q26/j: 1 charged for 1 pods, 1 of them hold 3" in out


def test_books_that_agree_end_with_0(tmp_path: Path) -> None:
    story("03-class-count-2", tmp_path)
    code, out, _ = run("check", "--from", str(tmp_path))
    assert code == 0 and "The books agree." in out


def test_the_document_has_the_same(tmp_path: Path) -> None:
    story(CHANGED, tmp_path)
    code, out, _ = run("check", str(tmp_path), "-o", "json")
    found = json.loads(out)
    assert code == 1 and found["schema"] == "regauge.queue-check/v1" and not found["agrees"]
    (row,) = found["resources"]
    assert (row["quota"], row["charged"], row["reported"], row["held"]) == ("3", "3", "3", "5")
    assert [one["code"] for one in found["differences"]] == ["template-changed"]


def test_a_workload_that_waits_is_told_why(tmp_path: Path) -> None:
    story("04-quota-exceeded-then-finished", tmp_path)
    story("52-mixed-workload-partly-refused", tmp_path)
    code, out, _ = run("check", str(tmp_path), "-o", "json")
    waiting = {one["workload"]: one for one in json.loads(out)["waiting"]}
    assert code == 0
    assert waiting["Job/q52/a"]["shape"] == "class-not-mapped"
    assert waiting["Job/q52/a"]["foretold"] == waiting["Job/q52/a"]["said"]
    assert waiting["Job/q52/b"]["shape"] == "not-covered" and waiting["Job/q52/b"]["wouldBeCharged"]["cpu"] == "1"


def test_the_configuration_has_to_be_known(tmp_path: Path) -> None:
    objects = story(CHANGED, tmp_path)
    config = next(one for one in objects if one["kind"] == "Configuration")
    rest = [one for one in objects if one is not config]
    dump, other = tmp_path / "dump.yaml", tmp_path / "config.yaml"
    dump.write_text(yaml.safe_dump_all(rest))
    code, _, said = run("check", str(dump))
    assert code == 2 and "--kueue-config" in said
    other.write_text(yaml.safe_dump(config))
    assert run("check", str(dump), "--kueue-config", str(other))[0] == 1
    map_ = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
    }
    other.write_text(yaml.safe_dump({**map_, "data": {"controller_manager_config.yaml": yaml.safe_dump(config)}}))
    assert run("check", str(dump), "--kueue-config", str(other))[0] == 1
    other.write_text(yaml.safe_dump(map_))
    code, _, said = run("check", str(dump), "--kueue-config", str(other))
    assert code == 2 and "has no Configuration" in said


def test_a_cluster_without_queues_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")
    code, out, _ = run("check", str(tmp_path))
    assert code == 0 and "no ClusterQueues" in out


def test_a_quota_that_is_no_quantity_is_an_input_error(tmp_path: Path) -> None:
    objects = story("02-class-count-1", tmp_path)
    for one in objects:
        if one["kind"] == "ClusterQueue":
            one["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "many"
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump_all(objects))
    code, _, said = run("check", str(tmp_path))
    assert code == 2 and "nominalQuota of example.com/gpus in q02: 'many' is not a quantity" in said


def test_input_is_given_once(tmp_path: Path) -> None:
    assert run("check", str(tmp_path), "--from", str(tmp_path))[0] == 2


@pytest.mark.parametrize("output", ["table", "json"])
def test_all_shapes_are_listed(output: str) -> None:
    code, out, _ = run("shapes", "-o", output)
    assert code == 0
    assert all(one.shape in out for one in kueue_shapes())


def test_the_page_has_each_cause() -> None:
    causes = json.loads((ROOT / "src/regauge/scheduler/data/queue_causes.json").read_text())["causes"]
    page = (ROOT / "docs/queue.md").read_text()
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (notice: )?", page, re.M))
    assert {code: bool(notice) for code, notice in told.items()} == {one["code"]: one["notice"] for one in causes}


def test_the_schema_that_is_shipped_is_the_one_that_is_printed(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["queue", "check", "--schema"])
    Draft202012Validator.check_schema(json.loads(result.stdout))
    assert (ROOT / "docs/queue-check.schema.json").read_text() == result.stdout
    story("08-match-attribute", tmp_path)
    _, out, _ = run("check", str(tmp_path), "-o", "json")
    Draft202012Validator(json.loads(result.stdout)).validate(json.loads(out))


@pytest.mark.row(8, how="unit")
@pytest.mark.row(114, how="unit")
@pytest.mark.row(121, how="unit")
def test_the_whole_answer(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """From queue to devices, the gap between the two steps, and the versions and stages that were gone by."""
    story("32-two-flavors-node-labels", tmp_path)
    code, out, said = run("check", str(tmp_path))
    assert code == 1
    compare(DIRECTORY / "queue", "two-flavors.txt", out, rewrite=request.config.getoption("--rewrite"))
    assert "KueueDRAIntegration beta, on" in said and "DRAExtendedResource beta, on" in said
