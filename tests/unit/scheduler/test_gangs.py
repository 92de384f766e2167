"""Pod groups are tried as a whole: what fits fits together, what does not leaves nothing behind; who has to make room."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduler.making import claim, device_class, node, pod, slice_of, state
from tests.unit.scheduler.player import RULES, play
from tests.unit.scheduler.test_stories import MAIN, STORIES, compare

from regauge.features import rules
from regauge.model import view
from regauge.model.core import Pod
from regauge.model.rules import Rules
from regauge.model.scheduling import PodGroup
from regauge.scheduler import WAITS, Held, Scheduled, SchedulerError, State, Unschedulable, held, schedule_group

KEY = ("default", "pg")
NO_WORKLOAD_PREEMPTION = rules("1.36", {"GenericWorkload": True, "GangScheduling": True})


def group(count: int = 2, **spec: Any) -> PodGroup:
    body = {"metadata": {"name": "pg", "namespace": "default", "uid": "uid-pg"}}
    policy = {"gang": {"minCount": count}} if count else {"basic": {}}
    return view({**body, "spec": {"schedulingPolicy": policy, **spec}}, PodGroup)


def member(name: str, claim_name: str = "", **more: Any) -> Pod:
    claims = [{"name": "gpu", "resourceClaimName": claim_name or name}]
    return pod(name, schedulingGroup={"podGroupName": "pg"}, resourceClaims=claims, **more)


def world(devices: int, *pods: Pod, with_group: PodGroup | None = None, ruling: Rules = RULES) -> State:
    names = dict.fromkeys(entry.resource_claim_name or "" for one in pods for entry in one.spec.resource_claims)
    made = state(
        node("n1"), device_class(), slice_of("n1", devices), *(claim(name) for name in names), *pods, ruling=ruling
    )
    made.put_group(with_group or group())
    return made


def tried(made: State, *pods: Pod) -> Any:
    return schedule_group(KEY, pods, made, random.Random(1))


def untouched(made: State, *pods: Pod) -> bool:
    """Nothing is assumed and nothing is in flight."""
    claims = [made.devices.is_flying(one.metadata.uid) for one in made.claims.values()]
    return not any(claims) and not made.pending and not any(made.is_assumed(("default", p.metadata.name)) for p in pods)


@pytest.mark.row(77, how="unit")
def test_all_or_none_of_a_gang_get_devices() -> None:
    pods = (member("a"), member("b"))
    enough = world(2, *pods)
    outcome = tried(enough, *pods)
    assert outcome.fits and all(isinstance(result, Scheduled) for _, result in outcome.pods)
    devices = [result.allocations[0].allocation.devices.results[0].device for _, result in outcome.pods]
    assert devices == ["gpu-0", "gpu-1"]
    assert untouched(enough, *pods)

    short = world(1, *pods)
    outcome = tried(short, *pods)
    assert not outcome.fits and not outcome.victims
    assert isinstance(outcome.pods[0][1], Scheduled) and isinstance(outcome.pods[1][1], Unschedulable)
    assert outcome.pods[1][1].message.endswith("preemption: not eligible due to workload aware preemption enabled")
    assert untouched(short, *pods)


@pytest.mark.row(77, how="unit")
@given(st.integers(0, 5), st.integers(1, 5), st.integers(1, 5))
def test_a_gang_fits_when_enough_of_it_do(devices: int, count: int, least: int) -> None:
    pods = tuple(member(f"p{index}") for index in range(count))
    made = world(devices, *pods, with_group=group(least))
    outcome = tried(made, *pods)
    assert outcome.fits is (min(devices, count) >= least)
    assert untouched(made, *pods)
    chosen = [
        result.device
        for _, one in outcome.pods
        if isinstance(one, Scheduled)
        for item in one.allocations
        for result in item.allocation.devices.results
    ]
    assert len(chosen) == len(set(chosen)) == min(devices, count)


@pytest.mark.row(67, how="unit")
def test_a_claim_of_the_group_is_chosen_once_for_all_its_pods() -> None:
    pods = (member("a", "shared"), member("b", "shared"))
    made = world(2, *pods, with_group=group(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}]))
    outcome = tried(made, *pods)
    assert outcome.fits
    first, second = (result.allocations for _, result in outcome.pods)
    assert first == second and len(first) == 1
    assert untouched(made, *pods)


@pytest.mark.row(67, how="vectors")
def test_a_claim_of_a_group_lives_as_recorded() -> None:
    """Made for the group, reserved for it as a whole, kept after the last pod, gone with the group."""
    assert compare(MAIN, "160-podgroup-claim") == []


@pytest.mark.row(77, how="vectors")
def test_a_gang_that_does_not_fit_holds_nothing_and_one_that_does_is_bound() -> None:
    """With one device for two pods nothing is allocated; with a second node both pods go."""
    told = play(STORIES / MAIN / "156-gang-too-few-devices")
    before = told["writes"][: next(i for i, one in enumerate(told["writes"]) if "+spec.nodeName" in str(one))]
    first_try = [one for one in before if "PodScheduled" in str(one.get("fields"))]
    assert {one["object"] for one in first_try} == {"Pod/a", "Pod/b"}
    refused = {
        event["message"] for event in told["events"] if event["object"] == "Pod/a" and event["type"] == "Warning"
    }
    assert refused == {WAITS}
    assert {name: shown["node"] for name, shown in told["final"]["Pod"].items()} == {"a": "n1", "b": "n2"}
    assert compare(MAIN, "155-gang") == []


@pytest.mark.row(77, how="vectors")
def test_a_job_whose_pods_run_at_once_is_a_gang() -> None:
    assert compare(MAIN, "163-job-gang") == []
    newer = play(STORIES / MAIN / "163-job-gang", rules("1.37", {"GenericWorkload": True, "WorkloadWithJob": True}))
    told = {event["reason"]: event["message"] for event in newer["events"] if event["object"] == "Job/j"}
    assert told["PodGroupCreated"].startswith("Created PodGroup j-") and told["PodGroupCreated"].endswith(" for Job j")
    assert {shown["node"] for shown in newer["final"]["Pod"].values()} == {"n1"}


def test_pods_wait_for_their_group_and_for_enough_of_it() -> None:
    pods = (member("a"), member("b"))
    made = world(2, *pods)
    assert held(pods[0], made) is None
    made.put_group(group(3))
    assert held(pods[0], made) == Held(
        "GangScheduling", "waiting for minCount pods from a gang to appear in scheduling queue"
    )
    made.drop_group(KEY)
    reason = 'waiting for pods\'s pod group "pg" to appear in scheduling queue'
    assert held(pods[0], made) == Held("GangScheduling", reason)


def test_an_error_of_one_pod_is_the_groups() -> None:
    pods = (member("a"), member("b"))
    made = world(2, *pods)
    made.drop_group(KEY)
    outcome = tried(made, *pods)
    assert not outcome.fits
    assert outcome.error.startswith("failed to schedule other pod from a pod group: failed to get podGroup default/pg")
    assert isinstance(outcome.pods[0][1], SchedulerError) and len(outcome.pods) == 1


# -- in one domain of a topology

RACK = "rack"


def racks(*devices: int, least: int = 2, ruling: Rules = RULES, members: int = 2) -> tuple[State, list[Pod]]:
    """Nodes n0, n1, ... two to a rack, and a group that goes into one rack."""
    pods = [member(f"p{index}") for index in range(members)]
    nodes: list[Any] = []
    for index, count in enumerate(devices):
        nodes += [node(f"n{index}", labels={RACK: f"r{index // 2}"}), slice_of(f"n{index}", count)]
    made = state(*nodes, device_class(), *(claim(one.metadata.name) for one in pods), *pods, ruling=ruling)
    made.put_group(group(least, schedulingConstraints={"topology": [{"key": RACK}]}))
    return made, pods


def nodes_of(outcome: Any) -> set[str]:
    return {one.node for _, one in outcome.pods if isinstance(one, Scheduled)}


@pytest.mark.row(117, how="unit")
def test_a_group_goes_into_the_domain_that_takes_it() -> None:
    made, pods = racks(1, 0, 1, 1)
    outcome = tried(made, *pods)
    assert outcome.fits and nodes_of(outcome) == {"n2", "n3"} and untouched(made, *pods)


@pytest.mark.row(117, how="unit")
def test_the_domain_that_takes_more_pods_is_better_and_then_the_fuller_one() -> None:
    made, pods = racks(1, 1, 2, 1, members=3)
    outcome = tried(made, *pods)
    assert outcome.fits and nodes_of(outcome) == {"n2", "n3"} and len(outcome.pods) == 3
    made, pods = racks(1, 1, 1, 1)
    made.put_pod(low("busy", "2", 1, "2026-01-01T00:00:00Z"))
    assert nodes_of(tried(made, *pods)) == {"n0", "n1"}


def test_a_group_that_no_domain_takes_says_how_many_were_tried() -> None:
    made, pods = racks(1, 0, 0, 1)
    outcome = tried(made, *pods)
    assert not outcome.fits and not outcome.error
    assert outcome.message == (
        "0/2 placements are available, first placement status: pod group is unschedulable, "
        "workload aware preemption is not supported for pod groups with scheduling constraints"
    )
    newer = rules("1.37", {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})
    made, pods = racks(1, 0, 0, 1, ruling=newer)
    assert tried(made, *pods).error.startswith("unsupported: preemption for a pod group with a topology")


def test_without_any_domain() -> None:
    pods = (member("a"),)
    made = world(2, *pods, with_group=group(1, schedulingConstraints={"topology": [{"key": "nowhere"}]}))
    outcome = tried(made, *pods)
    assert not outcome.fits and outcome.message == "no feasible placements found"
    assert [type(one) for _, one in outcome.pods] == [Unschedulable]


def test_placed_pods_bind_the_group_to_their_domain() -> None:
    made, pods = racks(1, 1, 4, 4, least=3, members=3)
    first = Scheduled("n0", ("n0",), ("n0",), {})
    made.assume(made.info(pods[0]), first)
    assert nodes_of(tried(made, *pods[1:])) <= {"n0", "n1"}
    made.assume(made.info(pods[1]), Scheduled("n2", ("n2",), ("n2",), {}))
    assert "more than 1 domain found for pod group: r0, r1" in tried(made, pods[2]).error


# -- room made for a group


def sized(name: str, cpu: str, *, of_group: bool = True, **more: Any) -> Pod:
    named = {"schedulingGroup": {"podGroupName": "pg"}} if of_group else {}
    return pod(name, limits={"cpu": cpu}, **named, **more)


def low(name: str, cpu: str, priority: int, started: str) -> Pod:
    status = {"startTime": started, "phase": "Running"}
    return sized(name, cpu, of_group=False, nodeName="n1", priority=priority, status=status)


def test_only_the_pods_that_have_to_make_room_do() -> None:
    running = (
        low("cheap", "1", 1, "2026-01-01T00:00:00Z"),
        low("dear", "1", 5, "2026-01-01T00:00:00Z"),
        low("late", "1", 1, "2026-01-02T00:00:00Z"),
        low("higher", "1", 100, "2026-01-01T00:00:00Z"),
    )
    pods = (sized("a", "1", priority=10), sized("b", "1", priority=10))
    made = world(0, *pods, with_group=group(priority=10))
    for one in running:
        made.put_pod(one)
    outcome = tried(made, *pods)
    assert not outcome.fits
    assert sorted(outcome.victims) == [("default", "cheap"), ("default", "late")]
    assert made.nodes["n1"].free("cpu") == 0


def test_no_room_is_made_in_vain() -> None:
    pods = (sized("a", "3", priority=10), sized("b", "3", priority=10))
    made = world(0, *pods, with_group=group(priority=10))
    made.put_pod(low("cheap", "4", 1, "2026-01-01T00:00:00Z"))
    outcome = tried(made, *pods)
    assert (outcome.fits, outcome.victims) == (False, ())
    assert outcome.message.endswith("pod group is unschedulable, pod group is unschedulable")
    made.put_group(group(priority=10, preemptionPolicy="Never"))
    assert tried(made, *pods).message.endswith("not eligible due to preemptionPolicy=Never.")
    made.put_group(group(priority=1))
    assert tried(made, *pods).message.endswith("No preemption victims found for incoming preemptor")


def test_without_preemption_for_groups_each_pod_makes_room_for_itself() -> None:
    pods = (sized("a", "2", priority=10), sized("b", "2", priority=10))
    made = world(0, *pods, ruling=NO_WORKLOAD_PREEMPTION)
    for index in range(2):
        made.put_pod(low(f"low{index}", "2", 1, "2026-01-01T00:00:00Z"))
    outcome = tried(made, *pods)
    assert not outcome.fits and len(outcome.victims) == 2
    assert outcome.message == "pod group is unschedulable, pod group is waiting for preemption to complete"
