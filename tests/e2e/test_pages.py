"""The manifests of the concept pages before a real API server: all of them are taken, and a wrong one is not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
import yaml
from tests.support import ROOT, kubectl
from tests.unit.test_concepts import ENGLISH, PAGES, blocks

SPACE = "regauge-pages"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    kubeconfig = os.environ.get("REGAUGE_KUBECONFIG")
    if not kubeconfig:
        pytest.skip("REGAUGE_KUBECONFIG is not set: there is no API server to ask")

    def call(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(kubectl()), f"--kubeconfig={kubeconfig}", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)

    made = call("create", "namespace", SPACE)
    assert made.returncode == 0, made.stderr
    # There is no controller for accounts on a control plane alone.
    call("create", "serviceaccount", "default", "-n", SPACE)
    yield call
    call("delete", "namespace", SPACE, "--wait=false")


def manifests(name: str) -> list[dict[str, object]]:
    return [
        one
        for kind, body in blocks(ENGLISH / name)
        if kind == "yaml"
        for one in yaml.safe_load_all(body)
        if one["kind"] != "Namespace" and one["metadata"].get("namespace") is None
    ]


@pytest.mark.row(20, how="real")
@pytest.mark.parametrize("name", [name for name in PAGES if manifests(name)])
def test_a_real_server_takes_the_manifests_of_a_page(run: Run, name: str) -> None:
    served = run("api-resources", "-o", "name", "--api-group=resource.k8s.io").stdout
    for one in manifests(name):
        if one["kind"] == "DeviceTaintRule" and "devicetaintrules" not in served:
            continue  # in 1.36 it has to be asked for
        done = run("apply", "-n", SPACE, "--dry-run=server", "--validate=strict", "-f", "-", text=yaml.safe_dump(one))
        assert done.returncode == 0, (one["kind"], done.stderr)


def test_a_wrong_manifest_is_not_taken(run: Run) -> None:
    (template,) = (one for one in manifests("dra.md") if one["metadata"]["name"] == "one-large")  # type: ignore[index]
    text = yaml.safe_dump(template).replace("deviceClassName", "deviceClas")
    done = run("apply", "-n", SPACE, "--dry-run=server", "--validate=strict", "-f", "-", text=text)
    assert done.returncode != 0 and "deviceClas" in done.stderr
