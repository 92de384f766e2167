"""`regauge devices`, `claims`, `who-has` and `timeline` on dumps: what they print, which they mean, how they end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from tests.support import ROOT, shared
from tests.unit.cli.test_inventory import UUIDS, bundle
from tests.unit.test_docs import fields
from typer.testing import CliRunner

from regauge.cli.devices import STATES
from regauge.cli.kubectl import app
from regauge.collect import bundle_bytes, load_estate, read_node_record, sample_estate
from regauge.observe.devices_view import DeviceState
from regauge.observe.timeline import Step

RUNNER = CliRunner()
CLAIM = "dra-gpu-nic-98rw9-pair-xmzmb"
STUCK = "dra-stuck-5f878d9-sgqk2-gpu-kcqw8"


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    done = RUNNER.invoke(app, list(arguments))
    assert "Traceback" not in done.output and "a bug of ours" not in done.output, done.output
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def document(*arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "-o", "json", code=code)[0])
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The small estate as a bundle, which is read in no time."""
    path = tmp_path_factory.mktemp("small") / "small.zip"
    path.write_bytes(bundle_bytes(load_estate(str(shared("estates/small"))), "2026-01-01T00:00:00Z"))
    return str(path)


SMALL = {
    "devices": ("devices", "{}"),
    "devices-wide": ("devices", "{}", "--pool", "mixed", "-o", "wide"),
    "claims": ("claims", "{}"),
    "claims-wide": ("claims", "{}", "-n", "team-research", "-o", "wide"),
    "who-has": ("who-has", "gpu-0", "--from", "{}", "-o", "wide"),
    "timeline": ("timeline", CLAIM, "--from", "{}", "-o", "wide"),
    "timeline-stuck": ("timeline", STUCK, "--from", "{}"),
}


@pytest.mark.row(132, how="unit")
@pytest.mark.row(174, how="unit")
@pytest.mark.row(175, how="unit")
@pytest.mark.parametrize("name", SMALL)
def test_the_small_estate_is_shown_like_this(name: str, small: str, golden: Callable[[str, str], None]) -> None:
    golden(f"views/{name}.txt", run(*(word.replace("{}", small) for word in SMALL[name]))[0])


def test_the_sample_estate_and_its_documents(golden: Callable[[str, str], None]) -> None:
    golden("views/sample-devices.txt", run("devices", "sample", "--driver", "gpu.nvidia.com")[0])
    golden("views/sample-claims.json", run("claims", "sample", "-o", "json")[0])
    golden("views/sample-timeline.json", run("timeline", "shared-h100", "--from", "sample", "-o", "json")[0])
    golden("views/sample-timeline.svg", run("timeline", "shared-h100", "--from", "sample", "-o", "svg")[0])


def test_ages_of_a_dump_count_up_to_its_own_moment_and_say_so() -> None:
    assert "ages are up to 2026-11-29T17:19:06Z" in run("claims", "sample")[1]
    assert document("devices", "sample")["asOf"] == "2026-11-29T17:19:06Z"


# -- which ones


def names(*arguments: str) -> list[str]:
    return run(*arguments, "-o", "name")[0].split()


def test_devices_are_chosen_by_node_pool_driver_state_namespace_and_labels() -> None:
    everything = names("devices", "sample")
    assert len(everything) == 28
    assert names("devices", "sample", "--node", "mixed-0") == [f"gpu.nvidia.com/mixed-0/gpu-{n}" for n in range(4, 8)]
    assert names("devices", "sample", "--pool", "mixed") == names("devices", "sample", "--node", "mixed-0")
    assert names("devices", "sample", "--pool", "canary-0") == names("devices", "sample", "--node", "canary-0")
    assert len(names("devices", "sample", "--driver", "dra.net")) == 8
    held = names("devices", "sample", "--state", "held")
    assert len(held) == 7 and set(held) | set(names("devices", "sample", "--state", "free")) == set(everything)
    assert names("devices", "sample", "-n", "team-infer") == ["gpu.nvidia.com/canary-1/gpu-0"]
    assert names("devices", "sample", "-l", "node-pool=mixed") == names("devices", "sample", "--pool", "mixed")
    assert names("devices", "sample", "-n", "team-infer", "-A") == everything
    counted = document("devices", "sample", "--state", "counted")
    assert counted["devices"] == [] and len(counted["counted"]) == 17
    assert document("devices", "sample", "--driver", "rdma/hca")["counted"][0]["node"] == "h100-0"


def test_claims_are_chosen_by_namespace_and_labels() -> None:
    assert names("claims", "sample", "-n", "team-infer") == ["resourceclaim.resource.k8s.io/shared-h100"]
    assert len(names("claims", "sample")) == len(names("claims", "sample", "-A")) == 6
    assert names("claims", "sample", "-l", "no=such") == []
    assert "No claims found in nowhere namespace." in run("claims", "sample", "-n", "nowhere")[1]
    assert "NAMESPACE" not in run("claims", "sample", "-n", "team-infer")[0]


