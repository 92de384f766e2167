"""rows.toml, and the markers that point into it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.support import shared
from tests.unit.loading import script


@pytest.fixture(scope="module")
def rows() -> ModuleType:
    return script("rows")


def test_every_marker_names_rows_that_exist_and_a_legal_how(rows: ModuleType) -> None:
    known = {row.number for row in rows.read_rows()}
    marks = rows.read_marks()
    assert marks
    faults = [f"{mark.test}:{mark.line}: {mark.fault}" for mark in marks if mark.fault]
    faults += [
        f"{mark.test}:{mark.line}: there is no row {number}"
        for mark in marks
        for number in mark.numbers
        if number not in known
    ]
    assert faults == []


def test_rows_are_numbered_without_gap(rows: ModuleType) -> None:
    found = rows.read_rows()
    assert [row.number for row in found] == list(range(1, 281))
    assert [row.scenario for row in found if row.scenario] == [f"F-{n}" for n in range(1, 33)]
    assert all(row.what and row.proof for row in found)


def test_rows_are_those_of_the_reference_material_in_our_own_words(rows: ModuleType) -> None:
    statements = {}
    for line in shared("rows.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0].split(" ")[0].isdigit():
            statements[int(cells[0].split(" ")[0])] = {cell.lower() for cell in cells[1:]}
    found = rows.read_rows()
    assert sorted(statements) == [row.number for row in found]
    copied = [row.number for row in found if {row.what.lower(), row.proof.lower()} & statements[row.number]]
    assert copied == []


SAMPLE = """
import pytest

pytestmark = [pytest.mark.row(1, how="vectors"), pytest.mark.soak]

@pytest.mark.row(2, 3, how="oracle")
@pytest.mark.row(2)
def test_a(): ...

class TestB:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.row(4, how="real"))])
    def test_c(self, x): ...

@pytest.mark.row()
def test_d(): ...

@pytest.mark.row(N, how="guess")
def test_e(): ...
"""


def test_markers_are_found_wherever_they_may_stand(rows: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(SAMPLE)
    marks = rows.read_marks(tmp_path / "tests")
    good = [(mark.test.removeprefix("tests/test_x.py"), mark.numbers, mark.how) for mark in marks if not mark.fault]
    assert good == [
        ("", (1,), "vectors"),
        ("::test_a", (2, 3), "oracle"),
        ("::test_a", (2,), "unit"),
        ("::TestB::test_c", (4,), "real"),
    ]
    assert [mark.fault for mark in marks if mark.fault] == [
        "it names no row",
        "N is not a plain number; how='guess' is not how= with one of unit, vectors, oracle, real",
    ]


def test_report_counts_each_row_once_by_its_strongest_proof(rows: ModuleType) -> None:
    statements = [rows.Row(1, "one", "p1"), rows.Row(2, "two", "p2", "F-9")]
    marks = [rows.Mark("t::a", 1, (1,), "unit"), rows.Mark("t::b", 2, (1,), "oracle")]
    lines = list(rows.report(statements, marks))
    assert lines[0].split() == ["1", "oracle", "or", "vectors", "one"]
    assert [line.strip() for line in lines[1:3]] == ["oracle or vectors: t::b", "unit test: t::a"]
    assert lines[3].startswith("2 (F-9)")
    assert lines[4].strip() == "wanted: p2"
    assert lines[-1] == "2 rows; 0 real component, 1 oracle or vectors, 0 unit test, 1 not proven"
    missing = list(rows.report(statements, marks, only_missing=True))
    assert [line.split()[0] for line in missing if line] == ["2", "wanted:", "2"]
