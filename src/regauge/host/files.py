"""Real files: written in one step and synced, so that a crash leaves the old content or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path


class RealFiles:
    """The machine's file system behind the `Files` port of `base`. Safe to use from several processes.

    `synced` False is for what has to survive the end of a process, and not that of the machine.
    """

    def __init__(self, synced: bool = True) -> None:
        self._synced = synced

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
                if self._synced:
                    os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        self._sync(directory)

    def _sync(self, directory: str) -> None:
        if self._synced:
            sync_directory(directory)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            self._sync(os.path.dirname(path) or ".")

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)
        self._sync(os.path.dirname(new) or ".")

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


class FilesBelow:
    """A file system of its own: `/k/x` is the file `directory/k/x`. For nodes that are directories of this machine."""

    def __init__(self, directory: str, synced: bool = True) -> None:
        self._root = os.path.abspath(directory)
        self._files = RealFiles(synced)

    def _inside(self, path: str) -> str:
        return self._root + os.path.normpath("/" + path)

    def read(self, path: str) -> bytes:
        return self._files.read(self._inside(path))

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self._files.write(self._inside(path), data, mode)

    def remove(self, path: str) -> None:
        self._files.remove(self._inside(path))

    def rename(self, old: str, new: str) -> None:
        self._files.rename(self._inside(old), self._inside(new))

    def names(self, directory: str) -> list[str]:
        return self._files.names(self._inside(directory))

    def exists(self, path: str) -> bool:
        return self._files.exists(self._inside(path))

    def make_directory(self, path: str, mode: int = 0o755) -> None:
        self._files.make_directory(self._inside(path), mode)

    def remove_directory(self, path: str) -> None:
        self._files.remove_directory(self._inside(path))


def sync_directory(path: str) -> None:
    """Make the names in a directory durable. A file system that cannot sync a directory is left as it is."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
