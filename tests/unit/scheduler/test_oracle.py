"""Random small clusters asked of the real scheduler, run whole on a client in memory: where the pod goes, or the sentence."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest
from tests.support import oracle
from tests.unit.scheduler.random_worlds import random_case

from regauge.features import rules
from regauge.model import Snapshot, read_documents, view
from regauge.model.core import Pod
from regauge.scheduler import Outcome, Scheduled, SchedulerError, State, Unschedulable, schedule

RULES = rules("1.36")
EMPTY_SPECIAL_CLAIM = 252
ERROR_WHILE_PREEMPTING = (2214, 2913)
SEEDS = [*range(100), EMPTY_SPECIAL_CLAIM, *ERROR_WHILE_PREEMPTING]
EMPTY = (
    'running PreBind plugin "DynamicResources": nil or empty request mappings, '
    "no update of pod default/p ExtendedResourceClaimStatus"
)


def asked(case: dict[str, Any]) -> Outcome:
    """Our answer to a case."""
    whole = {"apiVersion": "v1", "kind": "List", "items": case["objects"]}
    state = State.of(Snapshot.of(read_documents(json.dumps(whole).encode(), "case")), RULES)
    pod = view(case["pod"], Pod)
    state.put_pod(pod)
    return schedule(pod, state, RULES, random.Random(1))


def difference(outcome: Outcome, real: dict[str, Any]) -> str:
    """In what our answer differs from the real one. Among equals the real scheduler chooses by chance."""
    match outcome:
        case Unschedulable():
            return "" if real.get("message") == outcome.message else f"{outcome.message} is not {real}"
        case SchedulerError():
            return "" if real.get("error") == outcome.message else f"{outcome.message} is not {real}"
        case Scheduled() if outcome.extended is not None and not outcome.extended.requests:
            return "" if real.get("error") == EMPTY else f"{EMPTY} is not {real}"
        case Scheduled():
            if real.get("node") not in outcome.ties:
                return f"{outcome.ties} of {outcome.scores} have not {real}"
            ours, theirs = new_devices(outcome), set(real.get("devices") or ())
            return f"{ours} is not among {theirs}" if len(outcome.ties) == 1 and not ours <= theirs else ""
    return "" if real.get("held") else f"{outcome} is not {real}"


def new_devices(outcome: Scheduled) -> set[str]:
    return {
        f"{result.request}/{result.driver}/{result.pool}/{result.device}"
        for item in outcome.allocations
        for result in item.allocation.devices.results
    }


@pytest.mark.row(3, how="oracle")
@pytest.mark.row(13, how="oracle")
def test_random_worlds() -> None:
    program = oracle("scheduler")
    cases = [random_case(seed) for seed in SEEDS]
    lines = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, timeout=110, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["name"] for answer in answers] == [case["name"] for case in cases]
    outcomes = [asked(case) for case in cases]
    assert sum(isinstance(outcome, Scheduled) for outcome in outcomes) > 20
    assert sum(isinstance(outcome, Unschedulable) for outcome in outcomes) > 20
    wrong = {
        case["name"]: found
        for case, outcome, real in zip(cases, outcomes, answers)
        if (found := difference(outcome, real))
    }
    assert wrong == {}
