"""What people are told: the main reason first, then down to each device."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.support import shared
from tests.unit.allocator.objects import DRIVER, allocated, allocator, claim, device, node, request, slice_of

from regauge.allocator import Allocator, Explanation, render, render_all
from regauge.allocator.hints import split
from regauge.features import rules
from regauge.model import read_documents, view, with_defaults
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice

KINDS = {one.__name__: one for one in (Node, DeviceClass, ResourceSlice, ResourceClaim, ResourceClaimTemplate)}
GATES = dict.fromkeys(("DRADeviceTaints", "DRAPartitionableDevices", "DRAConsumableCapacity"), True)
LISTS = {**GATES, "DRAListTypeAttributes": True}


def explained(case: str, claim_name: str, node_name: str, minor: str = "1.36") -> Explanation:
    """The explanation of one claim of a shared case on one node."""
    objects: dict[str, list] = {kind: [] for kind in KINDS}
    for document in read_documents(shared(f"cases/{case}/cluster.yaml").read_bytes(), "cluster.yaml"):
        filled = with_defaults(document.object)
        if filled["kind"] in KINDS:
            objects[filled["kind"]].append(view(filled, KINDS[filled["kind"]]))
    claims = [one for one in objects["ResourceClaim"] if one.status.allocation is None]
    held = [one for one in objects["ResourceClaim"] if one.status.allocation is not None]
    claims += [ResourceClaim(metadata=one.metadata, spec=one.spec.spec) for one in objects["ResourceClaimTemplate"]]
    whole = Allocator(
        objects["ResourceSlice"],
        objects["DeviceClass"],
        held,
        rules(minor, GATES if minor == "1.35" else LISTS),
        randomness=random.Random(1),
    )
    asked = next(one for one in claims if one.metadata.name == claim_name)
    where = next(one for one in objects["Node"] if one.metadata.name == node_name)
    return whole.explain(where, [asked])


def chosen(found: Explanation) -> list[str]:
    return [one.rpartition("/")[2] for note in found.requests for one in note.chosen]


@pytest.mark.row(3, how="vectors")
@pytest.mark.parametrize(
    ("case", "asked", "where", "devices"),
    [
        ("01-all-mode-needs-one-device", "every", "n-full", "a0 a1"),
        ("02-all-mode-blocked-by-one-taint", "all-tolerant", "n1", "a0 a1 a2"),
        ("02-all-mode-blocked-by-one-taint", "two-plain", "n1", "a0 a2"),
        ("04-slices-disagree-on-count", "every", "n1", "a0 b0"),
        ("06-distinct-attribute-single-request", "spread", "n1", "d1 d2 d3"),
        ("07-counters-released-after-reject", "three-on-one-board", "n1", "p-a p-c p-d"),
        ("10-cel-attribute-missing-on-one-node", "guarded", "n-new", "a0"),
        ("13-consumable-capacity-rounding-and-next-device", "ask-3g", "n1", "v1"),
        ("13-consumable-capacity-rounding-and-next-device", "ask-1g", "n1", "v0"),
        ("13-consumable-capacity-rounding-and-next-device", "ask-none", "n1", "v0"),
        ("13-consumable-capacity-rounding-and-next-device", "ask-all-4g", "n1", "v1"),
        ("15-toleration-copied-into-result", "tolerant", "n1", "a0"),
    ],
)
def test_reported_cases_that_fit_in_1_36(case: str, asked: str, where: str, devices: str) -> None:
    found = explained(case, asked, where)
    assert (found.outcome, chosen(found)) == ("fits", devices.split())


@pytest.mark.row(3, how="vectors")
@pytest.mark.parametrize(
    ("case", "asked", "where", "outcome", "said"),
    [
        ("01-all-mode-needs-one-device", "every", "n-empty", "does not fit", "asks for all of them, there is none"),
        ("02-all-mode-blocked-by-one-taint", "all-plain", "n1", "does not fit", "a1: taint accel.example.net/ecc"),
        ("02-all-mode-blocked-by-one-taint", "all-admin", "n1", "does not fit", "is not tolerated"),
        (
            "03-newest-generation-incomplete",
            "one",
            "n1",
            "does not fit",
            "generation 4 has 1 of 2 slices, 1 missing; 2 stale slices",
        ),
        ("05-list-attribute-backtracking", "same-rail", "n1", "does not fit", "a valid set exists"),
        ("09-two-terms-in-device-node-selector", "one", "n1", "error", "NodeSelector with 2 terms"),
        ("10-cel-attribute-missing-on-one-node", "unguarded", "n-old", "error", "no such key: fw"),
        (
            "10-cel-attribute-missing-on-one-node",
            "typo",
            "n-new",
            "does not fit",
            "accel.example.net/model may be meant",
        ),
        ("11-one-device-short-must-be-fast", "want-32", "n1", "does not fit", "needs 32 devices, there are only 31"),
        ("11-one-device-short-must-be-fast", "two-requests", "n1", "does not fit", "together, there are only 31"),
        ("12-zero-slice-count-template", "one", "tmpl", "does not fit", "1 of 0 slices"),
        ("13-consumable-capacity-rounding-and-next-device", "ask-17g", "n1", "does not fit", "needs 18Gi, 2Gi left"),
    ],
)
def test_reported_cases_that_do_not_fit_in_1_36(case: str, asked: str, where: str, outcome: str, said: str) -> None:
    found = explained(case, asked, where)
    assert found.outcome == outcome
    assert said in found.text


@pytest.mark.parametrize(
    ("case", "asked", "devices"),
    [
        ("05-list-attribute-backtracking", "same-rail", "d1 d3 d4"),
        ("06-distinct-attribute-single-request", "spread", "d1 d2 d5"),
    ],
)
def test_what_1_37_does_right(case: str, asked: str, devices: str) -> None:
    assert chosen(explained(case, asked, "n1", "1.37")) == devices.split()


@pytest.mark.parametrize(
    ("case", "asked"),
    [("07-counters-released-after-reject", "three-on-one-board")],
)
def test_what_1_35_misses_is_said(case: str, asked: str) -> None:
    found = explained(case, asked, "n1", "1.35")
    assert found.outcome == "does not fit"
    (one,) = found.missed
    assert (
        one.text
        == found.text
        == (
            "a valid set exists, this scheduler misses it (allocator-leaks-on-reject, fixed in 1.36): "
            "r: accel.example.net/n1/p-a; r: accel.example.net/n1/p-c; r: accel.example.net/n1/p-d"
        )
    )


def test_a_shared_device_in_use_blocks_all_of_them_from_1_37_on() -> None:
    case = "13-consumable-capacity-rounding-and-next-device"
    found = explained(case, "ask-all-4g", "n1", "1.37")
    assert found.outcome == "does not fit"
    assert "it would fit if claim team-b/held gave up its devices" in [one.text for one in found.would_fit]


def test_a_slow_search_is_foretold() -> None:
    assert "filter timeout" in explained("11-one-device-short-must-be-fast", "want-32", "n1").slow
    assert explained("12-zero-slice-count-template", "one", "tmpl").slow == ""


def test_slices_that_cannot_be_used_safely_are_named() -> None:
    text = render(explained("09-two-terms-in-device-node-selector", "one", "n1"))
    assert "slice fabric, device f0: its node selector must have exactly one term, has 2" in text
    assert "resourceSliceCount 2, 3" in render(explained("04-slices-disagree-on-count", "every", "n1"))


def test_the_nearest_miss_comes_first() -> None:
    near = f'device.attributes["{DRIVER}"].model == "h100" && device.attributes["{DRIVER}"].index > 0'
    offered = [
        device("far", model="a100", index=0),
        device("near", model="h100", index=0),
        device("held", model="h100", index=1),
    ]
    whole = allocator([slice_of("n", offered)], [allocated("other", ("n", "held"))])
    found = whole.explain(node("n"), [claim("c", request(expression=near))])
    assert [one.device.device for one in found.requests[0].devices] == ["held", "near", "far"]
    held, close, _ = found.requests[0].devices
    assert held.text == "in use by team/other"
    assert close.text == (
        f'selector #0 of the request is false: device.attributes["{DRIVER}"].index > 0 '
        f"(has {DRIVER}/index=0, {DRIVER}/model=h100)"
    )
    assert found.text.endswith("nearest miss gpu.example.com/n/held: in use by team/other")
    assert [one.kind for one in found.would_fit] == ["usage", "holder"]


def test_alternatives_that_were_passed_over_say_why() -> None:
    alternatives = [
        {"name": "big", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
        {"name": "small", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        {"name": "none", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
    ]
    whole = allocator([slice_of("n", [device("d0"), device("d1")])])
    found = whole.explain(node("n"), [claim("c", {"name": "r", "firstAvailable": alternatives})])
    assert [note.text for note in found.requests] == [
        "passed over: 2 of 2 devices match and are free, 3 wanted",
        "chosen: gpu.example.com/n/d0",
        "not needed: an earlier alternative was taken",
    ]


def test_a_constraint_that_is_in_the_way_is_named() -> None:
    offered = [device("d0", root="a"), device("d1", root="b")]
    asked = claim("c", request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    found = allocator([slice_of("n", offered)]).explain(node("n"), [asked])
    assert found.text.startswith(
        f"claim team/c, request r: needs 2 devices with the same value of {DRIVER}/root, there is only 1"
    )
    assert found.would_fit[0].text == (
        f"it would fit without the constraint matchAttribute {DRIVER}/root of claim team/c: "
        f"{DRIVER}/n/d0 has a and {DRIVER}/n/d1 has b"
    )


def test_a_pair_that_must_differ_is_named() -> None:
    asked = claim("c", request(count=2), constraints=[{"distinctAttribute": f"{DRIVER}/root"}])
    found = allocator([slice_of("n", [device("d0", root="a"), device("d1", root="a")])], rules=rules("1.37")).explain(
        node("n"), [asked]
    )
    assert found.outcome == "does not fit"
    assert found.would_fit[0].text.endswith(f": {DRIVER}/n/d0 has a and {DRIVER}/n/d1 has a")
    without = allocator([slice_of("n", [device("d0", root="a"), device("d1")])], rules=rules("1.37"))
    assert without.explain(node("n"), [asked]).would_fit[0].text.endswith(f": {DRIVER}/n/d1 has no such attribute")


def test_many_nodes_are_put_together_by_reason() -> None:
    slices = [slice_of(f"n{number}", [device("d0")]) for number in range(5)]
    held = [allocated(f"c{number}", (f"n{number}", "d0")) for number in range(3)]
    found = allocator(slices, held).explain_nodes([node(f"n{number}") for number in range(6)], [claim("c", request())])
    assert found.fitting == ("n3", "n4")
    assert [count for _, count, _ in found.reasons] == [3, 1]
    assert render_all(found).startswith("fits on 2 of 6 nodes\n  3 nodes, such as n0: claim team/c, request r: ")


def test_an_explanation_is_plain_data() -> None:
    found = allocator([slice_of("n", [device("d0")])]).explain(node("n"), [claim("c", request(count=2))])
    assert msgspec.to_builtins(found)["outcome"] == "does not fit"


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("a && b", ["a", "b"]),
        ("(a && b) && c", ["(a && b)", "c"]),
        ('x == "a && b" && c', ['x == "a && b"', "c"]),
        (r"x == 'it\'s && so' && c", [r"x == 'it\'s && so'", "c"]),
        ("a && b || c", ["a && b || c"]),
        ("a ? b && c : d", ["a ? b && c : d"]),
        ("a", ["a"]),
    ],
)
def test_the_outermost_parts_of_an_expression(expression: str, parts: list[str]) -> None:
    assert split(expression) == parts
