"""The program as a user starts it, in a run directory of its own, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regauge.rehearsal.runs import RUN_VARIABLE

LIMIT_S = 100.0
LIVE_STEPS = (
    "The node is ready",
    "Every device is owned",
    "Workload A runs",
    "Workload B runs",
    "The driver is killed",
    "Workload A moves",
    "Everything is released",
)


@dataclass(frozen=True)
class Ended:
    """How the program ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


class Place:
    """A short directory that stands for the user's runtime directory (unix socket paths are short)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_RUNTIME_DIR": str(self.directory), "PYTHONUNBUFFERED": "1"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "regauge", *arguments]

    def run(self, *arguments: str, before: tuple[str, ...] = (), **environment: str) -> Ended:
        done = subprocess.run(
            [*before, *self.command(*arguments)],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """The program in a process group of its own; killed at the end if it still runs."""
        with subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def processes(self) -> list[int]:
        """Processes that carry a run directory of this place in their environment."""
        marker = f"{RUN_VARIABLE}={self.directory}/".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if any(item.startswith(marker) for item in (entry / "environ").read_bytes().split(b"\0")):
                        found.append(int(entry.name))
        return found

    def processes_left(self, within_s: float = 5) -> list[int]:
        """Processes that are still there after a while: the kernel ends the children of a dead parent, in its own time."""
        ends_s = time.monotonic() + within_s
        while (left := self.processes()) and time.monotonic() < ends_s:
            time.sleep(0.02)
        return left

    def run_directories(self) -> list[Path]:
        return sorted(self.directory.glob("regauge/run-*"))

    def mounts(self) -> list[str]:
        return [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.directory) in line]

    def assert_nothing_left(self) -> None:
        assert self.processes() == []
        assert self.mounts() == []
        assert self.run_directories() == []


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """A place of its own; what still runs in it at the end is ended."""
    directory = Path(tempfile.mkdtemp(prefix="rg-", dir="/tmp"))
    found = Place(directory)
    try:
        yield found
    finally:
        for pid in found.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(directory, ignore_errors=True)


def wait_for_line(process: subprocess.Popen[str], part: str) -> None:
    """Read what the program says on stderr until a line holds `part`."""
    assert process.stderr is not None
    for line in process.stderr:
        if part in line:
            return
    raise AssertionError(f"the program ended without saying {part!r}")


def rest(process: subprocess.Popen[str]) -> Ended:
    """Wait for its end."""
    out, err = process.communicate(timeout=LIMIT_S)
    return Ended(process.returncode, out, err)


def children_cpu_s() -> float:
    """Processor seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def steady(text: str) -> str:
    """A transcript without what may differ: made names, seconds, and the widths of columns that follow from them."""
    text = re.sub(
        r"\b(trainer-[ab]|tabular)(-[bcdfghjklmnpqrstvwxz0-9]{6,10})?-[bcdfghjklmnpqrstvwxz0-9]{5}\b",
        r"\1-<made>",
        text,
    )
    text = re.sub(r"\d+\.\d+ s\b", "<seconds>", text)
    return re.sub(r"(?<=\S) {2,}", "  ", text)
