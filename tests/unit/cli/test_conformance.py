"""`regauge conformance`: recorded answers of the reference programs, malformed lines, pipes and jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import oracle, shared
from tests.unit.allocator.vectors import differs, pairs
from tests.unit.cdi.comparing import comparable
from typer.testing import CliRunner

from regauge.cel.conformance import conformance as answer_cel
from regauge.cli import conformance
from regauge.cli.app import app

RUNNER = CliRunner()
CEL_KEYS = ("compileError", "outputType", "maxCost", "result", "runtimeError", "actualCost")


def run(*arguments: str, given: str = "") -> tuple[int, list[dict[str, Any]]]:
    result = RUNNER.invoke(app, ["conformance", *arguments], input=given)
    assert "Traceback" not in result.output
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def lines(cases: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(case) + "\n" for case in cases)


@pytest.mark.row(3, 28, how="vectors")
@pytest.mark.parametrize("minor", ["1.37", "1.36", "1.35", "1.34"])
def test_allocations_as_recorded_for_each_minor(minor: str, tmp_path: Path) -> None:
    chosen = [*pairs("quirks", minor), *list(pairs("shape", minor))][::4]
    cases = [case if minor != "1.37" else {**case, "kubeVersion": None} for case, _ in chosen]
    (tmp_path / "cases.jsonl").write_text(lines(cases))
    code, answers = run("allocator", str(tmp_path / "cases.jsonl"))
    assert code == 0
    assert len(answers) == len(chosen) > 30
    wrong = [want["name"] for (case, want), got in zip(chosen, answers, strict=True) if differs(case, got, want)]
    assert wrong == []
    for (_, want), got in zip(chosen, answers, strict=True):
        assert got.keys() >= want.keys() - {"allocateOneCalls", "timedOut", "newMicros"}


def in_order(name: str, answers: list[dict[str, Any]], wanted: list[dict[str, Any]], without: set[str]) -> None:
    """The same keys in the same order, apart from those that only one side has."""
    assert len(answers) == len(wanted) > 30
    for got, want in zip(answers, wanted, strict=True):
        assert [key for key in got if key not in without] == [key for key in want if key not in without], name


@pytest.mark.row(3, 28, how="oracle")
@pytest.mark.parametrize(
    ("program", "reference", "files", "without"),
    [
        # Where nothing is searched the reference counts steps that are not taken here.
        ("allocator", "allocator", ["allocator/quirks_cases", "allocator/shape_cases"], {"allocateOneCalls"}),
        ("allocator", "allocator", ["cel/oracle_cases"], {"micros"}),
        ("cel", "cel", ["cel/corpus"], set()),
    ],
)
def test_keys_stand_in_the_order_of_the_reference(
    program: str, reference: str, files: list[str], without: set[str]
) -> None:
    given = [line for file in files for line in shared(f"vectors/{file}.jsonl").read_text().splitlines()[:150]]
    if program == "cel":
        dropped = ("outcome", "error", "type", "max_cost", "actual_cost")
        cases = [{k: v for k, v in json.loads(line).items() if k not in dropped} for line in given]
        cases = [{**case, "kubeVersion": "1.36"} for case in cases if "newenv" not in case or not case["newenv"]]
        given = [json.dumps(case) for case in cases]
    # The corpus was written by a program that rounds the largest integer to one that is none any more.
    text = "\n".join(given).replace("9223372036854776000", "9223372036854775807") + "\n"
    done = subprocess.run([oracle(reference)], input=text, capture_output=True, text=True, check=True, timeout=100)
    code, answers = run(program, given=text)
    assert code == 0
    in_order(program, answers, [json.loads(line) for line in done.stdout.splitlines()], without)


@pytest.mark.row(57, how="vectors")
def test_expressions_as_recorded() -> None:
    cases = shared("vectors/cel/oracle_cases.jsonl").read_text().splitlines()[::25]
    wanted = shared("vectors/cel/oracle_results.jsonl").read_text().splitlines()[::25]
    code, answers = run("cel", given="\n".join(cases) + "\n")
    assert code == 0 and len(answers) == len(wanted) > 150
    for got, want in zip(answers, map(json.loads, wanted), strict=True):
        # Texts of syntax errors are made by a parser generator; a search over a map costs by chance.
        keys = [key for key in CEL_KEYS if "Syntax error" not in want["compileError"] or key != "compileError"]
        cost = [] if ".exists(" in next(case for case in cases if f'"{want["name"]}"' in case) else ["actualCost"]
        keys = [key for key in keys if key != "actualCost" or cost]
        assert {key: got.get(key) for key in keys} == {key: want.get(key) for key in keys}, want["name"]


def test_expressions_in_the_older_format_of_the_minor_asked_for() -> None:
    rows = [json.loads(line) for line in shared("vectors/cel/corpus.jsonl").read_text().splitlines()[::5]]
    asked = [{key: row[key] for key in ("id", "expr", "device", "list", "newenv") if key in row} for row in rows]
    code, answers = run("cel", given=lines([{**one, "kubeVersion": "1.36"} for one in asked]))
    assert code == 0 and len(answers) == len(rows) > 100
    differing = [row["id"] for row, got in zip(rows, answers, strict=True) if got["outcome"] != row["outcome"]]
    assert len(differing) <= 1
    for row, got in zip(rows, answers, strict=True):
        if got["outcome"] in ("true", "false"):
            assert (got["type"], got["max_cost"]) == (row["type"], row["max_cost"])


def test_a_line_with_an_expression_among_allocations_is_answered_as_one() -> None:
    code, answers = run("allocator", given='{"name": "x", "cel": "1 + 1 == 2", "device": {"driver": "d"}}\n')
    assert (code, answers[0]["result"]) == (0, True)


def test_derived_attributes() -> None:
    device = {"driver": "d", "attributes": {"v": {"version": "1.2.3-rc.1+b5"}, "vv": {"versions": ["1.0.0"]}}}
    features = {"ListTypeAttributes": True}

    def result(expression: str) -> Any:
        return answer_cel({"cel": expression, "derived": True, "features": features, "device": device})["result"]

    assert result('device.attributes["d"].v') == {"version": "1.2.3-rc.1+b5"}
    assert result('device.attributes["d"].vv') == {"versions": ["1.0.0"]}
    assert result("[1, 2]") == {"ints": [1, 2]}
    assert result("[]") == {}


@pytest.mark.row(169, how="vectors")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_specs_as_recorded_in_order(jobs: str) -> None:
    pairs_ = [json.loads(line) for line in shared("vectors/cdi/cases.jsonl").read_text().splitlines()[::5]]
    pairs_ = [pair for pair in pairs_ if not any(tag.startswith("host:") for tag in pair["case"].get("tags", ()))]
    code, answers = run("cdi", "-", "--jobs", jobs, given=lines([pair["case"] for pair in pairs_]))
    assert code == 0 and len(answers) == len(pairs_) > 70
    for pair, got in zip(pairs_, answers, strict=True):
        want = pair["expect"]
        assert (got["id"], got["ok"]) == (pair["case"]["id"], want["ok"])
        if want["ok"]:
            assert comparable(got) == comparable(want)


MALFORMED = [
    b"nonsense",
    b"[1, 2]",
    b"\xff\xfe{}",
    b'{"name": "a", "slices": [7]}',
    b'{"name": "b", "kubeVersion": "1.2"}',
    b'{"name": "c", "unknownField": 1}',
    b'{"cel": 7}',
    b'{"expr": "true", "device": {"attributes": {"a": {"int": "x"}}}}',
    b'{"expr": "true", "kubeVersion": "1.99"}',
    b'{"op": "inject", "dirs": [{}]}',
    b'{"op": "list"}',
    b'{"op": "validate", "spec": 7}',
    b"[" * 100_000,
    b'{"op": ' + b'{"a": ' * 5_000 + b"1" + b"}" * 5_001,
]


@pytest.mark.parametrize("program", ["allocator", "cel", "cdi"])
@pytest.mark.parametrize("line", MALFORMED, ids=range(len(MALFORMED)))
def test_no_line_ends_in_a_traceback_or_a_bug(program: str, line: bytes) -> None:
    code, text = conformance.answer_line(conformance.Program(program), (7, line))
    answer = json.loads(text)
    assert code in (0, 2), answer
    if code:
        assert answer["line"] == 7 and answer["error"]
        assert "Traceback" not in text


def test_a_malformed_line_is_named_by_number_and_the_others_are_answered() -> None:
    good = '{"id": "g", "op": "parse", "name": "a.com/b=c"}'
    code, answers = run("cdi", given=f"{good}\n\nnonsense\n{good}\n")
    assert code == 2
    assert [answer.get("line") for answer in answers] == [None, 3, None]
    assert [answer.get("ok") for answer in answers] == [True, None, True]


def test_a_line_over_the_limit_is_refused_and_the_next_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "LINE_LIMIT_BYTES", 1000)
    good = '{"op": "parse", "name": "a.com/b=c"}'
    code, answers = run("cdi", given='{"op": "' + "x" * 5000 + f'"}}\n{good}\n')
    assert code == 2
    assert "over" in answers[0]["error"] and answers[0]["line"] == 1
    assert answers[1]["ok"] is True


def test_a_bug_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> dict[str, Any]:
        raise KeyError("x")

    monkeypatch.setitem(vars(conformance)["_ANSWERS"], conformance.Program.cdi, broken)
    code, answers = run("cdi", given='{"id": "i"}\n')
    assert code == 3
    assert answers == [{"id": "i", "line": 1, "error": "a bug of ours: KeyError: 'x'"}]


def test_a_file_that_is_not_there() -> None:
    result = RUNNER.invoke(app, ["conformance", "cdi", "no-such-file"])
    assert result.exit_code == 2
    assert "no-such-file: cannot be read" in result.stderr


def test_as_a_pipe_each_answer_comes_before_the_next_question() -> None:
    arguments = [sys.executable, "-m", "regauge", "conformance", "cel"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        for expression, outcome in (("1 == 1", "true"), ("1 == 2", "false"), ("1 +", "compile_error")):
            child.stdin.write(json.dumps({"id": expression, "expr": expression, "device": {}}) + "\n")
            child.stdin.flush()
            answer = json.loads(child.stdout.readline())
            assert (answer["id"], answer["outcome"]) == (expression, outcome)
        child.stdin.close()
        assert child.wait(30) == 0
