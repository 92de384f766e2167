"""Which devices the plugin would rather give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.driver.preferring import Place, preferred
from regauge.pluginapi import PreferredAllocationRequest

NUMA = {name: Place(node) for name, node in zip("abcdef", (0, 0, 0, 1, 1, None), strict=True)}
LINKED = {  # two pairs and a single one on each of two NUMA nodes
    **{name: Place(0, link) for name, link in zip("abcde", ("l1", "l1", "l2", "l2", ""), strict=True)},
    **{name: Place(1, link) for name, link in zip("fghij", ("l3", "l3", "l4", "l4", ""), strict=True)},
}
REPLICAS = {
    f"{name}{index}": Place(node, "", name) for name, node in (("a", 0), ("b", 0), ("c", 1)) for index in range(3)
}


@pytest.mark.row(196)
@pytest.mark.parametrize(
    ("available", "must", "size", "expected"),
    [
        ("abcde", "", 2, "de"),  # the node that they fit most tightly
        ("abcde", "", 3, "abc"),
        ("abcde", "", 4, "abcd"),  # nothing fits: the fullest node first
        ("abcde", "a", 2, "ab"),  # near what must be
        ("abcde", "d", 3, "dea"),
        ("edcba", "", 1, "d"),  # the order of the description, not of the question
        ("abcdef", "f", 1, "f"),
        ("xy", "", 2, "xy"),  # devices it does not know are not its to judge
    ],
)
def test_examples(available: str, must: str, size: int, expected: str) -> None:
    request = PreferredAllocationRequest(tuple(available), tuple(must), size)
    assert "".join(preferred(request, NUMA)) == expected


@pytest.mark.row(196)
@pytest.mark.parametrize(
    ("available", "must", "size", "expected"),
    [
        ("abcdefghij", "", 2, "ab"),  # a pair
        ("bcdfghij", "", 2, "cd"),  # a whole pair, not halves of two
        ("abcdefghij", "g", 2, "gf"),  # the other half of what must be
        ("bcdefghij", "a", 4, "abcd"),  # then the pairs beside it
        ("aceghij", "", 3, "hig"),  # a pair, and one near it
        ("abcdefghij", "ac", 4, "acbd"),
    ],
)
def test_devices_with_links_are_given_together(available: str, must: str, size: int, expected: str) -> None:
    request = PreferredAllocationRequest(tuple(available), tuple(must), size)
    assert "".join(preferred(request, LINKED)) == expected


@pytest.mark.parametrize(
    ("available", "must", "size", "expected"),
    [
        (list(REPLICAS), [], 3, ["a0", "c0", "b0"]),  # three devices, and two nodes first
        (list(REPLICAS), [], 4, ["a0", "c0", "b0", "c1"]),
        (["a1", "a2", "b0", "b1", "b2", "c2"], [], 1, ["b0"]),  # the one of which most is free
        (list(REPLICAS), ["b1"], 2, ["b1", "c0"]),
    ],
)
def test_spread_takes_what_is_used_least(available: list[str], must: list[str], size: int, expected: list[str]) -> None:
    request = PreferredAllocationRequest(tuple(available), tuple(must), size)
    assert list(preferred(request, REPLICAS, spread=True)) == expected


@given(st.data(), st.booleans())
def test_always_what_was_asked_for(data: st.DataObject, spread: bool) -> None:
    places = data.draw(st.sampled_from((NUMA, LINKED, REPLICAS)))
    available = data.draw(st.lists(st.sampled_from(sorted(places)), unique=True, min_size=1))
    must = data.draw(st.lists(st.sampled_from(available), unique=True))
    size = data.draw(st.integers(len(must), len(available)))
    chosen = preferred(PreferredAllocationRequest(tuple(available), tuple(must), size), places, spread)
    assert len(chosen) == len(set(chosen)) == size
    assert set(must) <= set(chosen) <= set(available)
