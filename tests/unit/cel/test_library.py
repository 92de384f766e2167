"""As a library: what is loaded, and the page about it."""

from __future__ import annotations

import doctest
import subprocess
import sys

from tests.support import ROOT


def test_nothing_of_the_rooms_above_is_loaded() -> None:
    program = "import sys, regauge.cel, regauge.cel.conformance; print(*(name for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert {name.split(".")[1] for name in names if name.startswith("regauge.")} == {"base", "cel", "model"}
    assert not {"asyncio", "grpc", "httpx", "typer", "sqlite3"} & set(names)


def test_snippets_of_the_page_run() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "cel.md"), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 15
