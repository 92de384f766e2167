"""Patches for the source of manifests: the real kubectl makes of the source what the conversion made of its output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import kubectl
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.model import read_documents

APPS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: trainer.v1, namespace: team, labels: {a/b~c: "1"}}
spec:
  replicas: 2
  selector: {matchLabels: {app: trainer}}
  template:
    metadata: {labels: {app: trainer}}
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, disk: ssd}
      containers:
      - name: log
        image: log:1
      - name: main
        image: train:1
        resources: {limits: {nvidia.com/gpu: 2, cpu: "4"}, requests: {nvidia.com/gpu: 2}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: team}
spec:
  schedule: "0 0 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - {name: main, image: test:1, resources: {limits: {nvidia.com/gpu: "1"}}}
---
apiVersion: v1
kind: Service
metadata: {name: trainer, namespace: team}
spec: {selector: {app: trainer}, ports: [{port: 80}]}
"""


def objects(text: str) -> dict[str, Any]:
    return {
        f"{document.api_version} {document.title}": document.object for document in read_documents(text.encode(), "out")
    }


def kustomized(place: Path) -> str:
    done = subprocess.run([kubectl(), "kustomize", place], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def convert(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["convert", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A base with a prefix and a namespace of its overlay, as sources have them, and a layer above it."""
    for directory in ("base", "overlay", "layer"):
        (tmp_path / directory).mkdir()
    (tmp_path / "base" / "all.yaml").write_text(APPS)
    (tmp_path / "base" / "kustomization.yaml").write_text("resources: [all.yaml]\n")
    (tmp_path / "overlay" / "kustomization.yaml").write_text(
        "resources: [../base]\nnamePrefix: prod-\nnamespace: prod\n"
    )
    (tmp_path / "layer" / "kustomization.yaml").write_text("resources: [../overlay]\ncomponents: [../dra]\n")
    return tmp_path


@pytest.mark.row(108, how="real")
@pytest.mark.parametrize("to", [("dra",), ("bridge",)])
def test_the_patched_source_is_the_converted_output(overlay: Path, to: tuple[str]) -> None:
    rendered = overlay / "rendered.yaml"
    rendered.write_text(kustomized(overlay / "overlay"))
    target = ["--to", *to, "--kube-version", "1.36"]
    convert("-f", str(rendered), *target, "--patches", str(overlay / "dra"))
    found = objects(kustomized(overlay / "layer"))
    assert found == objects(convert("-f", str(rendered), *target))
    assert found != objects(rendered.read_text())


def test_back_to_limits_takes_the_templates_out(overlay: Path) -> None:
    rendered = overlay / "rendered.yaml"
    rendered.write_text(kustomized(overlay / "overlay"))
    (overlay / "base" / "all.yaml").write_text(convert("-f", str(rendered), "--to", "dra", "--kube-version", "1.36"))
    (overlay / "overlay" / "kustomization.yaml").write_text("resources: [../base]\n")
    rendered.write_text(kustomized(overlay / "overlay"))
    assert "ResourceClaimTemplate" in rendered.read_text()
    convert("-f", str(rendered), "--to", "device-plugin", "--patches", str(overlay / "dra"))
    found = objects(kustomized(overlay / "layer"))
    assert found == objects(convert("-f", str(rendered), "--to", "device-plugin"))
    assert not [title for title in found if "ResourceClaimTemplate" in title]


def test_old_versions_become_those_of_the_target(overlay: Path) -> None:
    old = {
        "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "prod"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}]}}},
    }  # fmt: skip
    (overlay / "overlay" / "kustomization.yaml").write_text("resources: [../base, old.yaml]\n")
    (overlay / "overlay" / "old.yaml").write_text(yaml.safe_dump(old))
    rendered = overlay / "rendered.yaml"
    rendered.write_text(kustomized(overlay / "overlay"))
    convert("-f", str(rendered), "--kube-version", "1.36", "--patches", str(overlay / "dra"))
    found = objects(kustomized(overlay / "layer"))
    assert found == objects(convert("-f", str(rendered), "--kube-version", "1.36"))
    assert "resource.k8s.io/v1 ResourceClaimTemplate prod/one" in found


def test_a_source_that_says_something_else_by_then_is_refused(overlay: Path) -> None:
    rendered = overlay / "rendered.yaml"
    rendered.write_text(kustomized(overlay / "overlay"))
    convert("-f", str(rendered), "--to", "dra", "--kube-version", "1.36", "--patches", str(overlay / "dra"))
    (overlay / "base" / "all.yaml").write_text(
        APPS.replace("name: log\n", "name: other\n").replace("- name: main", "- name: new")
    )
    done = subprocess.run(
        [kubectl(), "kustomize", overlay / "layer"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0 and "test" in done.stderr


def test_the_post_renderer_does_the_same_for_helm(overlay: Path) -> None:
    rendered = overlay / "rendered.yaml"
    rendered.write_text(APPS)
    target = ["--to", "dra", "--kube-version", "1.36"]
    convert("-f", str(rendered), *target, "--patches", str(overlay / "dra"))
    program = overlay / "dra" / "post-render.sh"
    assert os.access(program, os.X_OK)
    path = f"{kubectl().parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program], input=APPS, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert objects(done.stdout) == objects(convert("-f", str(rendered), *target))


def test_somebody_elses_kustomization_is_left_alone_and_ours_is_written_anew(overlay: Path) -> None:
    (overlay / "all.yaml").write_text(APPS)
    arguments = ["-f", str(overlay / "all.yaml"), "--to", "dra", "--kube-version", "1.36", "--patches"]
    before = (overlay / "base" / "kustomization.yaml").read_bytes()
    done = CliRunner().invoke(app, ["convert", *arguments, str(overlay / "base")])
    assert done.exit_code == 2 and "something else" in done.output
    assert (overlay / "base" / "kustomization.yaml").read_bytes() == before
    first = convert(*arguments, str(overlay / "dra"))
    assert convert(*arguments, str(overlay / "dra")) == first


def test_names_lead_out_of_no_directory(overlay: Path) -> None:
    hostile = yaml.safe_load(APPS.split("---", maxsplit=1)[0])
    hostile["metadata"]["name"] = "../../evil\x1b[2J"
    (overlay / "all.yaml").write_text(yaml.safe_dump(hostile))
    convert("-f", str(overlay / "all.yaml"), "--to", "dra", "--kube-version", "1.36", "--patches", str(overlay / "dra"))
    assert all(path.parent == overlay / "dra" for path in overlay.rglob("*evil*"))
    assert len(list((overlay / "dra").glob("0001-*"))) == 1
