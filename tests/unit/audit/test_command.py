"""`regauge audit` as people and pipelines run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.unit.audit.estates import FIXTURES
from typer.testing import CliRunner, Result

from regauge.cli.app import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    content = yaml.safe_load((FIXTURES / "ACCESS-CLASSES.yaml").read_text())
    path = tmp_path / "estate.yaml"
    path.write_text(yaml.safe_dump_all([*content["both"], *content["bad"]]))
    return path


def test_a_table_names_code_layer_why_and_fix(place: Path) -> None:
    done = run(str(place))
    assert done.exit_code == 0
    assert "WARNING ACCESS-CLASSES (scheduling): Group team-a may create deviceclasses" in done.stdout
    assert "  why:  " in done.stdout
    assert "  fix:  " in done.stdout
    assert f"{place}:" in done.stdout
    assert "0 errors, 1 warning, 0 notes" in done.stdout


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_fail_on(place: Path, fail_on: str, code: int) -> None:
    assert run(str(place), "--fail-on", fail_on).exit_code == code


@pytest.mark.parametrize("output", ["json", "sarif"])
def test_json_is_json(place: Path, output: str, tmp_path: Path) -> None:
    printed = run(str(place), "-o", output)
    written = tmp_path / "out"
    assert run(str(place), "-o", output, "--output-file", str(written)).exit_code == 0
    assert json.loads(printed.stdout) == json.loads(written.read_text())


def test_the_checklist_is_part_of_the_production_profile(place: Path) -> None:
    done = run(str(place), "--profile", "production", "-o", "json")
    document = json.loads(done.stdout)
    assert [one["number"] for one in document["checklist"]] == list(range(1, 11))
    assert sum(document["checklistCounts"].values()) == 10
    assert all(one["evidence"] for one in document["checklist"])


def test_waivers_answer_for_findings(place: Path, tmp_path: Path) -> None:
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text("waivers:\n- {code: ACCESS-CLASSES, reason: a trial, expires: 2999-01-01}\n")
    done = run(str(place), "--waivers", str(waivers), "--fail-on", "note")
    assert done.exit_code == 0
    assert "waived until 2999-01-01: ACCESS-CLASSES" in done.stdout
    waivers.write_text("waivers:\n- {code: ACCESS-CLASSES, reason: a trial, expires: 2020-01-01}\n")
    done = run(str(place), "--waivers", str(waivers), "--fail-on", "warning")
    assert done.exit_code == 1
    assert "AUDIT-WAIVER-EXPIRED" in done.stdout


def test_wrong_input_is_told_in_words(place: Path, tmp_path: Path) -> None:
    done = run(str(place), "--waivers", str(tmp_path / "none.yaml"))
    assert (done.exit_code, "cannot be read" in done.stderr) == (2, True)
    done = run(str(place), "--profile", "production", "--evidence", str(place))
    assert (done.exit_code, "not a report" in done.stderr) == (2, True)
    done = run(str(place), "--to", "1.99")
    assert (done.exit_code, "1.99 is not known" in done.stderr) == (2, True)


def test_an_upgrade_goes_to_the_next_minor(tmp_path: Path) -> None:
    path = tmp_path / "group.yaml"
    path.write_text("apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: g, namespace: a}\n")
    done = run(str(path), "--profile", "upgrade", "--kube-version", "1.36")
    assert done.exit_code == 1
    assert "1 PodGroup objects are scheduling.k8s.io/v1alpha2, which Kubernetes 1.37 does not have" in done.stdout
    assert run(str(path), "--profile", "manifests", "--kube-version", "1.36").exit_code == 0


def test_rules_about_rights_work_on_a_bundle(place: Path, tmp_path: Path) -> None:
    """Roles and bindings are in it; anonymised, it gives the same findings about people without names."""
    for options in ((), ("--anonymise",)):
        bundle = tmp_path / f"estate{len(options)}.zip"
        assert CliRunner().invoke(app, ["collect", "--from", str(place), "-o", str(bundle), *options]).exit_code == 0
        found = json.loads(run(str(bundle), "-o", "json").stdout)["findings"]
        assert [one["code"] for one in found] == ["ACCESS-CLASSES"]
        assert ("team-a" in found[0]["what"]) is (options == ())


def test_a_record_of_one_node_alone(tmp_path: Path) -> None:
    record, root = tmp_path / "gpu-3.json", tmp_path / "root"
    (root / "var/run/cdi").mkdir(parents=True, mode=0o777)
    (root / "var/run/cdi").chmod(0o777)
    assert CliRunner().invoke(app, ["collect", "node", "--root", str(root), "-o", str(record)]).exit_code == 0
    found = json.loads(run(str(record), "-o", "json", "--fail-on", "never").stdout)["findings"]
    assert "CDI-PERMISSIONS" in {one["code"] for one in found}
    assert all(one["where"].startswith("Node gpu-3: ") for one in found)
    assert CliRunner().invoke(app, ["assess", str(record)]).exit_code == 2
