"""Device-seconds: what is charged is what was held, within the error that is stated, whoever looks and whatever restarts."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.observe.metric_world import NAMESPACE, claim, in_cluster, moment, pod, running

from regauge.base import InputError
from regauge.inventory import Stack
from regauge.model.kinds import POD
from regauge.observe import Holding, Owner
from regauge.observe.advancing import FORGET_S, advance, charged, uses_of
from regauge.observe.comparing import compare
from regauge.observe.history import Charge, Consumer, History, from_bytes, to_bytes
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.watching import apply


def held(device: str, pod: str, since_s: float | None = None, stack: Stack = Stack.DRA) -> Holding:
    return Holding(
        stack, "n1", device, uuid=device, namespace="ns", pod=pod, pod_uid=f"uid-{pod}", workload=Owner("Job", pod),
        since_s=since_s,
    )  # fmt: skip


def looks(*told: tuple[float, Sequence[Holding]], history: History | None = None) -> History:
    """The history after these looks: when, and what is held then."""
    found = History() if history is None else history
    for now_s, holdings in told:
        uses = uses_of(holdings)
        found = replace(found, charges=charged(found, uses, now_s), uses=uses, moment_s=now_s)
    return found


def seconds_of(history: History) -> Mapping[str, tuple[float, float]]:
    return {key.workload: (one.device_s, one.uncertain_s) for key, one in history.charges.items()}


def test_what_is_held_at_both_looks_is_charged_whole() -> None:
    assert seconds_of(looks((100.0, [held("a", "p")]), (115.0, [held("a", "p")]))) == {"p": (15.0, 0.0)}


def test_several_containers_and_claims_of_a_pod_are_charged_once_for_a_device() -> None:
    rows = [replace(held("a", "p"), container=name, claim=name) for name in ("c", "d")]
    assert seconds_of(looks((0.0, rows), (10.0, rows))) == {"p": (10.0, 0.0)}


def test_who_shares_a_device_shares_its_seconds() -> None:
    rows = [held("a", "p"), held("a", "q"), held("b", "q")]
    assert seconds_of(looks((0.0, rows), (10.0, rows))) == {"p": (5.0, 0.0), "q": (15.0, 0.0)}


def test_admin_access_is_not_charged() -> None:
    rows = [held("a", "p"), replace(held("a", "q"), admin_access=True)]
    assert seconds_of(looks((0.0, rows), (10.0, rows))) == {"p": (10.0, 0.0)}


def test_what_began_between_two_looks_is_charged_from_its_beginning() -> None:
    """Timestamps of the API have whole seconds: one of them is not known."""
    assert seconds_of(looks((0.0, []), (15.0, [held("a", "p", since_s=9.0)]))) == {"p": (6.0, 1.0)}


def test_what_ended_between_two_looks_is_charged_from_the_middle_and_says_so() -> None:
    assert seconds_of(looks((0.0, [held("a", "p")]), (10.0, []))) == {"p": (5.0, 5.0)}


def test_a_device_that_changes_hands_is_charged_to_both() -> None:
    told = looks((0.0, [held("a", "p")]), (10.0, [held("a", "q", since_s=4.0)]))
    assert seconds_of(told) == {"p": (5.0, 5.0), "q": (6.0, 1.0)}


def test_a_workload_that_moves_from_one_stack_to_the_other_is_charged_for_both() -> None:
    told = looks((0.0, [held("a", "p", stack=Stack.DEVICE_PLUGIN)]), (10.0, [held("a", "p", since_s=5.0)]))
    assert {key.stack: one.device_s for key, one in told.charges.items()} == {"device-plugin": 5.0, "dra": 5.0}


def test_who_holds_nothing_any_more_is_told_for_a_day() -> None:
    gone = looks((0.0, [held("a", "p")]), (10.0, []))
    assert "p" in seconds_of(looks((FORGET_S, []), history=gone))
    assert seconds_of(looks((FORGET_S + 20.0, []), history=gone)) == {}


def test_a_clock_that_is_put_back_takes_nothing_away() -> None:
    told = looks(
        (100.0, [held("a", "p")]), (110.0, [held("a", "p")]), (50.0, [held("a", "p")]), (55.0, [held("a", "p")])
    )
    assert seconds_of(told) == {"p": (15.0, 0.0)}


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 60), st.integers(1, 60), st.booleans()),
        max_size=6,
    ),
    st.lists(st.integers(1, 17), min_size=1, max_size=8),
    st.integers(0, 1 << 16),
)
def test_the_truth_is_within_the_stated_error(
    lives: list[tuple[int, int, int, int, bool]], steps: list[int], seed: int
) -> None:
    """Any devices, held by any pods over any times, looked at at any times: but for lives that no look saw, the truth is in
    what is charged, give or take what is stated."""
    times = [0]
    for step in steps:
        times.append(times[-1] + step)
    only: dict[tuple[int, int], tuple[int, int, bool]] = {}
    for device, user, begin, length, told in lives:
        only.setdefault((device, user), (begin, begin + length, told))

    def at(now: float) -> list[Holding]:
        return [
            held(f"d{device}", f"p{user}", float(begin) if told else None)
            for (device, user), (begin, end, told) in only.items()
            if begin <= now < end
        ]

    random.Random(seed).shuffle(lives)
    history = looks(*((float(now), at(now)) for now in times))
    truth: dict[str, float] = {}
    for second in range(times[-1]):
        for use in uses_of(at(second)).values():
            truth[use.consumer.workload] = truth.get(use.consumer.workload, 0.0) + use.part
    unseen = {key for key, (begin, end, _) in only.items() if not any(begin <= now < end for now in times)}
    shared = {device for device, _ in only if sum(other == device for other, _ in only) > 1}
    for name, (device_s, uncertain_s) in seconds_of(history).items():
        mine = [key for key in only if f"p{key[1]}" == name]
        if not any(key in unseen or key[0] in shared for key in mine):
            assert abs(device_s - truth.get(name, 0.0)) <= uncertain_s + 1e-6


# -- restarts


def test_counters_survive_a_restart_and_the_gap_is_charged() -> None:
    before = looks((0.0, [held("a", "p")]), (10.0, [held("a", "p")]))
    after = from_bytes(to_bytes(before), "state")
    assert after == before
    assert seconds_of(looks((70.0, [held("a", "p")]), history=after)) == {"p": (70.0, 0.0)}


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1", b'{"format":"other"}', to_bytes(History()).replace(b"/v1", b"/v9")]
)
def test_what_is_no_state_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(InputError, match=r"export\.state"):
        from_bytes(data, "export.state")


# -- both sides


def charge(device_s: float, uncertain_s: float = 0.0) -> Charge:
    return Charge(device_s, uncertain_s, 0.0)


@pytest.mark.row(103, how="unit")
def test_two_attributions_agree_within_what_they_state() -> None:
    counted = {Consumer("ns", "Job", "j", "device-plugin"): charge(100.0, 2.0)}
    claimed = {Consumer("ns", "Job", "j", "dra"): charge(103.0, 1.0)}
    (one,) = compare(counted, claimed)
    assert one.agrees and one.allowed_s == 3.0 and one.stacks == (("device-plugin",), ("dra",))
    assert not compare(counted, {Consumer("ns", "Job", "j", "dra"): charge(103.1, 1.0)})[0].agrees
    assert compare(counted, {Consumer("ns", "Job", "j", "dra"): charge(103.1, 1.0)}, tolerated=0.01)[0].agrees
    assert [one.agrees for one in compare(counted, {Consumer("other", "Job", "j", "dra"): charge(100.0)})] == [
        False,
        False,
    ]


async def _both_sides(world: NodeWorld) -> tuple[History, History, Mapping[str, float]]:
    """One pod on each stack for some time; one exporter looks often, the other seldom. And how long each pod had devices."""
    often = seldom = History()
    began_s: dict[str, float] = {}
    lived_s: dict[str, float] = {}
    await apply(world.kube, claim("two", 2, kind="ResourceClaimTemplate"))
    for second in range(120):
        now_s = world.clock.now_s()
        if second == 5:
            await apply(world.kube, pod("counting", count=2))
            await apply(world.kube, pod("claiming", claims=(("mine", {"resourceClaimTemplateName": "two"}),)))
            await running(world, "counting", "claiming")
        if second == 70:
            for name in ("counting", "claiming"):
                await world.kube.delete(POD, name, NAMESPACE)
        found = await moment(world)
        names = {one.pod for one in found.correlation.holdings}
        for name in names:
            began_s.setdefault(name, now_s)
        for name in began_s.keys() - names:
            lived_s.setdefault(name, now_s - began_s[name])
        often = advance(often, found)
        if second % 15 == 0:
            seldom = advance(seldom, found)
        await world.clock.sleep(1.0)
    return often, advance(seldom, await moment(world)), lived_s


@pytest.mark.row(103, how="unit")
def test_both_stacks_are_charged_alike_whoever_looks() -> None:
    often, seldom, lived_s = in_cluster(_both_sides)
    assert set(lived_s) == {"counting", "claiming"}
    for key, one in often.charges.items():
        assert abs(one.device_s - 2 * lived_s[key.workload]) <= one.uncertain_s + 4.0  # the truth is known to 2 s
    assert {(key.workload, key.stack) for key in often.charges} == {("counting", "device-plugin"), ("claiming", "dra")}
    differences = compare(often.charges, seldom.charges)
    assert len(differences) == 2 and all(one.agrees for one in differences)
    assert all(one.allowed_s < 0.3 * one.left_s for one in differences)
