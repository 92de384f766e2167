"""Directories of live runs: short paths for sockets, marked with their owner, and cleaned up after a crash.

A run's directory says which process owns it (pid and its start time, so that a reused pid is told apart). A later run finds
directories whose owner is dead, ends the processes that still work in them, and removes them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from regauge.base import InputError, Where
from regauge.host import file_lock

OWNER_FILE = "owner.json"
LOCK_FILE = "lock"
PREFIX = "run-"
END_WAIT_S = 5.0
RUN_VARIABLE = "REGAUGE_RUN_DIR"


class _Owner(msgspec.Struct):
    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """A directory of a run that died, and the processes of it that were still there."""

    directory: str
    pids: tuple[int, ...]


def base_directory() -> Path:
    """Where runs live: the user's runtime directory if there is one, else a directory of the user's own in /tmp."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "regauge"
    return Path("/tmp") / f"regauge-{os.getuid()}"


@contextlib.contextmanager
def run_directory(
    base: Path | None = None, sweep: Callable[[Path], None] = lambda _: None
) -> Iterator[tuple[Path, tuple[Leftover, ...]]]:
    """A fresh directory for one run, and the leftovers that were removed on the way. Removed at the end.

    `sweep` ends what belongs to the directory of a dead run and is not a process or a file in it.
    """
    base = base or base_directory()
    _own(base)
    with file_lock(str(base / LOCK_FILE)):
        leftovers = tuple(_clean(base, sweep))
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        owner = _Owner(os.getpid(), process_start(os.getpid()) or "")
        (directory / OWNER_FILE).write_bytes(msgspec.json.encode(owner))
    try:
        yield directory, leftovers
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _own(base: Path) -> None:
    """Make the base directory, and refuse one that somebody else could have prepared."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = base.lstat()
    if state.st_uid != os.getuid() or not base.is_dir() or base.is_symlink():
        raise InputError("it belongs to somebody else", where=Where(str(base)), fix="remove it or set XDG_RUNTIME_DIR")
    base.chmod(0o700)


def _clean(base: Path, sweep: Callable[[Path], None]) -> Iterator[Leftover]:
    for directory in sorted(base.glob(f"{PREFIX}*")):
        if _alive(directory):
            continue
        pids = tuple(_processes_of(directory))
        _end(pids)
        sweep(directory)
        shutil.rmtree(directory, ignore_errors=True)
        yield Leftover(str(directory), pids)


def _alive(directory: Path) -> bool:
    try:
        owner = msgspec.json.decode((directory / OWNER_FILE).read_bytes(), type=_Owner)
    except (OSError, msgspec.DecodeError):
        return False
    return process_start(owner.pid) == owner.started


def process_start(pid: int) -> str | None:
    """When a process started, in the kernel's ticks since boot; None when it is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def _processes_of(directory: Path) -> Iterator[int]:
    """Processes of this user that carry the run's directory in their environment."""
    marker = f"{RUN_VARIABLE}={directory}\0".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == os.getuid() and marker in (entry / "environ").read_bytes() + b"\0":
                yield int(entry.name)


def _end(pids: tuple[int, ...]) -> None:
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_)
        deadline = time.monotonic() + END_WAIT_S
        while any(process_start(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.05)


def told_of(leftovers: Iterable[Leftover]) -> tuple[str, ...]:
    """What was removed, as notes for people."""
    return tuple(
        f"an earlier run had died and left {item.directory}"
        + (f" and {len(item.pids)} processes" if item.pids else "")
        + "; removed"
        for item in leftovers
    )
