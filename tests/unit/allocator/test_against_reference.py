"""Random cases, answered by the reference program of each minor and by the allocator here.

What may differ is what the reference answers differently from one time to the next: it picks the order of pools by chance
in its stable implementation and, before 1.36, in all. Then the answer here must be one of those it gives.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from typing import Any

import pytest
from tests.support import oracle
from tests.unit.allocator.generator import Generator
from tests.unit.allocator.vectors import ask, differs

PROGRAMS = {"1.37": "allocator", "1.36": "allocator/v036", "1.35": "allocator/v035", "1.34": "allocator/v034"}
CASES = {"1.37": 900, "1.36": 700, "1.35": 400, "1.34": 400}
# How often a case is asked again where the reference picks the order of pools by chance.
REPEATED = 60
# A search that the reference gives up or that takes more steps than this is not compared: few are that long.
LONGEST = 100_000
BATCH = 500


def reference(minor: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps({**case, "timeoutMillis": 1000}) + "\n" for case in cases)
    done = subprocess.run(
        [oracle(PROGRAMS[minor])], input=lines, capture_output=True, text=True, check=True, timeout=600
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_chance(minor: str, case: dict[str, Any], got: dict[str, Any]) -> bool:
    """Whether the reference gives this answer, too, when it is asked often enough."""
    return any(not differs(case, got, want) for want in reference(minor, [case] * REPEATED))


def too_long(answer: dict[str, Any]) -> bool:
    errors = [answer["error"], *(node["error"] for node in answer.get("nodes") or ())]
    given_up = any("oracle timeout" in error or error == "budget exhausted" for error in errors)
    return bool(given_up or answer.get("timedOut") or answer.get("allocateOneCalls", 0) > LONGEST)


def kind_of(answer: dict[str, Any]) -> str:
    nodes = answer.get("nodes") or [answer]
    if any(node["error"] for node in nodes):
        return "failing"
    return "fitting" if any(node["results"] for node in nodes) else "not fitting"


def compared(minor: str, seed: int, count: int) -> Counter[str]:
    """How many answers there were of each kind; fails with the case at the first that is not the reference's."""
    generator = Generator(seed, minor)
    kinds: Counter[str] = Counter()
    for first in range(0, count, BATCH):
        cases = [generator.case(number) for number in range(first, min(first + BATCH, count))]
        for case, want in zip(cases, reference(minor, cases), strict=True):
            assert "ORACLE" not in want["error"], want["error"]
            got = {} if too_long(want) else ask({**case, "kubeVersion": minor}, budget=2 * LONGEST)
            if not got or too_long(got):
                kinds["too long"] += 1
                continue
            if differs(case, got, want):
                if not by_chance(minor, case, got):
                    pytest.fail(f"Generator({seed}, {minor!r}).case({case['name']}): {case}\nwanted {want}\ngot {got}")
                kinds["by chance"] += 1
            kinds[kind_of(want)] += 1
    return kinds


def mixed(kinds: Counter[str], count: int) -> None:
    """The cases are worth something only if they are mixed."""
    assert kinds["fitting"] > count / 5, kinds
    assert kinds["not fitting"] > count / 8, kinds
    assert kinds["failing"] > count / 20, kinds
    assert kinds["too long"] <= count / 25, kinds  # the reference gives up by the wall clock, of a busy machine too
    assert kinds["by chance"] <= count / 20, kinds


def test_enough_is_compared() -> None:
    assert sum(CASES.values()) >= 2000


@pytest.mark.row(3, 25, 28, 47, 52, 57, 58, 59, 60, 61, 64, 65, 66, 193, how="oracle")
@pytest.mark.parametrize("minor", CASES)
def test_random_cases(minor: str) -> None:
    mixed(compared(minor, 1, CASES[minor]), CASES[minor])


@pytest.mark.parametrize(
    ("minor", "seed", "number"),
    [
        ("1.37", 3, 2898),  # a request that cannot be computed, for a device of which a share is chosen already
        ("1.34", 2, 70),  # an invalid pool whose devices have binding conditions
        ("1.35", 1, 426),  # the stable implementation: a pool with a slice too many and a device twice
    ],
)
def test_what_was_wrong_once(minor: str, seed: int, number: int) -> None:
    case = Generator(seed, minor).case(number)
    got = ask({**case, "kubeVersion": minor})
    assert by_chance(minor, case, got), got


@pytest.mark.soak
@pytest.mark.parametrize("minor", CASES)
def test_many_random_cases(minor: str) -> None:
    """Other cases each time. What fails names its seed."""
    kinds: Counter[str] = Counter()
    for _ in range(20):
        seed = random.SystemRandom().randrange(2, 10**9)
        print(f"{minor}: seed {seed}")
        kinds += compared(minor, seed, 2000)
    print(minor, dict(kinds))
    mixed(kinds, 40_000)
