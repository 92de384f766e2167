"""Every rule about an estate: it finds what its fixture's bad side shows, and nothing on the good side."""

from __future__ import annotations

import json
import re

import pytest
from tests.support import ROOT
from tests.unit.audit.estates import FIXTURES, fixture

from regauge.audit import (
    AuditReport,
    Finding,
    Profile,
    Severity,
    as_sarif,
    audit_estate,
    audit_rules,
    page_of,
    settle,
)

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


@pytest.mark.row(153, 154, 155, how="unit")
@pytest.mark.parametrize(
    ("name", "prefix"), [("passthrough", "PASSTHROUGH-"), ("sharing", "SHARING-"), ("kata", "KATA-")]
)
def test_each_threat_has_a_page_whose_checks_are_rules(name: str, prefix: str) -> None:
    page = (ROOT / "docs" / "threats" / f"{name}.md").read_text()
    named = set(re.findall(r"`([A-Z]+(?:-[A-Z]+)+)`", page))
    cdi = set(re.findall(r"`(CDI-[A-Z-]+)`", (ROOT / "docs" / "cdi.md").read_text()))
    assert named <= {*CODES, *cdi}
    own = {code for code in CODES if code.startswith(prefix)}
    assert own
    assert own <= named
    assert all(Profile.SECURITY in audit_rules()[code].profiles or code == "SHARING-DOUBLE" for code in own)
    headings = re.findall(r"^## (.+)$", page, re.M)
    assert headings[:2] == ["What is to be kept", "Who is trusted"]
    assert headings[-3:] == [
        "What can go wrong",
        "What Kubernetes, DRA and CDI promise, and what not",
        "What regauge cannot see",
    ]


@pytest.mark.row(257, how="unit")
def test_failures_to_prepare_are_counted_with_the_first_and_the_last_error() -> None:
    (one,) = found("PREPARE-FAILING", "bad")
    assert one.what == (
        "pod a/p does not start: preparing its devices failed 43 times, first at 2026-11-29T08:00:05Z,"
        " last at 2026-11-29T11:58:00Z"
    )
    assert [told.text for told in one.evidence] == [
        "first: prepare: config is invalid: no such profile",
        "last: prepare: device x is busy",
    ]
    assert one.devices == ("d.example.com/p/x",)
    given = fixture("PREPARE-FAILING", "bad")
    for event in given.snapshot.documents(("", "Event")):
        event.object.update(
            {"count": 1, "firstTimestamp": "2026-11-29T11:59:00Z", "lastTimestamp": "2026-11-29T11:59:00Z"}
        )
    assert "PREPARE-FAILING" not in {one.code for one in audit_estate(given).findings}  # twice in a minute may pass


@pytest.mark.row(29, how="unit")
def test_devices_that_are_picked_by_labels_are_told_with_the_label() -> None:
    (one,) = found("WORKLOAD-BY-LABELS", "bad")
    assert one.what == (
        "Deployment a/d asks for nvidia.com/gpu and picks the device by labels of nodes: nvidia.com/gpu.product"
    )


@pytest.mark.row(151, how="unit")
@pytest.mark.parametrize(
    "code", ["CLASS-COST", "CLASS-UNGUARDED", "CLASS-ALWAYS-FALSE", "CLASS-OVER-BROAD", "CLASS-FAILS", "REQUEST-FAILS"]
)
def test_a_selector_is_shown_where_it_stands_also_in_sarif(code: str) -> None:
    given = fixture(code, "bad")
    audit = audit_estate(given)
    (finding,) = [one for one in audit.findings if one.code == code]
    assert all(one.where.file == f"{code}.yaml" and one.where.line for one in finding.evidence if one.where.object)
    sarif = as_sarif(AuditReport(audit, settle(audit.findings, (), given.now_s)))
    (result,) = [one for one in sarif["runs"][0]["results"] if one["ruleId"] == code]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == f"{code}.yaml"


@pytest.mark.row(148, how="unit")
def test_who_may_write_a_release_may_upgrade_the_driver() -> None:
    (one,) = found("ACCESS-RELEASES", "bad")
    assert "update secrets of namespace g, from which DaemonSet g/d is released and configured" in one.what


@pytest.mark.row(279, how="unit")
def test_what_this_project_ships_for_monitoring_does_not_go_blank() -> None:
    given = fixture("MONITORING-BLANK", "bad")
    (rule,) = given.snapshot.documents(("monitoring.coreos.com", "PrometheusRule"))
    for name in ("alerts", "panels"):
        rule.object["spec"] = json.loads((ROOT / "src/regauge/observe/data" / f"{name}.json").read_text())
        assert "regauge_" in json.dumps(rule.object)
        assert audit_estate(given).findings == ()


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


@pytest.mark.row(6, how="unit")
def test_a_driver_that_is_missing_is_not_a_device_that_nobody_advertises() -> None:
    for code in ("DRIVER-MISSING", "DISCOVERY-NONE", "DISCOVERY-NO-DEVICE-FILE"):
        assert {one.code for one in audit_estate(fixture(code, "bad")).findings} == {code}
    (missing,), (nobody,) = found("DRIVER-MISSING", "bad"), found("DISCOVERY-NONE", "bad")
    assert (missing.layer, nobody.layer) == ("installation", "discovery")


@pytest.mark.row(142, how="unit")
@pytest.mark.row(143, how="unit")
def test_drivers_of_both_stacks_are_looked_at() -> None:
    given = fixture("DRIVER-PRIVILEGED", "bad")
    (driver,) = given.snapshot.documents(("apps", "DaemonSet"))
    (volume,) = driver.object["spec"]["template"]["spec"]["volumes"]
    for path in ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins/x", "/var/run/cdi"):
        volume["hostPath"]["path"] = path
        assert "DRIVER-PRIVILEGED" in {one.code for one in audit_estate(given).findings}, path
    volume["hostPath"]["path"] = "/var/log"
    assert audit_estate(given).findings == ()


@pytest.mark.row(146, how="unit")
def test_what_is_only_read_of_the_host_is_a_note() -> None:
    given = fixture("DRIVER-HOSTPATH", "bad")
    (driver,) = given.snapshot.documents(("apps", "DaemonSet"))
    assert [one.severity for one in audit_estate(given).findings if one.code == "DRIVER-HOSTPATH"] == ["warning"]
    driver.object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["readOnly"] = True
    assert [one.severity for one in audit_estate(given).findings if one.code == "DRIVER-HOSTPATH"] == ["note"]


@pytest.mark.row(148, how="unit")
def test_who_may_change_a_driver_is_named() -> None:
    (one,) = found("ACCESS-DRIVERS", "bad")
    assert one.what == "Group team-a may change DaemonSet g/d, by RoleBinding g/b"


@pytest.mark.row(276, how="unit")
def test_a_gate_that_is_turned_off_after_use() -> None:
    (one,) = found("FEATURE-OFF", "bad")
    assert "the gate DRAExtendedResource is off, and 1 objects use it: DeviceClass c" in one.what


@pytest.mark.row(277, how="unit")
def test_objects_that_an_upgrade_leaves_behind() -> None:
    (one,) = found("UPGRADE-API-GONE", "bad")
    assert one.severity is Severity.ERROR
    assert one.what == "1 PodGroup objects are scheduling.k8s.io/v1alpha2, which Kubernetes 1.37 does not have"
