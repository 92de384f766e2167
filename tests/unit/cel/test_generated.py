"""Generated expressions, evaluated here and by the reference program."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from tests.support import oracle

from regauge.cel import Environment

HERE = Path(__file__).parent
COUNT = int(os.environ.get("REGAUGE_CEL_CASES", "400"))
SEED = int(os.environ.get("REGAUGE_CEL_SEED", "20"))


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"cel_{name}", HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


expressions, helpers = _load("expressions"), _load("helpers")


@pytest.mark.row(57, how="oracle")
@pytest.mark.parametrize(("minor", "program"), [(37, "allocator"), (36, "allocator/v036")])
@pytest.mark.parametrize("stored", [True, False])
def test_the_reference_answers_alike(minor: int, program: str, stored: bool) -> None:
    environment = Environment(minor, stored, list_attributes=True)
    generator = expressions.Generator(SEED + minor + stored, environment)
    texts = [generator.expression() for _ in range(COUNT)]
    lines = "\n".join(expressions.case(str(index), text, environment) for index, text in enumerate(texts))
    done = subprocess.run([oracle(program)], input=lines, capture_output=True, text=True, timeout=100, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert len(results) == COUNT
    device = helpers.device_of(expressions.DEVICE)
    outcomes = set()
    for text, result in zip(texts, results):
        expected = "true" if result["result"] else "false"
        if result["runtimeError"]:
            expected = "runtime_error"
        if result["compileError"]:
            expected = "compile_error"
        outcome, most, _ = helpers.outcome_of(text, environment, device)
        assert outcome == expected, (text, result["compileError"] or result["runtimeError"])
        assert expected == "compile_error" or most == result.get("maxCost", 0), text
        outcomes.add(outcome)
    assert outcomes == {"true", "false", "runtime_error", "compile_error"}
