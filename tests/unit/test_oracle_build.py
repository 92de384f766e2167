"""The build of the reference programs says what it lacks, and leaves alone what is current."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support import ROOT

SCRIPT = ROOT / "scripts" / "build_oracles.sh"


def build(out: Path, path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(SCRIPT), str(out)],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def tools(place: Path, go: str | None = None) -> str:
    """A search path with the shell's usual tools and, where `go` is given, a stand-in for Go that runs these lines."""
    place.mkdir()
    for name in ("bash", "dirname", "mkdir", "find", "sort", "nice", "mv", "touch"):
        (place / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name} on this machine"))
    if go is not None:
        (place / "go").write_text(f"#!/bin/bash\n{go}\n")
        (place / "go").chmod(0o755)
    return str(place)


def test_without_go_it_says_so(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin")
    result = build(tmp_path / "out", path)
    assert result.returncode == 0
    assert "no 'go' on this machine" in result.stderr
    assert build(tmp_path / "out", path, REGAUGE_CI="1").returncode == 1


def test_each_program_is_built_once(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", go='echo "$PWD" >> "$LOG"; touch "$3"; /bin/chmod +x "$3"')
    log = tmp_path / "log"
    for _ in range(2):
        assert build(tmp_path / "out", path, LOG=str(log)).returncode == 0
    folders = [module.parent for module in (ROOT / "tests" / "oracles").rglob("go.mod")]
    assert sorted(log.read_text().splitlines()) == sorted(str(folder) for folder in folders)
    names = {folder.relative_to(ROOT / "tests" / "oracles").as_posix().replace("/", "-") for folder in folders}
    assert {program.name for program in (tmp_path / "out").iterdir()} == names
    assert {"allocator", "allocator-v036", "cdi", "kubelet"} <= names


def test_a_failing_build_is_an_error(tmp_path: Path) -> None:
    result = build(tmp_path / "out", tools(tmp_path / "bin", go="exit 3"))
    assert result.returncode != 0
    assert not any((tmp_path / "out").iterdir())
