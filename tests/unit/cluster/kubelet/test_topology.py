"""NUMA alignment: hints merged as the kubelet's own code merges them, and pods admitted or refused by each policy."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest
from tests.support import oracle
from tests.unit.cluster.kubelet.world import FakePlugin, World, simulate

from regauge.base import InputError
from regauge.pluginapi import PluginDevice
from regauge.scheduler import NumaHint, NumaHints, Topology, device_hints

GPU, NIC = "topology.example.com/gpu", "topology.example.com/nic"
TWO = (0, 1)


def _question(chance: random.Random) -> dict[str, Any]:
    nodes = list(range(chance.randint(1, 4)))
    resources: dict[str, Any] = {}
    for index in range(chance.randint(0, 3)):
        kind = chance.random()
        if kind < 0.15:
            resources[f"r{index}"] = None
            continue
        resources[f"r{index}"] = [
            {"nodes": sorted(chance.sample(nodes, chance.randint(1, len(nodes)))), "preferred": chance.random() < 0.6}
            for _ in range(chance.randint(0, 4))
        ]
    distances = [[10 if one == other else chance.choice((12, 20, 21, 30)) for other in nodes] for one in nodes]
    return {
        "nodes": nodes,
        "distances": distances,
        "policy": chance.choice(("best-effort", "restricted", "single-numa-node")),
        "closest": chance.random() < 0.4,
        "providers": [resources],
    }


def _ours(question: dict[str, Any]) -> dict[str, Any]:
    distances = {one: dict(enumerate(row)) for one, row in enumerate(question["distances"])}
    topology = Topology(
        question["policy"],
        nodes=tuple(question["nodes"]),
        closest=question["closest"],
        distances=distances,
    )
    wishes: list[NumaHints] = []
    for told in question["providers"][0].values():
        wishes.append(None if told is None else [NumaHint(frozenset(one["nodes"]), one["preferred"]) for one in told])
    best, admit = topology.merge(wishes)
    return {
        "nodes": None if best.nodes is None else sorted(best.nodes),
        "preferred": best.preferred,
        "admit": admit,
    }


@pytest.mark.row(189, how="oracle")
def test_hints_are_merged_as_the_kubelet_merges_them() -> None:
    program = oracle("topology")
    chance = random.Random(189)
    questions = [_question(chance) for _ in range(3000)]
    asked = "\n".join(map(json.dumps, questions))
    answered = subprocess.run([program], input=asked, capture_output=True, text=True, check=True, timeout=60).stdout
    theirs = [json.loads(line) for line in answered.splitlines()]
    assert len(theirs) == len(questions)
    wrong = [(asked, ours, told) for asked, told in zip(questions, theirs) if (ours := _ours(asked)) != told]
    assert wrong == []


@pytest.mark.parametrize(
    ("count", "free", "reusable", "expected"),
    [
        (1, "abc", "", [({0}, True), ({1}, True), ({0, 1}, False)]),
        (2, "abc", "", [({0}, True), ({0, 1}, False)]),
        (2, "ac", "", [({0, 1}, False)]),  # two on node 0 exist, so that both nodes are more than it takes
        (3, "abc", "", [({0, 1}, True)]),
        (2, "bc", "a", [({0}, True), ({0, 1}, False)]),
        (1, "d", "", []),  # a device without a place is in no mask
    ],
)
def test_hints_of_devices(count: int, free: str, reusable: str, expected: list[tuple[set[int], bool]]) -> None:
    places = {"a": frozenset({0}), "b": frozenset({0}), "c": frozenset({1}), "d": frozenset[int]()}
    found = device_hints(places, free, reusable, count, TWO)
    assert [(set(hint.nodes or ()), hint.preferred) for hint in found] == expected


async def _plugins(world: World) -> None:
    """Two GPUs and one NIC on node 0, one of each on node 1."""
    for resource, spread in ((GPU, (0, 0, 1)), (NIC, (0, 1))):
        plugin = FakePlugin(world, resource)
        plugin.devices = tuple(
            PluginDevice(f"{resource[-3:]}{index}", numa_nodes=(node,)) for index, node in enumerate(spread)
        )
        await plugin.start()
    await world.clock.sleep(2)


def _allocated(world: World, since: int = 0) -> list[str]:
    return [call.removeprefix("Allocate ") for call in world.calls[since:] if call.startswith("Allocate")]


def played(topology: Topology, *pods: dict[str, str]) -> World:
    async def scenario(world: World) -> None:
        await _plugins(world)
        for index, limits in enumerate(pods):
            world.run_pod(f"p{index}", limits=limits)
            await world.clock.sleep(1)

    return simulate(scenario, topology=topology)


@pytest.mark.row(189, how="unit")
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_pod_whose_devices_are_apart_is_refused_by_the_strict_policies(scope: str) -> None:
    """Three GPUs are there, so the scheduler sends the pod; together they are on no one node."""
    for policy, reason in (
        ("none", None),
        ("best-effort", None),
        ("restricted", None),  # no single node has three GPUs, so two nodes are the best there is
        ("single-numa-node", "TopologyAffinityError"),
    ):
        world = played(Topology(policy, scope, TWO), {GPU: "3"})
        status = world.pod("p0")["status"]
        assert status.get("reason") == reason, policy
        if reason:
            assert status["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
            assert world.events("TopologyAffinityError") == ["Resources cannot be allocated with Topology locality"]
            assert _allocated(world) == []


@pytest.mark.row(189, how="unit")
def test_restricted_refuses_what_would_have_fitted_on_one_node() -> None:
    """A GPU is left on each node; two together would have fitted on node 0 once."""
    for policy, reason in (("best-effort", None), ("restricted", "TopologyAffinityError")):
        world = played(Topology(policy, "container", TWO), {GPU: "1", NIC: "1"}, {GPU: "2"})
        assert world.pod("p0")["status"]["phase"] == "Running"
        assert world.pod("p1")["status"].get("reason") == reason, policy


def test_devices_of_one_container_come_from_one_node() -> None:
    world = played(Topology("single-numa-node", "container", TWO), {GPU: "1", NIC: "1"}, {GPU: "1", NIC: "1"})
    assert sorted(_allocated(world)) == ["gpu0", "gpu2", "nic0", "nic1"]
    by_pod = [set(_allocated(world)[:2]), set(_allocated(world)[2:])]
    assert {"gpu0", "nic0"} in by_pod and {"gpu2", "nic1"} in by_pod


def test_best_effort_takes_the_near_devices_first() -> None:
    world = played(Topology("best-effort", "container", TWO), {NIC: "2", GPU: "3"})
    assert sorted(_allocated(world)) == ["gpu0,gpu1,gpu2", "nic0,nic1"]


def test_without_a_policy_devices_go_as_they_are_listed() -> None:
    world = played(Topology(nodes=TWO), {GPU: "1"}, {GPU: "2"})
    assert _allocated(world) == ["gpu0", "gpu1,gpu2"]


def test_a_running_pod_keeps_its_devices_over_a_restart_of_the_kubelet() -> None:
    async def scenario(world: World) -> None:
        await _plugins(world)
        world.run_pod("p", limits={GPU: "2"})
        await world.clock.sleep(1)
        await world.restart_kubelet()
        await _plugins(world)
        await world.clock.sleep(3)
        world.run_pod("q", limits={GPU: "1"})
        await world.clock.sleep(1)

    world = simulate(scenario, topology=Topology("single-numa-node", "pod", TWO))
    assert (world.phase("p"), world.phase("q")) == ("Running", "Running")
    assert _allocated(world) == ["gpu0,gpu1", "gpu2"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"policy": "strict"}, "unknown policy: 'strict'"),
        ({"policy": "restricted", "scope": "node"}, "unknown scope: 'node'"),
        ({"policy": "restricted", "nodes": tuple(range(9))}, "unsupported on machines with more than 8 NUMA Nodes"),
        ({"policy": "restricted", "closest": True}, "cannot be found without distances"),
    ],
)
def test_settings_that_there_are_not_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Topology(**settings)
