"""Run directories: owned, short, and cleaned up after a crash."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regauge.base import InputError
from regauge.rehearsal.runs import OWNER_FILE, RUN_VARIABLE, process_start, run_directory

CRASHING = """
import os, signal, subprocess, sys
from pathlib import Path
from regauge.rehearsal.runs import run_directory, RUN_VARIABLE
with run_directory(Path(sys.argv[1])) as (directory, leftovers):
    env = dict(os.environ, **{RUN_VARIABLE: str(directory)})
    child = subprocess.Popen(["sleep", "60"], env=env, start_new_session=True, stdout=-3, stderr=-3)
    (directory / "child").write_text(str(child.pid))
    print(directory, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_has_a_directory_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    with run_directory(tmp_path) as (first, _), run_directory(tmp_path) as (second, leftovers):
        assert first != second
        assert not leftovers
        assert first.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_after_a_crash_the_next_run_ends_the_children_and_removes_the_rest(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRASHING, str(tmp_path)]
    crashed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr
    directory = Path(crashed.stdout.strip())
    child = int((directory / "child").read_text())
    assert process_start(child)
    with run_directory(tmp_path) as (_, leftovers):
        assert [(item.directory, item.pids) for item in leftovers] == [(str(directory), (child,))]
    deadline = time.monotonic() + 5
    while process_start(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process_start(child) is None
    assert not directory.exists()


def test_a_process_with_a_reused_pid_is_not_the_owner(tmp_path: Path) -> None:
    stale = tmp_path / "run-x"
    stale.mkdir()
    (stale / OWNER_FILE).write_text(f'{{"pid": {os.getpid()}, "started": "1"}}')
    with run_directory(tmp_path) as (_, leftovers):
        assert [item.directory for item in leftovers] == [str(stale)]


def test_a_living_run_is_left_alone(tmp_path: Path) -> None:
    env = dict(os.environ, **{RUN_VARIABLE: "elsewhere"})
    with subprocess.Popen(["sleep", "60"], env=env) as other:
        with run_directory(tmp_path) as (first, _):
            with run_directory(tmp_path):
                pass
            assert first.exists()
        assert other.poll() is None
        other.kill()


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "link"
    (tmp_path / "real").mkdir()
    place.symlink_to(tmp_path / "real")
    with pytest.raises(InputError, match="belongs to somebody else"), run_directory(place):
        pass
