"""Containers as child processes: what CDI gives is there, the exit is heard, nothing outlives its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from regauge.base import MemoryFiles
from regauge.cdi.directory import RealHost
from regauge.cluster.runtimes import ContainerRequest, ContainerState, StartFailed
from regauge.cluster.runtimes.process import ProcessRuntime
from regauge.host import RealClock
from regauge.pluginapi import DeviceSpec, Mount

SPEC = (
    b'{"cdiVersion":"0.5.0","kind":"example.com/dev","devices":[{"name":"d0","containerEdits":{'
    b'"env":["CDI_D0=yes"],"deviceNodes":[{"path":"/dev/d0","hostPath":"/dev/zero"}]}}]}'
)


def request(script: str, **changes: Any) -> ContainerRequest:
    return ContainerRequest("uid", "default", "p", "c", command=("sh", "-c", script), **changes)


def run(directory: Path, scenario: Callable[[ProcessRuntime], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        files = MemoryFiles()
        files.make_directory("/etc/cdi")
        files.write("/etc/cdi/example.json", SPEC)
        runtime = ProcessRuntime(RealClock(), files, RealHost(), ("/etc/cdi",), str(directory))
        try:
            await scenario(runtime)
        finally:
            await runtime.close()

    asyncio.run(main())


async def ended(runtime: ProcessRuntime, state: ContainerState) -> ContainerState:
    for _ in range(500):
        (now,) = [one for one in runtime.containers() if one.id == state.id]
        if not now.running:
            return now
        await asyncio.sleep(0.01)
    raise AssertionError("the container did not end")


@pytest.mark.row(50, how="real")
def test_a_container_finds_what_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("from the host")

    async def scenario(runtime: ProcessRuntime) -> None:
        script = (
            'echo $A $B $CDI_D0; head -c 3 "$REGAUGE_DEVICES_DIR/dev/d0" | od -An -tx1;'
            ' wc -c < "$REGAUGE_DEVICES_DIR/dev/null0"; cat "$REGAUGE_MOUNTS_DIR/mnt/data"; exit 3'
        )
        asked = request(
            script,
            env={"A": "pod"},
            devices=(DeviceSpec("/dev/null0", "/dev/null"),),
            mounts=(Mount("/mnt/data", str(tmp_path / "data"), True),),
            cdi_devices=("example.com/dev=d0",),
        )
        heard: list[ContainerState] = []
        runtime.on_exit(heard.append)
        state = await ended(runtime, await runtime.start(asked))
        assert state.exit_code == 3
        assert heard == [state]
        assert runtime.logs(state.id).decode().split() == ["pod", "yes", "00", "00", "00", "0", "from", "the", "host"]
        await runtime.remove(state.id)
        assert not runtime.containers()

    run(tmp_path / "run", scenario)
    assert list((tmp_path / "run").iterdir()) == []


def test_stop_asks_then_insists_and_takes_the_whole_group(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        kind = await runtime.start(request("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
        stubborn = await runtime.start(
            request("trap '' TERM; sleep 300 & echo $!; while :; do sleep 0.05; done", attempt=1)
        )
        await printed(runtime, kind)
        await printed(runtime, stubborn)
        assert (await runtime.stop(kind.id, 5)).exit_code == 0
        assert (await runtime.stop(stubborn.id, 0.2)).exit_code == 137
        await gone(int(runtime.logs(stubborn.id)))

    run(tmp_path / "run", scenario)


async def printed(runtime: ProcessRuntime, state: ContainerState) -> None:
    for _ in range(500):
        if runtime.logs(state.id):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the container printed nothing")


async def gone(pid: int) -> None:
    for _ in range(300):
        try:
            if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return
        except FileNotFoundError:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"process {pid} still runs")


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        (ContainerRequest("u", "n", "p", "c", image="i"), "CreateContainerError", "container c names no command"),
        (request("true", cdi_devices=("example.com/dev=x",)), "CreateContainerError", "unresolvable CDI devices"),
        (
            request("true", devices=(DeviceSpec("/dev/a", "/dev/no-such"),)),
            "CreateContainerError",
            "lstat /dev/no-such",
        ),
        (request("true", working_directory="/no/such"), "RunContainerError", "failed to start container c"),
    ],
)
def test_what_cannot_start_leaves_nothing(tmp_path: Path, asked: ContainerRequest, reason: str, message: str) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        with pytest.raises(StartFailed, match=message) as caught:
            await runtime.start(asked)
        assert caught.value.reason == reason
        assert not runtime.containers()

    run(tmp_path / "run", scenario)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_command_that_is_not_there_exits_127(tmp_path: Path) -> None:
    async def scenario(runtime: ProcessRuntime) -> None:
        state = await runtime.start(ContainerRequest("u", "n", "p", "c", command=("no-such-command",)))
        assert (await ended(runtime, state)).exit_code == 127
        assert b"no-such-command: no such file or directory" in runtime.logs(state.id)

    run(tmp_path / "run", scenario)


PARENT = """
import asyncio, sys
from regauge.base import MemoryFiles
from regauge.cdi.directory import RealHost
from regauge.cluster.runtimes import ContainerRequest
from regauge.cluster.runtimes.process import ProcessRuntime
from regauge.host import RealClock

async def main():
    runtime = ProcessRuntime(RealClock(), MemoryFiles(), RealHost(), (), sys.argv[1])
    state = await runtime.start(ContainerRequest("u", "n", "p", "c", command=("sh", "-c", "echo $$; exec sleep 300")))
    while not runtime.logs(state.id):
        await asyncio.sleep(0.01)
    print(runtime.logs(state.id).decode(), flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.mark.row(50, how="real")
def test_children_die_with_their_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()
    asyncio.run(gone(pid))
