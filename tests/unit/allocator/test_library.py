"""As a library: what is loaded, what the face promises, and input that no API server would have let through."""

from __future__ import annotations

import doctest
import random
import subprocess
import sys
from typing import Any

import pytest
from tests.support import ROOT
from tests.unit.allocator.objects import DRIVER, allocator, claim, device, device_class, node, request, slice_of
from tests.unit.allocator.vectors import ask

from regauge.allocator import Abort, Allocator, Exhausted, Fit, NoFit, Unsupported, as_document
from regauge.features import rules

ABOVE = ("scheduler", "cluster", "driver", "migrate", "audit", "observe", "rehearsal", "cli", "kube", "host", "collect")


def test_nothing_of_the_rooms_above_is_loaded() -> None:
    program = "import sys, regauge.allocator; print(*(name for name in sys.modules if name.startswith('regauge.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split()}
    assert rooms & set(ABOVE) == set()
    assert {"allocator", "cel", "features", "model", "base"} <= rooms


def test_snippets_of_the_page_run() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "allocator.md"), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 8


def test_a_minor_without_this_allocator_says_so() -> None:
    whole = allocator([slice_of("n", [device("d0")])], rules=rules("1.33"))
    assert whole.allocate(node("n"), [claim("c", request())]) == Unsupported("the allocator of Kubernetes 1.33")
    assert whole.explain(node("n"), [claim("c", request())]).outcome == "unsupported"


def test_the_budget_ends_a_search() -> None:
    offered = [device(f"d{number}", serial=number) for number in range(20)]
    whole = Allocator(
        [slice_of("n", offered)], [device_class()], [], rules("1.36"), randomness=random.Random(1), budget=3
    )
    assert whole.allocate(node("n"), [claim("c", request(count=5))]) == Exhausted(4)
    assert whole.explain(node("n"), [claim("c", request(count=5))]).text == "not determined within 4 steps"


def test_shares_get_ids_from_the_given_chance() -> None:
    offered = device("d0")
    offered["allowMultipleAllocations"] = True
    ids = []
    for _ in range(2):
        outcome = allocator([slice_of("n", [offered])]).allocate(
            node("n"), [claim("c", request()), claim("d", request())]
        )
        assert isinstance(outcome, NoFit)
        outcome = allocator([slice_of("n", [offered])]).allocate(node("n"), [claim("c", request())])
        assert isinstance(outcome, Fit)
        ids.append(as_document(outcome.results[0])["devices"]["results"][0]["shareID"])
    assert ids[0] == ids[1]
    assert ids[0][14] == "4"


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"allocationMode": "Newer"}, "unsupported count mode Newer"),
        ({"allocationMode": "ExactCount", "count": 10**18}, "adding 1000000000000000000 devices exceeds"),
        ({"allocationMode": "ExactCount", "count": -1}, "PANIC"),
        ({"allocationMode": "ExactCount", "count": 1, "deviceClassName": ""}, "missing device class name"),
        ({"allocationMode": "ExactCount", "count": 1, "selectors": [{}]}, "CEL expression empty"),
        (
            {"allocationMode": "ExactCount", "count": 1, "selectors": [{"cel": {"expression": "(" * 20_000}}]},
            "CEL compile",
        ),
        (
            {"allocationMode": "ExactCount", "count": 1, "selectors": [{"cel": {"expression": "x" * 10**6}}]},
            "CEL compile",
        ),
    ],
)
def test_hostile_requests_end_in_words(asked: dict[str, Any], error: str) -> None:
    whole = allocator([slice_of("n", [device("d0")])])
    outcome = whole.allocate(node("n"), [claim("c", {"name": "r", "exactly": {"deviceClassName": "gpu", **asked}})])
    assert isinstance(outcome, Abort)
    assert error in outcome.text


def test_a_request_of_an_unknown_kind_crashes_upstream_and_says_so() -> None:
    outcome = allocator([slice_of("n", [device("d0")])]).allocate(node("n"), [claim("c", {"name": "r"})])
    assert isinstance(outcome, Abort)
    assert outcome.text.startswith("PANIC")


def test_many_claims_do_not_exhaust_the_stack() -> None:
    offered = [device(f"d{number}") for number in range(640)]
    slices = [
        slice_of(f"n-{part}", offered[part * 128 : part * 128 + 128], count=5, pool="n", node="n") for part in range(5)
    ]
    asked = [claim(f"c{number}", request(count=32)) for number in range(20)]
    outcome = allocator(slices).allocate(node("n"), asked)
    assert isinstance(outcome, Fit)
    assert len({one.device for result in outcome.results for one in result.devices.results}) == 640


def test_a_case_can_ask_many_nodes() -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "a", "devices": [{"name": "d"}]}
    asked = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}
    got = ask(
        {
            "name": "many",
            "kubeVersion": "1.36",
            "nodes": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
            "classes": [{"metadata": {"name": "any"}, "spec": {}}],
            "slices": [{"metadata": {"name": "s"}, "spec": spec}],
            "claims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [asked]}}}],
        }
    )
    assert [bool(one["results"]) for one in got["nodes"]] == [True, False]


@pytest.mark.parametrize("feature", ["NoSuchThing", "CompatibilityGroups"])
def test_a_case_with_a_feature_that_the_minor_does_not_know(feature: str) -> None:
    got = ask({"name": "x", "kubeVersion": "1.36", "features": {feature: True}, "node": {"metadata": {"name": "n"}}})
    assert got["error"] == f'ORACLE: unknown feature "{feature}"'
