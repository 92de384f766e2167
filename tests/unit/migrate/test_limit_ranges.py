"""What LimitRanges of a namespace mean for a workload that moves."""

from typing import Any

import pytest

from regauge.base import Where
from regauge.features import rules
from regauge.migrate import AssessRow, assess, device_matcher
from regauge.model import Document, Snapshot

GPU = "nvidia.com/gpu"


def _rows(*limits: dict[str, Any], other: dict[str, str] | None = None, namespace: str = "ml") -> tuple[AssessRow, ...]:
    slice_ = {"driver": "gpu.nvidia.com", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1", **(other or {})}}}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {**slice_, "nodeName": "n", "devices": [{"name": "gpu-0"}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "ml"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "gpu", "namespace": namespace},
            "spec": {"limits": list(limits)},
        },
    ]
    found = rules("1.36", {})
    snapshot = Snapshot.of([Document(item, Where("f.yaml")) for item in objects])
    return assess(snapshot, found, device_matcher(found)).rows


@pytest.mark.row(91, how="unit")
@pytest.mark.parametrize("field", ["default", "defaultRequest", "max", "min"])
def test_a_range_that_would_give_the_device_again_is_in_the_way(field: str) -> None:
    (row,) = _rows({"type": "Container", field: {GPU: 4}})
    assert not row.ready
    assert row.needs[0] == f"LimitRange gpu changed: it gives 4 {GPU} to every container that names none"


def test_so_is_one_that_gives_another_device_to_its_containers() -> None:
    limits = {"type": "Container", "default": {"example.com/nic": "1", "cpu": "1"}}
    (row,) = _rows(limits)
    assert row.needs[0] == "LimitRange gpu changed: it gives 1 example.com/nic to every container that names none"
    assert {item.ready for item in _rows(limits, other={"example.com/nic": "2"})} >= {True}


def test_a_range_for_pods_wants_them_to_count() -> None:
    (row,) = _rows({"type": "Pod", "max": {GPU: "8"}})
    assert row.needs[0] == f"LimitRange gpu changed: it refuses pods that do not count {GPU}"


@pytest.mark.parametrize(
    ("limits", "namespace"),
    [
        ({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}, "ml"),
        ({"type": "Container", "default": {GPU: "4"}}, "other"),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, "ml"),
        ({"type": "Container", "default": "nonsense"}, "ml"),
    ],
)
def test_others_are_not(limits: dict[str, Any], namespace: str) -> None:
    (row,) = _rows(limits, namespace=namespace)
    assert row.ready
