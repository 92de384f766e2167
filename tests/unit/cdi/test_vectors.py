"""All conformance cases with the reference library's recorded answers."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.support import shared
from tests.unit.cdi.comparing import differences

COUNTS = {
    "validate": 289,
    "inject": 76,
    "parse": 31,
    "annotation_key": 16,
    "list": 15,
    "write": 8,
    "annotation_parse": 5,
    "annotation_update": 4,
    "spec_name": 3,
}


@pytest.fixture(scope="module")
def lines() -> list[dict]:
    return [json.loads(line) for line in shared("vectors/cdi/cases.jsonl").read_text().splitlines()]


@pytest.mark.row(2, how="vectors")
@pytest.mark.row(30, how="vectors")
@pytest.mark.row(169, how="vectors")
@pytest.mark.parametrize("op", COUNTS)
def test_same_answer_as_the_reference(lines: list[dict], op: str) -> None:
    chosen = [line for line in lines if line["case"]["op"] == op]
    assert differences([line["case"] for line in chosen], [line["expect"] for line in chosen]) == []


def test_all_cases_are_asked(lines: list[dict]) -> None:
    assert Counter(line["case"]["op"] for line in lines) == COUNTS
