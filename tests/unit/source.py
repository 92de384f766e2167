"""The project's own source as data: files, functions, imports. For the tests of the house rules."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import ROOT, missing

PACKAGE = ROOT / "src" / "regauge"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tracked() -> tuple[Path, ...]:
    """The files under version control that are on disk. Without git or a checkout the test is skipped."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        missing("a git checkout")
    return tuple(path for name in listing.decode().split("\0") if name and (path := ROOT / name).is_file())


@cache
def python_files() -> tuple[Path, ...]:
    """The tracked Python files."""
    return tuple(path for path in tracked() if path.suffix == ".py")


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), str(path))


def short(path: Path) -> str:
    """The path as seen from the project's root."""
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """All functions with their dotted names, inner ones too."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if isinstance(child, Function):
                yield name, child
            yield from functions(child, f"{name}.")
        else:
            yield from functions(child, prefix)


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Dotted name to file of every module of the package, tracked or not."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.Module, known: dict[str, Path]) -> set[str]:
    """The modules among `known` that a module imports when it runs: not those under `if TYPE_CHECKING`."""
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names} & known.keys()
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{name.name}" for name in node.names}
            found |= inner & known.keys()
            if inner - known.keys() and node.module in known:
                found.add(node.module)
        waiting.extend(ast.iter_child_nodes(node))
    return found


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle, each sorted; a module importing itself counts."""
    reach = {name: _reached(name, graph) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def _reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(graph.get(name, ()))
    return seen
