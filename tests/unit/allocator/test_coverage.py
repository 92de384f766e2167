"""How much of upstream's allocator the generated cases reach: measured, and every rest explained."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from tests.support import ROOT, missing


@pytest.mark.soak
def test_upstream_is_reached() -> None:
    if shutil.which("go") is None:
        missing("go")
    script = ROOT / "scripts" / "upstream_coverage.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=3600)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
