"""Scenarios: the packaged suites hold, a wrong one is refused in words, one that does not hold says so in every format."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as Xml
from dataclasses import replace
from pathlib import Path

import pytest
from tests.pages import Page
from tests.support import ROOT
from typer.testing import CliRunner

from regauge.base import InputError
from regauge.cli.app import app
from regauge.cluster import Killed, VirtualClock, run_virtual
from regauge.features import PILOTS
from regauge.rehearsal.exploring import violations
from regauge.rehearsal.faults import LASTING, Fault, What
from regauge.rehearsal.findings import _LOOKS
from regauge.rehearsal.injector import Injector
from regauge.rehearsal.looks import CLAIM_STATES, DEVICE_STATES, NODE_STATES, POD_STATES
from regauge.rehearsal.pages import as_page
from regauge.rehearsal.playing import Played, play
from regauge.rehearsal.report import Mode
from regauge.rehearsal.scenario import Scenario, Step, read_scenarios, suite

HEAD = "apiVersion: regauge.dev/v1alpha1\nkind: Scenario\nmetadata: {name: mine}\ntitle: mine\nbase: gpus\n"
RUNS = HEAD + "steps:\n- apply: pod-a\n- wait: {pod: a, is: running}\n- expect: {claim: 'a-*', is: reserved}\n"
FAILS = HEAD + "steps:\n- apply: pod-a\n- wait: {pod: a, is: failed}\n  within: 3\n"
ALL = [(name, one) for name in ("lifecycle", "checklist", "failures", "pilots") for one in suite(name)]
FIRST_FAILURE_ROW = 249  # F-1


def rows(scenario: Scenario) -> list[int]:
    """The numbers of what a scenario answers for; F-3 is a row of its own, too."""
    told = [str(row) for row in scenario.rows]
    return [FIRST_FAILURE_ROW - 1 + int(row[2:]) if row.startswith("F-") else int(row) for row in told]


PARAMS = [
    pytest.param(one, id=f"{name}-{one.name}", marks=pytest.mark.row(*rows(one), how="unit")) for name, one in ALL
]


def mine(text: str) -> Scenario:
    (found,) = read_scenarios(text.encode(), "mine.yaml")
    return found


def wrong(played: Played) -> list[str]:
    return [
        f"{step.title}: {check.what}: {check.seen}" for step in played.steps for check in step.checks if not check.holds
    ]


@pytest.mark.parametrize("scenario", PARAMS)
def test_a_packaged_scenario_holds(scenario: Scenario) -> None:
    played = play(scenario)
    assert wrong(played) == [] and played.holds
    assert any(step.checks for step in played.steps)


def test_every_row_that_is_promised_has_a_scenario() -> None:
    answered = {row for _, one in ALL for row in one.rows}
    promised = {*range(70, 80), 104, 105, 106, 165, *range(234, 239), *(f"F-{number}" for number in range(1, 9))}
    assert promised | {"F-16", "F-19", "F-20", "F-24", "F-25", "F-26", "F-27"} <= answered


@pytest.mark.row(232, how="unit")
def test_there_is_a_pilot_for_each_feature_that_the_watch_list_names() -> None:
    assert {one.name for one in suite("pilots")} == PILOTS


def test_the_timeline_says_who_wrote_what_when() -> None:
    (scenario,) = (one for one in suite("lifecycle") if one.name == "1-created")
    played = play(scenario)
    (claim,) = (one for one in played.timelines if one.object.startswith("ResourceClaim default/a-gpu-"))
    assert claim.writes[0][1:] == ("kube-controller-manager", "create")
    assert [at_s for at_s, _, _ in claim.writes] == sorted(at_s for at_s, _, _ in claim.writes)


def test_the_same_seed_is_the_same_run() -> None:
    (scenario,) = (one for one in suite("failures") if one.name == "F-1")
    assert play(scenario, seed=3) == play(scenario, seed=3)


@pytest.mark.row(104, how="real")
def test_live_it_holds_too() -> None:
    text = RUNS + "- fault: {what: driver-killed, lasts: 0.2}\n- sleep: 2\n- expect: {pod: a, is: running}\n"
    played = play(mine(text), mode=Mode.LIVE)
    assert wrong(played) == [] and played.mode is Mode.LIVE


# -- wrong scenarios


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "steps:\n- aply: pod-a\n", "unknown field `aply`"),
        (HEAD + "steps:\n- {apply: pod-a, sleep: 3}\n", "exactly one thing"),
        (HEAD + "steps:\n- wait: {is: running}\n", "what to look at"),
        (HEAD + "steps:\n- fault: {what: driver-vanished}\n", "Invalid enum value 'driver-vanished'"),
        (HEAD + "steps:\n- fault: {what: driver-killed, times: 3}\n", "happens once"),
        (HEAD + "steps:\n- {sleep: 1, refused: no}\n", "Expected `str`"),
        (HEAD + "steps:\n- sleep: 99999999\n", "seconds"),
        (HEAD + "nodes: [{name: node-1, devices: none}]\nsteps:\n- sleep: 1\n", "not described"),
        (HEAD.replace("gpus", "../gpus") + "steps:\n- sleep: 1\n", "there is no base"),
        (HEAD.replace("v1alpha1", "v1") + "steps:\n- sleep: 1\n", "is not a Scenario"),
        ("", "no scenario"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_scenarios(text.encode(), "mine.yaml")
    assert words in str(refused.value) and "mine.yaml" in str(refused.value)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("- wait: {pod: a, is: happy}", "a pod cannot be 'happy'"),
        ("- apply: pod-z", "there is no object 'pod-z'"),
        ("- fault: {what: node-down, node: node-9}", "no node node-9"),
        ("- fault: {what: device-vanished, node: node-1}", "needs a device"),
        ("- fault: {what: store-restored, copy: old}", "no copy 'old'"),
        ("- table: planets", "no table of planets"),
    ],
)
def test_what_only_the_world_can_refuse(step: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        play(mine(HEAD + f"steps:\n{step}\n"))


# -- the program


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", *arguments])
    return done.exit_code, done.stdout


def test_json_and_junit_of_what_does_not_hold(tmp_path: Path) -> None:
    file, junit = tmp_path / "mine.yaml", tmp_path / "junit.xml"
    file.write_text(FAILS + "---\n" + RUNS.replace("name: mine", "name: good"))
    code, out = run(str(file), "-o", "json", "--junit", str(junit))
    document = json.loads(out)
    assert (code, document["schema"], document["holds"]) == (1, "regauge.verify/v1", False)
    assert [one["holds"] for one in document["scenarios"]] == [False, True]
    suite_ = Xml.fromstring(junit.read_text())
    assert (suite_.get("tests"), suite_.get("failures")) == ("2", "1")
    (failure,) = suite_.iter("failure")
    assert "pod a is failed" in str(failure.get("message"))


def test_a_green_smoke_alone_is_no_proof(tmp_path: Path) -> None:
    """A scenario that looks at nothing that could fail still has to keep the invariants; without steps it is refused."""
    file = tmp_path / "mine.yaml"
    file.write_text(HEAD + "steps: []\n")
    assert run(str(file))[0] == 1


def test_tables_and_the_verdict_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(RUNS + "- table: claims\n  title: Who has what\n")
    code, out = run(str(file))
    assert code == 0 and "mine: Who has what" in out and "1 of 1 scenarios hold." in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.yaml",), "cannot be read"),
        (("failures", "--only", "F-99"), "no scenario F-99"),
        (("crowd", "--live", "--explore", "3"), "exclude each other"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(app, ["verify", *arguments])
    assert done.exit_code == 2 and words in done.stderr


def test_exploring_from_the_command_line() -> None:
    code, out = run("crowd", "--explore", "1", "--seed", "5", "-o", "json")
    document = json.loads(out)
    assert (code, document["explorations"][0]["tried"], document["holds"]) == (0, 1, True)


# -- faults


def test_a_fault_hits_when_it_is_told_to() -> None:
    done: list[str] = []

    async def main(clock: VirtualClock) -> None:
        injector = Injector(clock, lambda fault, point: done.append(f"{fault.what} {point}"))
        injector.plan(Fault(What.DRIVER_KILLED, at="file n driver *", occurrence=2))
        injector.plan(Fault(What.WRITES_FAIL, actor="kubelet *", times=2, after_s=5))
        write = "write kubelet n update Pod/status before"
        assert [injector.reach(write) for _ in range(2)] == [None, None]
        injector.reach("file n driver a")
        assert done == []
        injector.reach("file n driver b")
        injector.reach("file n driver c")
        assert done == ["driver-killed file n driver b"]
        await clock.sleep(5)
        assert [injector.reach(write) is not None for _ in range(3)] == [True, True, False]
        assert injector.reach("write kube-scheduler update Pod before") is None
        injector.bury("kubelet n")
        with pytest.raises(Killed):
            injector.check_alive("kubelet n")

    run_virtual(main, epoch_s=0.0)


def test_a_full_disk_delays_the_kubelet_and_ends_nothing() -> None:
    (crowd,) = suite("crowd")
    full = tuple(Fault(What.FILES_FAIL, at="file * kubelet * before", times=12, after_s=at_s) for at_s in (1.0, 20.0))
    assert violations(crowd, full, 2) == ()


# -- the page


def test_the_page_has_every_word() -> None:
    page = (ROOT / "docs" / "verify.md").read_text()
    for what in What:
        assert f"`{what}`" in page, what
    for word in (*POD_STATES, *CLAIM_STATES, *NODE_STATES, *DEVICE_STATES):
        assert word in page, word
    for name in Step.__struct_encode_fields__:
        assert f"`{name}" in page, name
    source = (ROOT / "src/regauge/rehearsal/findings.py").read_text()
    codes = set(re.findall(r'Finding\(\s*"([a-z-]+)"', source))
    assert len(codes) >= len(_LOOKS) - 1
    assert all(f"`{code}`" in page for code in codes)
    assert set(LASTING) <= set(What)


# -- the page


def test_the_page_draws_every_write_and_what_was_broken(tmp_path: Path) -> None:
    file, page = tmp_path / "mine.yaml", tmp_path / "mine.html"
    file.write_text(RUNS + "- fault: {what: driver-killed, node: node-1}\n- sleep: 5\n")
    done = CliRunner().invoke(app, ["verify", str(file), "--html", str(page), "-o", "json"])
    assert done.exit_code == 0, done.output
    (scenario,) = json.loads(done.stdout)["scenarios"]
    writes = sum(len(line["writes"]) for line in scenario["timelines"])
    found = Page(page.read_text())
    writers = {who for line in scenario["timelines"] for _, who, _ in line["writes"]}
    assert writes > 10 and found.count("circle") == writes + len(writers)
    assert any("driver-killed" in text for text in found.text)


def test_the_page_is_safe_and_needs_nothing_else(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    page = as_page(evil, [replace(play(mine(RUNS)), name=evil, title=evil, findings=(evil,), log=((0.5, evil),))])
    found = Page(page.decode())
    found.is_inert()
    assert b"://" not in page and any(evil in text for text in found.text)


def test_the_page_says_what_does_not_hold() -> None:
    page = as_page("mine", [play(mine(FAILS))])
    assert b"0 of 1 scenarios hold. Not: mine." in page and b"does not hold" in page
