"""Every kind of a gang: its pods, how many are needed, who keeps it together, in each version of the API."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support import ROOT
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
    set_labels,
)

from regauge.features import rules
from regauge.scheduler import known_gang_kinds


def group(version: str, least: int = 2, **spec: Any) -> Object:
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return object_(f"scheduling.k8s.io/{version}", "PodGroup", "pg", "team", spec={**policy, **spec})


@pytest.mark.row(120, how="unit")
@pytest.mark.parametrize(
    ("version", "minor", "gates", "kept"),
    [
        ("v1alpha2", "1.36", {}, False),
        ("v1alpha2", "1.36", {"GenericWorkload": True, "GangScheduling": True}, True),
        ("v1alpha3", "1.37", {"GenericWorkload": True}, True),
        ("v1beta1", "1.37", {"GenericWorkload": True}, True),
        ("v1beta1", "1.37", {}, False),
    ],
)
def test_pod_groups_of_each_version(version: str, minor: str, gates: dict[str, bool], kept: bool) -> None:
    """With its gates off nobody keeps a group together: a part of it would hold devices."""
    members = [one for n in range(3) for one in pod(f"p{n}", schedulingGroup={"podGroupName": "pg"})]
    found = only([*cluster(3), group(version), *members], rules(minor, gates))
    assert (found.pods, found.least, found.state) == (3, 2, "cannot be placed")
    assert found.would_hold == (0 if kept else 1)
    assert version in found.kind.versions


@pytest.mark.row(120, how="unit")
def test_groups_inside_of_a_workload_of_1_35_are_gangs_by_replica() -> None:
    groups = [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]
    workload = object_("scheduling.k8s.io/v1alpha1", "Workload", "train", "team", spec={"podGroups": groups})
    reference = {"name": "train", "podGroup": "workers"}
    members = [
        one
        for key in ("a", "b")
        for n in range(2)
        for one in pod(f"{key}{n}", workloadRef={**reference, "podGroupReplicaKey": key})
    ]
    found = checked([*cluster(4), workload, *members], rules("1.35")).gangs
    assert [one.gang for one in found] == [f"Workload team/train, group workers, replica {key}" for key in "ab"]
    assert {(one.least, one.state) for one in found} == {(2, "can be placed")}
    assert "5 minutes" in found[0].kind.hold


@pytest.mark.row(120, how="unit")
@pytest.mark.parametrize(
    "reference",
    [
        {"podGroupTemplateRef": {"workload": {"workloadName": "train", "podGroupTemplateName": "workers"}}},
        {"workloadRef": {"workloadName": "train", "templateName": "workers"}},
        {},
    ],
)
def test_a_template_of_a_workload_is_a_gang_until_its_group_is_made(reference: Object) -> None:
    templates = [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}]
    owner = {"apiGroup": "batch", "kind": "Job", "name": "j"}
    spec = {"controllerRef": owner, "podGroupTemplates": templates}
    workload = object_("scheduling.k8s.io/v1beta1", "Workload", "train", "team", spec=spec)
    job = object_("batch/v1", "Job", "j", "team", spec={"parallelism": 2, "template": {"spec": pod_spec()}})
    made = [group("v1beta1", **reference)] if reference else []
    found = only([*cluster(4), workload, job, *made], rules("1.37", {"GenericWorkload": True}))
    if reference:
        assert found.gang == "PodGroup team/pg" and found.why == "it has 0 of 2 pods"
    else:
        assert found.gang == "Workload team/train, template workers" and found.state == "can be placed"


def test_a_template_for_nothing_that_is_known_is_not_determined() -> None:
    templates = [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}]
    workload = object_("scheduling.k8s.io/v1beta1", "Workload", "w", "team", spec={"podGroupTemplates": templates})
    found = only([*cluster(4), workload])
    assert found.state == "not determined" and "for no Job" in found.why and not found.good


def test_composite_groups_say_that_they_are_not_supported() -> None:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    found = only([*cluster(4), object_("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "c", "team", spec=spec)])
    assert found.state == "not determined" and found.why.startswith("unsupported: CompositePodGroup")


def test_pods_that_ended_well_are_not_needed_again() -> None:
    """A JobSet of three pods, one of which has ended: two are needed, and none is made in its place."""
    ended = pod("train-w-0", metadata=set_labels("train"), status={"phase": "Succeeded"})
    running = pod("train-w-1", metadata=set_labels("train"), node="n0", devices=("gpu-0", "gpu-1"))
    found = only([*cluster(4), job_set("train", 3), *ended, *running])
    assert (found.pods, found.placed, found.done, found.least) == (2, 1, 1, 3)
    assert found.partial and found.state == "can be placed" and len(found.places) == 1
    assert found.advice.startswith("there are places for 1 more of its pods")


@pytest.mark.parametrize("label", ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"])
def test_groups_of_coscheduling(label: str) -> None:
    group_ = object_("scheduling.x-k8s.io/v1alpha1", "PodGroup", "pg", "team", spec={"minMember": 2})
    members = [one for n in range(2) for one in pod(f"p{n}", metadata={"labels": {label: "pg"}})]
    found = only([*cluster(3), group_, *members])
    assert found.gang == "PodGroup of coscheduling team/pg" and found.least == found.pods == 2
    assert found.would_hold == 1 and "scheduleTimeoutSeconds" in found.kind.hold


def test_groups_of_volcano() -> None:
    group_ = object_("scheduling.volcano.sh/v1beta1", "PodGroup", "pg", "team", spec={"minMember": 2})
    notes = {"annotations": {"scheduling.k8s.io/group-name": "pg"}}
    members = [one for n in range(2) for one in pod(f"p{n}", metadata=notes)]
    found = only([*cluster(3), group_, *members])
    assert found.gang == "PodGroup of Volcano team/pg" and found.pods == 2 and found.would_hold == 0
    group_["spec"]["minTaskMember"] = {"worker": 2}
    assert only([*cluster(4), group_, *members]).why.startswith("unsupported: least numbers by task")


def kueue_workload(count: int, owner: Object | None = None, **status: Any) -> Object:
    pod_sets = [{"name": "main", "count": count, "template": {"spec": pod_spec("one")}}]
    metadata = {"ownerReferences": [owner]} if owner else {}
    spec = {"podSets": pod_sets, "priority": 7}
    return object_("kueue.x-k8s.io/v1beta2", "Workload", "w", "team", metadata=metadata, spec=spec, status=status)


def test_workloads_of_kueue_are_gangs_of_what_is_not_reclaimable() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
    mine = {"ownerReferences": [owner]}
    running = pod("j-0", metadata=mine, node="n0", devices=("gpu-0",))
    workload = kueue_workload(4, owner, reclaimablePods=[{"name": "main", "count": 1}])
    found = only([*cluster(4), workload, *running])
    assert found.gang == "Workload of Kueue team/w (Job j)"
    assert (found.least, found.pods, found.placed, found.state) == (3, 3, 1, "can be placed")
    finished = [{"type": "Finished", "status": "True"}]
    assert checked([*cluster(4), kueue_workload(4, owner, conditions=finished)]).gangs == ()
    assert checked([*cluster(4), kueue_workload(1, owner)]).gangs == ()


def test_pods_belong_to_a_workload_of_kueue_through_all_owners() -> None:
    """A RayJob has a RayCluster, which has the pods; without the cluster in the input they are not found, and it says so."""
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "r", "uid": "uid-r", "controller": True}
    cluster_ = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "c", "uid": "uid-c", "controller": True}
    between = object_("ray.io/v1", "RayCluster", "c", "team", metadata={"uid": "uid-c", "ownerReferences": [job]})
    pods = [
        one
        for n in range(2)
        for one in pod(f"c-{n}", metadata={"ownerReferences": [cluster_]}, node="n0", devices=(f"gpu-{n}",))
    ]
    ready = [{"type": "PodsReady", "status": "True"}]
    workload = kueue_workload(2, job, conditions=ready)
    assert only([*cluster(4), workload, between, *pods]).state == "is placed"
    lost = only([*cluster(4), workload, *pods])
    assert lost.state == "not determined" and lost.why.startswith("its pods are ready and not found")


def test_a_workload_of_kueue_for_a_set_that_is_there_is_told_once() -> None:
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "train",
        "uid": "u",
        "controller": True,
    }
    assert only([*cluster(4), kueue_workload(2, owner), job_set("train", 2)]).gang == "JobSet team/train"


def test_flavors_that_were_assigned_say_which_nodes() -> None:
    """Quota of the flavor for zone b was given: the nodes of zone a do not count."""
    nodes = cluster(4, 1, labels=({"zone": "a"}, {"zone": "b"}))
    flavor = object_("kueue.x-k8s.io/v1beta2", "ResourceFlavor", "fb", spec={"nodeLabels": {"zone": "b"}})
    assigned = [{"name": "main", "count": 2, "flavors": {"gpus": "fb"}}]
    found = only([*nodes, flavor, kueue_workload(2, admission={"clusterQueue": "q", "podSetAssignments": assigned})])
    assert found.state == "cannot be placed" and "at most 1 of 2 fit" in found.why
    assert only([*nodes, flavor, kueue_workload(2)]).state == "can be placed"


@pytest.mark.row(121, how="unit")
def test_each_kind_says_version_stage_and_source_and_is_on_the_page() -> None:
    page = (ROOT / "docs/gangs.md").read_text()
    for kind in known_gang_kinds().values():
        assert kind.versions and kind.stage and kind.source and kind.pause
        assert bool(kind.hold) is not kind.together
        kind.pause.format(namespace="n", name="x")
        assert re.search(kind.says.split(" ")[0], page), kind.kind
    assert known_gang_kinds()["pod-group"].is_kept_together(GROUPS) and not known_gang_kinds()[
        "pod-group"
    ].is_kept_together(RULES)


@pytest.mark.row(67, how="unit")
@pytest.mark.parametrize(("gate", "answer", "places"), [(True, "can be placed", 3), (False, "cannot be placed", 0)])
def test_a_claim_of_the_whole_group_is_one_claim(gate: bool, answer: str, places: int) -> None:
    """Three pods share two devices of one node while the gate is on; without it each of them wants two of its own."""
    on = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": gate}
    claims = [{"name": "g", "resourceClaimTemplateName": "two"}]
    members = [one for n in range(3) for one in pod(f"p{n}", schedulingGroup={"podGroupName": "pg"})]
    found = only([*cluster(1, 2), group("v1alpha2", 3, resourceClaims=claims), *members], rules("1.36", on))
    assert (found.state, len(found.places)) == (answer, places)
    assert {node for _, node in found.places} <= {"n1"}
