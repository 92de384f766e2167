"""The golden files' own rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.goldens import compare


def test_missing_then_written_then_compared(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="--rewrite"):
        compare(tmp_path, "a/b.txt", "one\n", rewrite=False)
    compare(tmp_path, "a/b.txt", "one\n", rewrite=True)
    compare(tmp_path, "a/b.txt", "one\n", rewrite=False)
    with pytest.raises(AssertionError, match="differs"):
        compare(tmp_path, "a/b.txt", "two\n", rewrite=False)
