"""Random small clusters asked of the real scheduler, run whole on a client in memory: where the pod goes, or the sentence."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support import oracle
from tests.unit.scheduler.random_worlds import random_case, random_mapped_case

from regauge.features import rules
from regauge.model import Snapshot, read_documents, view
from regauge.model.core import Pod
from regauge.model.rules import Rules
from regauge.scheduler import Outcome, Scheduled, SchedulerError, State, Unschedulable, schedule

PROGRAMS = {"1.36": "scheduler", "1.37": "scheduler/v037"}
MOST_BY_CHANCE, ASKED_AGAIN = 6, 12
MAPPING = "DRANodeAllocatableResources"
EMPTY_SPECIAL_CLAIM = 252
POD_LEVEL_SCORE = 852
ERROR_WHILE_PREEMPTING = (2214, 2913)
SEEDS = [*range(100), EMPTY_SPECIAL_CLAIM, *ERROR_WHILE_PREEMPTING]
EMPTY = (
    'running PreBind plugin "DynamicResources": nil or empty request mappings, '
    "no update of pod default/p ExtendedResourceClaimStatus"
)


def asked(case: dict[str, Any], ruling: Rules) -> Outcome:
    """Our answer to a case."""
    whole = {"apiVersion": "v1", "kind": "List", "items": case["objects"]}
    state = State.of(Snapshot.of(read_documents(json.dumps(whole).encode(), "case")), ruling)
    pod = view(case["pod"], Pod)
    state.put_pod(pod)
    return schedule(pod, state, ruling, random.Random(1))


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


def difference_in_mapping(outcome: Outcome, real: dict[str, Any]) -> str:
    """In what our answer differs, that about the node's own resources too where the real scheduler had no choice."""
    found = difference(outcome, real)
    if found or "node" not in real or not isinstance(outcome, Scheduled) or len(outcome.ties) > 1:
        return found
    ours = json.loads(msgspec.json.encode(outcome.mapped))
    return "" if ours == (real.get("mapped") or []) else f"{ours} is not {real.get('mapped')}"


def answers_of(program: str, cases: list[dict[str, Any]], gates: str = "") -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(case) for case in cases)
    command = [str(oracle(program)), *([gates] if gates else [])]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=110, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["name"] for answer in answers] == [case["name"] for case in cases]
    return answers


def wrong_ones(
    compare: Callable[[Outcome, dict[str, Any]], str],
    cases: list[dict[str, Any]],
    outcomes: list[Outcome],
    program: str,
    gates: str = "",
) -> dict[str, str]:
    """The cases in which we differ. What upstream leaves to chance (which of several errors, which of equal victims) it
    has to answer as we do at least once when it is asked again."""
    found = {
        case["name"]: (text, case, outcome)
        for case, outcome, real in zip(cases, outcomes, answers_of(program, cases, gates))
        if (text := compare(outcome, real))
    }
    assert len(found) <= MOST_BY_CHANCE, {name: text for name, (text, _, _) in found.items()}
    return {
        name: text
        for name, (text, case, outcome) in found.items()
        if all(compare(outcome, again) for again in answers_of(program, [case] * ASKED_AGAIN, gates))
    }


@pytest.mark.row(3, how="oracle")
@pytest.mark.row(13, how="oracle")
@pytest.mark.parametrize("minor", PROGRAMS)
def test_random_worlds(minor: str) -> None:
    cases = [random_case(seed) for seed in SEEDS]
    outcomes = [asked(case, rules(minor)) for case in cases]
    assert sum(isinstance(outcome, Scheduled) for outcome in outcomes) > 20
    assert sum(isinstance(outcome, Unschedulable) for outcome in outcomes) > 20
    assert wrong_ones(difference, cases, outcomes, PROGRAMS[minor]) == {}


@pytest.mark.row(3, how="oracle")
def test_random_worlds_where_devices_take_of_their_node() -> None:
    cases = [random_mapped_case(seed) for seed in (*range(200), POD_LEVEL_SCORE)]
    ruling = rules("1.37", {MAPPING: True})
    outcomes = [asked(case, ruling) for case in cases]
    assert wrong_ones(difference_in_mapping, cases, outcomes, PROGRAMS["1.37"], f"{MAPPING}=true") == {}
    mapped = [outcome for outcome in outcomes if isinstance(outcome, Scheduled) and outcome.mapped]
    refused = [
        refusal
        for outcome in outcomes
        if isinstance(outcome, Unschedulable)
        for refusal in outcome.refusals.values()
        if refusal.details
    ]
    assert len(mapped) > 15 and len(refused) > 10
