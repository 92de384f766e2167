"""Slices: split, generations, and no write without need."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.cdi import ContainerEdits
from regauge.driver import Device, Stack
from regauge.driver.slices import Memory, Pool, Writes, dropped, split, writes

POOL = Pool("gpu.example.com", "n1", "node-uid")
EDITS = ContainerEdits(env=("A=1",))


def devices(count: int, **parts: Any) -> list[Device]:
    return [Device(f"gpu-{i}", Stack.DRA, EDITS, **parts) for i in range(count)]


def stored(plan: Writes, before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What an API server holds after the writes."""
    held = {one["metadata"]["name"]: one for one in before}
    for one in (*plan.creates, *plan.updates):
        held[one["metadata"]["name"]] = one
    for one in plan.deletes:
        del held[one["metadata"]["name"]]
    return [held[name] for name in sorted(held)]


@pytest.mark.row(43)
@pytest.mark.parametrize(
    ("count", "parts", "sizes"),
    [
        (0, {}, [0]),
        (1, {}, [1]),
        (128, {}, [128]),
        (129, {}, [128, 1]),
        (300, {}, [128, 128, 44]),
        (130, {"attributes": {"links": {"strings": ["a"]}}}, [64, 64, 2]),
    ],
)
def test_split_at_what_a_slice_may_hold(count: int, parts: dict[str, Any], sizes: list[int]) -> None:
    plan = writes(POOL, devices(count, **parts), [])
    assert [len(one["spec"].get("devices", [])) for one in plan.creates] == sizes
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in plan.creates} == {len(sizes)}
    names = [device["name"] for one in stored(plan, []) for device in one["spec"].get("devices", [])]
    assert names == [f"gpu-{i}" for i in range(count)], "the order of names is the order of the devices"


def test_only_a_slice_with_an_advanced_device_is_smaller() -> None:
    plain = [{"name": f"p{i}"} for i in range(200)]
    tainted = [{"name": "t", "taints": [{"key": "k", "effect": "NoSchedule"}]}]
    assert [len(part) for part in split([*plain, *tainted])] == [128, 64, 9]


def test_the_same_again_writes_nothing() -> None:
    there = stored(writes(POOL, devices(200), []), [])
    assert not writes(POOL, devices(200), there)
    assert writes(POOL, devices(200), there).generation == 1


@given(st.lists(st.integers(0, 400), min_size=1, max_size=5))
def test_after_the_writes_the_pool_is_whole_and_newer(counts: list[int]) -> None:
    there: list[dict[str, Any]] = []
    generation = 0
    last = -1
    for count in counts:
        plan = writes(POOL, devices(count), there)
        assert bool(plan) == (count != last)
        there = stored(plan, there)
        generations = {one["spec"]["pool"]["generation"] for one in there}
        assert len(generations) == 1
        assert generations.pop() == plan.generation == generation + (count != last)
        assert {one["spec"]["pool"]["resourceSliceCount"] for one in there} == {len(there)}
        assert sum(len(one["spec"].get("devices", [])) for one in there) == count
        generation, last = plan.generation, count


def test_slices_that_were_deleted_come_back_newer_than_ever() -> None:
    plan = writes(POOL, devices(2), [], Memory(generation=7))
    assert plan.generation == 8


def test_one_of_two_slices_missing_renews_both() -> None:
    there = stored(writes(POOL, devices(200), []), [])
    plan = writes(POOL, devices(200), there[:1])
    assert (len(plan.creates), len(plan.updates), plan.generation) == (1, 1, 2)


def test_another_node_of_the_same_name_takes_the_slices_over() -> None:
    there = stored(writes(POOL, devices(2), []), [])
    plan = writes(Pool("gpu.example.com", "n1", "new-uid"), devices(2), there)
    assert plan.updates[0]["metadata"]["ownerReferences"][0]["uid"] == "new-uid"


def test_unknown_fields_of_a_slice_survive_an_update() -> None:
    there = stored(writes(POOL, devices(2), []), [])
    there[0]["metadata"]["labels"] = {"keep": "me"}
    plan = writes(POOL, devices(3), there)
    assert plan.updates[0]["metadata"]["labels"] == {"keep": "me"}


def test_dropped_fields_are_named() -> None:
    sent = {"devices": [{"name": "a", "allowMultipleAllocations": True, "attributes": {"x": {"strings": ["y"]}}}]}
    kept = {"devices": [{"name": "a", "attributes": {"x": {}}}]}
    assert dropped(sent, kept) == ("devices[].allowMultipleAllocations", "devices[].attributes.x.strings")
    assert dropped(sent, sent) == ()
