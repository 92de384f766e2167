"""Shows how far each statement of rows.toml is proven, from the markers of the tests.

    rows.py [--missing] [NUMBER ...]

A test (or a whole module, by `pytestmark`) names rows with `@pytest.mark.row(49, 50, how="oracle")`. `how` says what
stands behind it: "unit" (the default), "vectors" or "oracle" (recorded or live answers of the reference), "real" (a
real component). The files are parsed, not imported, so this is quick and needs no test to run.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOW = ("unit", "vectors", "oracle", "real")
STRENGTH = {
    "unit": "unit test",
    "vectors": "oracle or vectors",
    "oracle": "oracle or vectors",
    "real": "real component",
}
SCENARIOS = "src/regauge/rehearsal/suites"
PLAYER = "tests/unit/rehearsal/test_verify.py::test_a_packaged_scenario_holds"
LAST_STATEMENT = 248
COLUMNS = ("real component", "oracle or vectors", "unit test")


@dataclass(frozen=True, slots=True)
class Row:
    """A statement: what it is about and what counts as proof, in few words."""

    number: int
    what: str
    proof: str
    scenario: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """One marker as written: where, on which test, for which rows. `fault` says what is wrong with it, or is empty."""

    test: str
    line: int
    numbers: tuple[int, ...]
    how: str
    fault: str = ""


def read_rows(path: Path = ROOT / "rows.toml") -> list[Row]:
    """All statements, in order of their numbers."""
    return [Row(**row) for row in tomllib.loads(path.read_text())["row"]]


def read_marks(tests: Path = ROOT / "tests") -> list[Mark]:
    """All row markers of the tests below `tests`, and the rows that scenario files answer for: a test plays each."""
    marks = [mark for path in sorted(tests.rglob("test_*.py")) for mark in marks_of(path, tests.parent)]
    return marks + [mark for path in sorted((tests.parent / SCENARIOS).glob("*.yaml")) for mark in scenario_marks(path)]


def scenario_marks(path: Path) -> Iterator[Mark]:
    """The rows of each scenario of a suite; `F-3` is the third failure, whose row follows the others."""
    for number, part in enumerate(re.split(r"^---$", path.read_text(), flags=re.MULTILINE)):
        name = re.search(r"^metadata: \{name: \"?([\w-]+)", part, re.MULTILINE)
        rows = re.search(r"^rows: \[(.*)\]", part, re.MULTILINE)
        if name and rows:
            told = [item.strip().strip("\"'") for item in rows[1].split(",") if item.strip()]
            numbers = [LAST_STATEMENT + int(item[2:]) if item.startswith("F-") else int(item) for item in told]
            yield Mark(f"{PLAYER}[{path.stem}-{name[1]}]", number, tuple(numbers), "unit")


def marks_of(path: Path, root: Path) -> Iterator[Mark]:
    """The row markers of one file: on functions, on classes, on parameters, and for the whole module."""
    where = path.relative_to(root).as_posix()
    tree = ast.parse(path.read_text(), where)
    yield from _within(tree, where)


def _within(node: ast.AST, where: str) -> Iterator[Mark]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{where}::{child.name}"
            for decorator in child.decorator_list:
                yield from _calls(decorator, name)
            yield from _within(child, name)
        elif isinstance(child, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "pytestmark" for t in child.targets
        ):
            yield from _calls(child.value, where)


def _calls(expression: ast.AST, test: str) -> Iterator[Mark]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.row":
            yield _mark(node, test)


def _mark(call: ast.Call, test: str) -> Mark:
    numbers, faults, how = [], [], "unit"
    for argument in call.args:
        if isinstance(argument, ast.Constant) and type(argument.value) is int:
            numbers.append(argument.value)
        else:
            faults.append(f"{ast.unparse(argument)} is not a plain number")
    for keyword in call.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if keyword.arg != "how" or value not in HOW:
            faults.append(f"{ast.unparse(keyword)} is not how= with one of {', '.join(HOW)}")
        else:
            how = str(value)
    if not call.args:
        faults.append("it names no row")
    return Mark(test, call.lineno, tuple(numbers), how, "; ".join(faults))


def proofs(marks: list[Mark]) -> dict[int, dict[str, list[str]]]:
    """Row number to strength of proof to the tests that give it."""
    found: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for mark in marks:
        for number in mark.numbers:
            tests = found[number][STRENGTH[mark.how]]
            if mark.test not in tests:
                tests.append(mark.test)
    return found


def report(rows: list[Row], marks: list[Mark], *, only_missing: bool = False) -> Iterator[str]:
    """The lines to print: a row, its tests, and totals at the end."""
    found = proofs(marks)
    totals = dict.fromkeys((*COLUMNS, "not proven"), 0)
    for row in rows:
        by = found.get(row.number, {})
        strongest = next((column for column in COLUMNS if column in by), "not proven")
        totals[strongest] += 1
        if only_missing and by:
            continue
        label = f"{row.number} ({row.scenario})" if row.scenario else str(row.number)
        yield f"{label:<12} {strongest:<18} {row.what}"
        if not by:
            yield f"{'':12} wanted: {row.proof}"
        for column in COLUMNS:
            for test in by.get(column, []):
                yield f"{'':12} {column}: {test}"
    yield ""
    yield f"{len(rows)} rows; " + ", ".join(f"{count} {name}" for name, count in totals.items())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="How far each row of rows.toml is proven.")
    parser.add_argument("number", type=int, nargs="*", help="only these rows")
    parser.add_argument("--missing", action="store_true", help="only rows without proof")
    chosen = parser.parse_args(arguments)
    rows = [row for row in read_rows() if not chosen.number or row.number in chosen.number]
    marks = read_marks()
    for line in report(rows, marks, only_missing=chosen.missing):
        print(line)
    broken = [mark for mark in marks if mark.fault]
    for mark in broken:
        print(f"{mark.test}, line {mark.line}: {mark.fault}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
