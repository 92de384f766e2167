"""A case takes no longer than its `timeoutMillis`, by the clock that is passed in."""

from __future__ import annotations

import json
import random
import subprocess
import time
from typing import Any

import pytest
from bench._cases import worst
from tests.support import oracle
from tests.unit.allocator.vectors import StillClock, ask, selectors

from regauge.allocator.conformance import answer
from regauge.cli.conformance import Program, answer_line

ABORTED = "filter operation aborted: oracle timeout"
# The mistakes of 1.34 let no search be guided: this one would take ten million steps, which are minutes.
LONG: dict[str, Any] = {**dict(worst())["21 of 20"], "kubeVersion": "1.34"}
NODE = LONG["nodes"][0]
ON_ONE = {**{key: value for key, value in LONG.items() if key != "nodes"}, "node": NODE}


class TickingClock(StillClock):
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic_s(self) -> float:
        self.seconds += 1
        return self.seconds


def timed(case: dict[str, Any], budget: int = 10_000_000, **more: float) -> dict[str, Any]:
    return answer(case, TickingClock(), random.Random(1), selectors=selectors, budget=budget, **more)


def test_the_time_of_a_case_ends_its_search() -> None:
    got = timed({**ON_ONE, "timeoutMillis": 20_000})
    assert (got["results"], got["error"], got["timedOut"]) == (None, ABORTED, True)
    assert 64 * 15 < got["allocateOneCalls"] < 64 * 25


def test_a_case_without_a_time_of_its_own_has_the_caller_s() -> None:
    assert timed(ON_ONE, timeout_s=20)["error"] == ABORTED
    for none in (0, -1, None):
        assert timed({**ON_ONE, "timeoutMillis": none}, timeout_s=20)["error"] == ABORTED
    assert timed({**ON_ONE, "timeoutMillis": 10**400}, budget=500, timeout_s=20)["error"] == "budget exhausted"


def test_all_nodes_of_a_case_share_its_time() -> None:
    nodes = [NODE, {"metadata": {**NODE["metadata"], "name": "other"}}]
    got = timed({**LONG, "nodes": nodes, "timeoutMillis": 20_000})
    assert {one["node"]: one["error"] for one in got["nodes"]} == {NODE["metadata"]["name"]: ABORTED, "other": ""}


def test_a_case_that_ends_in_time_has_its_answer() -> None:
    case = dict(worst())["17 of 16"]
    assert ask({**case, "timeoutMillis": 1}) == ask(case)


@pytest.mark.row(63, how="oracle")
def test_the_reference_says_it_in_the_same_words() -> None:
    """On the newest minor, where this project needs no such time."""
    case = {key: value for key, value in {**ON_ONE, "timeoutMillis": 20}.items() if key != "kubeVersion"}
    done = subprocess.run(
        [oracle("allocator")], input=json.dumps(case) + "\n", capture_output=True, text=True, check=True, timeout=60
    )
    told = json.loads(done.stdout)
    assert (told["error"], told["timedOut"]) == (ABORTED, True)


def test_the_command_keeps_it_by_the_machine_s_clock() -> None:
    started_s = time.monotonic()
    code, line = answer_line(Program.allocator, (1, json.dumps({**ON_ONE, "timeoutMillis": 300}).encode()))
    assert (code, json.loads(line)["error"]) == (0, ABORTED)
    assert time.monotonic() - started_s < 30
