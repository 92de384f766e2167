"""The allocator against upstream's own answers: results, their order, node selector, configuration and errors."""

from __future__ import annotations

import json

import pytest
from tests.unit.allocator.test_against_reference import reference
from tests.unit.allocator.vectors import ask, differs, lines, pairs

# Before 1.36 the order of pools is made up by chance, and the recorded answer is one of several. The reference, asked
# often enough, gives several answers to each of these, and among them ours: the last test here asks it.
OFTEN = 120
BY_CHANCE = {
    ("1.35", "random"): "00134 00499 00767 01195 01693 01713 01781 01872",
    ("1.35", "random36"): "00701 01222 02398 02441 02487 02834 03109",
    ("1.34", "random"): "01310 01526 01982",
    ("1.34", "random36"): "00112 00975 00985 01153 02844 03092 03340",
}


def expected_differences(minor: str, name: str) -> set[str]:
    prefix = "rnd-5-" if name == "random36" else "rnd-1-"
    return {prefix + number for number in BY_CHANCE.get((minor, name), "").split()}


@pytest.mark.row(3, 25, 28, 47, 52, 57, 58, 59, 60, 61, 64, 65, 66, 193, how="vectors")
@pytest.mark.parametrize(
    ("minor", "name", "compared"),
    [
        ("1.37", "upstream", 667),
        ("1.37", "quirks", 138),
        ("1.37", "shape", 13),
        ("1.37", "random", 1976),
        ("1.36", "upstream", 258),
        ("1.36", "quirks", 128),
        ("1.36", "shape", 13),
        ("1.36", "random", 850),
        ("1.36", "random36", 1298),
        ("1.35", "upstream", 227),
        ("1.35", "quirks", 124),
        ("1.35", "shape", 12),
        ("1.35", "random", 782),
        ("1.35", "random36", 1172),
        ("1.34", "upstream", 227),
        ("1.34", "quirks", 123),
        ("1.34", "shape", 13),
        ("1.34", "random", 776),
        ("1.34", "random36", 1159),
    ],
)
def test_answers_are_upstreams(minor: str, name: str, compared: int) -> None:
    seen, wrong = 0, []
    for case, want in pairs(name, minor):
        seen += 1
        if differs(case, ask(case), want):
            wrong.append(want["name"])
    assert seen == compared
    assert set(wrong) == expected_differences(minor, name)


@pytest.mark.parametrize("name", ["quirks", "shape", "random"])
def test_a_search_takes_upstreams_steps(name: str) -> None:
    """The search is the same one: it looks at the same choices in the same order, as far as it is not cut short."""
    compared, wrong = 0, []
    for case, want in pairs(name, "1.37"):
        steps = want.get("allocateOneCalls")
        if steps is None or steps > 200 or want["variant"] == "stable":
            continue
        compared += 1
        if ask(case).get("allocateOneCalls") != steps:
            wrong.append((want["name"], steps))
    assert compared > 10
    assert wrong == []


@pytest.mark.row(52, 53, how="vectors")
def test_pools_are_gathered_as_upstream_does() -> None:
    cases = {case["name"]: case for case in lines("random_cases")}
    wrong = []
    for want in lines("random_pools"):
        if want.get("variant") == "stable":
            continue
        got = ask({**cases[want["name"]], "mode": "pools"})
        if got.get("pools", []) != (want.get("pools") or []):
            wrong.append(want["name"])
    assert wrong == []


@pytest.mark.row(3, 28, how="oracle")
@pytest.mark.parametrize(("minor", "name"), BY_CHANCE)
def test_what_is_left_out_is_chance(minor: str, name: str) -> None:
    """The reference contradicts itself on these cases, and one of its answers is ours."""
    wanted = expected_differences(minor, name)
    cases = [case for case, want in pairs(name, minor) if want["name"] in wanted]
    assert len(cases) == len(wanted) > 0
    asked = [{key: value for key, value in case.items() if key != "kubeVersion"} for case in cases]
    found = iter(reference(minor, [case for case in asked for _ in range(OFTEN)]))
    for case in cases:
        answers = [next(found) for _ in range(OFTEN)]
        several = {json.dumps([one["results"], one["error"]]) for one in answers}
        assert len(several) > 1, case["name"]
        got = ask(case)
        assert any(not differs(case, got, one) for one in answers), case["name"]
