"""A manifest that uses a field before its time is found in CI, with its file, before a server drops the field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regauge.cli.app import app

TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: team}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly: {deviceClassName: gpu, FIELD}
"""
TOLERATIONS = "tolerations: [{operator: Exists}]"
CAPACITY = "capacity: {requests: {memory: 1Gi}}"


def found(place: Path, field: str, *arguments: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the codes that concern gates with what they say."""
    (place / "one.yaml").write_text(TEMPLATE.replace("FIELD", field))
    result = CliRunner().invoke(app, ["audit", str(place), "--profile", "manifests", "-o", "json", *arguments])
    findings = json.loads(result.stdout)["findings"]
    return result.exit_code, {one["code"]: one["what"] for one in findings if one["code"].startswith("FEATURE-")}


@pytest.mark.row(229, how="unit")
@pytest.mark.parametrize(
    ("field", "arguments", "code", "words"),
    [
        (TOLERATIONS, ("--kube-version", "1.35"), "FEATURE-OFF", "DRADeviceTaints is off"),
        (TOLERATIONS, ("--kube-version", "1.36", "--feature-gates", "DRADeviceTaints=false"), "FEATURE-OFF", "is off"),
        (
            TOLERATIONS,
            ("--kube-version", "1.35", "--feature-gates", "DRADeviceTaints=true"),
            "FEATURE-ALPHA",
            "is alpha",
        ),
        (CAPACITY, ("--kube-version", "1.34"), "FEATURE-OFF", "DRAConsumableCapacity is off"),
        ("derivedAttributes: [{name: a}]", ("--kube-version", "1.37"), "FEATURE-OFF", "DRADerivedAttributes is off"),
    ],
)
def test_a_field_before_its_time_is_a_finding(
    tmp_path: Path, field: str, arguments: tuple[str, ...], code: str, words: str
) -> None:
    exit_code, codes = found(tmp_path, field, *arguments)
    assert list(codes) == [code] and words in codes[code]
    assert exit_code == (1 if code == "FEATURE-OFF" else 0)


@pytest.mark.row(229, how="unit")
@pytest.mark.parametrize(("field", "minor"), [(TOLERATIONS, "1.36"), (CAPACITY, "1.36"), ("count: 2", "1.34")])
def test_in_its_time_it_is_none(tmp_path: Path, field: str, minor: str) -> None:
    assert found(tmp_path, field, "--kube-version", minor) == (0, {})


@pytest.mark.row(229, how="unit")
def test_the_place_is_told_where_reviewers_look(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(TEMPLATE.replace("FIELD", TOLERATIONS))
    arguments = ["audit", str(tmp_path), "--profile", "manifests", "--kube-version", "1.35", "-o", "github"]
    text = CliRunner().invoke(app, arguments).output
    assert "::error file=" in text and "one.yaml" in text and "title=FEATURE-OFF" in text
