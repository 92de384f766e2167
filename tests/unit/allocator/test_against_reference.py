"""Random cases, answered by the reference program of each minor and by the allocator here."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.support import oracle
from tests.unit.allocator.generator import Generator
from tests.unit.allocator.vectors import ask, differs

PROGRAMS = {"1.37": "allocator", "1.36": "allocator/v036", "1.35": "allocator/v035", "1.34": "allocator/v034"}
# How often a case is asked again where the reference picks the order of pools by chance.
REPEATED = 60


def reference(minor: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps({**case, "timeoutMillis": 1000}) + "\n" for case in cases)
    done = subprocess.run(
        [oracle(PROGRAMS[minor])], input=lines, capture_output=True, text=True, check=True, timeout=110
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_chance(minor: str, case: dict[str, Any], got: dict[str, Any]) -> bool:
    """Whether the reference gives this answer, too, when it is asked often enough."""
    return any(not differs(case, got, want) for want in reference(minor, [case] * REPEATED))


def compared(minor: str, seed: int, count: int) -> None:
    generator = Generator(seed, minor)
    cases = [generator.case(number) for number in range(count)]
    fitting = failing = 0
    for case, want in zip(cases, reference(minor, cases), strict=True):
        if want.get("timedOut"):
            continue
        assert "ORACLE" not in want["error"]
        fitting += bool(want["results"])
        failing += bool(want["error"])
        got = ask({**case, "kubeVersion": minor})
        if differs(case, got, want) and not by_chance(minor, case, got):
            pytest.fail(f"{minor}, seed {seed}: {json.dumps(case)}\nwanted {want}\ngot    {got}")
    # The cases are worth something only if they are mixed.
    assert fitting > count / 8
    assert failing > count / 40


@pytest.mark.row(3, 25, 28, 47, 52, 57, 58, 59, 60, 61, 64, 65, 66, 193, how="oracle")
@pytest.mark.parametrize(("minor", "count"), [("1.37", 900), ("1.36", 700), ("1.35", 200), ("1.34", 200)])
def test_random_cases(minor: str, count: int) -> None:
    compared(minor, 1, count)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 22))
@pytest.mark.parametrize("minor", ["1.37", "1.36", "1.35", "1.34"])
def test_many_random_cases(minor: str, seed: int) -> None:
    compared(minor, seed, 1500)