def test_headers_can_be_left_out() -> None:
    for verb in (("devices", "sample"), ("claims", "sample"), ("who-has", "gpu-0", "--from", "sample")):
        whole, short = run(*verb)[0].splitlines(), run(*verb, "--no-headers")[0].splitlines()
        assert whole[0].isupper() and len(short) == len(whole) - 1 and not short[0].isupper()


@pytest.mark.row(174, how="unit")
def test_what_a_plugin_counts_is_said_to_be_decided_by_the_kubelet() -> None:
    out = run("devices", "sample", "--node", "a100-0")[0]
    (line,) = [one for one in out.splitlines() if "nvidia.com/gpu" in one]
    assert "5 of 8 asked for" in line and "device decided by kubelet, not visible from the API" in line
    assert "GPU-" not in out
    out, _ = run("who-has", "--pod", "tabular-qcm8g", "--from", "sample")
    assert "has 1 nvidia.com/gpu: device decided by kubelet, not visible from the API" in out
    out, _ = run("who-has", "a100-0/nvidia.com/gpu", "--from", "sample")
    assert "pod/team-train/vision-train-ln5qb" in out and "not visible from the API" in out


@pytest.mark.row(139, how="unit")
def test_records_of_nodes_tell_devices_of_plugins(tmp_path: Path) -> None:
    place = bundle(tmp_path, UUIDS[2:])
    out, _ = run("devices", place, "--node", "a", "-o", "wide")
    assert f"nvidia.com/gpu {UUIDS[0]}" in out and "pod/team/holds" in out
    (found,) = document("who-has", UUIDS[0], "--from", place)["found"]
    assert [(one["pod"], one["podUID"], one["container"]) for one in found["device"]["holders"]] == [
        ("holds", "uid-holds", "main")
    ]
    assert run("who-has", "--pod", "team/holds", "--from", place, "-o", "name")[0] == f"a/nvidia.com/gpu/{UUIDS[0]}\n"
    counted = document("devices", place)["counted"]
    assert [one["node"] for one in counted] == ["b"]


def test_records_may_stand_beside_a_dump(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(bundle(tmp_path, UUIDS[2:])) as packed:
        (name,) = [one for one in packed.namelist() if one.startswith("nodes/")]
        record = packed.read(name)
    assert read_node_record(record, "a.json").kubelet
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.json").write_bytes(record)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"capacity": {"nvidia.com/gpu": "2"}},
    }
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump(node))
    dump = str(tmp_path / "dump.yaml")
    assert names("devices", dump) == []
    assert names("devices", dump, "--nodes", str(tmp_path / "records")) == [
        f"nvidia.com/gpu/{one}" for one in UUIDS[:2]
    ]


# -- how they end


def test_nobody_has_a_free_device_and_that_is_an_answer() -> None:
    out, _ = run("who-has", "mixed-0/gpu-6", "--from", "sample")
    assert "free" in out and "nobody" in out


@pytest.mark.parametrize("form", ["table", "json", "name"])
def test_a_device_that_is_not_there_ends_with_one(form: str) -> None:
    out, said = run("who-has", "mixed-0/gpu-66", "--from", "sample", "-o", form, code=1)
    if form == "json":
        assert json.loads(out)["found"] == [] and "gpu.nvidia.com/mixed-0/gpu-6" in json.loads(out)["near"]
    elif form == "table":
        assert out == "" and "There is no device mixed-0/gpu-66." in said and "gpu.nvidia.com/mixed-0/gpu-6" in said


def test_a_pod_without_devices_ends_with_one(tmp_path: Path) -> None:
    _, said = run("who-has", "--pod", "dra-stuck-5f878d9", "--from", "sample", code=2)
    assert "is not there" in said and "did you mean team-research/dra-stuck-5f878d9-sgqk2?" in said
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "idle", "namespace": "team"},
        "spec": {"containers": []},
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    _, said = run("who-has", "--pod", "team/idle", "--from", str(tmp_path), code=1)
    assert "Pod team/idle (Pending) has no devices." in said
    out, _ = run("who-has", "--pod", "dra-stuck-5f878d9-sgqk2", "--from", "sample", code=1)
    assert f"waits for claim {STUCK}" in out and "regauge explain claim" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("devices", "sample", "--state", "broken"), "there is no state broken"),
        (("devices", "sample", "-l", "a in (b"), "unable to parse requirement"),
        (("devices", "sample", "--from", "sample"), "not both"),
        (("devices", "sample", "--nodes", "/nowhere"), "no such directory"),
        (("claims", "sample", "-w"), "a dump does not change"),
        (("claims", "sample", "-o", "svg"), "svg"),
        (("who-has",), "give a DEVICE, or --pod NAME"),
        (("who-has", "x", "--pod", "y"), "give a DEVICE, or --pod NAME"),
        (("timeline", "shared-h1", "--from", "sample"), "did you mean team-infer/shared-h100?"),
        (("timeline", "shared-h100", "-n", "team-train", "--from", "sample"), "team-train/shared-h100: is not there"),
        (("timeline", "shared-h100", "--from", "sample", "-f"), "a dump does not go on"),
        (("timeline", "--from", "sample"), "give a CLAIM, or --pod NAME"),
        (("timeline", "--pod", "tabular-qcm8g", "--from", "sample"), "it names no claim"),
        (("timeline", "shared-h100", "--from", "sample", "--write", "x.gif"), "end it with .svg or .html"),
    ],
)
def test_what_is_asked_wrongly_ends_with_two(arguments: tuple[str, ...], says: str) -> None:
    out, said = run(*arguments, code=2)
    assert out == "" and says in " ".join(said.replace("│", " ").split())


