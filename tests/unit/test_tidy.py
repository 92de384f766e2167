"""The house rules as ordinary tests. Limits only go down: what is over one today is listed in tidy_budget.json."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import ROOT
from tests.unit.source import (
    PACKAGE,
    Function,
    cycles,
    functions,
    imported,
    modules,
    parsed,
    python_files,
    short,
    tracked,
)

FUNCTION_LINES = 60
FILE_LINES = 500
BUDGET = Path(__file__).with_name("tidy_budget.json")

# Words that say where and how the project was made, not what it is. Kept here alone, so this file is left out below.
FOREIGN = {
    "a path of one machine": r"/work/|/root/|/home/\w|go/pkg/mod|\.\./shared\b",
    "a package registry": (
        r"pypi\.org|pythonhosted|(?:proxy|sum)\.golang\.org|registry\.npmjs|artifactory|index-url[= ]+http"
    ),
    "a word of the workshop": (r"\b[Ii]ssue #?\d{1,2}\b|(?<!scope=\")\b[Ss]essions?\b|\bsub-?agents?\b|\bseed 00\d\b"),
}
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def function_lengths() -> dict[str, int]:
    return {
        f"{short(path)}::{name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in python_files()
        for name, node in functions(parsed(path))
    }


def file_lengths() -> dict[str, int]:
    return {short(path): len(path.read_text().splitlines()) for path in python_files()}


@pytest.mark.parametrize(
    ("kind", "limit", "measure"),
    [("functions", FUNCTION_LINES, function_lengths), ("files", FILE_LINES, file_lengths)],
)
def test_lengths_only_go_down(kind: str, limit: int, measure: Callable[[], dict[str, int]], rewrite: bool) -> None:
    """Too long and not in the budget, or longer than its budget: shorten it. Shorter than its budget: --rewrite."""
    budgets = json.loads(BUDGET.read_text())
    allowed = budgets[kind]
    over = {name: lines for name, lines in measure().items() if lines > limit}
    too_long = {name: lines for name, lines in over.items() if lines > allowed.get(name, limit)}
    assert too_long == {}, f"over {limit} lines, or over what tidy_budget.json allows"
    still = {name: over[name] for name in sorted(allowed) if name in over}
    if rewrite:
        BUDGET.write_text(json.dumps(budgets | {kind: still}, indent=1, sort_keys=True) + "\n")
    else:
        assert allowed == still, "the budget can be lowered: run this test with --rewrite"


def test_modules_do_not_import_in_a_circle() -> None:
    known = modules()
    graph = {name: imported(parsed(path), known) for name, path in known.items()}
    assert cycles(graph) == []


def test_circles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert cycles({"a": {"a"}}) == [["a"]]
    known = dict.fromkeys(("p", "p.x", "p.y"), Path())
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.y\nfrom p import x, z\n"
    assert imported(ast.parse(text), known) == {"p.x", "p"}


def test_imports_stand_at_the_top() -> None:
    """Only the command line may import late: its start must stay quick."""
    hidden = [
        f"{short(path)}:{inner.lineno} in {name}"
        for path in modules().values()
        if PACKAGE / "cli" not in path.parents
        for name, node in functions(parsed(path))
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []


def test_other_rooms_are_entered_by_their_face() -> None:
    """A room imports another's face, or a module whose dotted name the face's docstring gives away."""
    known = modules()
    entered = [
        f"{name} imports {target}"
        for name, path in known.items()
        for target in sorted(imported(parsed(path), known))
        if target.count(".") > 1 and room_of(target) != room_of(name) and target not in given_away(room_of(target))
    ]
    assert entered == [], "import the face (regauge.ROOM), or name the module in the docstring of the face"


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def given_away(room: str) -> set[str]:
    face = PACKAGE / room.removeprefix("regauge.") / "__init__.py"
    return set(re.findall(r"\bregauge(?:\.\w+)+", ast.get_docstring(parsed(face)) or ""))


def test_public_names_are_pinned(golden: Callable[[str, str], None]) -> None:
    """What other rooms and users may rely on changes on purpose only."""
    names = {room: sorted(exported(room)) for room in ROOMS}
    golden("public_names.json", json.dumps(names, indent=1) + "\n")


@pytest.mark.parametrize("room", ROOMS)
def test_face_of_a_room(room: str) -> None:
    """A face lists its names once, and has each of them."""
    names = exported(room)
    assert len(set(names)) == len(names)
    face = importlib.import_module(f"regauge.{room}")
    assert [name for name in names if not hasattr(face, name)] == []


def exported(room: str) -> list[str]:
    for node in parsed(PACKAGE / room / "__init__.py").body:
        targets = (
            [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
        )
        value = node.value if isinstance(node, ast.AnnAssign | ast.Assign) else None
        if value is not None and any(ast.unparse(target) == "__all__" for target in targets):
            return [str(name) for name in ast.literal_eval(value)]
    pytest.fail(f"regauge.{room} has no __all__")


@pytest.mark.parametrize(("what", "pattern"), FOREIGN.items(), ids=FOREIGN)
def test_the_project_speaks_of_itself_alone(what: str, pattern: str) -> None:
    found = []
    for path in tracked():
        if path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if hit := re.search(pattern, line):
                found.append(f"{short(path)}:{number}: {hit[0]}")
    assert found == [], f"{what} in a tracked file"


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a path of one machine", "see ../shared/x"),
        ("a package registry", "https://pypi.org/p"),
        ("a word of the workshop", "as issue 3 says"),
        ("a word of the workshop", "in a later session"),
    ],
)
def test_foreign_words_are_found(what: str, text: str) -> None:
    assert re.search(FOREIGN[what], text)


def test_every_source_file_says_what_it_is_for() -> None:
    silent = [short(path) for path in python_files() if not ast.get_docstring(parsed(path))]
    assert silent == []


def test_nothing_is_left_open() -> None:
    """No stub, no reminder: what is not supported says so in words."""
    words = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")))
    found = [
        f"{short(path)}:{number}"
        for path in tracked()
        if path.suffix in (".py", ".go", ".sh", ".md", ".toml")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(words, line)
    ]
    assert found == []


def test_function_finder_sees_inner_ones() -> None:
    tree = ast.parse("class A:\n    def f(self):\n        def g(): ...\nif x:\n    async def h(): ...\n")
    found = dict(functions(tree))
    assert list(found) == ["A.f", "A.f.g", "h"]
    assert all(isinstance(node, Function) for node in found.values())
    assert (ROOT / "pyproject.toml").exists()
