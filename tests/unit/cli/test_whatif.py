"""`regauge whatif`: a dump of a real control plane changed in every way, bars, pipes and bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from tests.support import ROOT, shared
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cli.whatif_document import json_schema
from regauge.cli.whatif_plot import BAR, bar

RUNNER = CliRunner()
PILOT = "deployment/team-research/dra-pilot"


VALID = Draft202012Validator(json_schema())


def run(*arguments: str, given: str = "") -> tuple[int, str, str]:
    """The exit code, what was printed and what was said. Every JSON document has to be of the form that is told."""
    result = RUNNER.invoke(app, ["whatif", *arguments], input=given)
    assert "Traceback" not in result.output and "a bug of ours" not in result.output, result.output
    if "json" in arguments and result.exit_code in (0, 1):
        VALID.validate(json.loads(result.stdout))
    return result.exit_code, result.stdout, result.stderr


def estate() -> str:
    return str(shared("estates/small"))


def forecast(*arguments: str) -> dict[str, Any]:
    code, out, said = run("--from", estate(), *arguments, "-o", "json")
    assert code in (0, 1), said
    document: dict[str, Any] = json.loads(out)
    assert code == (1 if document["stuck"] else 0)
    return document


def test_nothing_changes_without_a_change() -> None:
    found = forecast()
    assert found["before"] == found["after"] and found["schedulable"] == found["stuck"] == []
    assert {one["pod"].partition("/")[2].partition("-")[0] for one in found["pods"]} == {"dra", "pending"}


def test_a_drained_node_word_for_word(golden: Callable[[str, str], None]) -> None:
    code, out, said = run("--from", estate(), "--drain", "canary-0")
    assert code == 0 and "Kubernetes 1.36 before, 1.36 after" in said
    golden("whatif/drain.txt", out)


def test_more_nodes_make_room_for_more_copies() -> None:
    found = forecast("--add-node-like", "canary-0=2", "--fits", PILOT)
    (before,), (after,) = found["before"]["fitting"], found["after"]["fitting"]
    free = sum(one["free"] for one in found["before"]["pools"] if one["driver"] == "gpu.nvidia.com")
    assert before["count"] <= free and after["count"] == before["count"] + 16
    assert {one: after["nodes"].get(one) for one in ("canary-0-like-1", "canary-0-like-2")} == {
        "canary-0-like-1": 8,
        "canary-0-like-2": 8,
    }


def test_a_pod_that_waits_for_a_larger_node_gets_one(tmp_path: Path) -> None:
    """The node of a dump with more devices, applied, takes the pod that no node can."""
    nodes = tmp_path / "node.yaml"
    text = (Path(estate()) / "nodes.yaml").read_text()
    first = json.dumps(next(item for item in _items(text) if item["metadata"]["name"] == "a100-0"))
    nodes.write_text(first.replace('"nvidia.com/gpu": "8"', '"nvidia.com/gpu": "32"').replace("a100-0", "huge"))
    found = forecast("--apply", str(nodes))
    assert [one.partition("/")[2][:11] for one in found["schedulable"]] == ["pending-big"]
    (pod,) = [one for one in found["pods"] if one["after"]["how"] == "goes to"]
    assert pod["after"]["node"] == "huge" and "Insufficient nvidia.com/gpu" in pod["before"]["why"]


def _items(text: str) -> list[dict[str, Any]]:
    import yaml

    return list(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["items"])


def test_devices_that_are_tainted_and_replicas_that_do_not_fit() -> None:
    gpus = [
        f"--taint-device=gpu.nvidia.com/{node}/gpu-{number}" for node in ("canary-0", "canary-1") for number in range(8)
    ]
    few, none = forecast("--fits", PILOT), forecast(*gpus, "--fits", PILOT)
    assert none["after"]["fitting"][0]["count"] < few["after"]["fitting"][0]["count"]
    assert sum(one["tainted"] for one in none["after"]["pools"]) == 16
    many = forecast("--replicas", f"{PILOT}=200")
    assert len(many["stuck"]) > 100 and all("dra-pilot-new" in one for one in many["stuck"])


def test_a_deleted_workload_gives_its_devices_back() -> None:
    found = forecast("--delete", PILOT)
    used = [sum(one["used"] for one in found[when]["pools"]) for when in ("before", "after")]
    assert used[1] == used[0] - 2
    assert sum(one["after"]["how"] == "not there" for one in found["pods"]) == 2


def test_another_version_is_said() -> None:
    assert forecast("--kube-version", "1.37")["kubeVersion"] == {"before": "1.36", "after": "1.37"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--drain", "canary-9"), "did you mean canary-"),
        (("--add-node-like", "canary-0=0"), "between 1 and"),
        (("--add-node-like", "canary-0=-2"), "a number has to stand after the ="),
        (("--add-node-like", "canary-0=999999"), "between 1 and"),
        (("--taint-device", "gpu-0"), "DRIVER/POOL/DEVICE"),
        (("--taint-device", "gpu.nvidia.com/canary-0/gpu-99"), "did you mean gpu.nvidia.com/canary-0/gpu-"),
        (("--taint-device", "gpu.nvidia.com/canary-0/gpu-0:Never"), "NoSchedule, NoExecute"),
        (("--apply", "no-such-file.yaml"), "no such file"),
        (("--delete", "nothing"), "KIND/NAME"),
        (("--delete", "widget/x"), "unsupported kind widget"),
        (("--delete", "pod/x"), "is not there"),
        (("--replicas", "deployment/x"), "a number has to stand after the ="),
        (("--replicas", f"{PILOT}=100000"), "ask for 0 to"),
        (("--fits", "node/canary-0"), "unsupported: pods of this kind"),
        (("--fits", "deployment/dra-pilo"), "did you mean team-research/dra-pilot"),
        (("--kube-version", "x"), "x"),
    ],
)
def test_bad_input_ends_in_words(arguments: tuple[str, ...], says: str) -> None:
    code, out, said = run("--from", estate(), *arguments)
    assert (code, out) == (2, "")
    assert says in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("used", "total", "filled"), [(0, 8, 0), (1, 8, 3), (8, 8, BAR), (1, 10_000, 1), (0, 0, 0), (9, 8, BAR)]
)
def test_bars(used: int, total: int, filled: int) -> None:
    text = bar((used, total))
    assert text.count("█") == filled and text.count("█") + text.count("░") == BAR and text.endswith(f" {used}/{total}")


def test_a_workload_with_a_template_that_is_no_template() -> None:
    broken = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: n}\nspec: {template: 7}\n"
    code, _, said = run("--from", "-", "--fits", "deployment/d", given=broken)
    assert code == 2 and "no containers" in said


# -- the plot and the form


def test_a_plot_shows_every_pool_before_and_after(tmp_path: Path) -> None:
    picture = tmp_path / "use.svg"
    code, _, said = run("--from", estate(), "--add-node-like", "canary-0", "--plot", str(picture))
    assert code == 0 and f"plot: {picture}" in said
    root = ElementTree.fromstring(picture.read_bytes())
    assert root.tag.endswith("svg")
    text = "".join(root.itertext()).replace("\xa0", " ")
    for name in ("gpu.nvidia.com/canary-0-like-1", "gpu.nvidia.com/canary-1", "nvidia.com/gpu (counted)", "not there"):
        assert name in text
    assert "0/8" in text and "█" in text
    assert "@font-face" not in picture.read_text() and "url(http" not in picture.read_text()


def test_a_plot_is_an_svg_file(tmp_path: Path) -> None:
    code, out, said = run("--from", estate(), "--plot", str(tmp_path / "use.png"))
    assert (code, out) == (2, "") and "only .svg files are written" in said
    (tmp_path / "use.svg").mkdir()
    code, _, said = run("--from", estate(), "--plot", str(tmp_path / "use.svg"))
    assert code == 2 and "use.svg: cannot be written" in said


def test_the_schema_is_a_schema_and_the_one_on_the_page() -> None:
    Draft202012Validator.check_schema(json_schema())
    code, out, _ = run("--schema")
    assert code == 0 and json.loads(out) == json_schema()
    assert (ROOT / "docs" / "whatif.schema.json").read_text() == out
    assert not VALID.is_valid({**forecast(), "more": 1})
