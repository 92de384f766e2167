"""Gangs placed together: as good as trying out everything, and better than one pod after the other."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import shared
from tests.unit.scheduler.making import DRIVER, RULES, device_class, node, pod, slice_of, state

from regauge.base import Where
from regauge.features import rules
from regauge.model import Document, Snapshot, view
from regauge.model.core import Pod, PodSchedulingGroup
from regauge.model.resource import ResourceClaim
from regauge.model.scheduling import PodGroup
from regauge.scheduler import State, as_stored, schedule_group
from regauge.scheduler.gang_search import place_together

One = tuple[int, frozenset[int]]
Wish = tuple[One, ...]
"""Alternatives in order, each for `count` devices out of those with certain numbers."""


def exactly(one: One) -> dict[str, Any]:
    count, numbers = one
    expression = " || ".join(f'device.attributes["{DRIVER}"].idx == {one}' for one in sorted(numbers)) or "false"
    return {
        "deviceClassName": DRIVER,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": expression}}],
    }


def asking(name: str, wish: Wish) -> tuple[Pod, ResourceClaim]:
    """A pod for devices by the first alternative that goes."""
    request: dict[str, Any] = {"name": "g", "exactly": exactly(wish[0])}
    if len(wish) > 1:
        request = {"name": "g", "firstAvailable": [{"name": f"a{n}", **exactly(one)} for n, one in enumerate(wish)]}
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [request]}},
    }
    claims = [{"name": "gpu", "resourceClaimName": name}]
    return pod(name, resourceClaims=claims), view(document, ResourceClaim)


def world(devices: list[int], wishes: list[Wish]) -> tuple[State, list[Pod]]:
    made = [asking(f"p{index}", wish) for index, wish in enumerate(wishes)]
    nodes: list[Any] = []
    for index, count in enumerate(devices):
        nodes += [node(f"n{index}"), slice_of(f"n{index}", count)]
    pods = [one for one, _ in made]
    return state(*nodes, device_class(), *(claim for _, claim in made), *pods, ruling=RULES), pods


def brute_force(devices: list[int], wishes: list[Wish], needed: int) -> bool:
    """Whether so many of the wishes come true together, by trying out all devices for all of them."""

    def most(left: list[Wish], free: frozenset[tuple[int, int]]) -> int:
        if not left:
            return 0
        best = most(left[1:], free)
        for count, numbers in left[0]:
            for there in range(len(devices)):
                fitting = sorted(one for one in free if one[0] == there and one[1] in numbers)
                for taken in combinations(fitting, count):
                    best = max(best, 1 + most(left[1:], free - set(taken)))
        return best

    return most(wishes, frozenset((n, d) for n, count in enumerate(devices) for d in range(count))) >= needed


ANY, FIRST = ((1, frozenset({0, 1})),), ((1, frozenset({0})),)
BIG_OR_SMALL = ((2, frozenset({0, 1})), (1, frozenset({0, 1})))


def test_the_order_of_unlike_pods_is_a_matter_of_chance() -> None:
    """If the one that takes any device comes first, it takes the only one that the other could have had."""
    made, pods = world([2], [ANY, FIRST])
    found = place_together(pods, 2, made, random.Random(1))
    assert found.fits and (found.lucky, found.drawn) == (1, 2) and not found.in_order and found.complete
    assert sorted(found.places) == [("p0", "n0"), ("p1", "n0")]
    assert found.why.startswith("pod p1: ")


def test_going_back_helps_where_no_order_does() -> None:
    """Either takes two devices as long as there are two, though one would do."""
    made, pods = world([2], [BIG_OR_SMALL, BIG_OR_SMALL])
    found = place_together(pods, 2, made, random.Random(1))
    assert found.fits and not found.lucky and found.complete
    assert sorted(found.places) == [("p0", "n0"), ("p1", "n0")]
    devices = [
        one.device for _, out in found.choices for item in out.allocations for one in item.allocation.devices.results
    ]
    assert sorted(devices) == ["gpu-0", "gpu-1"]


def test_a_higher_priority_goes_first_whatever_chance_says() -> None:
    made, pods = world([2], [ANY, FIRST])
    pods = [pods[0], replace(pods[1], spec=replace(pods[1].spec, priority=5))]
    made.put_pod(pods[1])
    assert place_together(pods, 2, made, random.Random(1)).in_order
    pods = [replace(pods[0], spec=replace(pods[0].spec, priority=9)), pods[1]]
    made.put_pod(pods[0])
    found = place_together(pods, 2, made, random.Random(1))
    assert found.fits and not found.lucky


def test_what_fits_in_order_needs_no_search() -> None:
    made, pods = world([2, 2], [((2, frozenset({0, 1})),)] * 2)
    found = place_together(pods, 2, made, random.Random(1), steps=0)
    assert found.fits and found.in_order and {place for _, place in found.places} == {"n0", "n1"}


def test_a_search_that_is_given_up_is_no_answer() -> None:
    made, pods = world([2], [BIG_OR_SMALL, BIG_OR_SMALL])
    found = place_together(pods, 2, made, random.Random(1), steps=0)
    assert not found.fits and not found.complete


def test_like_pods_that_lack_one_device_are_told_without_a_search() -> None:
    wish = ((8, frozenset(range(8))),)
    made, pods = world([8] * 20 + [7], [wish] * 21)
    found = place_together(pods, 21, made, random.Random(1), steps=0)
    assert not found.fits and found.complete and found.why == "at most 20 of 21 fit"
    made, pods = world([7], [wish])
    found = place_together(pods, 1, made, random.Random(1), steps=0)
    assert found.why.startswith("at most 0 of 1 fit: pod p0: ") and "cannot allocate all claims" in found.why


def test_the_worked_case() -> None:
    """Two pods, each for a whole card or a half: one by one the first takes it all, together each has a half."""
    documents = yaml.safe_load_all(
        (shared("cases/14-gang-greedy-choice-blocks-second-pod") / "cluster.yaml").read_text()
    )
    snapshot = as_stored(Snapshot.of(Document(one, Where("case", line)) for line, one in enumerate(documents)))
    made = State.of(snapshot, RULES)
    made.put_node(node("n1"))
    pods = [
        pod(f"gang-{n}", namespace="team-a", resourceClaims=[{"name": "c", "resourceClaimName": f"gang-{n}"}])
        for n in range(2)
    ]
    for one in pods:
        made.put_pod(one)
    found = place_together(pods, 2, made, random.Random(1))
    assert found.fits and not found.lucky and found.drawn
    assert found.why.startswith("pod gang-1: ") and "cannot allocate all claims" in found.why
    devices = [
        one.device for _, out in found.choices for item in out.allocations for one in item.allocation.devices.results
    ]
    assert sorted(devices) == ["half-a", "half-b"]


ONE = st.tuples(st.integers(1, 2), st.frozensets(st.integers(0, 2), min_size=1))
WISH = st.lists(ONE, min_size=1, max_size=2).map(tuple)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=2), st.lists(WISH, min_size=1, max_size=4), st.data())
def test_equal_to_trying_out_everything(devices: list[int], wishes: list[Wish], data: st.DataObject) -> None:
    needed = data.draw(st.integers(1, len(wishes)))
    made, pods = world(devices, wishes)
    found = place_together(pods, needed, made, random.Random(1), steps=100_000)
    assert found.complete
    assert found.fits is brute_force(devices, wishes, needed)
    assert not made.pending
    assert not any(made.is_assumed(("default", one.metadata.name)) for one in pods)
    assert not any(made.devices.is_flying(one.metadata.uid) for one in made.claims.values())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
    st.lists(WISH, min_size=2, max_size=3),
    st.data(),
    st.permutations(range(3)),
)
def test_the_scheduler_of_the_cluster_inside_does_what_is_told(
    devices: list[int], wishes: list[Wish], data: st.DataObject, order: list[int]
) -> None:
    """In any order of the pods: always, never, or either where chance is told to decide."""
    needed = data.draw(st.integers(1, len(wishes)))
    made, pods = world(devices, wishes)
    found = place_together(pods, needed, made, random.Random(1), steps=100_000)
    group = {"metadata": {"name": "pg", "namespace": "default", "uid": "uid-pg"}}
    spec = {"schedulingPolicy": {"gang": {"minCount": needed}}}
    made.rules = rules("1.36", {"GenericWorkload": True, "GangScheduling": True})
    made.put_group(view({**group, "spec": spec}, PodGroup))
    members = [
        replace(one, spec=replace(one.spec, scheduling_group=PodSchedulingGroup(pod_group_name="pg"))) for one in pods
    ]
    for one in members:
        made.put_pod(one)
    shuffled = [members[index] for index in order if index < len(members)]
    outcome = schedule_group(("default", "pg"), shuffled, made, random.Random(order[0]))
    assert outcome.fits or not found.in_order
    assert not outcome.fits or found.lucky
