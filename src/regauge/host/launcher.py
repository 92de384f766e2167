"""Run as a program, not imported: dies with its parent, then becomes the command of a container.

Arguments: the parent's process id, then the command. The kernel is asked to kill this process when its parent ends;
that wish survives becoming another program. A file of its own, because between fork and exec of a threaded process
nothing else is safe.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(137)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"exec {command[0]}: {(error.strerror or str(error)).lower()}\n")
        sys.exit(127)


main()
