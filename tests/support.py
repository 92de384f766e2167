"""Where tests find the reference material and programs, and what happens when they are not there.

Outside continuous integration a missing piece skips the test with the reason; with `REGAUGE_CI=1` it fails.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
IN_CI = os.environ.get("REGAUGE_CI") == "1"


def missing(what: str) -> NoReturn:
    """Skip, or in continuous integration fail, because `what` is not on this machine."""
    if IN_CI:
        pytest.fail(f"missing in continuous integration: {what}")
    pytest.skip(f"missing: {what}")


def shared(path: str) -> Path:
    """A file or directory of the shared reference material beside the project."""
    place = Path(os.environ.get("REGAUGE_SHARED", ROOT.parent / "shared")) / path
    if not place.exists():
        missing(f"reference material {path}")
    return place


def oracle(name: str) -> Path:
    """A reference program built by `make oracles`: its name below tests/oracles, such as "cdi" or "allocator/v036"."""
    place = ROOT / ".cache" / "oracles" / name.replace("/", "-")
    if not place.exists():
        missing(f"reference program {name} (make oracles)")
    return place


def kubectl() -> Path:
    """The real kubectl from the development requirements."""
    beside = ROOT / ".venv" / "bin" / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if not found:
        missing("kubectl (make setup)")
    return Path(found)


def program(name: str) -> Path:
    """A program that views are tested with, brought by `make oracles`: prometheus, promtool, chromium, chromedriver.

    It comes from a distribution's packages, which not every machine has: without it the test is skipped everywhere.
    """
    unpacked = ROOT / ".cache" / "programs" / "usr" / "bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"missing: {name} (make oracles)")
    return Path(found)
