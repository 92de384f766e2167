"""The policies that are generated: what a real API server did under them, and that it was asked with these."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from tests.support import ROOT
from tests.unit.audit.estates import estate_of, fixture
from tests.unit.audit.policy_cases import OWNER, WHAT, cases

from regauge.audit import Ground, OwnerPolicy, guarded, guarding_policies
from regauge.cel.parser import parse

RECORDED = ROOT / "tests" / "fixtures" / "access" / "policies.json"


@cache
def recorded() -> Any:
    return json.loads(RECORDED.read_text())


def test_the_server_was_asked_with_these_policies() -> None:
    """When they change the recorder must be run again: what is below is said of these texts."""
    assert recorded()["policies"] == list(guarding_policies(WHAT, OWNER))


def test_the_server_checked_their_expressions_and_had_nothing_to_say() -> None:
    assert set(recorded()["checked"].values()) == {True}
    assert [told for told in recorded()["warnings"].values() if told] == []


@pytest.mark.row(149, how="vectors")
@pytest.mark.row(150, how="vectors")
@pytest.mark.row(146, how="vectors")
@pytest.mark.row(147, how="vectors")
def test_tenants_are_kept_out_and_nobody_else() -> None:
    answers = {one["title"]: one for one in recorded()["answers"]}
    assert list(answers) == [case.title for case in cases()]
    wrong = [
        (case.title, answers[case.title]["said"])
        for case in cases()
        if answers[case.title]["allowed"] is not case.expected
    ]
    assert wrong == []
    assert [one["title"] for one in answers.values() if one["allowed"] is one["byPolicy"]] == []


def test_every_expression_is_one() -> None:
    texts = []
    for one in guarding_policies(WHAT, OWNER):
        spec = one["spec"]
        for field in ("matchConditions", "variables", "validations"):
            texts += [part["expression"] for part in spec.get(field, [])]
    assert len(texts) >= 20
    for text in texts:
        parse(text)  # raises


def test_they_are_made_for_the_drivers_of_an_estate() -> None:
    given = fixture("healthy", "good")
    what = guarded(Ground(given))
    assert what.accounts == ("system:serviceaccount:gpu-system:driver",)
    assert (what.namespaces, what.drivers) == (("gpu-system",), ("gpu.example.com",))
    people = OwnerPolicy(operators=("Group platform", "User ann", "ServiceAccount argocd/controller"))
    named = guarded(
        Ground(estate_of(list(given.snapshot.all_documents()), {"policy": {"operators": people.operators}}))
    )
    assert named.groups[-1] == "platform"
    assert named.users[-2:] == ("ann", "system:serviceaccount:argocd:controller")


def test_what_is_in_an_expression_stays_text() -> None:
    """A name from the input cannot end its string."""
    evil = OwnerPolicy(operators=('User a"] || true || "x" in ["',))
    given = estate_of(
        list(fixture("healthy", "good").snapshot.all_documents()), {"policy": {"operators": evil.operators}}
    )
    (condition,) = guarding_policies(guarded(Ground(given)), OwnerPolicy())[0]["spec"]["matchConditions"]
    assert r'"a\"] || true || \"x\" in [\""' in condition["expression"]
