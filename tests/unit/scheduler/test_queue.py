"""The waiting pods: who is next, how long they back off, what wakes them."""

from __future__ import annotations

import pytest

from regauge.cluster.scheduling_queue import LONGEST_UNSCHEDULABLE_S, Place, SchedulingQueue, Waiting

PLUGIN = frozenset({"DynamicResources"})


def nobody(_pod: Waiting) -> str:
    return ""


def key(name: str) -> tuple[str, str]:
    return ("default", name)


def with_pods(*names: str, priorities: dict[str, int] | None = None) -> SchedulingQueue:
    queue = SchedulingQueue()
    for name in names:
        queue.add(key(name), f"uid-{name}", (priorities or {}).get(name, 0), 0.0)
    return queue


def popped(queue: SchedulingQueue) -> list[str]:
    names = []
    while (pod := queue.pop()) is not None:
        names.append(pod.key[1])
    return names


def test_priority_then_first_come() -> None:
    assert popped(with_pods("a", "b", "c", priorities={"c": 5})) == ["c", "a", "b"]


def test_a_refused_pod_waits_for_a_change_that_concerns_it() -> None:
    queue = with_pods("a")
    pod = queue.pop()
    assert pod is not None
    queue.refused(pod, PLUGIN, 100.0)
    assert queue.pop() is None
    queue.wake(lambda waiting: False, 101.0, nobody)
    assert queue.pop() is None
    queue.wake(lambda waiting: waiting.plugins == PLUGIN, 101.0, nobody)
    assert pod.place is Place.BACKOFF
    # A pod that backs off after a refusal does not wait while nothing else is to be done.
    assert popped(queue) == ["a"]


def test_ready_pods_go_before_those_that_back_off() -> None:
    queue = with_pods("a", "b")
    pod = queue.pop()
    assert pod is not None
    queue.refused(pod, PLUGIN, 100.0)
    queue.wake(lambda waiting: True, 100.0, nobody)
    assert popped(queue) == ["b", "a"]


@pytest.mark.row(280)
def test_errors_are_tried_again_after_about_2_3_5_9_and_11_seconds() -> None:
    """The times between attempts that a real scheduler needed for a claim with too many users."""
    queue, now_s, waits = with_pods("a"), 100.4, []
    pod = queue.pop()
    for _ in range(6):
        assert pod is not None
        queue.failed(pod, now_s)
        due_s = queue.next_s()
        assert due_s is not None
        queue.tick(due_s - 0.01, nobody)
        assert queue.pop() is None
        queue.tick(due_s, nobody)
        pod = queue.pop()
        waits.append(round(due_s - now_s))
        now_s = due_s
    assert waits == [2, 3, 5, 9, 11, 11]


def test_nobody_stays_unschedulable_for_ever() -> None:
    queue = with_pods("a")
    pod = queue.pop()
    assert pod is not None
    queue.refused(pod, PLUGIN, 0.0)
    queue.tick(LONGEST_UNSCHEDULABLE_S, nobody)
    assert queue.pop() is None
    due_s = queue.next_s()
    assert due_s is not None and LONGEST_UNSCHEDULABLE_S < due_s <= LONGEST_UNSCHEDULABLE_S + 31
    queue.tick(due_s, nobody)
    assert popped(queue) == ["a"]


def test_a_held_pod_stays_held_until_its_holder_lets_go() -> None:
    queue = SchedulingQueue()
    queue.add(key("a"), "uid-a", 0, 0.0, held_by="SchedulingGates")
    assert queue.pop() is None
    queue.wake(lambda waiting: True, 1.0, lambda waiting: "DynamicResources")
    assert queue.pop() is None and queue.pods[key("a")].plugins == PLUGIN
    queue.wake(lambda waiting: True, 2.0, nobody, [key("b")])
    assert queue.pop() is None
    queue.wake(lambda waiting: True, 2.0, nobody, [key("a")])
    assert popped(queue) == ["a"]


def test_a_pod_of_the_same_name_is_a_new_one() -> None:
    queue = with_pods("a")
    pod = queue.pop()
    assert pod is not None
    queue.failed(pod, 0.0)
    queue.add(key("a"), "another", 0, 1.0)
    again = queue.pop()
    assert again is not None and (again.uid, again.errors) == ("another", 0)
    assert not queue.pods
