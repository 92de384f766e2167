"""Unix sockets: the limit of their path, telling a living one from a leftover, and one for its owner alone."""

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


def private_socket(path: str) -> socket.socket:
    """A unix socket bound at `path` that only its owner may connect to, from its first moment on; it does not listen yet.

    The mask of the process is another one within this call alone: whoever waits while it is changed lends it to all other
    tasks, and two that do so at once may leave it behind. Raises `OSError`.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        bound.bind(path)
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(mask)
    return bound
