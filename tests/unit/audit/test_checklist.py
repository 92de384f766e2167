"""The ten questions before production: unknown without evidence, pass with it, fail by what was found."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.audit.estates import fixture

from regauge.audit import Answer, AuditInput, Ground, Item, Profile, audit_ground, checklist, read_proofs


def asked(given: AuditInput, *reports: dict[str, Any]) -> tuple[Item, ...]:
    ground = Ground(given)
    audit = audit_ground(ground, Profile.PRODUCTION)
    return checklist(ground, audit, audit.findings, read_proofs([(f"{n}.json", one) for n, one in enumerate(reports)]))


def scenario(*rows: Any, holds: bool = True, part: bool = False) -> dict[str, Any]:
    return {"name": "-".join(map(str, rows)), "rows": list(rows), "holds": holds, "inPart": part}


def verified(*scenarios: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "regauge.verify/v1", "suite": "s", "holds": True, "scenarios": list(scenarios)}


def rehearsed(*steps: str, holds: bool = True, attribution: int = 2) -> dict[str, Any]:
    return {
        "schema": "regauge.rehearsal/v1",
        "source": "the dump",
        "holds": holds,
        "steps": [{"name": name, "holds": True} for name in steps],
        "attribution": [{}] * attribution,
    }


LIFE = (scenario(72), scenario(74), scenario(78), scenario(76), scenario("F-5"), scenario(75), scenario("F-4"),
        scenario("F-27"))  # fmt: skip
ASSESSED = {
    "schema": "regauge.assess/v1",
    "workloads": [{"kind": "Deployment", "namespace": "a", "name": "d", "verdict": {"why": "whole devices do"}}],
}
MOVED = rehearsed("gate", "dependents", "plan", "rollback")
WITHOUT = {1: "pass", 2: "unknown", 3: "pass", 4: "pass", 5: "unknown", 6: "unknown", 7: "pass", 8: "unknown",
           9: "unknown", 10: "unknown"}  # fmt: skip
WITH = {**WITHOUT, 2: "pass", 5: "pass", 6: "pass", 8: "pass", 10: "pass"}


def answers(found: tuple[Item, ...]) -> dict[int, str]:
    return {one.number: one.answer.value for one in found}


@pytest.mark.row(156, how="unit")
@pytest.mark.row(158, how="unit")
@pytest.mark.row(159, how="unit")
def test_a_healthy_estate_without_reports() -> None:
    found = asked(fixture("healthy", "good"))
    assert answers(found) == WITHOUT
    assert all(one.evidence for one in found)


@pytest.mark.row(160, how="unit")
@pytest.mark.row(165, how="unit")
def test_reports_answer_what_a_cluster_cannot() -> None:
    reports = (verified(*LIFE), verified(scenario(236), scenario("F-19"), scenario(165)), MOVED, ASSESSED)
    assert answers(asked(fixture("healthy", "good"), *reports)) == WITH


def test_a_scenario_that_fails_or_is_played_in_part() -> None:
    healthy = fixture("healthy", "good")
    failing = asked(healthy, verified(*LIFE[:-1], scenario("F-27", holds=False)))[4]
    assert failing.answer is Answer.FAIL
    assert "F-27 does not hold" in failing.evidence[2]
    part = asked(healthy, verified(*LIFE[:-1], scenario("F-27", part=True)))[4]
    assert part.answer is Answer.UNKNOWN
    missing = asked(healthy, verified(*LIFE[:-1]))[4]
    assert missing.answer is Answer.UNKNOWN
    assert "shows F-27" in missing.evidence[2]


def test_a_rehearsal_without_a_plan_or_a_way_back() -> None:
    healthy = fixture("healthy", "good")
    assert asked(healthy, rehearsed("setup", "move"))[7].answer is Answer.UNKNOWN
    assert asked(healthy, rehearsed("gate", "plan"))[7].answer is Answer.FAIL
    assert asked(healthy, rehearsed("gate", "dependents", "plan", "rollback", holds=False))[5].answer is Answer.FAIL


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("DRIVER-MISSING", 1),
        ("OWN-TWICE", 3),
        ("CLAIM-NODE-GONE", 5),
        ("QUOTA-BYPASS", 6),
        ("MONITORING-BLANK", 6),
        ("FEATURE-ALPHA", 9),
        ("HEALTH-NOT-BLOCKED", 10),
    ],
)
def test_findings_speak_against_an_item(code: str, number: int) -> None:
    item = asked(fixture(code, "bad"), verified(*LIFE), MOVED)[number - 1]
    assert item.answer is Answer.FAIL
    assert code in item.codes


def test_without_records_of_nodes_nothing_is_said_of_cdi() -> None:
    found = answers(asked(fixture("QUOTA-OLD-NAMES", "good")))
    assert (found[3], found[4]) == ("unknown", "unknown")


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(Exception, match=r"0\.json: not a report: its schema is 'x'"):
        asked(fixture("healthy", "good"), {"schema": "x"})
