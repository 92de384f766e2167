"""Gangs in one domain: with their devices and without, as the scheduler tries each domain."""

from __future__ import annotations

import pytest
from tests.unit.scheduler.gang_objects import (
    GROUPS,
    RULES,
    Object,
    checked,
    cluster,
    job_set,
    object_,
    only,
    pod,
    pod_spec,
)

RACK = "example.com/rack"
RACKS = tuple({RACK: name} for name in ("r1", "r1", "r2", "r2"))


def group(least: int, *extra: list[Object]) -> list[Object]:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "schedulingConstraints": {"topology": [{"key": RACK}]}}
    made = object_("scheduling.k8s.io/v1alpha2", "PodGroup", "pg", "team", spec=spec)
    members = [one for n in range(least) for one in pod(f"p{n}", schedulingGroup={"podGroupName": "pg"})]
    return [made, *members, *(one for several in extra for one in several)]


@pytest.mark.row(117, how="unit")
def test_a_gang_goes_into_one_domain() -> None:
    found = only([*cluster(2, 2, 4, 4, labels=RACKS), *group(4)], GROUPS)
    assert found.state == "can be placed" and found.topology == RACK
    assert {node for _, node in found.places} == {"n2", "n3"}
    assert [(one.name, one.nodes, one.fits) for one in found.domains] == [("r1", 2, False), ("r2", 2, True)]


@pytest.mark.row(117, how="unit")
def test_where_topology_and_devices_are_in_each_others_way_it_is_shown() -> None:
    """Four pods fit over two racks, and into either without devices."""
    found = only([*cluster(2, 4, 2, 2, labels=RACKS), *group(4)], GROUPS)
    assert found.state == "cannot be placed"
    assert [(one.name, one.fits, one.without_devices) for one in found.domains] == [
        ("r1", False, True),
        ("r2", False, True),
    ]
    assert [one.why for one in found.domains] == ["at most 3 of 4 fit", "at most 2 of 4 fit"]
    assert found.conflict == (
        f"no domain of {RACK} takes 4 more pods with their devices; without devices r1, r2 would, so what decides by cpu, "
        "memory and pods alone takes it; over several domains there are places"
    )


@pytest.mark.row(117, how="unit")
def test_pods_that_are_placed_decide_which_domain() -> None:
    first = pod("first", schedulingGroup={"podGroupName": "pg"}, node="n0", devices=("gpu-0", "gpu-1"))
    found = only([*cluster(2, 2, 8, 8, labels=RACKS), *group(3, first)], GROUPS)
    assert (found.placed == 1 and found.state == "cannot be placed") or found.least == 3
    assert [one.name for one in found.domains] == ["r1"]


def test_a_topology_that_no_node_has() -> None:
    found = only([*cluster(8), *group(2)], GROUPS)
    assert found.state == "cannot be placed" and found.conflict.startswith(f"no node has {RACK}")


def test_without_the_gate_nobody_heeds_it() -> None:
    found = only([*cluster(2, 2, 2, 2, labels=RACKS), *group(4)], RULES)
    assert found.state == "can be placed" and found.domains == ()


@pytest.mark.row(117, how="unit")
@pytest.mark.parametrize(("required", "answer"), [(True, "cannot be placed"), (False, "can be placed")])
def test_topologies_of_kueue(required: bool, answer: str) -> None:
    """A rack is one of its block; what is preferred gives way."""
    labels = [{"block": block, RACK: "r1"} for block in ("b1", "b1", "b2", "b2")]
    levels = {"levels": [{"nodeLabel": "block"}, {"nodeLabel": RACK}]}
    topology = object_("kueue.x-k8s.io/v1beta2", "Topology", "t", spec=levels)
    word = "required" if required else "preferred"
    notes = {"annotations": {f"kueue.x-k8s.io/podset-{word}-topology": RACK}}
    found = only([*cluster(2, 2, 2, 2, labels=labels), topology, job_set("train", 3, **notes)])
    assert found.state == answer and found.topology == f"block, {RACK}"
    assert [(one.name, one.nodes) for one in found.domains] == [("b1/r1", 2), ("b2/r1", 2)]


def test_a_topology_request_of_a_pod_set() -> None:
    pod_sets = [
        {"name": "main", "count": 3, "template": {"spec": pod_spec()}, "topologyRequest": {"required": RACK}},
    ]
    workload = object_("kueue.x-k8s.io/v1beta2", "Workload", "w", "team", spec={"podSets": pod_sets})
    found = only([*cluster(2, 2, 2, 2, labels=RACKS), workload])
    assert found.topology == RACK and found.conflict and found.would_hold == 2


def test_exclusive_placement_of_leader_worker_sets() -> None:
    notes = {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": RACK}}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod_spec()}}}
    set_ = object_("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "s", "team", metadata=notes, spec=spec)
    found = checked([*cluster(2, 2, 2, 2, labels=RACKS), set_]).gangs
    assert {one.state for one in found} == {"can be placed"} and found[0].topology == RACK
