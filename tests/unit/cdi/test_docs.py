"""The page for library users is true: its snippets run and print what they say."""

from __future__ import annotations

import doctest

from tests.support import ROOT


def test_snippets_run() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "cdi.md"), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 15
