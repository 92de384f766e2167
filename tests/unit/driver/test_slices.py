"""Slices: split, generations, and no write without need."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.base import InputError
from regauge.cdi import ContainerEdits
from regauge.driver import Device, Stack
from regauge.driver.description import CounterSet, Draw, NetworkPool
from regauge.driver.slices import Memory, Pool, Writes, contents, dropped, split, writes

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


def pieces(board: int, count: int, counters: int = 1) -> list[Device]:
    """The pieces of one board, and what they draw from."""
    drawn = CounterSet(f"board-{board}", {f"c{number}": "8" for number in range(counters)})
    draw = Draw(drawn, {f"c{number}": "1" for number in range(counters)})
    return [Device(f"b{board}-{index}", Stack.DRA, EDITS, draws=(draw,)) for index in range(count)]


def shape(slices: tuple[dict[str, Any], ...]) -> list[tuple[list[str], int]]:
    return [([one["name"] for one in part.get("sharedCounters", [])], len(part.get("devices", []))) for part in slices]


@pytest.mark.row(66, how="unit")
def test_counters_stand_beside_their_devices_where_the_version_wants_it() -> None:
    found = [*devices(2), *pieces(0, 4), *pieces(1, 4)]
    assert shape(contents(found, False)) == [([], 10), (["board-0", "board-1"], 0)]
    assert shape(contents(found, True)) == [([], 2), (["board-0", "board-1"], 8)]
    assert shape(contents([], True)) == [([], 0)]


@pytest.mark.parametrize(
    ("boards", "expected"),
    [
        ([(0, 100, 1), (1, 29, 1)], [(["board-0"], 100), (["board-1"], 29)]),
        ([(0, 1, 20), (1, 1, 13)], [(["board-0"], 1), (["board-1"], 1)]),
        ([(0, 32, 30), (1, 32, 2), (2, 1, 1)], [(["board-0", "board-1"], 64), (["board-2"], 1)]),
    ],
)
def test_a_board_is_never_in_two_slices(boards: list[tuple[int, int, int]], expected: list[Any]) -> None:
    found = [piece for board in boards for piece in pieces(*board)]
    assert shape(contents(found, True)) == expected


@pytest.mark.parametrize(
    ("count", "counters", "problem"),
    [
        (129, 1, "129 devices belong together by the counters of board-0"),
        (1, 33, "33 counters belong together"),
        (35, 30, "1050 counters drawn belong together"),
    ],
)
def test_a_board_that_no_slice_can_hold_is_told(count: int, counters: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        contents(pieces(0, count, counters), True)
    assert contents(pieces(0, count, counters), False)


def test_boards_that_share_a_piece_share_a_slice() -> None:
    left, right = pieces(0, 2), pieces(1, 2)
    both = Device("both", Stack.DRA, EDITS, draws=(*left[0].draws, *right[0].draws))
    ((sets, count),) = shape(contents([*left, *right, both], True))
    assert (sorted(sets), count) == (["board-0", "board-1"], 5)


@pytest.mark.parametrize(
    ("labels", "reach"),
    [
        ((), {"allNodes": True}),
        (
            (("fabric", "a"),),
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "fabric", "operator": "In", "values": ["a"]}]}]
                }
            },
        ),
    ],
)
def test_a_pool_that_several_nodes_reach(labels: Any, reach: dict[str, Any]) -> None:
    pool = Pool("gpu.example.com", "n1", "node-uid", NetworkPool("fabric/a", labels, "n1"))
    (made,) = writes(pool, devices(1), []).creates
    assert {name: made["spec"].get(name) for name in reach} == reach
    assert "nodeName" not in made["spec"]
    assert made["spec"]["pool"]["name"] == "fabric/a"
    assert made["metadata"]["name"] == "00000-gpu.example.com-fabric.a"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    assert pool.has(made)
    assert not POOL.has(made)
    assert not writes(pool, devices(1), [made])
