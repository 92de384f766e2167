"""`regauge driver check` and `probe`, and a whole process that answers for itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.driver.kinds.trees import FIXTURES, text
from typer.testing import CliRunner, Result

from regauge.cli.app import app
from regauge.driver.checking import check_files
from regauge.driver.kinds import KINDS

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: fast}
spec:
  spec:
    devices:
      requests: [{name: vf, exactly: {deviceClassName: vf}}]
      config:
      - requests: [vf]
        opaque:
          driver: gpu.example.com
          parameters:
            apiVersion: regauge.dev/v1alpha1
            kind: NetConfig
            interfaceName: net1
      - opaque: {driver: other.example.com, parameters: {anything: goes}}
"""
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: vf}
spec:
  config:
  - opaque:
      driver: gpu.example.com
      parameters: {apiVersion: regauge.dev/v1alpha1, kind: NetConfig, interfaceName: 7}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["driver", *arguments])


@pytest.mark.parametrize("kind", KINDS)
def test_the_description_of_each_kind_is_right(kind: str) -> None:
    result = run("check", str(FIXTURES / kind / "devices.yaml"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"gpu.example.com  {kind}" in result.stdout


def test_parameters_are_checked_before_a_claim_is_created(tmp_path: Path) -> None:
    paths = []
    for name, content in (("claim.yaml", CLAIM), ("class.yaml", CLASS), ("devices.yaml", text("net"))):
        (tmp_path / name).write_text(content)
        paths.append(str(tmp_path / name))
    good = run("check", paths[0], paths[2])
    assert good.exit_code == 0
    assert "1 parameters checked" in good.stdout
    assert "1 parameters are for other drivers" in good.stderr
    bad = run("check", *paths)
    assert bad.exit_code == 1
    assert (
        f"{paths[1]}:9: DeviceClass vf: spec.config[0].opaque.parameters: NetConfig: Expected `str`, got `int`"
        in bad.stderr
    )
    document = json.loads(run("check", *paths, "-o", "json").stdout)
    assert document["schema"] == "regauge.driver-check/v1"
    assert (document["ok"], document["parameters"], document["foreignParameters"]) == (False, 2, 1)
    assert document["problems"][0]["line"] == 9
    assert document["problems"][0]["fix"] == "its fields: interfaceName"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (text("net").replace("sriov: vf", "sriv: vf"), "rules[0].match.sriv: there is no such fact"),
        (CLAIM, "there is nothing to check the manifests against (give the description of devices, too"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_ends_with_one_and_its_place(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "file.yaml").write_text(content)
    result = run("check", str(tmp_path / "file.yaml"))
    assert result.exit_code == 1
    assert expected in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "kind: NetConfig",
            "kind: NetConfg",
            "there are no parameters NetConfg of regauge.dev/v1alpha1 (say apiVersion",
        ),
        ("regauge.dev/v1alpha1", "regauge.dev/v9", "there are no parameters NetConfig of regauge.dev/v9"),
        ("interfaceName: net1", "interface: net1", "Object contains unknown field `interface`"),
        ("            kind: NetConfig\n", "", "parameters have no apiVersion and kind (known: NetConfig of"),
    ],
)
def test_parameters_are_typed_versioned_and_strict(old: str, new: str, expected: str) -> None:
    assert old in CLAIM
    files = [("devices.yaml", text("net").encode()), ("claim.yaml", CLAIM.replace(old, new).encode())]
    (problem,) = check_files(files, KINDS).problems
    assert expected in str(problem)
    assert str(problem).startswith("claim.yaml:")
    assert "ResourceClaimTemplate fast: spec.spec.devices.config[0].opaque.parameters" in str(problem)


def test_a_file_that_is_not_there_ends_with_two() -> None:
    assert run("check", "/does/not/exist").exit_code == 2
    assert run().exit_code == 2
    assert run("--config", "x", "--listen", "0.0.0.0:1").exit_code == 2


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory with room below it for the paths of sockets."""
    with tempfile.TemporaryDirectory(prefix="rg-") as directory:
        yield Path(directory)


@pytest.mark.row(9)
def test_a_process_answers_its_probes_until_it_is_stopped(short_path: Path) -> None:
    (short_path / "k").mkdir()
    (short_path / "devices.yaml").write_text(text("mock").replace("count: 200", "count: 20"))
    listen = f"unix:{short_path}/http.sock"
    command = [
        *(sys.executable, "-m", "regauge", "driver", f"--config={short_path}/devices.yaml"),
        *(f"--kubelet-dir={short_path}/k", f"--cdi-dir={short_path}/cdi", f"--slices-file={short_path}/slices.json"),
        *(f"--listen={listen}", "--node=n1", "--log=json"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while run("probe", listen, "--live").exit_code and time.monotonic() < deadline:
            time.sleep(0.1)
        assert run("probe", listen, "--live").exit_code == 0
        unready = run("probe", listen)
        assert unready.exit_code == 1
        assert "the kubelet has not registered example.com/gpu" in unready.stderr
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 0
    codes = [json.loads(line)["code"] for line in told.splitlines()]
    assert "published" in codes
    assert "reloaded" in codes
    gone = run("probe", listen)
    assert gone.exit_code == 1
    assert "does not answer" in gone.stderr
