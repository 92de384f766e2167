"""Unix sockets in the file system: who lives behind one, and giving a name to one that is already listening."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import stat
import struct
from collections.abc import Mapping
from pathlib import Path

from regauge.base import InputError, Where
from regauge.host import check_socket_path
from regauge.pluginapi.failures import in_use

_CREDENTIALS = struct.Struct("3i")


def living_owner(path: str) -> str | None:
    """Who listens on the socket at `path`: a process in words, "" when that cannot be seen, None when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return ""  # its queue is full: it lives, and is busy or stuck
        except OSError as error:
            return None if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK) else ""
        pid, _, _ = _CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if pid <= 0:
        return ""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name})"


def check_address(path: str) -> None:
    """Raises `InputError` when `path` cannot become a socket: too long, no directory, not a socket, somebody lives there."""
    try:
        check_socket_path(path)
    except ValueError as error:
        raise InputError(str(error), where=Where(file=path)) from None
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        raise InputError(
            f"the directory {directory} of the socket does not exist",
            where=Where(file=path),
            fix="make it, or check that this is the kubelet's directory",
        )
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InputError("it is not a socket and is left as it is", where=Where(file=path), fix="move it away")
    owner = living_owner(path)
    if owner is not None:
        raise in_use(path, owner)


def temporary_name(path: str) -> str:
    """A name in the same directory that readers of the directory ignore, for a socket that is not ready yet."""
    return os.path.join(os.path.dirname(path), "." + secrets.token_hex(3))


def publish(temporary: str, path: str) -> tuple[int, int]:
    """Give the listening socket at `temporary` the name `path` in one step; a leftover there is replaced.

    Returns its identity. Raises `InputError` when somebody living took the name in the meantime.
    """
    for _ in range(3):
        try:
            os.link(temporary, path, follow_symlinks=False)
            os.unlink(temporary)
            return identity(path)
        except FileExistsError:
            owner = living_owner(path)
            if owner is not None:
                raise in_use(path, owner) from None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    raise in_use(path, "")


def identity(path: str) -> tuple[int, int]:
    """What changes when the socket is made anew: inode and time of making (inode numbers are used again)."""
    found = os.lstat(path)
    return found.st_ino, found.st_mtime_ns


def remove_own(path: str, own: tuple[int, int]) -> None:
    """Take the name away unless it belongs to another socket by now."""
    with contextlib.suppress(FileNotFoundError):
        if identity(path) == own:
            os.unlink(path)


def sockets_in(directory: str) -> Mapping[str, int]:
    """The sockets in a directory with their identities; hidden names and other files are left out."""
    found: dict[str, int] = {}
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return found
    for entry in entries:
        if entry.name.startswith("."):
            continue
        with contextlib.suppress(FileNotFoundError):
            seen = entry.stat(follow_symlinks=False)
            if stat.S_ISSOCK(seen.st_mode):
                found[entry.name] = hash((seen.st_ino, seen.st_mtime_ns))
    return found
