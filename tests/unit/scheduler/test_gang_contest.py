"""Gangs that compete: orders, contention, deadlocks and what ends them, changes tried out; held to trying it all out."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.gang_objects import (
    GROUPS,
    RULES,
    Object,
    checked,
    cluster,
    job_set,
    object_,
    pod,
    set_labels,
    snapshot,
)

from regauge.base import InputError
from regauge.model import Rules
from regauge.scheduler import AddNodes, Delete, GangChange, GangWhatIf, ObjectName, gang_what_if


def tried(objects: list[Object], change: GangChange = GangChange(), ruling: Rules = RULES) -> GangWhatIf:  # noqa: B008
    return gang_what_if(snapshot(objects), ruling, change, random.Random(0))


def half_placed(name: str, node: str, devices: tuple[str, str]) -> list[Object]:
    """A JobSet of two pods, one of which has its two devices."""
    return [job_set(name, 2), *pod(f"{name}-w-0", metadata=set_labels(name), node=node, devices=devices)]


BOTH = [
    *cluster(4),
    *half_placed("a", "n0", ("gpu-0", "gpu-1")),
    *half_placed("b", "n0", ("gpu-2", "gpu-3")),
]


@pytest.mark.row(233, how="unit")
@pytest.mark.row(116, how="unit")
def test_a_deadlock_is_told_with_its_circle_and_what_ends_it() -> None:
    found = checked(BOTH)
    (stuck,) = found.deadlocks
    assert stuck.circle == ("JobSet team/a", "JobSet team/b")
    assert stuck.pause == "JobSet team/a" and stuck.goes == ("JobSet team/b", "JobSet team/a")
    assert 'kubectl patch jobset a -n team --type=merge -p \'{"spec":{"suspend":true}}\'' in stuck.advice
    assert all(one.advice == stuck.advice and one.partial and one.devices == 2 for one in found.gangs)


@pytest.mark.row(233, how="unit")
def test_what_is_recommended_frees_it() -> None:
    """The recommended gang taken away: the other is placed."""
    (stuck,) = checked(BOTH).deadlocks
    found = tried(BOTH, GangChange(without=(stuck.pause,)))
    assert [one.gang for one in found.after.turns if one.good] == ["JobSet team/b"]
    assert found.after.deadlocks == () and found.before.deadlocks


def test_three_in_a_circle_and_one_that_waits_for_several() -> None:
    """Each has two of six devices and needs two more: one that gives back frees the next, and so on."""
    three = [*cluster(6)]
    for name, devices in (("a", ("gpu-0", "gpu-1")), ("b", ("gpu-2", "gpu-3")), ("c", ("gpu-4", "gpu-5"))):
        three += half_placed(name, "n0", devices)
    (stuck,) = checked(three).deadlocks
    assert len(stuck.gangs) == 3 and len(stuck.goes) == 3 and stuck.goes[-1] == stuck.pause
    big = checked([*three, job_set("d", 3)]).gangs[-1]
    assert big.state == "cannot be placed" and big.jointly and len(big.blocked_by) == 3


def test_a_gang_that_holds_and_could_go_on_is_no_deadlock() -> None:
    found = checked([*cluster(6), *half_placed("a", "n0", ("gpu-0", "gpu-1"))])
    assert found.deadlocks == () and found.gangs[0].state == "can be placed"


def test_pods_of_no_gang_that_are_in_the_way_are_named() -> None:
    other = pod("notebook", node="n0", devices=("gpu-2", "gpu-3"))
    (found,) = checked([*cluster(4), *half_placed("a", "n0", ("gpu-0", "gpu-1")), *other]).gangs
    assert found.freed_by == ("team/notebook",) and "deleting pod team/notebook" in found.advice


@pytest.mark.row(233, how="unit")
def test_gangs_that_compete_in_order_and_at_once() -> None:
    """Devices for one of two gangs: in order the first gets them; pod by pod each gets half and neither runs."""
    found = tried([*cluster(4), job_set("a", 2), job_set("b", 2)]).after
    assert [one.outcome for one in found.turns] == ["is placed then", "waits"]
    assert [one.outcome for one in found.at_once] == ["holds and waits", "holds and waits"]
    assert found.deadlocks == () and found.at_once_deadlocks[0].circle == ("JobSet team/a", "JobSet team/b")
    pairs = {(one.taker, one.loser) for one in found.contention}
    assert pairs == {("JobSet team/a", "JobSet team/b"), ("JobSet team/b", "JobSet team/a")}


@pytest.mark.row(116, how="unit")
def test_groups_that_are_kept_together_leave_nothing_half_done() -> None:
    objects = cluster(4)
    for name in "ab":
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        objects.append(object_("scheduling.k8s.io/v1alpha2", "PodGroup", name, "team", spec=spec))
        objects += [one for n in range(2) for one in pod(f"{name}{n}", schedulingGroup={"podGroupName": name})]
    found = tried(objects, ruling=GROUPS).after
    assert [one.outcome for one in found.at_once] == ["is placed then", "waits"]
    assert found.at_once_deadlocks == ()
    loose = tried(objects).after
    assert [one.outcome for one in loose.at_once] == ["holds and waits", "holds and waits"]


def test_the_order_decides_how_many_run() -> None:
    """A gang of three and two of one: with the large one first only it runs."""
    objects = [*cluster(3), job_set("large", 3, "one"), job_set("s1", 1), job_set("s2", 1, "one")]
    found = tried(objects).after
    assert found.count == 1 and found.best_count == 2 and set(found.best[:2]) == {"JobSet team/s1", "JobSet team/s2"}
    first = tried(objects, GangChange(first=("team/s1", "s2")))
    assert first.after.count == 2 and first.gained == ("JobSet team/s1", "JobSet team/s2")
    assert first.lost == ("JobSet team/large",)
    by_priority = tried(objects, GangChange(priorities={"team/s1": 10, "s2": 5}))
    assert [one.gang for one in by_priority.after.turns][:2] == ["JobSet team/s1", "JobSet team/s2"]


def test_a_node_more_and_devices_more() -> None:
    objects = [*cluster(4), job_set("a", 2), job_set("b", 2)]
    assert tried(objects, GangChange(changes=(AddNodes("n0"),))).gained == ("JobSet team/b",)
    gone = tried(objects, GangChange(changes=(Delete(ObjectName("ResourceSlice", "", "n0")),)))
    assert gone.lost == ("JobSet team/a",)


def test_names_of_nothing_are_told_with_near_ones() -> None:
    with pytest.raises(InputError, match="is no gang"):
        tried(BOTH, GangChange(first=("team/c",)))
    objects = [*cluster(4), job_set("a", 2), object_("scheduling.x-k8s.io/v1alpha1", "PodGroup", "a", "team", spec={})]
    with pytest.raises(InputError, match="several gangs"):
        tried(objects, GangChange(without=("team/a",)))


# -- held to trying everything out

SIZES = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["one", "two"])), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=2), SIZES)
def test_the_best_order_is_the_best(devices: list[int], gangs: list[tuple[int, str]]) -> None:
    """Like pods and plain devices: a gang needs its number of devices, packed by node. Every order, by hand."""
    objects = [*cluster(*devices), *(job_set(f"g{n}", count, size) for n, (count, size) in enumerate(gangs))]
    found = tried(objects).after

    def placed(order: tuple[int, ...]) -> int:
        free, total = list(devices), 0
        for index in order:
            count, size = gangs[index]
            each = 1 if size == "one" else 2
            left = list(free)
            for _ in range(count):
                node = next((n for n, room in enumerate(left) if room >= each), None)
                if node is None:
                    break
                left[node] -= each
            else:
                free, total = left, total + 1
        return total

    if len(devices) == 1:
        assert found.best_count == max(placed(order) for order in permutations(range(len(gangs))))
    assert found.count <= found.best_count <= len(gangs)
    assert sum(one.good for one in found.turns) == found.count


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3)), min_size=2, max_size=3), st.integers(0, 2))
def test_deadlocks_are_those_of_the_bankers_rule(gangs: list[tuple[int, int]], free: int) -> None:
    """Gangs with `has` pods of one device placed and `more` to come, on one node with `free` devices left."""
    total = sum(has for has, _ in gangs) + free
    objects, taken = cluster(total), 0
    for index, (has, more) in enumerate(gangs):
        name = f"g{index}"
        objects.append(job_set(name, has + more, "one"))
        for n in range(has):
            objects += pod(f"{name}-w-{n}", metadata=set_labels(name), node="n0", devices=(f"gpu-{taken}",))
            taken += 1
    left, room = dict(enumerate(gangs)), free
    while any(more <= room for _, more in left.values()):
        index = next(index for index, (_, more) in left.items() if more <= room)
        room += left.pop(index)[0]
    found = checked(objects).deadlocks
    stuck = {int(name[-1]) for one in found for name in one.gangs}
    assert stuck <= set(left)
    able = all(
        more <= room + sum(had for i, (had, _) in left.items() if i != index) for index, (_, more) in left.items()
    )
    assert bool(found) is (len(left) > 1 and able) or not able
    for one in found:
        room_then = room + left[int(one.pause[-1])][0] if one.pause else room
        for name in one.goes:
            has, more = left[int(name[-1])]
            more += has if name == one.pause else 0
            assert more <= room_then, (one, room_then)
            room_then += has if name != one.pause else 0
