"""`regauge explain` for all pods or claims, of a namespace, of a label."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.test_explain import CLAIM, estate, run


def test_all_pods_with_those_that_wait_first() -> None:
    code, out, said = run("pod", "-A", "--from", estate(), "-o", "json")
    found = json.loads(out)
    assert code == 1 and found["kind"] == "list" and found["claims"] == [] and found["leftOut"] == 0
    assert [one["good"] for one in found["pods"]] == sorted(one["good"] for one in found["pods"])
    waiting = [one["name"].partition("/")[2].partition("-")[0] for one in found["pods"] if not one["good"]]
    assert waiting == ["dra", "pending"]
    code, out, said = run("pod", "--all-namespaces", "--from", estate())
    assert code == 1 and out.index("team-train/pending-big") < out.index("is placed")
    assert "the incubating allocator" in said


def test_claims_of_a_namespace_or_with_a_label() -> None:
    code, out, _ = run("claim", "-n", "team-research", "--from", estate(), "-o", "json")
    found = json.loads(out)
    names = {one["name"] for one in found["claims"]}
    assert names and all(name.startswith("team-research/") for name in names) and code == 1
    code, out, _ = run("pod", "-l", "app in (dra-pilot),!gone", "--from", estate(), "-o", "json")
    pods = json.loads(out)["pods"]
    assert code == 0 and len(pods) == 2 and all("dra-pilot" in one["name"] for one in pods)
    code, out, _ = run("pod", "-l", "app=nothing", "--from", estate())
    assert code == 0 and "there is no such pod" in out


def test_of_many_that_wait_a_hundred_are_looked_at() -> None:
    many = [CLAIM.replace("EXACTLY", "{deviceClassName: gpu, count: 2}").replace("name: c}", "name: c0}")]
    claim = CLAIM.rpartition("---")[2].replace("EXACTLY", "{deviceClassName: gpu}")
    many += [claim.replace("name: c}", f"name: c{number}}}") for number in range(1, 120)]
    code, out, _ = run("claim", "-A", "--from", "-", "-o", "json", given="---".join(many))
    found = json.loads(out)
    assert code == 1 and len(found["claims"]) == 100 and found["leftOut"] == 20
    assert [one["name"] for one in found["claims"] if not one["good"]] == ["default/c0"]
    assert "20 more wait that were not looked at" in found["text"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("claim",), "name a claim, or say which: -A, -n NAMESPACE, -l LABELS"),
        (("pod", "p", "-A"), "not both"),
        (("pod", "-l", "a in (b"), "unable to parse requirement"),
    ],
)
def test_which_ones_has_to_be_said(arguments: tuple[str, ...], says: str) -> None:
    code, out, said = run(*arguments, "--from", estate())
    assert (code, out) == (2, "") and says in " ".join(said.replace("│", " ").split())
