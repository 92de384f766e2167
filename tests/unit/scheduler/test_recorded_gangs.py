"""What a real kube-scheduler did with random small gangs, several times each, against what is told of each of them.

The fixture is made by `python -m tests.unit.scheduler.record_gangs KUBECONFIG OUT`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from typing import Any

import pytest
from tests.support import ROOT
from tests.unit.scheduler.gang_objects import checked, snapshot

from regauge.features import rules
from regauge.scheduler import GangAnswer, Scheduled, State, as_stored, schedule_group

Object = dict[str, Any]
RECORDED = ROOT / "tests" / "fixtures" / "gangs" / "recorded.json"
ALWAYS = "can be placed"
BY_CHANCE = "may be placed, by chance"
MOST_SEEDS = 60
NEVER = ("can be placed together only", "cannot be placed")


@cache
def recorded() -> Object:
    found: Object = json.loads(RECORDED.read_text())
    return found


def names() -> list[str]:
    return [one["name"] for one in recorded()["gangs"]]


def told(name: str) -> tuple[GangAnswer, Object]:
    ruling = rules(recorded()["kubernetes"], recorded()["gates"])
    one = next(item for item in recorded()["gangs"] if item["name"] == name)
    (found,) = checked(one["objects"], ruling).gangs
    return found, one


@pytest.mark.row(77, how="real")
@pytest.mark.row(117, how="real")
@pytest.mark.row(233, how="real")
@pytest.mark.parametrize("name", names())
def test_a_real_scheduler_does_what_is_told(name: str) -> None:
    found, one = told(name)
    placed = [len(run["placed"]) >= found.least for run in one["runs"]]
    assert all(len(run["placed"]) in (0, *range(found.least, found.pods + 1)) for run in one["runs"]), (
        "a part was placed"
    )
    if found.state == ALWAYS:
        assert all(placed)
    elif found.state in NEVER:
        assert not any(placed)
    else:
        assert found.state == BY_CHANCE
    if found.topology:
        racks = {
            node["metadata"]["name"]: node["metadata"]["labels"] for node in one["objects"] if node["kind"] == "Node"
        }
        for run in one["runs"]:
            assert len({racks[node][found.topology] for node in run["placed"].values()}) <= 1


def test_every_answer_was_met_and_chance_went_both_ways() -> None:
    """There are gangs of each answer, and of those by chance some were placed in one run and not in another."""
    answers: Counter[str] = Counter()
    ways: set[bool] = set()
    for name in names():
        found, one = told(name)
        answers[found.state] += 1
        if found.state == BY_CHANCE:
            ways |= {len(run["placed"]) >= found.least for run in one["runs"]}
    assert len(names()) >= 20 and {ALWAYS, BY_CHANCE, *NEVER} <= set(answers)
    assert ways == {True, False}


def ours(one: Object, seed: int) -> tuple[frozenset[str], str]:
    """Where the scheduler inside puts the pods of a gang in one order, and what its group is told."""
    ruling = rules(recorded()["kubernetes"], recorded()["gates"])
    stored = as_stored(snapshot(one["objects"]))
    state = State.of(stored, ruling)
    chance = random.Random(seed)
    pods = sorted((info.pod for info in state.pods.values()), key=lambda _: chance.random())
    outcome = schedule_group(("default", "pg"), pods, state, chance)
    assert not outcome.error
    placed = frozenset(f"{pod.metadata.name}={item.node}" for pod, item in outcome.pods if isinstance(item, Scheduled))
    return (placed, "") if outcome.fits else (frozenset(), outcome.message)


@pytest.mark.row(117, how="real")
@pytest.mark.parametrize("name", names())
def test_the_scheduler_inside_does_what_the_real_one_did(name: str) -> None:
    """Every run of the real one is one that ours may have, too: the same pods in the same domain, or the same words."""
    _, one = told(name)
    missing = list(one["runs"])
    for seed in range(MOST_SEEDS):
        way = ours(one, seed)
        missing = [run for run in missing if not _is_like(one, way, run)]
        if not missing:
            break
    assert missing == []


def _is_like(one: Object, way: tuple[frozenset[str], str], run: Object) -> bool:
    placed, message = way
    if run["placed"]:
        return _same_domains(one, placed, run["placed"])
    return not placed and message == run["condition"]["message"]


def _same_domains(one: Object, placed: frozenset[str], run: Object) -> bool:
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in one["objects"] if node["kind"] == "Node"}
    mine = dict(item.split("=") for item in placed)
    label = "example.com/rack"
    return len(mine) >= len(run) and {labels[node].get(label) for node in mine.values()} == {
        labels[node].get(label) for node in run.values()
    }


@pytest.mark.row(233, how="real")
def test_what_chance_spoilt_once_does_not_get_better_by_waiting() -> None:
    """A real scheduler refused such gangs, was made to try again several times each, and refused them every time."""
    found = json.loads((RECORDED.parent / "retries.json").read_text())
    spoilt = [run for run in found["runs"] if not run["placed"][0]]
    again = [placed for run in spoilt for placed in run["placed"][1:]]
    assert len(spoilt) < len(found["runs"]), "chance went both ways"
    assert len(again) >= 40 and not any(again)
    refusals = [run["refusals"] for run in found["runs"]]
    tried = [later - earlier for earlier, later in zip([0, *refusals], refusals, strict=False)]
    assert all(count >= len(run["placed"]) for count, run in zip(tried, found["runs"], strict=True) if run in spoilt)
