"""Many nodes at once give what each node gives alone."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from tests.unit.allocator.objects import DRIVER, allocated, allocator, claim, device, node, request, slice_of
from tests.unit.allocator.vectors import ask, differs, pairs

from regauge.allocator import Abort, Exhausted, Fit, NoFit, Outcome, as_document, decisions, solving
from regauge.model.core import Node
from regauge.model.resource import ResourceClaim, ResourceSlice

MODELS = ("a100", "h100", "b200")


def estate(nodes: int, seed: int) -> tuple[list[Node], list[ResourceSlice], list[ResourceClaim]]:
    """Nodes of eight devices, each with its own UUID; some in use, some tainted, some pools incomplete."""
    chance = random.Random(seed)
    slices, held = [], []
    for number in range(nodes):
        name = f"n{number:03d}"
        offered = []
        for index in range(8):
            one = device(f"d{index}", uuid=f"{name}-{index}", model=chance.choice(MODELS), root=f"{name}-r{index // 4}")
            if chance.random() < 0.1:
                one["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
            offered.append(one)
            if chance.random() < 0.3:
                held.append(allocated(f"c-{name}-{index}", (name, f"d{index}")))
        where = {"nodeName": name} if number % 3 else {"nodeSelector": _only(name)}
        slices.append(slice_of(name, offered, count=1 + (chance.random() < 0.05), **where))
    return [node(f"n{number:03d}", host=f"n{number:03d}") for number in range(nodes)], slices, held


def _only(name: str) -> dict[str, object]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "In", "values": [name]}]}]}


def told(outcome: Outcome) -> object:
    match outcome:
        case Fit(results=results):
            return [as_document(one) for one in results]
        case Abort(text=text, on_node=on_node):
            return text, on_node
        case NoFit() | Exhausted():
            return type(outcome).__name__
    return outcome


CLAIMS = {
    "one": [claim("c", request())],
    "four of a model": [claim("c", request(count=4, expression=f'device.attributes["{DRIVER}"].model == "h100"'))],
    "one UUID": [claim("c", request(expression=f'device.attributes["{DRIVER}"].uuid == "n007-3"'))],
    "two at one root": [claim("c", request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])],
    "two models": [claim("c", request(count=2), constraints=[{"distinctAttribute": f"{DRIVER}/model"}])],
    "all": [claim("c", request(count=None))],
    "an error on some": [claim("c", request(expression=f'device.attributes["{DRIVER}"].uuid == "n007-3" || 1/0 == 0'))],
    "two claims": [claim("c", request(count=2)), claim("d", request(count=3))],
    "a broken claim": [claim("c", {"name": "r", "exactly": {"deviceClassName": "none", "allocationMode": "All"}})],
}


@pytest.mark.parametrize("asked", CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_many_nodes_answer_as_each_does_alone(asked: list[ResourceClaim], seed: int) -> None:
    nodes, slices, held = estate(60, seed)
    whole = allocator(slices, held)
    together = whole.allocate_nodes(nodes, asked)
    assert list(together) == [one.metadata.name for one in nodes]
    for one in nodes:
        assert told(together[one.metadata.name]) == told(whole.allocate(one, asked)), one.metadata.name


def test_nodes_that_answer_alike_share_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []

    def counting(table: object, budget: int) -> object:
        searches.append(table)
        return solving.find(table, budget)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(decisions, "find", counting)
    nodes, slices, _ = estate(60, 1)
    outcomes = allocator(slices).allocate_nodes(nodes, CLAIMS["two at one root"])
    assert sum(isinstance(one, Fit) for one in outcomes.values()) > 40
    assert len(searches) < 20


def test_results_are_written_when_they_are_asked_for() -> None:
    nodes, slices, _ = estate(2, 1)
    outcome = allocator(slices).allocate_nodes(nodes, CLAIMS["one"])["n001"]
    assert isinstance(outcome, Fit)
    assert outcome.results is outcome.results
    assert outcome.results[0].devices.results[0].pool == "n001"


def test_claims_that_ask_for_the_same_share_decisions_but_not_their_names() -> None:
    nodes, slices, held = estate(12, 1)
    whole = allocator(slices, held)
    broken = {"name": "r", "exactly": {"deviceClassName": "none", "allocationMode": "All"}}
    for name in ("first", "second"):
        outcome = whole.allocate_nodes(nodes, [claim(name, broken)])["n001"]
        assert isinstance(outcome, Abort)
        assert outcome.text.startswith(f"claim team/{name}, request r: could not retrieve")
        short = whole.allocate_nodes(nodes, [claim(name, request(count=9))])["n001"]
        assert isinstance(short, NoFit)
        assert short.bound is not None
        assert short.bound.claim == f"team/{name}"


def test_one_claim_after_the_other() -> None:
    """Each decision sees what the ones before it took, and nothing is decided anew where nothing changed."""
    nodes, slices, _ = estate(10, 4)
    whole = allocator(slices)
    usage, before = whole.usage, {}
    for number in range(30):
        asked = claim(f"c{number}", request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
        here = whole.using(usage)
        outcomes = here.allocate_nodes(nodes, [asked])
        kept = [name for name, one in outcomes.items() if before.get(name) is one]
        assert len(kept) >= (9 if number else 0)
        fresh = allocator(slices, usage)
        assert {name: told(one) for name, one in outcomes.items()} == {
            name: told(one) for name, one in fresh.allocate_nodes(nodes, [asked]).items()
        }
        fitting = [(name, one) for name, one in outcomes.items() if isinstance(one, Fit)]
        if not fitting:
            break
        usage = usage.add(asked, fitting[0][1].results[0])
        before = outcomes
    assert number > 10


@pytest.mark.parametrize(("minor", "name"), [("1.37", "random"), ("1.36", "random36"), ("1.37", "quirks")])
def test_the_way_for_many_nodes_gives_upstreams_answers_too(minor: str, name: str) -> None:
    wrong = []
    for case, want in islice(pairs(name, minor), 1, None, 2):
        got = ask({**case, "nodes": [case["node"]]})
        told_of_node = {**got, **got["nodes"][0], "nodes": None}
        if differs(case, told_of_node, {**want, "errorOnNode": False}):
            wrong.append(want["name"])
    assert wrong == []
