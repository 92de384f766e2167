"""Golden files: what a program printed when somebody last read and accepted it."""

from __future__ import annotations

from pathlib import Path

import pytest

DIRECTORY = Path(__file__).resolve().parent / "golden"


def compare(directory: Path, name: str, text: str, *, rewrite: bool) -> None:
    """Fail unless the file `name` in `directory` holds exactly `text`; with `rewrite`, write it there instead."""
    path = directory / name
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    if not path.exists():
        pytest.fail(f"there is no golden file {name} yet: run this test with --rewrite and read what it wrote")
    assert text == path.read_text(), f"golden file {name} differs: run this test with --rewrite if the change is meant"
