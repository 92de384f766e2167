"""The driver as a process before the kubelet's own code: killed between any two of its writes, and a thousand claims."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import oracle
from tests.unit.driver.api import served
from tests.unit.driver.test_kubelet import (
    DRIVER,
    PATIENCE_S,
    Events,
    Place,
    driver_running,
    kubelet_running,
    of,
    stop,
    until,
)

from regauge.model.kinds import RESOURCE_CLAIM

# The driver, killed by itself after the n-th change that it makes to a file from its first call on.
DYING = """
import os, signal, sys
from regauge.cli import main
from regauge.driver.dra import Claims
from regauge.host import RealFiles

left = int(sys.argv.pop(1))
called = False

def watched(method):
    def change(*arguments):
        global left
        method(*arguments)
        if called and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= called
    return change

async def prepare(self, claims, original=Claims.node_prepare_resources):
    global called
    called = True
    return await original(self, claims)

for name in ("write", "remove", "rename"):
    setattr(RealFiles, name, watched(getattr(RealFiles, name)))
Claims.node_prepare_resources = prepare
main()
"""
CHANGES = 5  # STARTED, spec, COMPLETED; spec removed, forgotten
CLAIMS = 1000


@pytest.fixture
def place() -> Iterator[Place]:
    """In memory where the machine has such a place: these tests write much, and what a disk takes is not what they ask."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    made = Place(Path(tempfile.mkdtemp(prefix="rg-", dir=memory)))
    made.prepare()
    yield made
    shutil.rmtree(made.root)


def dying(place: Place, changes: int) -> list[str]:
    directories = [
        f"--kubelet-dir={place.root}/k",
        f"--cdi-dir={place.root}/cdi",
        f"--config={place.root}/devices.yaml",
    ]
    options = ["driver", *directories, f"--api=unix:{place.api}", "--node=n1"]
    return [sys.executable, "-c", DYING, str(changes), *options]


def called(events: Events, kind: str) -> list[str]:
    """How the calls ended: empty text for each that succeeded."""
    ended = [(one["err"], (one.get("resp") or {}).get("claims", {}).get("uid-1", {})) for one in of(events, kind)]
    return [error or claim.get("error", "") for error, claim in ended]


@pytest.mark.row(75, how="oracle")
@pytest.mark.row(249, how="oracle")
@pytest.mark.parametrize("changes", range(CHANGES))
def test_killed_between_each_pair_of_steps_and_called_again(place: Place, changes: int) -> None:
    """The kubelet calls until it succeeds: the claim gets its device, gives it back, and nothing is left."""
    program = oracle("kubelet")

    async def scenario() -> None:
        async with served(place.kube, place.api), kubelet_running(place, program, "-again") as events:
            first = await asyncio.create_subprocess_exec(*dying(place, changes), stderr=asyncio.subprocess.DEVNULL)
            try:
                await asyncio.wait_for(first.wait(), PATIENCE_S)
                assert first.returncode == -signal.SIGKILL
            finally:
                await stop(first, signal.SIGKILL)
            async with driver_running(place):
                await until(lambda: len(of(events, "dra-all")) == 2, "prepared and unprepared in the end")
                assert called(events, "dra-prepare")[-1] == called(events, "dra-unprepare")[-1] == ""
                (device,) = of(events, "dra-prepare")[-1]["resp"]["claims"]["uid-1"]["devices"]
                assert device["device_name"] == "d"
                assert not [name for name in place.cdi_names() if "claim" in name]
                assert "uid-1" not in (place.root / "k/plugins" / DRIVER / "checkpoint.json").read_text()

    asyncio.run(scenario())


@pytest.mark.row(199, how="oracle")
def test_a_thousand_claims_at_once(place: Place) -> None:
    """Each in a call of its own, as pods bring them: all get their device, none another's, and all give it back."""
    program = oracle("kubelet")
    rules = f"deviceKind: mock\ndiscover: {{count: {CLAIMS}}}\nrules: [{{stack: dra}}]\n"
    about = f"apiVersion: regauge.dev/v1alpha1\nkind: Devices\ndriver: {DRIVER}\n"
    (place.root / "devices.yaml").write_text(about + rules)
    for number in range(1, CLAIMS + 1):
        result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": f"mock-{number - 1:03}"}
        status = {"allocation": {"devices": {"results": [result]}}}
        place.kube.put(RESOURCE_CLAIM, f"c{number}", "ns", metadata={"uid": f"uid-{number}"}, spec={}, status=status)

    async def scenario() -> None:
        options = ("-claims", str(CLAIMS))
        async with served(place.kube, place.api), driver_running(place):
            async with kubelet_running(place, program, *options) as events:
                await until(lambda: len(of(events, "dra-all")) == 2, "all prepared and unprepared", 90)
            given = {}
            for one in of(events, "dra-prepare"):
                assert one["err"] == ""
                for uid, claim in one["resp"]["claims"].items():
                    given[uid] = [device["device_name"] for device in claim["devices"]]
            assert given == {f"uid-{number}": [f"mock-{number - 1:03}"] for number in range(1, CLAIMS + 1)}
            assert len(of(events, "dra-unprepare")) == CLAIMS
            assert {one["err"] for one in of(events, "dra-unprepare")} == {""}
            assert not place.cdi_names()

    asyncio.run(scenario())
