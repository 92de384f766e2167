"""What a pod takes from its node."""

from __future__ import annotations

from typing import Any

import pytest

from regauge.model import view
from regauge.model.core import PodSpec
from regauge.scheduler import pod_requests
from regauge.scheduler.resources import is_extended, is_scalar, pod_requests_for_scoring


def box(cpu: str = "", sidecar: bool = False, **more: str) -> dict[str, Any]:
    requests = {"cpu": cpu, **more} if cpu else more
    return {"name": "c", "resources": {"requests": requests}, **({"restartPolicy": "Always"} if sidecar else {})}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [box("1"), box("500m")]}, 1500),
        ({"containers": [box("1")], "initContainers": [box("3"), box("2")]}, 3000),
        ({"containers": [box("1")], "initContainers": [box("500m", sidecar=True)]}, 1500),
        # An init container runs beside the sidecars that were started before it, not beside later ones.
        ({"containers": [box("1")], "initContainers": [box("1", sidecar=True), box("3")]}, 4000),
        ({"containers": [box("1")], "initContainers": [box("3"), box("1", sidecar=True)]}, 3000),
        ({"containers": [box("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [box("1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
        ({"containers": [box("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}}, 5000),
        ({"containers": [box("0.0005"), box("0.0005")]}, 1),
        ({"containers": [box()]}, 0),
    ],
)
@pytest.mark.row(13)
def test_cpu(spec: dict[str, Any], cpu: int) -> None:
    assert pod_requests(view(spec, PodSpec)).get("cpu", 0) == cpu


def test_pod_level_resources_can_be_off_and_never_concern_extended_resources() -> None:
    level = {"requests": {"cpu": "4", "example.com/gpu": "8"}}
    spec = view({"containers": [box("1", **{"example.com/gpu": "2"})], "resources": level}, PodSpec)
    assert pod_requests(spec) == {"cpu": 4000, "example.com/gpu": 2}
    assert pod_requests(spec, pod_level=False) == {"cpu": 1000, "example.com/gpu": 2}


def test_scoring_assumes_something_for_containers_that_ask_for_nothing() -> None:
    assert pod_requests_for_scoring(view({"containers": [box(), box("1")]}, PodSpec)) == (1100, 400 * 1024 * 1024)


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("nvidia.com/gpu", True, True),
        ("deviceclass.resource.kubernetes.io/gpu", False, True),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-csi", False, True),
        ("requests.nvidia.com/gpu", False, False),
        ("cpu", False, False),
        ("gpu", False, False),
    ],
)
def test_kinds_of_resources(name: str, extended: bool, scalar: bool) -> None:
    assert (is_extended(name), is_scalar(name)) == (extended, scalar)
