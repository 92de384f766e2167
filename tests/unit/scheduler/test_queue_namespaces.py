"""ResourceQuotas and LimitRanges: each line counted as the API server counts it, and held to what is held."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.kueue_stories import RULES, as_snapshot, play

from regauge.cluster.admission.quota import used_by
from regauge.cluster.store import Store
from regauge.model import Quantity, view
from regauge.model.core import PodSpec
from regauge.model.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM
from regauge.scheduler.queue_charging import Charging, LimitDefaults, PodCharge, Published
from regauge.scheduler.queue_checking import check_queues
from regauge.scheduler.queue_namespaces import NamespaceQuotas
from regauge.scheduler.queue_objects import kueue_settings

Object = dict[str, Any]
GPU, NIC = "gpu.example.com", "nic.example.com"
KEYS = (
    f"{GPU}.deviceclass.resource.k8s.io/devices",
    f"{NIC}.deviceclass.resource.k8s.io/devices",
    f"requests.deviceclass.resource.kubernetes.io/{GPU}",
    "requests.example.com/gpu",
)


def class_(name: str, extended: str = "") -> Object:
    spec: Object = {"selectors": [{"cel": {"expression": f'device.driver == "{name}"'}}]}
    if extended:
        spec["extendedResourceName"] = extended
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def quota(*keys: str, used: Object | None = None) -> Object:
    head = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"}}
    return {**head, "spec": {"hard": dict.fromkeys(keys, "8")}, **({"status": {"used": used}} if used else {})}


def claim(name: str, requests: list[Object], held: int = 0, special: str = "") -> Object:
    metadata: Object = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    if special:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": special, "uid": f"uid-{special}", "controller": True}
        metadata["ownerReferences"] = [owner]
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    results = [
        {"request": requests[0]["name"], "driver": GPU, "pool": "n", "device": f"{name}-{n}"} for n in range(held)
    ]
    status = {"allocation": {"devices": {"results": results}}} if held else {}
    return {**head, "spec": {"devices": {"requests": requests}}, "status": status}


def pod(name: str, **requests: str) -> Object:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    asked = {key.replace("_", "/"): value for key, value in requests.items()}
    containers = [{"name": "c", "image": "x", "resources": {"requests": asked, "limits": asked}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}, "status": {}}


def exactly(class_name: str, count: int = 1, mode: str = "ExactCount") -> Object:
    asked: Object = {"deviceClassName": class_name, "allocationMode": mode}
    return {"name": "r", "exactly": {**asked, "count": count} if mode == "ExactCount" else asked}


def lines(objects: list[Object]) -> dict[str, tuple[str, str]]:
    """What counts and what is held, by line."""
    snapshot = as_snapshot(objects)
    charging = Charging(Published(snapshot, RULES), kueue_settings(snapshot))
    found = NamespaceQuotas(snapshot, charging, RULES).keys()
    return {one.key: (str(one.counted), str(one.held)) for one in found}


REQUEST = st.one_of(
    st.builds(exactly, st.sampled_from([GPU, NIC]), st.integers(1, 3)),
    st.builds(exactly, st.sampled_from([GPU, NIC]), st.just(1), st.just("All")),
    st.lists(st.tuples(st.sampled_from([GPU, NIC]), st.integers(1, 3)), min_size=1, max_size=3).map(
        lambda several: {
            "name": "r",
            "firstAvailable": [
                {"name": f"s{n}", "deviceClassName": name, "allocationMode": "ExactCount", "count": count}
                for n, (name, count) in enumerate(several)
            ],
        }
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(REQUEST, max_size=3), st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=3))
def test_lines_count_what_the_api_server_counts(requests: list[Object], pods: list[tuple[int, int]]) -> None:
    """Claims, and pods by the extended resource with or without the claim that the scheduler made for them."""
    objects = [class_(GPU, "example.com/gpu"), class_(NIC), quota(*KEYS)]
    objects += [claim(f"c{n}", [one]) for n, one in enumerate(requests)]
    for n, (asked, special) in enumerate(pods):
        objects.append(pod(f"p{n}", **{"example.com_gpu": str(asked)}))
        if special:
            objects.append(claim(f"s{n}", [exactly(GPU, special)], special=f"p{n}"))
    store = Store()
    kinds = {one.kind: one for one in (DEVICE_CLASS, POD, RESOURCE_CLAIM)}
    for one in objects:
        if one["kind"] in kinds:
            kind = kinds[one["kind"]]
            store.put(kind, (one["metadata"].get("namespace", ""), one["metadata"]["name"]), one)
    expected = {key: str(value) for key, value in used_by(store, objects[2]).items()}
    assert {key: counted for key, (counted, _) in lines(objects).items()} == expected


@pytest.mark.row(115, how="unit")
def test_what_is_held_is_told_beside_what_counts() -> None:
    """Two of three alternatives are wished for, one device is held: the line counts the worst."""
    several = [
        {"name": name, "deviceClassName": GPU, "allocationMode": "ExactCount", "count": count}
        for name, count in (("big", 4), ("small", 1))
    ]
    held = claim("c", [{"name": "r", "firstAvailable": several}], held=1)
    held["status"]["allocation"]["devices"]["results"][0]["request"] = "r/small"
    assert lines([class_(GPU), quota(KEYS[0]), held]) == {KEYS[0]: ("4", "1")}
    found = check_queues(as_snapshot([class_(GPU), quota(KEYS[0], used={KEYS[0]: "3"}), held]), RULES)
    assert {one.code: one.text for one in found.differences} == {
        "quota-by-wish": "4 count, 1 devices are held",
        "quota-lags": "3 in the status, 4 by pods and claims",
    }
    assert found.good


@pytest.mark.row(23, how="unit")
def test_two_lines_for_the_same_devices_and_names_of_nothing_are_told() -> None:
    objects = [class_(GPU, "example.com/gpu"), quota(KEYS[0], KEYS[3], "gone.deviceclass.resource.k8s.io/devices")]
    told = {one.code: one for one in check_queues(as_snapshot(objects), RULES).differences}
    assert told["quota-twice"].resource == f"{KEYS[0]}, {KEYS[3]}" and told["quota-twice"].notice
    assert told["name-unused"].resource.startswith("gone.")


@pytest.mark.row(23, how="unit")
def test_a_limit_range_on_the_old_name_does_not_limit_claims() -> None:
    limits = [{"type": "Container", "max": {"example.com/gpu": "2", "cpu": "4"}}]
    head = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "team"}}
    objects = [class_(GPU, "example.com/gpu"), {**head, "spec": {"limits": limits}}]
    (told,) = check_queues(as_snapshot(objects), RULES).differences
    assert (told.code, told.resource, told.text) == (
        "limit-range",
        "example.com/gpu",
        f"claims of class {GPU} are not limited by it",
    )


def test_what_a_limit_range_fills_in_is_charged() -> None:
    *_, last = play("02-class-count-1")
    ranges = {"q02": LimitDefaults({"cpu": "250m"}, {"nvidia.com/gpu": "1"})}
    charging = Charging(Published(last.snapshot, RULES), kueue_settings(last.snapshot), ranges)
    spec = view({"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "1"}}}]}, PodSpec)
    found = charging.pod(spec, "q02")
    assert isinstance(found, PodCharge)
    assert found.total == {"cpu": Quantity(1250, -3), "nvidia.com/gpu": Quantity.of(2)}
    other = charging.pod(spec, "elsewhere")
    assert isinstance(other, PodCharge) and other.total == {"cpu": Quantity(1000, -3)}
