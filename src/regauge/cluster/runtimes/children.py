"""Child processes that are containers: started in a process group of their own, waited for, stopped, their output kept.

Shared by the runtimes that have processes. Children end with this process: the kernel kills them (see
`host.bound_command`), and `close` kills their process groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regauge.base import Clock
from regauge.cluster.runtimes.port import ContainerState
from regauge.host import bound_command

LOG_LIMIT_BYTES = 10 * 1024 * 1024


@dataclass(slots=True)
class Child:
    """One container's process. `stop_command` ends a container that a signal to the child does not reach."""

    state: ContainerState
    process: asyncio.subprocess.Process
    directory: str
    waiter: asyncio.Task[None] | None = None

    @property
    def log(self) -> str:
        return f"{self.directory}/log"


class Children:
    """The children of one runtime. `directory` is made with mode 0700; each container has a directory below it."""

    def __init__(self, clock: Clock, directory: str) -> None:
        self._clock = clock
        self._directory = directory
        self._children: dict[str, Child] = {}
        self._listeners: list[Callable[[ContainerState], None]] = []
        Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)

    def place(self, id_: str) -> str:
        """Make and return a container's own directory. The name is short, for socket paths below it."""
        path = Path(self._directory, id_[:16])
        path.mkdir(mode=0o700)
        return str(path)

    def discard(self, id_: str) -> None:
        """Remove the directory of a container that did not start."""
        shutil.rmtree(Path(self._directory, id_[:16]), ignore_errors=True)

    async def start(self, state: ContainerState, command: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        """Start a container's process; its output goes to its log. Raises `OSError`."""
        directory = str(Path(self._directory, state.id[:16]))
        launch = bound_command(command)
        log = os.open(f"{directory}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                *launch,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        finally:
            os.close(log)
        child = Child(state, process, directory)
        self._children[state.id] = child
        child.waiter = asyncio.get_running_loop().create_task(self._wait(child))

    def states(self) -> tuple[ContainerState, ...]:
        return tuple(child.state for child in self._children.values())

    def find(self, id_: str) -> Child | None:
        return self._children.get(id_)

    async def stop(self, id_: str, grace_s: float) -> ContainerState:
        """SIGTERM to the process group, SIGKILL after `grace_s`, then wait for the end."""
        child = self._children[id_]
        if child.waiter is not None and child.state.running:
            self._signal(child, signal.SIGTERM)
            await asyncio.wait({child.waiter}, timeout=max(0.0, grace_s))
            if child.state.running:
                self._signal(child, signal.SIGKILL)
            await asyncio.wait({child.waiter})
        return child.state

    async def remove(self, id_: str) -> None:
        child = self._children.pop(id_, None)
        if child is not None:
            await self._kill(child)
            shutil.rmtree(child.directory, ignore_errors=True)

    def log(self, id_: str) -> bytes:
        """The end of a container's log, at most `LOG_LIMIT_BYTES`."""
        child = self._children.get(id_)
        if child is None:
            return b""
        with open(child.log, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - LOG_LIMIT_BYTES))
            return stream.read()

    def on_exit(self, listener: Callable[[ContainerState], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def kill(self) -> None:
        """Kill everything and do not wait for it."""
        for child in self._children.values():
            if child.state.running:
                self._signal(child, signal.SIGKILL)

    async def close(self) -> None:
        """Kill everything and wait for it."""
        self._listeners.clear()
        for child in self._children.values():
            await self._kill(child)

    async def _kill(self, child: Child) -> None:
        if child.waiter is not None and child.state.running:
            self._signal(child, signal.SIGKILL)
            await asyncio.wait({child.waiter})

    def _signal(self, child: Child, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, number)

    async def _wait(self, child: Child) -> None:
        code = await child.process.wait()
        self._signal(child, signal.SIGKILL)  # what is left of the group has no container any more
        exit_code = code if code >= 0 else 128 - code
        child.state = replace(child.state, exit_code=exit_code, finished_s=self._clock.now_s())
        for listener in tuple(self._listeners):
            listener(child.state)
