"""Ordinary claims go the short way on many nodes, and it leads where the search of each node alone leads."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.allocator.objects import DRIVER, allocated, allocator, claim, node, request, slice_of

from regauge.allocator import Abort, Fit, NoFit, Outcome, as_document
from regauge.allocator.straight import Straight
from regauge.features import rules
from regauge.model import Rules
from regauge.model.core import Node
from regauge.model.resource import AllocationResult, ResourceClaim, ResourceSlice

Object = dict[str, Any]
MODELS, ROOTS, VERSIONS = ("a100", "h100", "b200"), ("r0", "r1", "r2"), ("1.2.3", "1.10.0", "1.2.3")
OF_DRIVER = f'device.attributes["{DRIVER}"]'
EXPRESSIONS = (
    None,
    "true",
    f'{OF_DRIVER}.model == "h100"',
    f'{OF_DRIVER}.model != "h100"',
    f"{OF_DRIVER}.index > 2",
    f'{OF_DRIVER}.version.isGreaterThan(semver("1.3.0"))',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("60Gi")) > 0',
    f'"gone" in {OF_DRIVER} || {OF_DRIVER}.index == 1',
    f"{OF_DRIVER}.gone == 1",
    f"{OF_DRIVER}.?index.orValue(3) == 3",
)
FULL = ("root", "model", "index", "version", "gone", "several")


def everything_on(minor: str) -> Rules:
    """The rules of a minor with everything on that its allocator knows."""
    found = rules(minor)
    features = frozenset(one for variant in found.allocator_variants for one in variant.supports)
    return replace(found, allocator_features=features, gates={**found.gates, "DRAListTypeAttributes": True})


def some_device(chance: random.Random, index: int, odd: float) -> Object:
    attributes: Object = {
        "model": {"string": chance.choice(MODELS)},
        "index": {"int": index},
        "version": {"version": chance.choice(VERSIONS)},
        chance.choice(("root", f"{DRIVER}/root")): {"string": chance.choice(ROOTS)},
    }
    if chance.random() < odd:
        attributes["several"] = {"strings": chance.sample(ROOTS, 2)}
    if chance.random() < odd / 2:
        attributes[chance.choice(("root", "index"))] = chance.choice(({}, {"version": "v1"}, {"bool": True}))
    if chance.random() < odd:
        attributes.pop(chance.choice(list(attributes)))
    found: Object = {"name": f"d{index}", "attributes": attributes}
    found["capacity"] = {"memory": {"value": chance.choice(("40Gi", "80Gi"))}}
    if chance.random() < odd:
        found["capacity"]["memory"]["requestPolicy"] = {"default": "100Gi" if chance.random() < 0.5 else "1Gi"}
    if chance.random() < 0.1:
        found["taints"] = [{"key": "sick", "effect": chance.choice(("NoSchedule", "NoExecute", "None"))}]
    if chance.random() < odd:
        found["bindingConditions"] = ["ready"]
    return found


def some_estate(chance: random.Random, nodes: int) -> tuple[list[Node], list[ResourceSlice], list[ResourceClaim]]:
    slices, held = [], []
    for number in range(nodes):
        name, odd = f"n{number:02d}", chance.choice((0, 0, 0.1))
        offered = [some_device(chance, index, odd) for index in range(chance.randrange(1, 9))]
        held += [allocated(f"{name}-{one['name']}", (name, one["name"])) for one in offered if chance.random() < 0.3]
        parts = [offered] if chance.random() < 0.7 else [offered[:2], offered[2:]]
        slices += [
            slice_of(name, part, count=len(parts) + (chance.random() < 0.05), object=f"{name}-{place}")
            for place, part in enumerate(parts)
        ]
    return [node(f"n{number:02d}") for number in range(nodes)], slices, held


def some_claim(chance: random.Random, name: str) -> ResourceClaim:
    asked = []
    for number in range(chance.choice((1, 1, 2, 3))):
        more: Object = {}
        if chance.random() < 0.2:
            more["tolerations"] = [{"key": "sick", "operator": "Exists"}]
        if chance.random() < 0.2:
            more["capacity"] = {"requests": {"memory": chance.choice(("50Gi", "80Gi"))}}
        asked.append(request(f"r{number}", chance.choice((0, 1, 1, 2, 3, 4)), chance.choice(EXPRESSIONS), **more))
    constraints = []
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        kind = chance.choice(("matchAttribute", "matchAttribute", "matchAttribute", "distinctAttribute"))
        names = [] if chance.random() < 0.6 else [chance.choice(asked)["name"]]
        constraints.append({kind: f"{DRIVER}/{chance.choice(FULL)}", "requests": names})
    return claim(name, *asked, constraints=constraints)


def told(outcome: Outcome) -> object:
    match outcome:
        case Fit(results=results):
            return [as_document(one) for one in results]
        case Abort(text=text, on_node=on_node):
            return text, on_node
    return type(outcome).__name__


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize("whole", [False, True], ids=["defaults", "everything on"])
def test_the_short_way_and_the_search_agree(minor: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[object] = []
    way = Straight.on

    def watched(self: Straight, *asked: Any) -> object:
        went.append(way(self, *asked))
        return went[-1]

    monkeypatch.setattr(Straight, "on", watched)  # type: ignore[arg-type]  # a function in place of a method
    chance, ruling = random.Random(f"{minor} {whole}"), everything_on(minor) if whole else rules(minor)
    for _ in range(12):
        nodes, slices, held = some_estate(chance, 12)
        asked = allocator(slices, held, ruling)
        for number in range(8):
            claims = [some_claim(chance, f"c{number}-{place}") for place in range(chance.choice((1, 1, 2)))]
            together = asked.allocate_nodes(nodes, claims)
            for one in nodes:
                assert told(together[one.metadata.name]) == told(asked.allocate(one, claims)), (one, claims)
    ended = [one for one in went if one is not None]
    assert len(ended) > 300 and sum(isinstance(one, NoFit) for one in ended) > 100


def test_asked_again_after_other_use_the_answers_are_those_of_a_new_allocator() -> None:
    chance = random.Random(5)
    nodes, slices, held = some_estate(chance, 12)
    whole = allocator(slices, held)
    usage, taken = whole.usage, list[tuple[ResourceClaim, AllocationResult]]()
    for number in range(60):
        asked = claim(f"c{number}", request("r", 1 + number % 2))
        again = whole.using(usage).allocate_nodes(nodes, [asked])
        fresh = allocator(slices, usage).allocate_nodes(nodes, [asked])
        assert {name: told(one) for name, one in again.items()} == {name: told(one) for name, one in fresh.items()}
        fitting = [one for one in again.values() if isinstance(one, Fit)]
        if fitting and chance.random() < 0.7:
            taken.append((asked, chance.choice(fitting).results[0]))
            usage = usage.add(*taken[-1])
        elif taken:
            usage = usage.remove(*taken.pop(chance.randrange(len(taken))))
        if number == 30:
            nodes = nodes[3:]
