"""Input that no API server lets through: whatever a field holds, the answer is one in words, through the program, too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.allocator.generator import Generator
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cli.conformance import BAD_INPUT, BUG, Program, answer_line

RUNNER = CliRunner()
ODD: tuple[Any, ...] = (
    None, -1, 0, 2**31, 2**63 - 1, -(2**63), 2**70, 1.5, "", "x", "\x00", "1e999999999", "-5", "é" * 300, True,
    [], {}, [[]], [{}], {"a": {}}, "(" * 3000, "a" * 100_000,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all that is in a document."""
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        return [path]
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def replaced(case: dict[str, Any], path: tuple[Any, ...], odd: Any) -> dict[str, Any]:
    copy: Any = json.loads(json.dumps(case))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return copy


@given(st.sampled_from(("1.37", "1.36", "1.35", "1.34")), st.integers(0, 40), st.data())
@settings(max_examples=150)
def test_whatever_a_field_holds(minor: str, number: int, data: st.DataObject) -> None:
    case = {**Generator(1, minor).case(number), "kubeVersion": minor}
    path = data.draw(st.sampled_from([place for place in places(case) if place]))
    odd = data.draw(st.sampled_from(ODD))
    code, text = answer_line(Program.allocator, (1, json.dumps(replaced(case, path, odd)).encode()))
    assert code != BUG, (path, odd, text)
    assert isinstance(json.loads(text)["error"], str)


@pytest.mark.parametrize(("field", "odd"), [("capacity", "1Gi"), ("capacity", []), ("device", {}), ("pool", [])])
def test_what_is_consumed_of_a_device_is_of_its_form(field: str, odd: Any) -> None:
    consumed = {"driver": "d", "pool": "p", "device": "a", "capacity": {"memory": "1Gi"}, field: odd}
    code, text = answer_line(Program.allocator, (1, json.dumps({"aggregatedCapacity": [consumed]}).encode()))
    assert code == BAD_INPUT
    assert f"$.aggregatedCapacity[0].{field}" in json.loads(text)["error"]


@pytest.mark.parametrize("minor", ["1.37", "1.34"])
def test_slices_that_are_there_twice(minor: str) -> None:
    case = Generator(1, minor).case(3)
    doubled = {**case, "kubeVersion": minor, "slices": [*case["slices"], *case["slices"]]}
    code, text = answer_line(Program.allocator, (1, json.dumps(doubled).encode()))
    assert code == 0, text


@pytest.mark.parametrize("expression", ["a" * (10 << 20), "(" * 100_000, "[" * 100_000 + "]" * 100_000, "!" * 100_000])
@pytest.mark.parametrize("key", ["cel", "expr"])
def test_expressions_of_absurd_size(key: str, expression: str) -> None:
    result = RUNNER.invoke(app, ["conformance", "cel"], input=json.dumps({key: expression, "device": {}}) + "\n")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer.get("compileError") or answer.get("error")