def test_the_life_of_each_claim_of_a_pod(tmp_path: Path) -> None:
    pod = "dra-gpu-nic-98rw9"
    assert run("timeline", "--pod", pod, "--from", "sample")[0] == run("timeline", CLAIM, "--from", "sample")[0]
    assert document("timeline", "--pod", f"team-research/{pod}", "--from", "sample")["claim"]["name"] == CLAIM
    entries = [{"name": name, "resourceClaimName": name} for name in ("a", "b")]
    meta = {"name": "p", "namespace": "team"}
    there = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [], "resourceClaims": entries}}
    ]
    for name in ("a", "b"):
        metadata = {"name": name, "namespace": "team", "creationTimestamp": "2026-11-29T10:00:00Z"}
        there.append({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {}})
    (tmp_path / "two.yaml").write_text(yaml.safe_dump_all(there))
    out, _ = run("timeline", "--pod", "p", "--from", str(tmp_path))
    assert "ResourceClaim team/a: pending" in out and "ResourceClaim team/b: pending" in out
    _, said = run("timeline", "--pod", "p", "--from", str(tmp_path), "-o", "svg", code=2)
    assert "has several claims; name one of them: a, b" in " ".join(said.split())


def test_pictures_are_written(tmp_path: Path) -> None:
    for name in ("life.svg", "life.html"):
        _, said = run("timeline", CLAIM, "--from", "sample", "--write", str(tmp_path / name))
        assert "7 moments" in said
    assert ElementTree.parse(tmp_path / "life.svg").getroot().tag.endswith("svg")
    page = (tmp_path / "life.html").read_text()
    assert "prepared on canary-0" in page and "KNOWN FROM" in page
    assert run("timeline", CLAIM, "--from", "sample", "-o", "html")[0] == page


def test_yaml_says_the_same_as_json() -> None:
    for verb in (("devices", "sample"), ("claims", "sample"), ("who-has", "gpu-0", "--from", "sample")):
        assert yaml.safe_load(run(*verb, "-o", "yaml")[0]) == document(*verb)


# -- the page


def table_of(verb: str) -> tuple[set[str], frozenset[str]]:
    """The fields that docs/kubectl.md lists for the JSON of a verb, and those of them with free keys."""
    page = (ROOT / "docs" / "kubectl.md").read_text()
    table = page.split(f"### `regauge {verb} -o json`")[1].split("| field | type | |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| ([\w ,]+) \|", table, re.M)
    return {name for name, _ in rows}, frozenset(name for name, kind in rows if name.endswith(".consumed"))


@pytest.mark.parametrize(
    ("verb", "arguments", "elsewhere"),
    [
        (
            "devices",
            ("sample",),
            {"devices[].capacity[].name", "devices[].capacity[].used", "devices[].capacity[].total"},
        ),
        ("claims", ("sample",), set()),
        ("timeline", ("shared-h100", "--from", "{}"), set()),
    ],
)
def test_the_page_lists_the_fields_of_the_documents(
    verb: str, arguments: tuple[str, ...], elsewhere: set[str], tmp_path: Path
) -> None:
    items = [one.object for one in sample_estate().snapshot.all_documents()]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "notes.txt").write_text("not an object")
    found = document(verb, *(word.replace("{}", str(tmp_path)).replace("sample", str(tmp_path)) for word in arguments))
    told, opaque = table_of(verb)
    assert fields(found, opaque) == told - elsewhere


def test_the_pages_picture_and_tree_are_what_is_printed() -> None:
    assert (ROOT / "docs" / "timeline.svg").read_text() == run(
        "timeline", "shared-h100", "--from", "sample", "-o", "svg"
    )[0]
    assert run("devices", "sample", "--pool", "mixed")[0] in (ROOT / "docs" / "kubectl.md").read_text()
    assert "](docs/kubectl.md)" in (ROOT / "README.md").read_text()


def test_every_state_and_step_is_on_the_page() -> None:
    page = (ROOT / "docs" / "kubectl.md").read_text()
    listed = set(re.findall(r"^\| (\w+) \|", page.split("| state | means |")[1].split("\n\n")[0], re.M))
    assert listed == set(STATES) and {one.value for one in DeviceState} <= listed
    steps = page.split("| moment | known from |")[1].split("\n\n")[0]
    named = {word.strip() for row in re.findall(r"^\| ([^|]+) \|", steps, re.M) for word in row.split(",")}
    assert named - {"---"} == {one.value for one in Step}
