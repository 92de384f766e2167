"""The runtime without processes: a container is a record that runs until it is stopped, or for a time it was told.

The OCI configuration is made all the same, CDI included, so what a container would see can be asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from regauge.base import Clock, Files
from regauge.cdi import Host
from regauge.cdi.directory import SpecDirectories
from regauge.cluster.runtimes.creating import CREATE_ERROR, create_spec
from regauge.cluster.runtimes.port import (
    KILLED,
    LOST_CODE,
    LOST_REASON,
    ContainerRequest,
    ContainerState,
    StartFailed,
    container_id,
)
from regauge.cluster.runtimes.records import Records

RUN_SECONDS = "regauge.dev/run-seconds"
EXIT_CODE = "regauge.dev/exit-code"
IGNORE_STOP = "regauge.dev/ignore-stop"


class VirtualRuntime:
    """`Runtime` in virtual or real time.

    The pod's annotations `regauge.dev/run-seconds` and `regauge.dev/exit-code` (also with `.CONTAINER` appended) say when a
    container ends by itself and how. A container that is stopped ends with 0 at once, or, with
    `regauge.dev/ignore-stop: "true"`, with 137 when its grace is over.

    With `keep`, a directory, every container is a file there and is found again by the next runtime on it: it runs on while
    nobody looks. Made inside the loop.
    """

    def __init__(
        self, clock: Clock, files: Files, host: Host, cdi_directories: Sequence[str], *, keep: str = ""
    ) -> None:
        self._clock = clock
        self._host = host
        self._cdi = SpecDirectories(files, cdi_directories)
        self._records = Records(files, keep) if keep else None
        self._containers: dict[str, ContainerState] = {}
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[Callable[[ContainerState], None]] = []
        for state in self._records.read() if self._records else ():
            self._containers[state.id] = state
            self._time(state)

    @property
    def version(self) -> str:
        return "virtual://1.0"

    async def start(self, request: ContainerRequest) -> ContainerState:
        _told(request)
        now_s = self._clock.now_s()
        id_ = container_id(request, now_s)
        spec = create_spec(request, id_, self._cdi.read, self._host)
        state = ContainerState(id_, request, spec, now_s)
        self._put(state)
        self._time(state)
        return state

    def _put(self, state: ContainerState) -> None:
        self._containers[state.id] = state
        if self._records:
            self._records.write(state)

    def _time(self, state: ContainerState) -> None:
        """End the container when its time is over."""
        run_s, exit_code = _told(state.request)
        if run_s is not None and state.running:
            left_s = max(0.0, state.started_s + run_s - self._clock.now_s())
            self._timers[state.id] = asyncio.get_running_loop().create_task(
                self._end_after(state.id, left_s, exit_code)
            )

    def containers(self) -> tuple[ContainerState, ...]:
        return tuple(self._containers.values())

    async def stop(self, container: str, grace_s: float) -> ContainerState:
        if self._containers[container].request.annotations.get(IGNORE_STOP) == "true":
            await self._clock.sleep(grace_s)
            return self._finish(container, KILLED)
        return self._finish(container, 0)

    async def remove(self, container: str) -> None:
        timer = self._timers.pop(container, None)
        if timer is not None:
            timer.cancel()
        self._containers.pop(container, None)
        if self._records:
            self._records.remove(container)

    def logs(self, container: str) -> bytes:
        return b""

    def on_exit(self, listener: Callable[[ContainerState], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def close(self) -> None:
        """Everything ends and is forgotten, but for what is kept."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._containers.clear()

    def power_off(self) -> None:
        """The machine goes down. Afterwards the runtime remembers its containers, but not how they ended."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        now_s = self._clock.now_s()
        for state in tuple(self._containers.values()):
            if state.running:
                self._put(replace(state, finished_s=now_s, exit_code=LOST_CODE, reason=LOST_REASON))

    def exit(self, container: str, exit_code: int) -> ContainerState:
        """Let a running container end now, as if its program had ended: a fault, or the end of a workload."""
        return self._finish(container, exit_code)

    async def _end_after(self, id_: str, run_s: float, exit_code: int) -> None:
        await self._clock.sleep(run_s)
        self._timers.pop(id_, None)
        self._end(id_, exit_code)

    def _finish(self, id_: str, exit_code: int) -> ContainerState:
        timer = self._timers.pop(id_, None)
        if timer is not None:
            timer.cancel()
        return self._end(id_, exit_code)

    def _end(self, id_: str, exit_code: int) -> ContainerState:
        state = self._containers[id_]
        if state.running:
            state = replace(state, finished_s=self._clock.now_s(), exit_code=exit_code)
            self._put(state)
            for listener in tuple(self._listeners):
                listener(state)
        return state


def _told(request: ContainerRequest) -> tuple[float | None, int]:
    """How long to run (None: until stopped) and the exit code, from the annotations."""
    run = request.annotations.get(f"{RUN_SECONDS}.{request.name}", request.annotations.get(RUN_SECONDS))
    code = request.annotations.get(f"{EXIT_CODE}.{request.name}", request.annotations.get(EXIT_CODE, "0"))
    try:
        run_s = float(run) if run is not None else (0.0 if request.completes else None)
        exit_code = int(code)
    except ValueError:
        raise StartFailed(
            CREATE_ERROR, f"the annotations {RUN_SECONDS} and {EXIT_CODE} must be numbers: {run!r}, {code!r}"
        ) from None
    return run_s, exit_code
