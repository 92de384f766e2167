"""`regauge explain`: problems that people reported, a dump of a real control plane, bad input, and both forms of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.support import ROOT, shared
from tests.unit.test_docs import fields
from typer.testing import CliRunner

from regauge.allocator.reasons import NEARNESS
from regauge.cli.app import app
from regauge.cli.explain_schema import json_schema

RUNNER = CliRunner()
LISTS = ("--feature-gates", "DRAListTypeAttributes=true")
COUNTERS = ("--feature-gates", "DRAPartitionableDevices=true")
CAPACITY = ("--feature-gates", "DRAConsumableCapacity=true")


VALID = Draft202012Validator(json_schema())


def run(*arguments: str, given: str = "") -> tuple[int, str, str]:
    """The exit code, what was printed and what was said. Every JSON document has to be of the form that is told."""
    result = RUNNER.invoke(app, ["explain", *arguments], input=given)
    assert "Traceback" not in result.output and "a bug of ours" not in result.output, result.output
    if "json" in arguments and result.exit_code in (0, 1):
        VALID.validate(json.loads(result.stdout))
    return result.exit_code, result.stdout, result.stderr


def answer(case: str, claim: str, *options: str) -> dict[str, Any]:
    """The answer for a claim of a case; the exit code has to agree with it."""
    place = next(shared("cases").glob(f"{case}-*"))
    code, out, _ = run("claim", claim, "--from", str(place), "-o", "json", *options)
    document: dict[str, Any] = json.loads(out)
    assert document["schema"] == "regauge.explain/v1"
    assert code == (0 if document["good"] else 1)
    return document


def chosen(found: dict[str, Any], node: str) -> list[str]:
    """The devices that a claim gets on a node, by their last names."""
    (one,) = [item for item in found["nodes"] if item["node"] == node]
    return [device.rpartition("/")[2] for request in one["requests"] for device in request["chosen"]]


def on(found: dict[str, Any], node: str) -> dict[str, Any]:
    (one,) = [item for item in found["nodes"] if item["node"] == node]
    return dict(one)


def device(found: dict[str, Any], node: str, name: str) -> dict[str, Any]:
    every = [item for request in on(found, node)["requests"] for item in request["devices"]]
    return next(item for item in every if item["device"].endswith(f"/{name}"))


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.row(3, how="vectors")
def test_all_needs_at_least_one_device(minor: str) -> None:
    found = answer("01", "every", "--kube-version", minor)
    assert found["fitting"] == ["n-full"] and chosen(found, "n-full") == ["a0", "a1"]
    assert on(found, "n-empty")["shortage"]["have"] == 0
    assert "needs 1 matching device, as it asks for all of them, there is none" in on(found, "n-empty")["text"]


def test_one_taint_blocks_all_and_an_administrator_is_no_exception() -> None:
    plain = answer("02", "all-plain")
    assert plain["answer"] == "cannot be allocated"
    assert device(plain, "n1", "a1")["verdict"] == "tainted"
    assert "it would fit if all taints were tolerated" in on(plain, "n1")["wouldFit"]
    tolerant = answer("02", "all-tolerant")
    assert chosen(tolerant, "n1") == ["a0", "a1", "a2"]
    assert all(len(given["tolerations"]) == 1 for given in on(tolerant, "n1")["gets"])
    admin = answer("02", "all-admin")
    assert not admin["good"]
    assert any("namespace monitoring has resource.kubernetes.io/admin-access=true" in note for note in admin["notes"])
    assert chosen(answer("02", "two-plain"), "n1") == ["a0", "a2"]


@pytest.mark.row(260, how="vectors")
def test_only_the_newest_generation_counts_though_it_is_incomplete() -> None:
    found = answer("03", "one")
    assert not found["good"]
    (pool,) = on(found, "n1")["pools"]
    assert (pool["pool"], pool["state"]) == ("accel.example.net/n1", "incomplete")
    assert "generation 4 has 1 of 2 slices, 1 missing; 2 stale slices of older generations" in found["text"]
    assert (pool["missing"], pool["present"], pool["outdated"]) == (1, ["n1-new-0"], ["n1-old-0", "n1-old-1"])
    assert "there is n1-new-0, and not old0, old1, which generation 3 had" in found["text"]


def test_slices_that_disagree_give_both_outcomes() -> None:
    found = answer("04", "every")
    assert chosen(found, "n1") == ["a0", "b0"]
    (note,) = [text for text in found["notes"] if text.startswith("order dependent on n1")]
    assert "fits" in note and "asks for all devices, but resource pool accel.example.net/n1 is currently being" in note


def test_list_attributes_by_version() -> None:
    assert chosen(answer("05", "same-rail", "--kube-version", "1.37", *LISTS), "n1") == ["d1", "d3", "d4"]
    missed = answer("05", "same-rail", "--kube-version", "1.36", *LISTS)
    assert not missed["good"]
    assert "a valid set exists, this scheduler misses it" in missed["text"] and "1.37" in missed["text"]


def test_distinct_in_one_request_by_version() -> None:
    assert chosen(answer("06", "spread", "--kube-version", "1.37"), "n1") == ["d1", "d2", "d5"]
    old = answer("06", "spread", "--kube-version", "1.36")
    assert chosen(old, "n1") == ["d1", "d2", "d3"]
    (note,) = old["notes"]
    assert "a known mistake of this version" in note and "fixed in 1.37" in note and "/d5" in note
    assert chosen(answer("06", "spread", "--kube-version", "1.35", *CAPACITY), "n1") == ["d1", "d2", "d3"]


@pytest.mark.row(66, how="vectors")
def test_counters_are_given_back_by_version() -> None:
    for minor in ("1.36", "1.37"):
        assert chosen(answer("07", "three-on-one-board", "--kube-version", minor), "n1") == ["p-a", "p-c", "p-d"]
    old = answer("07", "three-on-one-board", "--kube-version", "1.35", *COUNTERS)
    assert not old["good"] and "a valid set exists, this scheduler misses it" in old["text"]
    assert "fixed in 1.36" in old["text"]


def test_two_terms_end_the_whole_attempt_and_the_slice_is_blamed() -> None:
    found = answer("09", "one")
    assert found["answer"] == "ends with an error" and "gives up the whole attempt" in found["text"]
    assert found["fitting"] == ["n2"] and chosen(found, "n2") == ["l0"]
    assert found["nodes"][0]["node"] == "n1" and found["nodes"][0]["outcome"] == "error"
    (pool,) = on(found, "n1")["pools"]
    assert "slice fabric, device f0: its node selector must have exactly one term, has 2" in pool["text"]


@pytest.mark.row(52, 259, how="vectors")
def test_an_error_is_not_a_mismatch() -> None:
    found = answer("10", "unguarded")
    assert found["answer"] == "ends with an error" and found["fitting"] == ["n-new"]
    assert device(found, "n-old", "a0")["verdict"] == "error"
    assert "no such key: fw" in device(found, "n-old", "a0")["text"]
    assert "a selector errs on 1 of 2 devices, which is not the same as false" in found["notes"]
    assert any('guard it with "fw" in device.attributes["accel.example.net"] && ...' in note for note in found["notes"])
    newer = answer("10", "unguarded", "--kube-version", "1.37")
    error = on(newer, "n-old")["error"]
    assert "accel.example.net/n-old/a0" in error and newer["answer"] == "ends with an error"
    guarded = answer("10", "guarded")
    assert guarded["fitting"] == ["n-new"] and device(guarded, "n-old", "a0")["verdict"] == "not selected"


@pytest.mark.row(258, how="vectors")
def test_a_misspelt_attribute_is_told_with_the_near_one() -> None:
    found = answer("10", "typo")
    assert found["fitting"] == [] and found["answer"] == "cannot be allocated"
    (note,) = found["notes"]
    assert note.startswith("on 2 of 2 devices") and "modle" in note and "accel.example.net/model may be meant" in note


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize("claim", ["want-32", "two-requests"])
@pytest.mark.timeout(20)
def test_one_device_short_is_told_at_once_and_the_time_out_foretold(claim: str, minor: str) -> None:
    found = answer("11", claim, "--kube-version", minor)
    timeout = on(found, "n1")["filterTimeout"]
    assert timeout["answer"] == "yes" and timeout["steps"] > 6_000_000
    shortage = on(found, "n1")["shortage"]
    assert not found["good"] and shortage["have"] < shortage["need"] and "31" in found["text"]
    assert "will hit its filter timeout (10 s)" in on(found, "n1")["slow"]


@pytest.mark.row(278, how="vectors")
def test_a_template_slice_that_announces_no_slices() -> None:
    found = answer("12", "one")
    assert not found["good"]
    (pool,) = on(found, "tmpl")["pools"]
    assert pool["state"] == "incomplete" and "1 of 0 slices" in pool["text"] and "resourceSliceCount" in pool["text"]


def test_a_template_slice_that_announces_itself_is_used(tmp_path: Path) -> None:
    (place,) = shared("cases").glob("12-*")
    text = (place / "cluster.yaml").read_text()
    assert text.count("resourceSliceCount: 0") == 1
    (tmp_path / "c.yaml").write_text(text.replace("resourceSliceCount: 0", "resourceSliceCount: 1"))
    code, out, _ = run("claim", "one", "--from", str(tmp_path), "-o", "json")
    assert code == 0 and chosen(json.loads(out), "tmpl") == ["g0"]


@pytest.mark.row(65, how="vectors")
@pytest.mark.parametrize(
    ("claim", "minor", "devices"),
    [
        ("ask-3g", "1.36", ["v1"]),
        ("ask-1g", "1.36", ["v0"]),
        ("ask-none", "1.36", ["v0"]),
        ("ask-17g", "1.36", []),
        ("ask-all-4g", "1.37", []),
        ("ask-all-4g", "1.36", ["v1"]),
    ],
)
def test_capacity_is_rounded_and_the_next_device_tried(claim: str, minor: str, devices: list[str]) -> None:
    found = answer("13", claim, "--kube-version", minor)
    assert chosen(found, "n1") == devices and found["good"] is bool(devices)


def test_capacity_says_how_much_is_short_and_what_a_newer_version_does() -> None:
    assert device(answer("13", "ask-3g"), "n1", "v0")["text"] == "capacity memory: needs 4Gi, 2Gi left"
    (note,) = answer("13", "ask-all-4g", "--kube-version", "1.36")["notes"]
    assert "fixed in 1.37" in note and "does not fit" in note
    held = answer("13", "held")
    assert held["answer"] == "allocated" and held["holding"]["devices"][0]["consumed"] == {"memory": "14Gi"}


@pytest.mark.row(61, how="vectors")
def test_the_alternative_taken_is_named_and_the_others() -> None:
    found = answer("14", "gang-0")
    first, second = on(found, "n1")["requests"]
    assert (first["request"], first["chosen"]) == ("r/whole", ["accel.example.net/n1/whole"])
    assert second["text"] == "not needed: an earlier alternative was taken"


def test_a_gang_fits_all_at_once_and_not_one_by_one() -> None:
    place = next(shared("cases").glob("14-*"))
    code, out, _ = run("claim", "gang-0", "gang-1", "--from", str(place), "-o", "json")
    found = json.loads(out)
    assert code == 1 and found["kind"] == "claims"
    first, second = found["claims"]
    assert chosen(first, "n1") == ["whole"] and not second["good"]
    assert sorted(chosen(found["together"], "n1")) == ["half-a", "half-b"]
    assert "do not fit one at a time" in found["text"] and "a placement exists" in found["text"]
    code, out, _ = run("claim", "gang-0", "gang-1", "--from", str(place))
    assert code == 1 and "All at once:" in out


def test_a_tolerated_taint() -> None:
    found = answer("15", "tolerant")
    assert chosen(found, "n1") == ["a0"]
    (given,) = on(found, "n1")["gets"]
    (toleration,) = given["tolerations"]
    assert toleration.endswith(" for 600 s")


@pytest.mark.parametrize("swapped", [False, True])
def test_slices_that_disagree_in_the_other_order(swapped: bool, tmp_path: Path) -> None:
    (place,) = shared("cases").glob("04-*")
    text = (place / "cluster.yaml").read_text()
    if swapped:
        text = text.replace("resourceSliceCount: 2", "resourceSliceCount: x")
        text = text.replace("resourceSliceCount: 3", "resourceSliceCount: 2").replace("Count: x", "Count: 3")
    (tmp_path / "c.yaml").write_text(text)
    _, out, _ = run("claim", "every", "--from", str(tmp_path), "-o", "json")
    found = json.loads(out)
    assert found["answer"] == ("ends with an error" if swapped else "can be allocated")
    assert any(note.startswith("order dependent on n1") for note in found["notes"]), found["notes"]
    if swapped:
        assert (
            "asks for all devices, but resource pool accel.example.net/n1 is currently being updated" in found["text"]
        )


# -- a dump of a real control plane


def estate() -> str:
    return str(shared("estates/small"))


@pytest.mark.row(228, how="vectors")
@pytest.mark.parametrize("pod", ["dra-stuck-5f878d9-sgqk2", "pending-big-fc8b7fc77-ckkp6", "dra-gpu-nic-98rw9"])
def test_the_pods_of_a_real_cluster(pod: str, golden: Callable[[str, str], None]) -> None:
    """Those that wait on purpose, and one that runs: word for word as read and accepted once."""
    code, out, said = run("pod", pod, "--from", estate())
    assert code == (0 if pod.startswith("dra-gpu-nic") else 1)
    assert "Kubernetes 1.36" in said
    golden(f"explain/{pod.rpartition('-')[0].rpartition('-')[0]}.txt", out)


@pytest.mark.row(259, how="vectors")
def test_a_stuck_pod_says_what_the_real_scheduler_said() -> None:
    _, out, _ = run("pod", "team-research/dra-stuck-5f878d9-sgqk2", "--from", estate(), "-o", "json")
    found = json.loads(out)
    events = (Path(estate()) / "events.yaml").read_text()
    claim = "dra-stuck-5f878d9-sgqk2-gpu-kcqw8"
    said = f"claim team-research/{claim}: selector #0: CEL runtime error: no such key: memoryGiB"
    assert said in found["message"] and claim in events and "no such key: memoryGiB" in events
    assert any("gpu.nvidia.com/memory may be meant" in note for note in found["notes"])
    assert not [one for one in found["nodes"] if one["fits"]]


@pytest.mark.row(25, 174, how="vectors")
def test_a_counted_resource_never_names_a_device() -> None:
    code, out, _ = run("pod", "pending-big-fc8b7fc77-ckkp6", "--from", estate(), "-o", "json")
    found = json.loads(out)
    assert code == 1 and "16 Insufficient nvidia.com/gpu" in found["message"]
    assert any("which device is decided by the kubelet" in note for note in found["notes"])
    assert all(one["devices"] is None for one in found["nodes"])
    assert "nvidia.com/gpu: asks for 16, 3 of 8 free; more than the whole node has" in found["nodes"][0]["details"]


# -- bad input


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("pod", "dra-stuck"), "did you mean team-research/dra-stuck-5f878d9-sgqk2"),
        (("claim", "no-such-thing-at-all"), "regauge explain claim -A tells of all"),
        (("claim", "no-such-thing-at-all"), "known: "),
        (("claim", "dra-gpu-nic-98rw9", "-n", "nowhere"), "is not there"),
        (("pod", "x", "--kube-version", "9.9"), "9.9"),
        (("pod", "x", "--feature-gates", "nonsense"), "nonsense"),
        (("pod", "x", "--feature-gates", "DRANoSuchGate=true"), "DRANoSuchGate"),
    ],
)
def test_what_is_unknown_is_told_with_what_is_near(arguments: tuple[str, ...], says: str) -> None:
    code, out, said = run(*arguments, "--from", estate())
    assert (code, out) == (2, "") and says in said


@pytest.mark.parametrize(
    "given", ["", "not: an object", "{", "- 1", "apiVersion: v1\nkind: Pod\nspec: 7\nmetadata: {name: a}"]
)
def test_what_is_no_cluster_ends_in_words(given: str) -> None:
    code, out, said = run("pod", "a", "--from", "-", given=given)
    assert (code, out) == (2, "") and said.startswith("regauge: ")


CLAIM = """
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s1}
spec: {driver: d, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1}, devices: [{name: a}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: EXACTLY}]}}
"""


@pytest.mark.parametrize(
    ("exactly", "says"),
    [
        ("{deviceClassName: gpu, selectors: [{cel: {expression: 'device.driver =='}}]}", "Syntax error"),
        ("{deviceClassName: gpx}", "device class gpx does not exist"),
        ("{deviceClassName: gpu, count: 33}", "32"),
        ("{deviceClassName: gpu, count: -4}", ""),
        ("{deviceClassName: gpu, allocationMode: Sometimes}", "Sometimes"),
        ("{}", "unsupported request type"),
    ],
)
def test_claims_that_cannot_be_met_are_explained(exactly: str, says: str) -> None:
    code, out, said = run("claim", "c", "--from", "-", given=CLAIM.replace("EXACTLY", exactly))
    assert code in (0, 1, 2) and says in out + said


def test_a_claim_template_is_explained_as_a_claim_from_it() -> None:
    template = CLAIM.replace("ResourceClaim\n", "ResourceClaimTemplate\n").replace(
        "spec: {devices: {requests: [{name: r, exactly: EXACTLY}]}}",
        "spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}",
    )
    code, out, _ = run("claim", "c", "--from", "-", given=template)
    assert code == 0 and "d/n1/a" in out


# -- the form


def test_the_schema_is_a_schema_and_the_one_on_the_page() -> None:
    Draft202012Validator.check_schema(json_schema())
    code, out, _ = run("--schema")
    assert code == 0 and json.loads(out) == json_schema()
    assert (ROOT / "docs" / "explain.schema.json").read_text() == out


def test_what_has_another_form_is_not_valid() -> None:
    found = answer("13", "held")
    for broken in (
        {**found, "more": 1},
        {key: value for key, value in found.items() if key != "notes"},
        {**found, "answer": "perhaps"},
        {**found, "kind": "pod"},
    ):
        assert not VALID.is_valid(broken)


# -- the page


def told_fields(heading: str) -> tuple[set[str], frozenset[str]]:
    """The fields in the table below a heading of the page, and those of them that are mappings with free keys."""
    below = (ROOT / "docs" / "explain.md").read_text().split(f"## {heading} as JSON\n")[1]
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| ([\w ,]+) \|", below.split("|---|---|---|\n")[1].split("\n\n")[0], re.M)
    names = {name for name, _ in rows}
    free = {name for name, kind in rows if kind == "mapping" and not any(one.startswith(f"{name}.") for one in names)}
    return names, frozenset(free)


def below(found: set[str], prefix: str) -> set[str]:
    return {name.removeprefix(prefix) for name in found if name.startswith(prefix)}


def test_fields_of_an_explanation_are_those_of_its_page() -> None:
    of_pod, of_claim, of_node = (
        told_fields(one) for one in ("A pod's answer", "A claim's answer", "A node's explanation")
    )
    opaque = of_claim[1] | {f"claims[].{one}" for one in of_claim[1]}
    opaque |= {f"{prefix}{one}" for one in of_node[1] for prefix in ("nodes[].", "nodes[].devices.")}
    given = {one.partition("devices[].")[2] for one in of_claim[0] if one.startswith("holding.devices[].")}
    opaque |= {f"{prefix}gets[].consumed" for prefix in ("nodes[].", "nodes[].devices.")}
    pods: set[str] = set()
    for pod in ("dra-stuck-5f878d9-sgqk2", "pending-big-fc8b7fc77-ckkp6", "dra-gpu-nic-98rw9"):
        pods |= fields(json.loads(run("pod", pod, "--from", estate(), "-o", "json")[1]), opaque)
    assert {one for one in pods if not one.startswith(("claims[].", "nodes[].devices."))} == of_pod[0]
    assert below(pods, "claims[].") <= of_claim[0]
    assert {one for one in below(pods, "nodes[].devices.") if not one.startswith("gets[].")} <= of_node[0]
    claims: set[str] = set()
    for case, claim in (
        ("03", "one"),
        ("05", "same-rail"),
        ("10", "typo"),
        ("11", "want-32"),
        ("13", "held"),
        ("02", "all-plain"),
        ("15", "tolerant"),
    ):
        claims |= fields(answer(case, claim), opaque)
    assert {one for one in claims if not one.startswith("nodes[].")} == of_claim[0]
    nodes = below(claims, "nodes[].")
    assert below(nodes, "gets[].") == given
    assert {one for one in nodes if not one.startswith("gets[].")} | {"gets[]"} == of_node[0]


def test_fields_of_a_forecast_are_those_of_its_page() -> None:
    told, opaque = told_fields("A forecast")
    arguments = ["--from", estate(), "--drain", "canary-0", "--fits", "deployment/team-research/dra-pilot"]
    result = RUNNER.invoke(app, ["whatif", *arguments, "-o", "json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == "regauge.whatif/v1"
    assert fields(document, opaque) == told


def test_verdicts_on_devices_are_those_of_the_page() -> None:
    table = (ROOT / "docs" / "explain.md").read_text().split("| verdict on a device | because |\n")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `([\w ]+)` \|", table, re.M)) == set(NEARNESS)
