"""Who is responsible, both APIs side by side, the failures: each cell names tests, the pages are made from the tables."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support import ROOT
from tests.unit.loading import script
from typer.testing import CliRunner

from regauge.base import InputError
from regauge.cli.app import app
from regauge.features import NO_PART, comparison_rows, duty_table
from regauge.rehearsal.catalogue import failure_named, failures
from regauge.rehearsal.scenario import SUITES, suite

DUTIES = ["discover", "advertise", "select", "bind", "prepare", "inject", "admit", "reclaim"]
COMPONENTS = ["device-plugin", "dra", "bridge", "cdi", "kueue"]
LAYERS = {"installation", "discovery", "injection", "scheduling", "quota"}
NEEDS_MORE = ("soak", "skip")
FUNCTION = re.compile(r"(?:async )?def (test_\w+)")


@cache
def plain_tests(path: Path) -> frozenset[str]:
    """The test functions of a file that a plain run takes: not marked for another one, not skipped."""
    found, marks = set(), ""
    for line in path.read_text().splitlines():
        if match := FUNCTION.match(line):
            if not any(f"mark.{name}" in marks for name in NEEDS_MORE):
                found.add(match[1])
            marks = ""
        elif line.startswith("@") or marks:
            marks += line if line.startswith(("@", " ", ")", "]")) else ""
            marks = marks if line.startswith(("@", " ", ")", "]")) else ""
    return frozenset(found)


@cache
def scenarios(place: str) -> frozenset[str]:
    return frozenset(one.name for one in suite(place))


def fault(proof: str) -> str | None:
    """What is wrong with the id of a test, or None."""
    file, _, name = proof.partition("::")
    path = ROOT / file
    if not path.is_file():
        return f"{proof}: there is no such file"
    function, _, parameter = name.partition("[")
    if function not in plain_tests(path):
        return f"{proof}: there is no such test, or it is left out of a plain run"
    if function == "test_a_packaged_scenario_holds":
        place, _, scenario = parameter.rstrip("]").partition("-")
        if place not in SUITES or scenario not in scenarios(place):
            return f"{proof}: there is no such scenario"
    return None


def all_proofs() -> list[str]:
    cells = [cell.proof for row in duty_table().duties for cell in row.cells.values()]
    answers = [one.proof for row in comparison_rows() for one in (row.device_plugin, row.dra)]
    return [proof for proofs in (*cells, *answers, *(one.proof for one in failures())) for proof in proofs]


@pytest.mark.row(5, 141, 190, how="unit")
def test_every_cell_is_shown_by_tests_that_are_there(request: pytest.FixtureRequest) -> None:
    proofs = all_proofs()
    assert len(proofs) > 150
    assert [found for proof in proofs if (found := fault(proof))] == []
    top: Any = request.node
    while top.parent is not None:
        top = top.parent
    collected = {item.nodeid for item in top.items}
    files = {nodeid.partition("::")[0] for nodeid in collected}
    named = {nodeid.partition("[")[0] for nodeid in collected} | collected
    whole = len(files) > 100
    lost = [proof for proof in proofs if whole and proof.partition("::")[0] in files and proof not in named]
    assert lost == []


def test_a_wrong_proof_is_found() -> None:
    assert fault("tests/unit/nowhere.py::test_a") == "tests/unit/nowhere.py::test_a: there is no such file"
    here = "tests/unit/features/test_comparison.py"
    assert fault(f"{here}::test_a_wrong_proof_is_found") is None
    assert "no such test" in str(fault(f"{here}::test_that_is_not_there"))
    player = "tests/unit/rehearsal/test_verify.py::test_a_packaged_scenario_holds"
    assert fault(f"{player}[failures-F-2]") is None
    assert "no such scenario" in str(fault(f"{player}[failures-F-77]"))


@pytest.mark.row(5, how="unit")
def test_every_duty_has_an_answer_for_every_component() -> None:
    table = duty_table()
    assert [row.id for row in table.duties] == DUTIES
    assert [one.id for one in table.components] == COMPONENTS
    for row in table.duties:
        assert list(row.cells) == COMPONENTS
        assert row.layer in LAYERS and row.missing
        assert all(cell.how and cell.proof for cell in row.cells.values())
    nobody = {name for name in COMPONENTS if all(not row.cells[name].by for row in table.duties)}
    assert nobody == set()
    only = {name: [row.id for row in table.duties if row.cells[name].by] for name in ("cdi", "kueue")}
    assert only == {"cdi": ["inject"], "kueue": ["admit"]}


@pytest.mark.row(190, how="unit")
def test_both_apis_answer_every_need_and_neither_always_wins() -> None:
    rows = comparison_rows()
    assert len({row.id for row in rows}) == len(rows) > 25
    for row in rows:
        assert row.layer in LAYERS and row.better in ("device-plugin", "dra", "same")
        for one in (row.device_plugin, row.dra):
            assert one.answer in ("yes", "partly", "no") and one.how and one.proof
        if row.better != "same":
            order = ("no", "partly", "yes")
            better, other = row.device_plugin, row.dra
            if row.better == "dra":
                better, other = other, better
            assert order.index(better.answer) >= order.index(other.answer), row.id
    wins = [row.better for row in rows]
    assert wins.count("device-plugin") > 8 and wins.count("dra") > 8


@pytest.mark.row(141, how="unit")
def test_every_failure_has_injection_signals_a_runbook_and_a_test() -> None:
    found = failures()
    assert [one.id for one in found] == [f"F-{number}" for number in range(1, 33)]
    played = {one.name: one.title for one in suite("failures")}
    for one in found:
        assert one.layer in LAYERS and one.inject and one.signals and one.runbook and one.proof
        assert set(one.scenarios) <= set(played)
    assert {name for one in found for name in one.scenarios} == set(played)


@pytest.mark.row(5, 141, 190, how="unit")
def test_the_pages_are_made_from_the_tables() -> None:
    for path, text in script("make_pages").pages():
        assert path.read_text() == text, f"{path.name}: scripts/make_pages.py writes it"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


@pytest.mark.row(5, how="unit")
def test_the_table_of_duties_is_printed() -> None:
    code, text = run("explain", "layers")
    lines = [line.split() for line in text.splitlines()]
    assert code == 0 and [words[0] for words in lines[1:9]] == DUTIES
    assert next(words for words in lines if words[0] == "select") == [
        "select", "scheduling", "kubelet", "kube-scheduler", "kube-scheduler", NO_PART, NO_PART,
    ]  # fmt: skip
    code, text = run("explain", "layers", "admit")
    assert code == 0 and "charges amounts by resource name" in text
    code, text = run("explain", "layers", "-o", "json")
    assert json.loads(text)["duties"][2]["cells"]["cdi"]["proof"]
    code, text = run("explain", "layers", "-o", "markdown")
    assert text == (ROOT / "docs" / "responsibilities.md").read_text()
    code, text = run("explain", "layers", "levitate")
    assert code == 2 and "no duty levitate" in text


@pytest.mark.row(190, how="unit")
def test_the_comparison_is_printed() -> None:
    code, text = run("features", "compare")
    assert code == 0 and "A pod of higher priority gets devices" in text
    code, text = run("features", "compare", "-o", "json")
    assert {row["better"] for row in json.loads(text)["rows"]} == {"device-plugin", "dra", "same"}
    code, text = run("features", "compare", "-o", "markdown")
    assert text == (ROOT / "docs" / "comparison.md").read_text()
    code, text = run("features", "-o", "markdown")
    assert code == 2


@pytest.mark.row(141, how="unit")
def test_what_to_do_about_a_failure_is_printed() -> None:
    code, text = run("explain", "failures", "f-2")
    assert code == 0 and "1. Bring the driver back" in text and "try it: regauge verify failures --only F-2" in text
    code, text = run("explain", "failures", "-o", "json")
    assert len(json.loads(text)["failures"]) == 32
    code, text = run("explain", "failures", "-o", "markdown")
    assert text == (ROOT / "docs" / "failures.md").read_text()
    with pytest.raises(InputError, match="no failure F-33"):
        failure_named("F-33")
    code, text = run("explain", "failures", "F-1", "-o", "html")
    assert code == 2
