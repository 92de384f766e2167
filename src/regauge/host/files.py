"""Real files: written in one step and synced, so that a crash leaves the old content or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path


class RealFiles:
    """The machine's file system behind the `Files` port of `base`. Safe to use from several processes."""

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        directory = os.path.dirname(path) or "."
        handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", suffix=".tmp", dir=directory)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fchmod(stream.fileno(), mode)
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        sync_directory(directory)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            sync_directory(os.path.dirname(path) or ".")

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)
        sync_directory(os.path.dirname(new) or ".")

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory), key=os.fsencode)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def make_directory(self, path: str, mode: int = 0o755) -> None:
        Path(path).mkdir(mode=mode, parents=True, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise


def sync_directory(path: str) -> None:
    """Make the names in a directory durable. A file system that cannot sync a directory is left as it is."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
