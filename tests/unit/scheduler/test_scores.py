"""Which of several feasible nodes is chosen, and that chance decides only among equals."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.making import DRIVER, RULES, claim, device_class, node, pod, slice_of, state, user_of

from regauge.model import OwnerReference, view
from regauge.model.core import Pod
from regauge.model.kinds import REPLICA_SET, SERVICE
from regauge.model.resource import ResourceClaim, ResourceSlice
from regauge.scheduler import Scheduled, State, schedule
from regauge.scheduler.cycle import how_many


def chosen(asked: Pod, world: State, seed: int = 1) -> Scheduled:
    outcome = schedule(asked, world, RULES, random.Random(seed))
    assert isinstance(outcome, Scheduled), outcome
    return outcome


def prefers(**more: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [more]}}}


def test_the_emptier_node() -> None:
    world = state(node("n1"), node("n2"), pod("other", nodeName="n1", requests={"cpu": "3", "memory": "6Gi"}))
    outcome = chosen(pod(requests={"cpu": "1", "memory": "2Gi"}), world)
    assert (outcome.node, outcome.ties, outcome.feasible) == ("n2", ("n2",), ("n1", "n2"))


def test_chance_decides_among_equals_and_the_seed_decides_chance() -> None:
    world = state(*(node(f"n{index}") for index in range(4)))
    places = Counter(chosen(pod(), world, seed).node for seed in range(60))
    assert set(places) == {"n0", "n1", "n2", "n3"}
    assert chosen(pod(), world, 7).node == chosen(pod(), world, 7).node


def test_a_taint_that_only_prefers() -> None:
    taint = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    world = state(node("n1", spec={"taints": [taint]}), node("n2"))
    assert chosen(pod(), world).ties == ("n2",)
    assert chosen(pod(tolerations=[{"operator": "Exists"}]), world).ties == ("n1", "n2")


def test_preferred_node_affinity() -> None:
    world = state(node("n1"), node("n2", labels={"zone": "a"}))
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    assert chosen(pod(**prefers(weight=1, preference=term)), world).ties == ("n2",)


def test_soft_spread_and_soft_affinity() -> None:
    web = {"app": "web"}
    zones = [node("n1", labels={"zone": "a"}, cpu="8", memory="16Gi"), node("n2", labels={"zone": "b"})]
    there = pod("w", nodeName="n1", labels=web)
    soft = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": web},
    }
    assert chosen(pod(labels=web), state(*zones, there)).ties == ("n1", "n2")
    apart = pod(labels=web, topologySpreadConstraints=[soft])
    assert chosen(apart, state(*zones, there)).ties == ("n2",)
    near = {"weight": 100, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": web}}}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [near]}
    assert chosen(pod(affinity={"podAffinity": wish}), state(*zones, there)).ties == ("n1",)
    assert chosen(pod(affinity={"podAntiAffinity": wish}), state(*zones, there)).ties == ("n2",)


def test_pods_of_one_owner_or_service_are_spread_without_being_asked() -> None:
    web = {"app": "web"}
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}]
    asked = pod(labels=web)
    asked = replace(asked, metadata=replace(asked.metadata, owner_references=convert(owner)))
    nodes = [node("n1", cpu="8", memory="16Gi"), node("n2")]  # as empty as each other with a pod on the larger one
    there = pod("w", nodeName="n1", labels=web)
    world = state(*nodes, there)
    assert chosen(asked, world).ties == ("n1", "n2")
    replica_set = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": web}}}
    world.around.put(REPLICA_SET, replica_set)
    assert chosen(asked, world).ties == ("n2",)
    served = state(*nodes, there)
    assert served.around.like(pod(labels=web)) is None
    served.around.put(SERVICE, {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": web}})
    assert chosen(pod(labels=web), served).ties == ("n2",)
    served.around.drop(SERVICE, "default", "web")
    assert served.around.like(pod(labels=web)) is None


def convert(owners: list[dict[str, Any]]) -> tuple[OwnerReference, ...]:
    return tuple(view(item, OwnerReference) for item in owners)


def test_a_heartbeat_forgets_no_answer() -> None:
    world = state(node("n1"), device_class(), slice_of("n1", 1), claim())
    asked = user_of("c")
    before = chosen(asked, world)
    known = world.nodes["n1"].identity
    world.put_node(node("n1", spec={"taints": []}))
    assert world.nodes["n1"].identity is known
    world.put_node(node("n1", labels={"zone": "a"}))
    assert world.nodes["n1"].identity is not known
    assert chosen(asked, world).allocations == before.allocations


def test_the_node_with_the_better_alternative() -> None:
    first = {"name": "big", "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 2}
    second = {"name": "small", "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    wanted = view(
        {
            "metadata": {"name": "c", "namespace": "default", "uid": "uid-c"},
            "spec": {"devices": {"requests": [{"name": "g", "firstAvailable": [first, second]}]}},
        },
        ResourceClaim,
    )
    world = state(node("n1"), node("n2"), device_class(), slice_of("n1", 1), slice_of("n2", 2), wanted)
    assert chosen(user_of("c"), world).ties == ("n2",)


@pytest.mark.parametrize(("count", "enough"), [(1, 1), (99, 99), (100, 100), (500, 230), (5000, 500), (10000, 500)])
def test_in_large_clusters_not_all_nodes_are_looked_at(count: int, enough: int) -> None:
    assert how_many(count) == enough


def test_the_search_goes_on_where_it_ended() -> None:
    world = state(*(node(f"n{index:03}") for index in range(300)))
    first = chosen(pod(), world)
    second = chosen(pod(), world)
    assert len(first.feasible) == how_many(300) and first.feasible[0] == "n000"
    assert "n000" not in second.feasible[: 300 - how_many(300)] or second.feasible[-1] == "n299"


def place_all(nodes: int, pods: int) -> float:
    """The processor time in seconds that so many pods need, each with a claim, on nodes of eight devices."""
    world = state(device_class())
    for index in range(nodes):
        name = f"n{index:03}"
        world.put_node(node(name, cpu="64", memory="256Gi", pods="110"))
        world.put_slice(_eight(name))
    chance, begun_s = random.Random(1), time.process_time()
    used: Counter[tuple[str, str]] = Counter()
    for index in range(pods):
        asked = user_of(f"c{index}", f"p{index}", requests={"cpu": "1"})
        world.put_claim(claim(f"c{index}"))
        outcome = schedule(asked, world, RULES, chance)
        assert isinstance(outcome, Scheduled)
        world.assume(world.info(asked), outcome)
        used.update((item.pool, item.device) for item in outcome.allocations[0].allocation.devices.results)
    assert len(used) == pods
    return time.process_time() - begun_s


def test_more_nodes_than_are_looked_at_and_pods_with_claims() -> None:
    assert how_many(150) < 150 and place_all(150, 200) < 6


@pytest.mark.soak
def test_five_hundred_nodes_and_a_thousand_pods_with_claims() -> None:
    """A real scheduler needs 27.5 s for these on two cores, with its API server."""
    assert place_all(500, 1000) < 30


def _eight(name: str) -> ResourceSlice:
    return slice_of(name, 8)
