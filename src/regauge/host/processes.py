"""Child processes that never outlive this one, however it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))


def bound_command(command: Sequence[str]) -> list[str]:
    """`command` wrapped so that the kernel kills it (SIGKILL) when this process ends. To be started by this process."""
    return [sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid()), *command]
