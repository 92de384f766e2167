"""Labels and selectors say the same: what a node's label would admit, the selector accepts of the device."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.migrate.building import ground

from regauge.migrate.labels import NotSelected, Selected, from_selector, label_rules, to_selector
from regauge.model import SelectorRequirement, matches_requirement, view
from regauge.model.resource import Device

MATCHES = ground().accepts
NVIDIA = "gpu.nvidia.com"


def label_of(form: str, value: Any) -> str:
    """The label that a labeller makes of what a driver publishes."""
    match form:
        case "dashed":
            return "-".join(value.split())
        case "underscored":
            return value.replace(" ", "_")
        case "lower":
            return value.lower().replace(" ", "-")
        case "hex":
            return value.removeprefix("0x")
        case "mebibytes":
            return str(value // (1 << 20))
        case "major":
            return str(value.split(".")[0])
        case "minor":
            return str(value.split(".")[1])
    return str(value)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "dashed": st.sampled_from(["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "Tesla T4", "NVIDIA L4"]),
    "underscored": st.sampled_from(["AMD Instinct MI300X OAM", "AMD Instinct MI210"]),
    "lower": st.sampled_from(["Hopper", "Ampere", "Ada Lovelace"]),
    "hex": st.sampled_from(["0x74a1", "0x740f"]),
    "mebibytes": st.integers(40000 << 20, (40002 << 20) + 5),
    "count": st.integers(103, 105),
    "major": st.sampled_from(["8.0.0", "9.0.0", "10.3.0"]),
    "minor": st.sampled_from(["8.0.0", "8.6.0", "10.3.0"]),
}
RULES = [rule for rule in label_rules() if rule.kind == "device"]


def device(rule: Any, value: Any) -> Device:
    kind = "version" if rule.form in ("major", "minor") else "string"
    part = (
        {"attributes": {rule.attribute: {kind: value}}}
        if rule.attribute
        else {"capacity": {rule.capacity: {"value": str(value)}}}
    )
    return view({"name": "d", **part}, Device)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_selector_accepts_the_devices_whose_label_would_be_admitted(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(RULES))
    published = data.draw(VALUES[rule.form])
    numeric = rule.form in ("mebibytes", "count", "major", "minor")
    operator = data.draw(st.sampled_from(["In", "NotIn", "Exists", *(["Gt", "Lt"] if numeric else [])]))
    others = st.one_of(
        VALUES[rule.form].map(lambda value: label_of(rule.form, value)), st.sampled_from(["8", "0", "9"])
    )
    one = operator in ("Gt", "Lt")
    wanted = (
        ()
        if operator == "Exists"
        else tuple(data.draw(st.lists(others, min_size=1, max_size=1 if one else 3, unique=True)))
    )
    found = to_selector(rule.label, operator, wanted)
    assert isinstance(found, Selected)
    labels = {rule.label: label_of(rule.form, published)}
    requirement = SelectorRequirement(key=rule.label, operator=operator, values=wanted)
    assert MATCHES(found.expression, rule.driver, device(rule, published)) is matches_requirement(requirement, labels)
    bare = Device(name="bare")
    assert MATCHES(found.expression, rule.driver, bare) is matches_requirement(requirement, {})
    assert (rule.label, operator, wanted) in set(from_selector(found.expression)) or _same_as_another(rule.label)


def _same_as_another(label: str) -> bool:
    """Two labels of one meaning have one selector; the way back names the first."""
    return label.startswith(("nvidia.com/cuda.driver-version", "nvidia.com/cuda.runtime-version"))


def test_a_partition_in_the_product_is_a_selector_on_both() -> None:
    found = to_selector("nvidia.com/gpu.product", "In", ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",))
    assert isinstance(found, Selected)

    def mig(profile: str) -> Device:
        attributes = {"productName": {"string": "NVIDIA A100-SXM4-80GB"}, "profile": {"string": profile}}
        return view({"name": "m", "attributes": attributes}, Device)

    assert MATCHES(found.expression, NVIDIA, mig("1g.10gb"))
    assert not MATCHES(found.expression, NVIDIA, mig("3g.40gb"))


@pytest.mark.parametrize("value", ['x" || true || "', "a\\", "a b", "\u00e9"])
def test_text_that_no_label_has_makes_no_selector(value: str) -> None:
    assert isinstance(to_selector("nvidia.com/gpu.product", "In", (value,)), NotSelected)


def test_every_rule_has_its_source_and_a_form_that_is_known() -> None:
    for rule in label_rules():
        assert rule.source
        if rule.kind == "device":
            assert rule.form in VALUES
            assert rule.confidence in ("high", "medium")
            assert bool(rule.attribute) is not bool(rule.capacity)
