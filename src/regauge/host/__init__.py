"""The machine: atomic files, locks, sockets, processes, the real clock. Only rooms that touch the world import this.

By name: `regauge.host.loops`, for programs that end by cancelling what they do.
"""

from regauge.host.clock import RealClock
from regauge.host.files import FilesBelow, RealFiles, sync_directory
from regauge.host.locks import FileLock, file_lock
from regauge.host.processes import bound_command
from regauge.host.sockets import SOCKET_PATH_LIMIT_BYTES, check_socket_path, is_listening, private_socket

__all__ = [
    "SOCKET_PATH_LIMIT_BYTES",
    "FileLock",
    "FilesBelow",
    "RealClock",
    "RealFiles",
    "bound_command",
    "check_socket_path",
    "file_lock",
    "is_listening",
    "private_socket",
    "sync_directory",
]
