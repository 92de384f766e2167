"""Which devices the plugin would rather give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.driver.device_plugin import preferred
from regauge.pluginapi import PreferredAllocationRequest

NUMA: dict[str, int | None] = {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1, "f": None}


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


@given(st.data())
def test_always_what_was_asked_for(data: st.DataObject) -> None:
    available = data.draw(st.lists(st.sampled_from(sorted(NUMA)), unique=True, min_size=1))
    must = data.draw(st.lists(st.sampled_from(available), unique=True))
    size = data.draw(st.integers(len(must), len(available)))
    chosen = preferred(PreferredAllocationRequest(tuple(available), tuple(must), size), NUMA)
    assert len(chosen) == len(set(chosen)) == size
    assert set(must) <= set(chosen) <= set(available)
