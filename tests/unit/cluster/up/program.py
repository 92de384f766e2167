"""`regauge up` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support import kubectl

READY_WITHIN_S = 30


class Program:
    """One running `regauge up`; `say` is what it has said."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        self.log = state.parent / f"{state.name}.log"
        self._began = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "regauge", "up", "--state", str(state), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_ready(self) -> float:
        """How many seconds it took."""
        deadline = time.monotonic() + READY_WITHIN_S
        while "ready: " not in self.said():
            assert self.process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.02)
        return time.monotonic() - self._began

    def said(self) -> str:
        return self.log.read_text()

    @property
    def server(self) -> str:
        return self.said().rpartition("ready: ")[2].split()[0]

    def kubectl(self, *words: str, code: int = 0, stdin: str = "", env: dict[str, str] | None = None) -> str:
        """What kubectl prints; it must end with `code`."""
        environment = {
            "KUBECONFIG": str(self.state / "kubeconfig"),
            "PATH": os.environ["PATH"],
            "HOME": str(self.state.parent),
            "KUBECACHEDIR": str(self.state.parent / "cache"),
            **(env or {}),
        }
        done = subprocess.run(
            [str(kubectl()), *words],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert done.returncode == code, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(15)


@contextlib.contextmanager
def running(state: Path, *options: str) -> Iterator[Program]:
    program = Program(state, *options)
    try:
        program.wait_ready()
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait(15)
