"""One workload between limits and claim."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.base import InputError, Where
from regauge.migrate import to_claim, to_limits
from regauge.model import Document
from regauge.model.kinds import DEPLOYMENT


def _deployment(containers: list[Any], init: list[Any] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": containers, **({"initContainers": init} if init else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trainer", "namespace": "ml"},
        "spec": {"replicas": 2, "unknown": {"kept": True}, "template": {"spec": spec}},
    }


def _container(name: str, count: Any, where: str = "limits", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {where: {"nvidia.com/gpu": count, "cpu": "1"}}, **more}


def _document(object_: dict[str, Any]) -> Document:
    return Document(object_, Where("f.yaml", 1))


@pytest.mark.row(209, 210)
def test_two_interchangeable_devices_become_the_claim_of_the_document() -> None:
    moved = to_claim(_document(_deployment([_container("trainer", 2)])), "nvidia.com/gpu", "gpu.example.com")
    (template,) = moved.objects
    assert template["spec"]["spec"]["devices"]["requests"] == [
        {
            "name": "trainer",
            "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 2},
        }
    ]
    pod = moved.workload["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "devices", "resourceClaimTemplateName": "trainer-devices"}]
    assert pod["containers"][0]["resources"] == {
        "limits": {"cpu": "1"},
        "claims": [{"name": "devices", "request": "trainer"}],
    }
    assert moved.workload["spec"]["unknown"] == {"kept": True}


@pytest.mark.row(19)
@pytest.mark.parametrize("where", ["limits", "requests"])
@pytest.mark.parametrize("count", [2, "2", "2000m"])
def test_counts_are_read_quoted_or_not_from_limits_or_requests(where: str, count: Any) -> None:
    moved = to_claim(_document(_deployment([_container("c", count, where)])), "nvidia.com/gpu", "g")
    assert moved.objects[0]["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2


@pytest.mark.row(185, how="unit")
def test_each_container_keeps_devices_of_its_own() -> None:
    moved = to_claim(_document(_deployment([_container("a", 1), _container("b", 1)])), "nvidia.com/gpu", "g")
    names = [request["name"] for request in moved.objects[0]["spec"]["spec"]["devices"]["requests"]]
    assert names == ["a", "b"]
    (note,) = moved.notes
    assert "each gets devices of its own (a, b)" in note
    assert "let all of them name request a" in note


def test_an_init_container_shares_with_a_later_one_that_has_enough() -> None:
    object_ = _deployment([_container("main", 2)], [_container("warm", 1), _container("big", 3)])
    moved = to_claim(_document(object_), "nvidia.com/gpu", "g")
    names = [request["name"] for request in moved.objects[0]["spec"]["spec"]["devices"]["requests"]]
    assert names == ["main", "big"]
    assert "warm uses the devices of main" in moved.notes[0]
    assert "big asks for more" in moved.notes[1]


def test_the_input_is_not_touched() -> None:
    object_ = _deployment([_container("c", 1)])
    before = copy.deepcopy(object_)
    to_claim(_document(object_), "nvidia.com/gpu", "g")
    assert object_ == before


def test_a_job_loses_the_selector_that_was_made_for_it() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {
            "selector": {"matchLabels": {"controller-uid": "u"}},
            "template": {
                "metadata": {"labels": {"controller-uid": "u", "app": "x"}},
                "spec": {"containers": [_container("c", 1)]},
            },
        },
    }
    moved = to_claim(_document(job), "nvidia.com/gpu", "g").workload
    assert "selector" not in moved["spec"]
    assert moved["spec"]["template"]["metadata"]["labels"] == {"app": "x"}


def test_a_bare_pod_is_scheduled_anew() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n1", "uid": "u"},
        "spec": {"nodeName": "was-here", "containers": [_container("c", 1)]},
        "status": {"phase": "Running"},
    }
    moved = to_claim(_document(pod), "nvidia.com/gpu", "g").workload
    assert "nodeName" not in moved["spec"]
    assert "status" not in moved


@pytest.mark.parametrize(
    ("object_", "says"),
    [
        (_deployment([{"name": "c"}]), "no container asks for nvidia.com/gpu"),
        ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, "Secret has no pod template"),
    ],
)
def test_what_cannot_be_moved_is_said(object_: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        to_claim(_document(object_), "nvidia.com/gpu", "g")


_counts = st.lists(st.integers(1, 8), min_size=1, max_size=4)


@given(_counts, st.lists(st.integers(1, 8), max_size=2))
def test_there_and_back_is_the_same_object(main: list[int], init: list[int]) -> None:
    smaller = [min(count, max(main)) for count in init]
    object_ = _deployment(
        [_container(f"m{number}", str(count)) for number, count in enumerate(main)],
        [_container(f"i{number}", str(count)) for number, count in enumerate(smaller)],
    )
    moved = to_claim(_document(object_), "nvidia.com/gpu", "g")
    back = to_limits(moved.workload, DEPLOYMENT, moved.objects[0], "nvidia.com/gpu")
    same_size = all(count in main for count in smaller)
    assert (back == object_) or not same_size
    total = [c["resources"]["limits"]["nvidia.com/gpu"] for c in back["spec"]["template"]["spec"]["containers"]]
    assert total == [str(count) for count in main]
