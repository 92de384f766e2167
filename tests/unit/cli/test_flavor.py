"""`regauge flavor`: a filter between a source and a cluster, and its drift."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regauge.cli.app import app
from regauge.model import read_documents

FLAVOR = """apiVersion: regauge.dev/v1alpha1
kind: AcceleratorFlavor
metadata: {name: small}
spec:
  devicePlugin: {resources: [{name: example.com/gpu}]}
  dra: {requests: [{name: gpu, deviceClassName: gpu}]}
  choose: [{stack: dra, kubeVersion: ">=1.36"}]
  default: device-plugin
"""
SOURCE = """apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations:
    flavor.regauge.dev/name: small   # what it needs
spec:
  containers: [{name: main, image: i}]
---
apiVersion: v1
kind: ConfigMap   # passes
metadata: {name:  c}
"""


def flavor(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["flavor", *arguments], input=text)


def kinds(text: str) -> list[str]:
    return [document.kind for document in read_documents(text.encode(), "out")]


@pytest.mark.row(109, 110)
def test_the_filter_is_deterministic_and_explained() -> None:
    text = f"{FLAVOR}---\n{SOURCE}"
    done = flavor("render", "-", text=text)
    assert done.exit_code == 0, done.stderr
    assert kinds(done.stdout) == ["ResourceClaimTemplate", "Pod", "ConfigMap"]
    assert "# what it needs" in done.stdout
    assert "kind: ConfigMap   # passes\nmetadata: {name:  c}" in done.stdout
    assert "Pod p: container main: 1 of small by dra: rule 1 holds (Kubernetes >=1.36)" in done.stderr
    assert flavor("render", "-", text=text).stdout == done.stdout
    older = flavor("render", "-", "--kube-version", "1.35", text=text)
    assert kinds(older.stdout) == ["Pod", "ConfigMap"]
    assert 'example.com/gpu: "1"' in older.stdout


def test_flavors_from_a_file_and_json(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(FLAVOR)
    done = flavor("render", "-", "--flavors", str(tmp_path), "--stack", "device-plugin", "-o", "json", text=SOURCE)
    document = json.loads(done.stdout)
    assert [item["kind"] for item in document["objects"]] == ["Pod", "ConfigMap"]
    assert document["workloads"][0]["why"] == ["container main: 1 of small by device-plugin: as asked"]
    assert flavor("render", "-", text=SOURCE).exit_code == 2


@pytest.mark.row(110)
def test_drift_ends_with_one(tmp_path: Path) -> None:
    source, running = tmp_path / "source.yaml", tmp_path / "running"
    source.write_text(f"{FLAVOR}---\n{SOURCE}")
    running.mkdir()
    rendered = flavor("render", str(source)).stdout
    (running / "all.yaml").write_text(rendered)
    assert flavor("check", str(source), "--from", str(running)).exit_code == 0
    (running / "all.yaml").write_text(rendered.replace("count: 1", "count: 4"))
    done = flavor("check", str(source), "--from", str(running))
    assert done.exit_code == 1
    assert "spec.spec.devices.requests[main].exactly.count" in done.stdout
    assert "1 workloads name a flavor, 1 differences." in done.stdout
    document = json.loads(flavor("check", str(source), "--from", str(running), "-o", "json").stdout)
    assert document["differences"][0]["running"] == "4"
