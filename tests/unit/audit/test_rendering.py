"""What an audit says to programs: each form is valid, complete, and safe for what stands in an input."""

from __future__ import annotations

import json
import xml.etree.ElementTree as Xml
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.audit.estates import NOW_S, fixture

from regauge.audit import (
    AuditReport,
    Evidence,
    Finding,
    Layer,
    Severity,
    as_annotations,
    as_junit,
    as_markdown,
    as_sarif,
    audit_document,
    audit_estate,
    read_waivers,
    settle,
)
from regauge.base import Where

WAIVERS = {"waivers": [{"code": "ACCESS-CLASSES", "reason": "a test cluster", "expires": "2026-12-31"}]}
NASTY = Finding(
    "CLASS-INVALID",
    Severity.ERROR,
    Layer.SCHEDULING,
    "DeviceClass x",
    "a\nb::error::c | *d* <script> \x1b[31m\x00",
    "100% of it",
    "none",
    (Evidence(Where("dir/a file,b:c.yaml", 7, "DeviceClass x", "spec"), "seen"),),
)


def report(code: str = "ACCESS-CLASSES", waivers: Any = None) -> AuditReport:
    audit = audit_estate(fixture(code, "bad"))
    kept = read_waivers(waivers, "w.yaml", [one.code for one in audit.findings]) if waivers else ()
    return AuditReport(audit, settle(audit.findings, kept, NOW_S), None, "1.2.3")


def nasty() -> AuditReport:
    given = report()
    return replace(given, settled=replace(given.settled, findings=(NASTY,)))


def test_json_has_every_finding_with_its_place_and_page() -> None:
    document = audit_document(report())
    json.dumps(document)
    assert document["schema"] == "regauge.audit/v1"
    assert document["counts"] == {"error": 0, "warning": 1, "note": 0}
    (found,) = document["findings"]
    assert found["page"] == "docs/audit.md#access-classes"
    (evidence,) = found["evidence"]
    assert (evidence["file"], evidence["line"], evidence["object"]) == (
        "ACCESS-CLASSES.yaml",
        3,
        "ClusterRoleBinding b",
    )
    assert "checklist" not in document


def test_sarif_has_rules_results_places_and_suppressions() -> None:
    (run,) = as_sarif(report())["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("regauge", "1.2.3")
    (result,) = run["results"]
    rule = driver["rules"][result["ruleIndex"]]
    assert result["ruleId"] == rule["id"] == "ACCESS-CLASSES"
    assert result["level"] == rule["defaultConfiguration"]["level"] == "warning"
    physical = result["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "ACCESS-CLASSES.yaml"}, "region": {"startLine": 3}}
    assert "suppressions" not in result
    (waived,) = as_sarif(report(waivers=WAIVERS))["runs"][0]["results"]
    assert waived["suppressions"] == [{"kind": "external", "justification": "a test cluster"}]


def test_sarif_places_are_uris() -> None:
    (result,) = as_sarif(nasty())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "dir/a%20file%2Cb%3Ac.yaml"


def test_junit_fails_by_code_and_skips_what_is_waived() -> None:
    root = Xml.fromstring(as_junit(report()))
    (case,) = root.findall("testcase")
    assert (case.get("name"), root.get("failures"), root.get("tests")) == ("ACCESS-CLASSES", "1", "1")
    assert case.find("failure") is not None
    root = Xml.fromstring(as_junit(report(waivers=WAIVERS)))
    assert (root.get("failures"), root.get("skipped")) == ("0", "1")


def test_junit_of_nothing_is_a_case_that_passes() -> None:
    audit = audit_estate(fixture("healthy", "good"))
    root = Xml.fromstring(as_junit(AuditReport(audit, settle(audit.findings, (), NOW_S))))
    assert [case.get("name") for case in root.findall("testcase")] == ["no findings"]
    assert root.get("tests") == "1"


def test_a_note_is_no_failure() -> None:
    given = report()
    note = replace(NASTY, severity=Severity.NOTE)
    root = Xml.fromstring(as_junit(replace(given, settled=replace(given.settled, findings=(note,)))))
    assert root.get("failures") == "0"


def test_what_an_input_holds_is_no_markup() -> None:
    assert Xml.fromstring(as_junit(nasty())).findall("testcase")
    text = as_markdown(nasty())
    assert "\\<script\\>" in text
    assert "\n## error: CLASS-INVALID (scheduling)\n" in text
    (line,) = as_annotations(nasty()).splitlines()
    assert line.startswith("::error file=dir/a file%2Cb%3Ac.yaml,line=7,title=CLASS-INVALID::a%0Ab::error::c")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({}, "no list of waivers"),
        ({"waivers": ["x"]}, "a waiver is a mapping"),
        ({"waivers": [{"code": "ACCESS-CLASSES", "expires": "2027-01-01"}]}, "reason is missing"),
        ({"waivers": [{"code": "ACCESS-CLASSES", "reason": "r"}]}, "expires is missing"),
        ({"waivers": [{"code": "ACCESS-CLASSES", "reason": "r", "expires": "soon"}]}, "soon is no day"),
        ({"waivers": [{"code": "NO-SUCH", "reason": "r", "expires": "2027-01-01"}]}, "there is no code NO-SUCH"),
        (
            {"waivers": [{"code": "ACCESS-CLASSES", "reason": "r", "expires": "2027-01-01", "x": "y"}]},
            "unknown field x",
        ),
    ],
)
def test_a_waiver_needs_reason_and_day(value: Any, told: str) -> None:
    with pytest.raises(Exception, match=told) as caught:
        read_waivers(value, "w.yaml", ["ACCESS-CLASSES"])
    assert "w.yaml" in str(caught.value)


def test_a_waiver_holds_until_the_end_of_its_day_and_is_told_after() -> None:
    row = {"code": "ACCESS-CLASSES", "where": "ClusterRoleBinding *", "reason": "r", "expires": "2026-11-29"}
    held = report(waivers={"waivers": [row]})
    assert held.findings == ()
    assert [one.waiver.reason for one in held.settled.waived] == ["r"]
    ended = report(waivers={"waivers": [{**row, "expires": "2026-11-28"}]})
    assert [one.code for one in ended.findings] == ["ACCESS-CLASSES", "AUDIT-WAIVER-EXPIRED"]
    assert "1 findings count again" in ended.findings[1].what
    other = report(waivers={"waivers": [{**row, "where": "ClusterRoleBinding other"}]})
    assert [one.code for one in other.findings] == ["ACCESS-CLASSES"]
    assert [one.code for one in other.settled.unused] == ["ACCESS-CLASSES"]
