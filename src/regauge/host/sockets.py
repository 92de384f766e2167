"""Unix sockets: the limit of their path, and telling a living one from a leftover."""

from __future__ import annotations

import os
import socket

SOCKET_PATH_LIMIT_BYTES = 107  # sun_path holds 108 bytes on Linux, the last one is the terminating zero


def check_socket_path(path: str) -> None:
    """Raises `ValueError`, in words, when `path` is too long for a unix socket."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_LIMIT_BYTES:
        raise ValueError(
            f"the socket path is {size} bytes long and Linux allows {SOCKET_PATH_LIMIT_BYTES}: {path}"
            " (choose a shorter directory)"
        )


def is_listening(path: str) -> bool:
    """Whether somebody accepts connections on the unix socket at `path`. A leftover file answers no."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True
