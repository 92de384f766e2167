"""`regauge convert`: text in, text out, exit codes; the sample estate there and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.support import shared
from typer.testing import CliRunner, Result

from regauge.cli.app import app
from regauge.model import read_documents

TEXT = """# a workload
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team}   # its name
spec:
  containers:
  - name: main
    image: i
    resources: {limits: {nvidia.com/gpu: 1}}
"""


def convert(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["convert", *arguments], input=text)


def objects(text: str) -> list[Any]:
    return [document.object for document in read_documents(text.encode(), "out")]


@pytest.mark.row(108)
def test_a_stream_comes_out_as_a_stream_with_its_comments() -> None:
    done = convert("-f", "-", "--to", "dra", text=TEXT)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("# a workload") == 1
    assert "# its name" in done.stdout
    assert "1 changed, 0 kept as they were, 0 refused." in done.stderr
    template, pod = objects(done.stdout)
    for object_ in (template, pod):
        kubernetes_validate.validate(object_, "1.36", strict=True)
    back = convert("-f", "-", "--to", "device-plugin", text=done.stdout)
    assert objects(back.stdout) == objects(TEXT)
    assert "left out: nothing in the input uses it any more" in back.stderr


def test_what_is_refused_is_told_and_the_rest_comes_out() -> None:
    other = TEXT.replace("nvidia.com/gpu", "vendor.example/npu").replace("name: p,", "name: q,")
    done = convert("-f", "-", "--to", "dra", text=f"{TEXT}---\n{other}")
    assert done.exit_code == 1
    assert [item["kind"] for item in objects(done.stdout)] == ["ResourceClaimTemplate", "Pod"]
    assert "# regauge: Pod team/q refused: vendor.example/npu: no DRA driver is known" in done.stdout
    assert "refused: standard input:" in done.stderr
    assert "Pod team/q: vendor.example/npu: no DRA driver" in done.stderr
    named = convert("-f", "-", "--to", "dra", "--class", "vendor.example/npu=npu", text=other)
    assert named.exit_code == 0
    assert objects(named.stdout)[0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "npu"


def test_json_has_what_programs_need() -> None:
    done = convert("-f", "-", "--to", "dra", "-o", "json", text=TEXT)
    document = json.loads(done.stdout)
    assert document["schema"] == "regauge.convert/v1"
    assert [item["result"] for item in document["documents"]] == ["changed"]
    assert [item["kind"] for item in document["objects"]] == ["ResourceClaimTemplate", "Pod"]


def test_a_bridge_begins_with_its_class() -> None:
    done = convert("-f", "-", "--to", "bridge", text=TEXT)
    assert [item["kind"] for item in objects(done.stdout)] == ["DeviceClass", "Pod"]
    assert done.stdout.endswith(TEXT)


@pytest.mark.row(53)
def test_old_manifests(tmp_path: Path) -> None:
    case = shared("cases/26-old-dra-manifests-to-v1")
    done = convert("-f", str(case / "input.yaml"))
    assert done.exit_code == 1
    assert objects(done.stdout) == list(yaml.safe_load_all((case / "expected-v1.yaml").read_text()))
    assert "ResourceClaim team-a/classic refused: resource.k8s.io/v1alpha2 has no counterpart" in done.stdout
    gates = "DRADeviceTaints=true,DRAPrioritizedList=true"
    older = convert("-f", str(case / "expected-v1.yaml"), "--kube-version", "1.33", "--feature-gates", gates)
    assert objects(older.stdout)[:2] == objects((case / "input.yaml").read_text())[:2]
    gated = convert("-f", str(case / "expected-v1.yaml"), "--kube-version", "1.33")
    assert gated.exit_code == 1
    assert "DRAPrioritizedList, which is off on 1.33" in gated.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-f", "/no/such/file"), "there is no such file"),
        (("-f", "-", "--class", "x"), "x is not NAME=CLASS"),
        (("-f", "-", "--template-path", "a[0]"), "is no path to a pod template"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], says: str) -> None:
    done = convert(*arguments, text=TEXT)
    assert done.exit_code == 2
    assert says in done.stderr


def test_hostile_text_is_refused_or_inert() -> None:
    assert convert("-f", "-", text="a: &a [x,x]\nb: &b [*a,*a]\n").exit_code == 2
    deep = "apiVersion: v1\nkind: K\nv: " + "[" * 5000 + "]" * 5000
    assert convert("-f", "-", text=deep).exit_code == 2
    done = convert("-f", "-", "--to", "dra", text=TEXT.replace("nvidia.com/gpu", '"vendor.example/\\e[31mnpu"'))
    assert done.exit_code == 1
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.row(209, 210)
@pytest.mark.parametrize("kind", ["deployments", "jobs", "statefulsets"])
def test_the_sample_estate_there_and_back(kind: str, golden: Callable[[str, str], None]) -> None:
    estate = str(shared("estates/small"))
    source = f"{estate}/{kind}.yaml"
    there = convert("-f", source, "--to", "dra", "--from", estate)
    golden(f"convert/{kind}.yaml", there.stdout)
    golden(f"convert/{kind}.txt", there.stderr.replace(estate, "DIR"))
    for object_ in objects(there.stdout):
        kubernetes_validate.validate(object_, "1.36", strict=True)
    back = convert("-f", "-", "--to", "device-plugin", "--from", estate, text=there.stdout)
    refused = {item["metadata"]["name"] for item in objects(Path(source).read_text())} - {
        item["metadata"]["name"] for item in objects(there.stdout)
    }
    old = {item["metadata"]["name"]: item["spec"]["template"]["spec"] for item in objects(Path(source).read_text())}
    new = {item["metadata"]["name"]: item["spec"]["template"]["spec"] for item in objects(back.stdout)}
    asked = {name for name, spec in old.items() if not spec.get("resourceClaims")} - refused
    assert {name: new[name] for name in asked} == {name: old[name] for name in asked}
