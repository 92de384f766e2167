"""Clusters compared: what must be the same before work is spread over them, by meaning and not by text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.audit.contracts import (
    ESTATE,
    FACTS,
    OURS,
    device_class,
    flavor,
    ground,
    node,
    resource_slice,
    template,
    without,
)

from regauge.audit import Compared, Difference, Side, contract_diff_document, contract_differences, draft
from regauge.features import rules

SELECTS_A = 'device.attributes["gpu.example.com"].model == "A"'


def cluster(name: str, *objects: dict[str, Any]) -> Compared:
    found = ground(*objects)
    return Compared(name, draft(found, FACTS, name), Side.of(name, found))


def instead(kind: str, *objects: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (*without(kind), *objects)


def differences(*objects: dict[str, Any]) -> tuple[Difference, ...]:
    """Between the estate and one with these objects."""
    return contract_differences([cluster("east", *ESTATE), cluster("west", *objects)])


@pytest.mark.row(119, how="unit")
def test_equal_clusters_do_not_differ() -> None:
    assert differences(*ESTATE) == ()


@pytest.mark.row(119, how="unit")
def test_another_way_of_writing_is_no_difference() -> None:
    other = device_class("gpu", "'gpu.example.com' == device.driver", extendedResourceName="example.com/any")
    again = template("t", "\"A\"==device.attributes['gpu.example.com']['model']")
    assert differences(*instead("DeviceClass", other)) == ()
    assert differences(*instead("ResourceClaimTemplate", again)) == ()


@pytest.mark.row(119, how="unit")
def test_another_form_that_selects_the_same_is_told_and_not_needed() -> None:
    other = device_class("gpu", 'device.driver.startsWith("gpu.exam")', extendedResourceName="example.com/any")
    (one,) = differences(*instead("DeviceClass", other))
    assert (one.kind, one.name, one.field, one.needed) == ("DeviceClass", "gpu", "selectors", False)
    assert one.what == "selects the same devices here, though written differently (4 seen)"
    assert one.values == (OURS, 'device.driver.startsWith("gpu.exam")')


def test_without_devices_another_form_is_not_decided() -> None:
    other = device_class("gpu", 'device.driver.startsWith("gpu.exam")', extendedResourceName="example.com/any")
    nothing = without("ResourceSlice")
    sides = [
        cluster("east", *nothing),
        cluster("west", *(one for one in nothing if one["kind"] != "DeviceClass"), other),
    ]
    (one,) = contract_differences(sides)
    assert (one.needed, one.what) == (True, "whether they select the same is not known: no device was seen")


NEEDED: tuple[tuple[str, tuple[dict[str, Any], ...], tuple[str, str, str], str], ...] = (
    ("a class is missing", without("DeviceClass"), ("DeviceClass", "gpu", ""), "west does not have it"),
    ("a class selects others",
     instead("DeviceClass", device_class("gpu", f"{OURS} && {SELECTS_A}", extendedResourceName="example.com/any")),
     ("DeviceClass", "gpu", "selectors"),
     "they answer differently for 2 of 4 devices: east: gpu.example.com/n1/gpu-1, west: gpu.example.com/n1/gpu-1"),
    ("a class serves another name", instead("DeviceClass", device_class("gpu", OURS, extendedResourceName="example.com/b")),
     ("DeviceClass", "gpu", "extendedResourceName"), "they differ"),
    ("a class is configured", instead("DeviceClass", device_class("gpu", OURS, extendedResourceName="example.com/any",
                                      config=[{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}])),
     ("DeviceClass", "gpu", "config"), "they differ"),
    ("a template is missing", without("ResourceClaimTemplate"), ("ResourceClaimTemplate", "team/t", ""), "west does not"),
    ("a template asks for more", instead("ResourceClaimTemplate", template("t", SELECTS_A, count=3)),
     ("ResourceClaimTemplate", "team/t", "devices.requests[0].exactly.count"), "they differ"),
    ("a template selects others", instead("ResourceClaimTemplate", template("t", "true")),
     ("ResourceClaimTemplate", "team/t", "selectors"), "they answer differently for 2 of 4 devices"),
    ("a flavor is missing", without("AcceleratorFlavor"), ("AcceleratorFlavor", "one", ""), "west does not have it"),
    ("a flavor asks for more", instead("AcceleratorFlavor", flavor(SELECTS_A, count=2)),
     ("AcceleratorFlavor", "one", "dra.requests[0].count"), "they differ"),
    ("a driver is missing", (*without("ResourceSlice"), node("n9", "cpu")), ("driver", "gpu.example.com (dra)", ""),
     "west does not have it"),
)  # fmt: skip


@pytest.mark.row(119, how="unit")
@pytest.mark.parametrize(("objects", "place", "told"), [one[1:] for one in NEEDED], ids=[one[0] for one in NEEDED])
def test_what_work_that_is_spread_needs(
    objects: tuple[dict[str, Any], ...], place: tuple[str, str, str], told: str
) -> None:
    found = [one for one in differences(*objects) if one.needed]
    assert [(one.kind, one.name, one.field) for one in found] == [place]
    assert found[0].what.startswith(told)


def test_a_description_is_for_people() -> None:
    one = flavor(SELECTS_A)
    one["spec"]["description"] = "other words"
    assert differences(*instead("AcceleratorFlavor", one)) == ()


def test_a_gate_that_somebody_uses_is_needed_everywhere() -> None:
    east, west = cluster("east", *ESTATE), cluster("west", *ESTATE)
    off = rules("v1.36.3", {"DRAExtendedResource": False})
    features = tuple(one for one in west.contract.features if one.gate != "DRAExtendedResource")
    bare = msgspec.structs.replace(west.contract, features=features)
    (one,) = contract_differences([east, Compared("west", bare, Side("west", off))])
    assert (one.kind, one.name, one.values, one.needed) == ("feature", "DRAExtendedResource", ("on", "off"), True)


def test_versions_are_told() -> None:
    slices = (resource_slice("n1", ["A", "B"]),)
    slices[0]["spec"]["devices"][0]["attributes"]["driverVersion"] = {"version": "9.9.9"}
    found = differences(*instead("ResourceSlice", *slices))
    assert [(one.kind, one.field, one.needed) for one in found] == [("driver", "versions", False)]


def test_three_clusters_stand_side_by_side() -> None:
    west = cluster("west", *without("DeviceClass"))
    clusters = [cluster("east", *ESTATE), west, cluster("south", *ESTATE)]
    found = contract_differences(clusters)
    (one,) = [item for item in found if item.needed and item.kind == "DeviceClass"]
    assert one.values == ("there", "missing", "there")
    document = contract_diff_document(clusters, found)
    assert document["same"] is False
    assert document["differences"][0]["values"] == {"east": "there", "west": "missing", "south": "there"}
