"""The room alone is a library: what importing it loads, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

READERS = "msgspec, yaml, yaml.cyaml"  # of JSON and YAML, with what they load themselves
NEVER = {"asyncio", "grpc", "http", "httpx", "logging", "sqlite3", "ssl", "threading", "socket", "subprocess", "typer"}
PROGRAM = """
import sys
before = set(sys.modules)
import {module}
print(*sorted(set(sys.modules) - before))
"""


def loaded(module: str) -> set[str]:
    """What importing it adds to what a Python program has anyway."""
    program = PROGRAM.format(module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "rooms"),
    [("regauge.cdi", {"base", "model", "cdi"}), ("regauge.cdi.directory", {"base", "model", "cdi", "host"})],
)
def test_only_what_is_below_is_loaded(module: str, rooms: set[str]) -> None:
    found = loaded(module)
    ours = {name.split(".")[1] for name in found if name.startswith("regauge.")}
    assert "cdi" in ours and ours <= rooms
    others = {name.partition(".")[0] for name in found - loaded(READERS)} - {"regauge"}
    assert others <= sys.stdlib_module_names
    assert others & NEVER == set()


def test_reading_directories_is_asked_for_by_name() -> None:
    assert "regauge.cdi.directory" not in loaded("regauge.cdi")
    assert "regauge.cdi.runtimes" not in loaded("regauge.cdi")
