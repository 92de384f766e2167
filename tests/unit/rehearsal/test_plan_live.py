"""A plan on a live cluster over HTTPS with the program as users start it, and with the rights of deploy/rollout only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from tests.support import ROOT
from tests.unit.cluster.up.program import Program, running
from tests.unit.rehearsal.plans import written_estate

from regauge.host import RealClock
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.migrate import STACK_LABEL, read_plan
from regauge.migrate.plans import NOBODY
from regauge.migrate.rollout import Holder, Options, Rollout
from regauge.model import read_documents
from regauge.model.kinds import LEASE, NODE
from regauge.rehearsal.plan_state import EstateState, differences, state_of
from regauge.rehearsal.plan_world import OwnerWatch, switches_of

RBAC = ROOT / "deploy" / "rollout" / "rbac.yaml"
LACKS = "regauge.dev/rehearsal-lacks"
SETTLED_WITHIN_S = 30.0


class Rolling:
    """A cluster that holds the small estate, its plan, and the program on it as the service account of the rollout."""

    def __init__(self, directory: Path, up: Program) -> None:
        self.directory = directory
        self.up = up
        self.kubeconfig = up.state / "kubeconfig"
        self.plan = directory / "plan.yaml"
        self.limited = directory / "limited"

    def command(self, *words: str, limited: bool = True) -> list[str]:
        place = self.limited if limited else self.kubeconfig
        return [sys.executable, "-m", "regauge", *words, "--kubeconfig", str(place)]

    async def run(self, *words: str, code: int = 0, limited: bool = True) -> str:
        """What the program says; it must end with `code`."""
        done = await asyncio.to_thread(
            subprocess.run,
            self.command(*words, limited=limited),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stderr}{done.stdout}"
        return done.stdout + done.stderr

    async def rollout(self, verb: str, *words: str, code: int = 0) -> str:
        poll = ("--poll", "0.3") if verb not in ("status", "pause") else ()
        return await self.run("rollout", verb, str(self.plan), *poll, *words, code=code)

    def states(self, document: str) -> dict[str, str]:
        return {id_: step["state"] for id_, step in json.loads(document)["steps"].items()}

    def limit(self) -> None:
        """A kubeconfig with a token of the service account, and no more rights than the manifest gives."""
        self.up.kubectl("apply", "-f", str(RBAC))
        token = self.up.kubectl("create", "token", "regauge-rollout", "-n", "regauge").strip()
        document = yaml.safe_load(self.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": token}
        self.limited.touch(mode=0o600)
        self.limited.write_text(yaml.safe_dump(document))

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator[tuple[HttpClient, OwnerWatch, Rollout]]:
        client = HttpClient(load_connection(os.environ, kubeconfig=str(self.kubeconfig)))
        made = read_plan(read_documents(self.plan.read_bytes(), "plan.yaml"))
        owners = OwnerWatch(client, switches_of(made))
        await owners.start()
        try:
            yield client, owners, Rollout(client, RealClock(), made, Options(Holder("test")))
        finally:
            await owners.stop()
            await client.close()


@pytest.fixture
def rolling() -> Iterator[Rolling]:
    with tempfile.TemporaryDirectory(prefix="rg-") as name:
        directory = Path(name)
        objects = [document.object for document in written_estate().all_documents()]
        (directory / "estate.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        with running(directory / "s", "--estate", str(directory / "estate.json"), "--forget-after", "1") as up:
            yield Rolling(directory, up)


async def settled(rollout: Rollout, before: EstateState) -> tuple[str, ...]:
    """What is not as before, once it no longer changes or the time is over."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while (told := differences(before, state_of(await rollout.sight()))) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    return told


async def said(process: asyncio.subprocess.Process, at: str) -> None:
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while at not in (line := await process.stderr.readline()).decode():
            assert line, f"it ended before {at}"


async def killed_in_the_middle(rolling: Rolling, client: HttpClient, node: str) -> None:
    """A run that dies by kill -9 while a node is on its way from one stack to the other."""
    words = rolling.command("rollout", "run", str(rolling.plan), "--approve", "*", "--poll", "0.3")
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.PIPE)
    await said(process, f"node-{node}: ")
    async with asyncio.timeout(60):
        while (await client.get(NODE, node))["metadata"]["labels"].get(STACK_LABEL) != NOBODY:  # noqa: ASYNC110 by polling, as a user
            await asyncio.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    await process.wait()


def hurried(plan: Path) -> None:
    """The plan edited: a driver that does not come counts as failed after some seconds."""
    document = yaml.safe_load(plan.read_text())
    for step in document["spec"]["steps"]:
        for action in step.get("actions", ()):
            if action["do"] == "switch":
                action["servedWithinS"] = 12
    plan.write_text(yaml.safe_dump(document, sort_keys=False))


async def failing_at_a_gate(rolling: Rolling, client: HttpClient) -> None:
    """One device of g0 is broken: whoever runs the plan next, once the lease of the dead is over, sees it."""
    await client.patch(NODE, "g0", {"metadata": {"annotations": {LACKS: "1"}}})
    told = await rolling.rollout("run", "--approve", "*", code=3)
    assert "runs this rollout; its lease ends in" in told
    lease = await client.get(LEASE, "regauge-rollout-move", "regauge")
    await client.update(LEASE, {**lease, "spec": {**lease["spec"], "leaseDurationSeconds": 1}}, "regauge")
    await asyncio.sleep(1.0)
    told = await rolling.rollout("run", "--approve", "*", code=1)
    assert "Plan move: stopped: node-g0" in told and "has not 2 devices of gpu.nvidia.com within 12 s" in told
    assert "by count on g1: identities cannot be seen" in told
    states = rolling.states(await rolling.rollout("status", "-o", "json"))
    assert (states["node-g1"], states["node-g0"]) == ("done", "undone")
    node = await client.get(NODE, "g0")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2" and not node["spec"].get("unschedulable")
    await client.patch(NODE, "g0", {"metadata": {"annotations": {LACKS: None}}})


async def paused(rolling: Rolling) -> None:
    words = rolling.command("rollout", "run", str(rolling.plan), "--approve", "*", "--poll", "2")
    process = await asyncio.create_subprocess_exec(
        *words, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    await said(process, "node-g0: ")
    await rolling.rollout("pause")
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode == 1 and b"Plan move: paused" in out, out


@pytest.mark.timeout(300)
@pytest.mark.row(99, 101, 112, how="unit")
def test_planned_killed_failed_paused_done_and_rolled_back(rolling: Rolling) -> None:
    async def body() -> None:
        told = await rolling.run("plan", "--write", str(rolling.plan), limited=False)
        assert "2 nodes and 1 workloads move" in told
        hurried(rolling.plan)
        rolling.limit()
        async with rolling.looking() as (client, owners, rollout):
            before = state_of(await rollout.sight())
            told = await rolling.rollout("run", code=1)
            assert "waiting for approval: dependents" in told
            await killed_in_the_middle(rolling, client, "g1")
            assert rolling.states(await rolling.rollout("status", "-o", "json"))["node-g1"] == "acting"
            await failing_at_a_gate(rolling, client)
            await paused(rolling)
            assert "Plan move: done" in await rolling.rollout("resume")
            assert differences(before, state_of(await rollout.sight()))
            assert "Plan move: rolled back" in await rolling.rollout("rollback")
            assert await settled(rollout, before) == ()
            assert owners.looks and not owners.told

    asyncio.run(body())
