"""Generated expressions, evaluated here and by the reference program of each minor: outcome, type and both costs."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support import oracle

from regauge.cel import Environment

HERE = Path(__file__).parent
PROGRAMS = {37: "allocator", 36: "allocator/v036", 35: "allocator/v035", 34: "allocator/v034"}
# For each minor and kind of environment.
COUNT = 630


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"cel_{name}", HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


expressions, helpers = _load("expressions"), _load("helpers")


def answers(minor: int, texts: list[str], environment: Environment) -> list[dict[str, Any]]:
    """What the reference program of the minor says, all in one process."""
    lines = "\n".join(expressions.case(str(index), text, environment) for index, text in enumerate(texts))
    program = oracle(PROGRAMS[minor])
    done = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=600, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


def wanted(result: dict[str, Any]) -> str:
    if result["compileError"]:
        return "compile_error"
    return "runtime_error" if result["runtimeError"] else str(bool(result["result"])).lower()


def compared(seed: int, count: int, environment: Environment) -> Counter[str]:
    """How many outcomes there were of each kind; fails at the first expression whose answer is not the reference's."""
    minor = environment.minor
    generator = expressions.Generator(seed, environment)
    device = helpers.device_of(expressions.device(environment))
    outcomes: Counter[str] = Counter()
    texts = [generator.expression() for _ in range(count)]
    for text, result in zip(texts, answers(minor, texts, environment), strict=True):
        assert "ORACLE" not in result.get("error", "") + result["compileError"], result
        expected = wanted(result)
        outcome, most, cost = helpers.outcome_of(text, environment, device)
        said = (minor, seed, environment, text, result["compileError"] or result["runtimeError"])
        assert outcome == expected, said
        if expected != "compile_error":
            assert most == result.get("maxCost", 0), (*said, most, result.get("maxCost"))
        if expected in ("true", "false"):
            # The reference walks maps in random order, and what a search over one costs is chance.
            assert cost <= max(most, result.get("actualCost", 0)), (*said, cost, most)
        outcomes[outcome] += 1
    return outcomes


@pytest.mark.row(57, how="oracle")
@pytest.mark.parametrize("minor", PROGRAMS)
@pytest.mark.parametrize("stored", [True, False])
def test_the_reference_answers_alike(minor: int, stored: bool) -> None:
    assert COUNT * 2 * len(PROGRAMS) >= 5000
    gates = [
        Environment(minor, stored, lists, sharing) for lists, sharing in ((True, True), (False, True), (False, False))
    ]
    outcomes: Counter[str] = Counter()
    for number, environment in enumerate(gates):
        outcomes += compared(20 + minor + stored + 1000 * number, COUNT // 3, environment)
    assert sum(outcomes.values()) == COUNT
    assert set(outcomes) == {"true", "false", "runtime_error", "compile_error"}


@pytest.mark.soak
@pytest.mark.parametrize("minor", PROGRAMS)
def test_many_expressions(minor: int) -> None:
    """Other expressions each time. What fails names its seed."""
    outcomes: Counter[str] = Counter()
    for _ in range(50):
        seed = random.SystemRandom().randrange(10**4, 10**9)
        environment = Environment(minor, *(bool(seed >> bit & 1) for bit in range(3)))
        print(f"seed {seed}, {environment}")
        outcomes += compared(seed, 1000, environment)
    print(minor, dict(outcomes))
