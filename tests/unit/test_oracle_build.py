"""The build of the reference programs says what it lacks, and leaves alone what is current."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support import ROOT

SCRIPT = ROOT / "scripts" / "build_oracles.sh"


def build(out: Path, path: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(SCRIPT), str(out), *flags],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def tools(place: Path, go: str | None = None) -> str:
    """A search path with the shell's usual tools and, where `go` is given, a stand-in for Go that runs these lines."""
    place.mkdir()
    for name in ("bash", "basename", "dirname", "mkdir", "find", "sort", "nice", "mv", "touch"):
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
    path = tools(tmp_path / "bin", go='echo "$PWD ${*:4}" >> "$LOG"; touch "$3"; /bin/chmod +x "$3"')
    log = tmp_path / "log"
    for _ in range(2):
        assert build(tmp_path / "out", path, LOG=str(log)).returncode == 0
    modules = sorted((ROOT / "tests" / "oracles").rglob("*.mod"))
    built = [
        f"{module.parent} ." if module.stem == "go" else f"{module.parent} -modfile={module.name} -tags {module.stem} ."
        for module in modules
    ]
    assert sorted(log.read_text().splitlines()) == sorted(built)
    names = {"-".join(module.relative_to(ROOT / "tests" / "oracles").with_suffix("").parts) for module in modules}
    assert {program.name for program in (tmp_path / "out").iterdir()} == {name.removesuffix("-go") for name in names}
    assert {"allocator-go", "allocator-v036", "cdi-go", "kubelet-go"} <= names


def test_some_programs_with_flags(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", go='echo "${*:4}" >> "$LOG"; touch "$3"; /bin/chmod +x "$3"')
    log = tmp_path / "log"
    assert build(tmp_path / "out", path, "-cover", LOG=str(log), ONLY="allocator-v03").returncode == 0
    assert {program.name for program in (tmp_path / "out").iterdir()} == {f"allocator-v03{one}" for one in "456"}
    assert log.read_text().splitlines()[0] == "-cover -modfile=v034.mod -tags v034 ."


def test_a_failing_build_is_an_error(tmp_path: Path) -> None:
    result = build(tmp_path / "out", tools(tmp_path / "bin", go="exit 3"))
    assert result.returncode != 0
    assert not any((tmp_path / "out").iterdir())
