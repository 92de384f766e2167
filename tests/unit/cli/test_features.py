"""`regauge features` as a user sees it."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from regauge.base import InputError
from regauge.cli.features import command

RUNNER = CliRunner()


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(command)
    result = RUNNER.invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_whole_table() -> None:
    code, text = run()
    assert code == 0
    line = next(line for line in text.splitlines() if "DRADeviceTaintRules" in line)
    words = "taints 5055 DRADeviceTaintRules - - - - alpha off beta off stable on"
    assert line.split() == words.split()


@pytest.mark.row(220, how="unit")
def test_one_feature_of_one_minor_with_its_sources() -> None:
    code, text = run("--kube-version", "v1.37.2", "--feature", "5004")
    assert code == 0
    assert "stable locked on" in text
    assert "field: DeviceClass.spec.extendedResourceName" in text
    assert "source: KEP-5004" in text
    assert "source: pkg/features/kube_features.go of v1.36.3 and v1.37.2" in text


def test_json() -> None:
    code, text = run("--feature", "taints", "-o", "json")
    assert code == 0
    rows = json.loads(text)["features"]
    assert [row["gate"] for row in rows] == ["DRADeviceTaints", "DRADeviceTaintRules"]
    assert rows[1]["stages"]["1.36"] == {"default": False, "locked": False, "stage": "beta"}
    assert rows[1]["stages"]["1.34"] is None


def test_what_a_gate_depends_on() -> None:
    _, text = run("--feature", "DRADeviceTaintRules", "--kube-version", "1.36")
    assert "DRADeviceTaintRules depends on: DRADeviceTaints" in text
    assert "component: kube-scheduler" in text


def test_unknown_feature_is_an_input_error() -> None:
    with pytest.raises(InputError, match="did you mean taints"):
        run("--feature", "taint")


def test_output_that_does_not_exist() -> None:
    code, _ = run("-o", "xml")
    assert code == 2
