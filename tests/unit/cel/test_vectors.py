"""Every recorded expression has upstream's outcome and upstream's costs; what differs is listed, and stays listed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from tests.support import shared

from regauge.cel import Environment

HERE = Path(__file__).parent


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"cel_{name}", HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


helpers = _load("helpers")
KNOWN: dict[str, str] = json.loads((HERE / "known_differences.json").read_text("utf-8"))


class Case(NamedTuple):
    name: str
    expression: str
    environment: Environment
    device: dict[str, Any]
    outcome: str
    max_cost: int
    actual_cost: int | None


def corpus() -> Iterator[Case]:
    with shared("vectors/cel/corpus.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            new = row.get("newenv", False)
            consumable = row.get("consumable", False) if new else True
            environment = Environment(36, not new, row.get("list", False), consumable)
            yield Case(
                row["id"],
                row["expr"],
                environment,
                row["device"],
                row["outcome"],
                row.get("max_cost") or 0,
                row.get("actual_cost"),
            )


def recorded(name: str) -> Iterator[Case]:
    cases = shared(f"vectors/cel/{name}_cases.jsonl").read_text("utf-8").splitlines()
    results = shared(f"vectors/cel/{name}_results.jsonl").read_text("utf-8").splitlines()
    for case, result in zip(map(json.loads, cases), map(json.loads, results), strict=True):
        features = case.get("features") or {}
        environment = Environment(
            37,
            not case.get("newExpr"),
            features.get("ListTypeAttributes", False),
            features.get("ConsumableCapacity", False),
        )
        outcome = "true" if result["result"] else "false"
        if result["runtimeError"]:
            outcome = "runtime_error"
        if result["compileError"]:
            outcome = "compile_error"
        costs = result.get("maxCost", 0), result.get("actualCost", 0)
        yield Case(case["name"], case["cel"], environment, case["device"], outcome, *costs)


def compare(cases: Iterator[Case]) -> tuple[int, dict[str, str], list[str], list[str]]:
    """How many there are, which outcomes differ, and where static and real costs differ."""
    count, outcomes, static, real = 0, {}, [], []
    for case in cases:
        count += 1
        outcome, most, cost = helpers.outcome_of(case.expression, case.environment, helpers.device_of(case.device))
        if outcome != case.outcome:
            outcomes[case.name] = f"{case.expression}: {outcome}, upstream {case.outcome}"
        elif outcome != "compile_error":
            if most != case.max_cost:
                static.append(f"{case.name}: {most}, upstream {case.max_cost}")
            # Upstream walks maps in random order, so what a search over them costs is chance.
            if cost != case.actual_cost and outcome != "runtime_error" and ".exists(" not in case.expression:
                real.append(f"{case.name}: {cost}, upstream {case.actual_cost}")
    return count, outcomes, static, real


@pytest.mark.row(57, how="vectors")
def test_the_corpus_of_1_36() -> None:
    count, outcomes, static, real = compare(corpus())
    assert count > 600
    new = {name: text for name, text in outcomes.items() if name not in KNOWN}
    assert not new, f"new differences: {new}"
    assert not KNOWN.keys() - outcomes.keys(), "known differences that are none any more"
    assert not static
    assert not real


@pytest.mark.row(57, how="vectors")
@pytest.mark.parametrize(("name", "least"), [("oracle_upstream", 360), ("oracle", 4800)])
def test_what_upstream_1_37_answered(name: str, least: int) -> None:
    count, outcomes, static, real = compare(recorded(name))
    assert count >= least
    assert outcomes == {}
    assert static == []
    assert real == []
