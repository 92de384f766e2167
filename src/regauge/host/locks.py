"""Locks between processes, let go by the kernel when their holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator


@contextlib.contextmanager
def file_lock(path: str, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold an exclusive lock on the file at `path` (made when missing). Raises `TimeoutError` after `timeout_s`."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"another process has held {path} for {timeout_s:g} s") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)
