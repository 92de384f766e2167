"""Containers by runc or crun, where this machine has one and lets it work."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regauge.base import MemoryFiles
from regauge.cdi.directory import RealHost
from regauge.cluster.runtimes import ContainerRequest, ContainerState
from regauge.cluster.runtimes.oci import OciOptions, OciRuntime
from regauge.host import RealClock

SPEC = (
    b'{"cdiVersion":"0.5.0","kind":"example.com/dev","devices":[{"name":"d0","containerEdits":{"env":["CDI_D0=yes"],'
    b'"deviceNodes":[{"path":"/dev/d0","hostPath":"/dev/zero"}],'
    b'"mounts":[{"hostPath":"/tmp","containerPath":"/given","options":["ro","bind"]}]}}]}'
)


def program() -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for found in (
        shutil.which("runc"),
        str(Path.home().joinpath(".cache", "regauge-real-cluster", "root", "usr", "sbin", "runc")),
    ):
        if found and os.path.exists(found):
            return found
    pytest.skip("needs runc")


@pytest.mark.row(50, how="real")
def test_a_real_container_sees_its_devices_and_can_be_stopped(tmp_path: Path) -> None:
    runc = program()

    async def main() -> None:
        files = MemoryFiles()
        files.make_directory("/etc/cdi")
        files.write("/etc/cdi/example.json", SPEC)
        options = OciOptions(runc, str(tmp_path / "oci"))
        runtime = OciRuntime(RealClock(), files, RealHost(), ("/etc/cdi",), options)
        try:
            script = "echo $CDI_D0 $A; head -c 2 /dev/d0 | od -An -tx1; test -d /given && echo given; ls /dev; exit 4"
            asked = ContainerRequest(
                "u",
                "n",
                "p",
                "c",
                command=("/bin/sh", "-c", script),
                env={"A": "b"},
                cdi_devices=("example.com/dev=d0",),
            )
            state = await until_ended(runtime, await runtime.start(asked))
            log = runtime.logs(state.id).decode()
            assert state.exit_code == 4, log
            assert log.split()[:5] == ["yes", "b", "00", "00", "given"]
            assert "d0" in log.split()
            loop = ContainerRequest("u", "n", "p", "l", command=("/bin/sh", "-c", "while :; do sleep 1; done"))
            state = await runtime.start(loop)
            await asyncio.sleep(0.5)
            assert (await runtime.stop(state.id, 0.2)).exit_code not in (None, 0)
        finally:
            await runtime.close()

    asyncio.run(main())


async def until_ended(runtime: OciRuntime, state: ContainerState) -> ContainerState:
    for _ in range(1000):
        (now,) = [one for one in runtime.containers() if one.id == state.id]
        if not now.running:
            return now
        await asyncio.sleep(0.02)
    raise AssertionError("the container did not end")


PARENT = """
import asyncio, sys
from regauge.base import MemoryFiles
from regauge.cdi.directory import RealHost
from regauge.cluster.runtimes import ContainerRequest
from regauge.cluster.runtimes.oci import OciOptions, OciRuntime
from regauge.host import RealClock

async def main():
    runtime = OciRuntime(RealClock(), MemoryFiles(), RealHost(), (), OciOptions(sys.argv[1], sys.argv[2]))
    command = ("/bin/sh", "-c", "echo up; exec sleep " + sys.argv[3])
    state = await runtime.start(ContainerRequest("u", "n", "p", "c", command=command))
    while not runtime.logs(state.id):
        await asyncio.sleep(0.01)
    print("up", flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.mark.row(50, how="real")
def test_a_container_dies_with_a_killed_cluster(tmp_path: Path) -> None:
    runc = program()
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    mark = f"300.{os.getpid()}"
    arguments = [sys.executable, "-c", PARENT, runc, str(tmp_path / "oci"), mark]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        assert sleepers(mark)
        parent.kill()
    for _ in range(200):
        if not sleepers(mark):
            break
        time.sleep(0.02)
    assert not sleepers(mark)
    assert os.listdir(tmp_path / "oci/state")
    asyncio.run(start_again(runc, str(tmp_path / "oci")))
    assert not os.listdir(tmp_path / "oci/state")


async def start_again(runc: str, directory: str) -> None:
    """The next run removes what the killed one left."""
    runtime = OciRuntime(RealClock(), MemoryFiles(), RealHost(), (), OciOptions(runc, directory))
    state = await runtime.start(ContainerRequest("u", "n", "p", "c", command=("/bin/true",)))
    await until_ended(runtime, state)
    await runtime.remove(state.id)
    await runtime.close()


def sleepers(mark: str) -> list[str]:
    """The processes that are called `sleep MARK`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes() == f"sleep\0{mark}\0".encode():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found
