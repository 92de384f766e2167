"""Every rule about an estate: it finds what its fixture's bad side shows, and nothing on the good side."""

from __future__ import annotations

import re

import pytest
from tests.support import ROOT
from tests.unit.audit.estates import FIXTURES, fixture

from regauge.audit import Finding, Profile, Severity, audit_estate, audit_rules, page_of

CODES = tuple(audit_rules())


def found(code: str, side: str) -> list[Finding]:
    return [one for one in audit_estate(fixture(code, side)).findings if one.code == code]


@pytest.mark.parametrize("code", CODES)
def test_the_bad_side_is_found(code: str) -> None:
    findings = found(code, "bad")
    assert findings
    rule = audit_rules()[code]
    for one in findings:
        assert one.layer is rule.layer
        assert one.where
        assert one.what
        assert one.why
        assert one.fix
        assert one.evidence or code == "UPGRADE-SKIPS"


@pytest.mark.parametrize("code", CODES)
def test_the_good_side_is_not(code: str) -> None:
    assert found(code, "good") == []


def test_each_rule_has_a_fixture_and_each_fixture_a_rule() -> None:
    assert sorted(path.stem for path in FIXTURES.glob("*.yaml") if path.stem != "healthy") == sorted(CODES)


@pytest.mark.row(4, how="unit")
def test_each_rule_has_a_place_on_the_page_with_its_layer_and_severity() -> None:
    page = (ROOT / "docs" / "audit.md").read_text()
    sections = dict(re.findall(r"^### ([A-Z][A-Z-]+)\n\n(.+?)(?=\n##|\Z)", page, re.M | re.S))
    assert list(sections) == [*CODES, "AUDIT-WAIVER-EXPIRED"]
    for code, rule in audit_rules().items():
        assert page_of(code) == f"docs/audit.md#{code.lower()}"
        first = sections[code].splitlines()[0]
        assert first == f"{rule.title}. {rule.severity.value.capitalize()}, {rule.layer.value}.", code
        assert rule.why in sections[code]
        assert rule.fix in sections[code]


def test_profiles_narrow() -> None:
    bad = fixture("ACCESS-CLASSES", "bad")
    assert [one.code for one in audit_estate(bad, Profile.SECURITY).findings] == ["ACCESS-CLASSES"]
    assert audit_estate(bad, Profile.MIGRATION).findings == ()
    assert audit_estate(bad, Profile.PRODUCTION).findings == audit_estate(bad).findings


@pytest.mark.row(158, how="unit")
def test_a_name_that_a_kubelet_only_remembers_owns_nothing() -> None:
    given = fixture("OWN-TWICE", "bad")
    (node,) = given.snapshot.documents(("", "Node"))
    node.object["status"] = {"capacity": {"accel.example.net/gpu": "0"}, "allocatable": {"accel.example.net/gpu": "0"}}
    assert [one.code for one in audit_estate(given).findings if one.code == "OWN-TWICE"] == []


def test_the_class_that_the_scheduler_takes_is_named() -> None:
    (one,) = found("CLASS-SHARED-NAME", "bad")
    assert "takes second" in one.what


def test_a_class_that_reaches_several_drivers_is_an_error() -> None:
    (one,) = found("CLASS-OVER-BROAD", "bad")
    assert one.severity is Severity.WARNING
