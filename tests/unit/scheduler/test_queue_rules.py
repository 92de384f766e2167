"""Charges and quotas beyond the recorded stories: capacities, limits without requests, cohorts, shared claims."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from tests.unit.scheduler.kueue_stories import RULES, as_snapshot, play

from regauge.base import InputError
from regauge.model import Quantity, view
from regauge.model.core import PodSpec
from regauge.scheduler.queue_charging import Charging, PodCharge, Published
from regauge.scheduler.queue_checking import check_queues
from regauge.scheduler.queue_objects import ClusterQueue, Cohort, kueue_settings
from regauge.scheduler.queue_quota import Quotas
from regauge.scheduler.queue_shapes import Refused

Object = dict[str, Any]


def charged(spec: Object, *requests: Object) -> dict[str, str] | str:
    """What a pod in the recorded cluster is charged; its template asks for `requests`. Or the shape that is refused."""
    *_, last = play("02-class-count-1")
    objects = copy.deepcopy(last.objects)
    for one in objects:
        if one["kind"] == "ResourceClaimTemplate":
            one["spec"]["spec"]["devices"]["requests"] = list(requests)
    snapshot = as_snapshot(objects)
    charging = Charging(Published(snapshot, RULES), kueue_settings(snapshot))
    if requests:
        spec = {**spec, "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
    found = charging.pod(view(spec, PodSpec), "q02")
    return found.shape if isinstance(found, Refused) else {name: str(value) for name, value in found.total.items()}


def exactly(class_: str, count: int = 1, **more: Any) -> Object:
    return {"name": f"r{class_[0]}", "exactly": {"deviceClassName": f"{class_}.example.com", "count": count, **more}}


def containers(**resources: Object) -> Object:
    return {"containers": [{"name": "main", "resources": resources}]}


PLAIN = containers()


def test_each_request_is_charged_to_its_own_class() -> None:
    asked = exactly("gpu", 3), exactly("fast", 1)
    assert charged(PLAIN, *asked) == {"example.com/gpus": "3", "example.com/fast-gpus": "1"}


def test_a_claim_and_an_extended_resource_of_one_class_add_up() -> None:
    spec = containers(requests={"example.com/mx": "1"}, limits={"example.com/mx": "1"})
    assert charged(spec, exactly("mx")) == {"example.com/mx-quota": "2"}


@pytest.mark.parametrize("resource", ["example.com/mx", "example.com/partx"])
def test_limits_alone_are_charged_under_the_name_itself(resource: str) -> None:
    assert charged(containers(limits={resource: "1"})) == {resource: "1"}


@pytest.mark.parametrize(
    ("asked", "amount"), [("1Gi", "4Gi"), ("4Gi", "4Gi"), ("10Gi", "12Gi"), ("44Gi", "44Gi"), (None, "8Gi")]
)
def test_a_capacity_is_rounded_to_its_policy(asked: str | None, amount: str) -> None:
    more = {"capacity": {"requests": {"memory": asked}}} if asked else {}
    assert charged(PLAIN, exactly("shared", **more)) == {"example.com/shared-memory": amount}


def test_a_capacity_needs_as_many_devices() -> None:
    assert charged(PLAIN, exactly("shared", 2)) == {"example.com/shared-memory": "16Gi"}
    assert charged(PLAIN, exactly("shared", 3)) == "too-few-for-capacity"


def test_sidecars_and_init_containers_count_as_for_any_pod() -> None:
    spec = {
        "initContainers": [
            {"name": "stays", "restartPolicy": "Always", "resources": {"requests": {"nvidia.com/gpu": "1"}}},
            {"name": "ends", "resources": {"requests": {"nvidia.com/gpu": "3"}}},
        ],
        **containers(requests={"nvidia.com/gpu": "2", "cpu": "500m"}),
    }
    assert charged(spec) == {"nvidia.com/gpu": "4", "cpu": "500m"}


# -- cohorts


def queue(name: str, quota: str, cohort: str = "all", **limits: str) -> ClusterQueue:
    resource = {"name": "gpus", "nominalQuota": quota, **limits}
    group = {"coveredResources": ["gpus"], "flavors": [{"name": "f", "resources": [resource]}]}
    return view({"metadata": {"name": name}, "spec": {"cohortName": cohort, "resourceGroups": [group]}}, ClusterQueue)


@pytest.mark.parametrize(
    ("own", "other", "used", "asked", "shape"),
    [
        ({}, {}, {}, 6, ""),
        ({}, {}, {}, 7, "quota-too-small"),
        ({}, {}, {"b": 3}, 4, "quota-used"),
        ({}, {}, {"b": 3}, 3, ""),
        ({"borrowingLimit": "1"}, {}, {}, 3, ""),
        ({"borrowingLimit": "1"}, {}, {}, 4, "quota-too-small"),
        ({}, {"lendingLimit": "1"}, {}, 3, ""),
        ({}, {"lendingLimit": "1"}, {}, 4, "quota-too-small"),
        ({}, {"lendingLimit": "1"}, {"b": 3}, 3, ""),
        ({}, {"lendingLimit": "1"}, {"b": 4}, 3, "quota-used"),
        ({"lendingLimit": "0"}, {}, {"b": 4}, 2, ""),
    ],
)
def test_a_queue_borrows_what_others_lend(own: Object, other: Object, used: Object, asked: int, shape: str) -> None:
    charges = {(name, "f", "gpus"): Quantity.of(count) for name, count in used.items()}
    quotas = Quotas([queue("a", "2", **own), queue("b", "4", **other)], charges)
    found = quotas.place("a", {"gpus": Quantity.of(asked)})
    assert (found.shape if isinstance(found, Refused) else "") == shape
    if not shape:
        assert found == {"gpus": "f"}


def cohort(name: str, parent: str = "", quota: str = "", **limits: str) -> Cohort:
    resource = {"name": "gpus", "nominalQuota": quota, **limits}
    groups = [{"coveredResources": ["gpus"], "flavors": [{"name": "f", "resources": [resource]}]}] if quota else []
    return view({"metadata": {"name": name}, "spec": {"parentName": parent, "resourceGroups": groups}}, Cohort)


@pytest.mark.parametrize(
    ("cohorts", "used", "most", "left"),
    [
        # Two queues of 2 and 4 in cohorts of their own below one above: all is lent.
        ([cohort("one", "top"), cohort("two", "top"), cohort("top")], {}, 6, 6),
        ([cohort("one", "top"), cohort("two", "top"), cohort("top")], {"b": 3}, 6, 3),
        # The cohort above has quota of its own.
        ([cohort("one", "top"), cohort("two", "top"), cohort("top", quota="10")], {"b": 5}, 16, 11),
        # The other side keeps all but one, and a part that it keeps is used first.
        ([cohort("one", "top"), cohort("two", "top", "0", lendingLimit="1"), cohort("top")], {"b": 3}, 3, 3),
        ([cohort("one", "top"), cohort("two", "top", "0", lendingLimit="1"), cohort("top")], {"b": 4}, 3, 2),
        # This side may take no more than one.
        ([cohort("one", "top", "0", borrowingLimit="1"), cohort("two", "top"), cohort("top")], {}, 3, 3),
        # Nobody above: nothing of the other.
        ([cohort("one"), cohort("two")], {"b": 4}, 2, 2),
    ],
)
def test_quota_flows_through_a_tree_of_cohorts(cohorts: list[Cohort], used: Object, most: int, left: int) -> None:
    charges = {(name, "f", "gpus"): Quantity.of(count) for name, count in used.items()}
    queues = [queue("a", "2", cohort="one"), queue("b", "4", cohort="two")]
    room = Quotas(queues, charges, cohorts).room(("a", "f", "gpus"))
    assert (room.most, room.left) == (Quantity.of(most), Quantity.of(left))


def test_a_circle_of_cohorts_is_told() -> None:
    with pytest.raises(InputError, match="is above itself"):
        Quotas([queue("a", "2", cohort="one")], {}, [cohort("one", "two"), cohort("two", "one")])


# -- causes that no story has


def test_a_claim_of_several_pods_is_told() -> None:
    *_, last = play("41-gates-dra-off-no-reject")
    for one in last.objects:
        if one["kind"] == "ResourceClaim" and one["metadata"]["name"] == "c":
            one["status"]["reservedFor"].append({"resource": "pods", "name": "another", "uid": "uid-another"})
    told = {one.code: one.text for one in check_queues(last.snapshot, RULES).differences}
    assert told["shared-claim"] == "claim c is used by 2 pods"


def test_another_number_in_the_claim_of_init_containers_is_told() -> None:
    *_, last = play("20-dra-extended-resource-init")
    for one in last.objects:
        if one["kind"] == "ResourceClaim":
            one["status"]["allocation"]["devices"]["results"].pop()
            break
    assert "init-containers" in {one.code for one in check_queues(last.snapshot, RULES).differences}


def test_a_mapped_class_that_is_charged_by_chance_tells_the_other_names() -> None:
    *_, last = play("61-two-classes-one-name-which-key")
    charging = Charging(Published(last.snapshot, RULES), kueue_settings(last.snapshot))
    found = charging.pod(view(containers(requests={"example.com/tx": "1"}), PodSpec), "q61")
    assert isinstance(found, PodCharge) and found.either == {"example.com/tx-one": ("example.com/tx-two",)}


# -- before a workload meets a queue


def job(name: str, template: str, count: int = 2, kind: str = "Job") -> Object:
    """A job that names the queue and has no Workload yet."""
    claims = [{"name": "g", "resourceClaimTemplateName": template}]
    pod = {"containers": [{"name": "main", "image": "x"}], "resourceClaims": claims}
    metadata = {"name": name, "namespace": "q02", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    inner = {"parallelism": count, "template": {"spec": pod}}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
    if kind == "JobSet":
        jobs = [{"name": "w", "replicas": 2, "template": {"spec": inner}}]
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": {"replicatedJobs": jobs},
        }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": inner}


def template(name: str, **more: Any) -> Object:
    metadata = {"name": name, "namespace": "q02"}
    devices = {"requests": [exactly("gpu", **more)]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": devices}},
    }


@pytest.mark.row(8, how="unit")
@pytest.mark.parametrize(("kind", "charge"), [("Job", "2"), ("JobSet", "4"), ("Pod", "1")])
def test_what_is_not_in_a_queue_yet_is_foretold(kind: str, charge: str) -> None:
    *_, last = play("02-class-count-1")
    coming = [template("one"), job("new", "one", kind=kind)]
    found = check_queues(as_snapshot([*last.objects, *coming]), RULES, random.Random(0))
    (one,) = [item for item in found.waiting if item.workload == f"{kind}/q02/new"]
    assert {name: str(value) for name, value in one.charge.items()} == {"example.com/gpus": charge}
    (steps,) = [item for item in found.steps if item.workload == f"{kind}/q02/new"]
    assert steps.devices == "can be placed" and steps.pods == int(charge)


def test_a_shape_that_cannot_be_charged_is_told_before_it_is_sent() -> None:
    *_, last = play("02-class-count-1")
    all_devices = template("all", allocationMode="All")
    del all_devices["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"]
    found = check_queues(as_snapshot([*last.objects, all_devices, job("new", "all", 1)]), RULES, random.Random(0))
    (one,) = [item for item in found.waiting if item.workload == "Job/q02/new"]
    assert one.shape == "all-devices" and one.means.startswith("the number of devices is not known")
    (steps,) = [item for item in found.steps if item.workload == "Job/q02/new"]
    assert (steps.quota, steps.gap) == ("is refused", "devices would do, quota does not pass")
