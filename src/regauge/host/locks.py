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


class FileLock:
    """The same lock without waiting, for whoever has other things to do meanwhile. It may be taken again after release."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self) -> bool:
        """Take it now. Returns whether it is held by us; False means that another process holds it. Raises `OSError`."""
        if self._handle is not None:
            return True
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return True

    def release(self) -> None:
        """Let go; not to hold it is fine."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
