"""Worst cases have the reference's answers in few steps; how long things take is held against limits in long runs only."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import time
from typing import Any

import pytest
from bench._cases import many_nodes, worst
from bench.allocator import ONE, RATE, TOTAL, WORST_S, many_rows, one_after_the_other, one_rows
from tests.support import oracle
from tests.unit.allocator.vectors import StillClock, ask, selectors

from regauge.allocator import solving
from regauge.allocator.conformance import answer

SLACK = 3
PATIENCE_MS = 400
CASES = dict(worst())


class RealClock(StillClock):
    """A clock that measures."""

    def monotonic_s(self) -> float:
        return time.perf_counter()


def question(what: str) -> dict[str, Any]:
    node, *_ = CASES[what]["nodes"]
    return {**{key: value for key, value in CASES[what].items() if key != "nodes"}, "node": node}


@pytest.mark.row(63, how="oracle")
def test_worst_cases_have_the_answers_of_the_reference_where_it_ends() -> None:
    lines = "".join(json.dumps({**question(what), "timeoutMillis": PATIENCE_MS}) + "\n" for what in CASES)
    done = subprocess.run([oracle("allocator")], input=lines, capture_output=True, text=True, check=True, timeout=110)
    ended = 0
    for what, line in zip(CASES, done.stdout.splitlines(), strict=True):
        want, got = json.loads(line), ask(question(what))
        assert got["results"] is None and got["error"] == "" and got["variant"] == want["variant"], what
        if not want.get("timedOut"):
            ended += 1
            assert (want["results"], want["error"]) == (None, ""), what
    assert ended >= 3


@pytest.mark.row(63, how="unit")
@pytest.mark.parametrize("what", CASES)
def test_worst_cases_take_few_steps(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where counting alone does not tell: upstream takes up to millions of such steps."""
    monkeypatch.setattr(solving, "first_bound", lambda *_: None)
    got = ask(question(what))
    assert (got["results"], got["error"]) == (None, "")
    assert got["allocateOneCalls"] < 8000


@pytest.mark.parametrize(
    "what", ["claim of 4", "2 at one PCIe root", "one UUID", "nodes by selector", "one pool of all nodes"]
)
def test_many_nodes_have_the_answers_of_the_reference(what: str) -> None:
    asked = dict(many_nodes(60))[what]
    done = subprocess.run(
        [oracle("allocator")], input=json.dumps(asked) + "\n", capture_output=True, text=True, check=True, timeout=60
    )
    ours, theirs = ask(asked)["nodes"], json.loads(done.stdout)["nodes"]
    assert [(one["results"], one["error"]) for one in ours] == [(one["results"], one["error"]) for one in theirs]
    assert any(one["results"] for one in ours)


@pytest.mark.soak
@pytest.mark.parametrize("what", CASES)
def test_worst_cases_are_quick(what: str) -> None:
    ask(question(what))
    clock = RealClock()
    times = [answer(question(what), clock, random.Random(1), selectors=selectors)["micros"] / 1e6 for _ in range(5)]
    assert statistics.median(times) < SLACK * WORST_S


@pytest.mark.soak
def test_one_claim_after_the_other_is_quick() -> None:
    assert one_after_the_other(1000, 1000) < SLACK / RATE


@pytest.mark.soak
def test_a_thousand_nodes_and_one_node_are_quick_beside_the_reference() -> None:
    oracle("allocator")
    rows = [row for row in many_rows(1000, 1) if row.what.startswith("**")] + list(one_rows(1))
    assert len(rows) > 4
    for row in rows:
        limit = ONE if row.what.startswith("one node") else TOTAL
        assert row.peer_s is not None and row.ours_s < SLACK * limit * row.peer_s, row
