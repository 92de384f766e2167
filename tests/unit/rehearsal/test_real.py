"""Scenarios on a cluster that is only reached through its API: `regauge up`, as a real one would be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from regauge.base import InputError, canonical_json
from regauge.host import RealClock
from regauge.kube import NotFound
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.model.kinds import DEVICE_CLASS, NAMESPACE
from regauge.rehearsal.playing import Done, Played
from regauge.rehearsal.real import play_on
from regauge.rehearsal.report import Mode
from regauge.rehearsal.scenario import Scenario, read_scenarios, suite
from regauge.rehearsal.verifying import as_document, as_junit

HEAD = "apiVersion: regauge.dev/v1alpha1\nkind: Scenario\nmetadata: {name: mine}\ntitle: mine\nbase: gpus\nsteps:\n"
ELSEWHERE = "nodes: [{name: node-9, devices: gpus}]\nsteps:"


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """Of a cluster in another process, with two nodes that have the devices of most scenarios."""
    with tempfile.TemporaryDirectory(prefix="rg-") as place:
        devices, state = Path(place, "devices.yaml"), Path(place, "s")
        devices.write_bytes(canonical_json(suite("lifecycle")[0].devices["gpus"]))
        program = str(Path(sys.executable).with_name("regauge"))
        command = [program, "up", "--state", str(state), "--nodes", "2", "--devices", str(devices)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert process.stdout is not None and process.stdout.readline().startswith("ready: ")
            yield state / "kubeconfig"
        finally:
            process.terminate()
            process.communicate(timeout=30)


def on_a_cluster(kubeconfig: Path, scenario: Scenario) -> tuple[Played, list[str]]:
    """The scenario as it went, and the namespaces that are there afterwards."""
    client = HttpClient(load_connection({}, kubeconfig=str(kubeconfig), home="/"), user_agent="user")

    async def main() -> tuple[Played, list[str]]:
        try:
            played = await play_on(scenario, client, RealClock(), SystemRandom(), lambda _name, _step: None)
            with pytest.raises(NotFound):
                await client.get(DEVICE_CLASS, "gpu.example.com")
            left = [one["metadata"]["name"] for one in (await client.list(NAMESPACE)).items]
        finally:
            await client.close()
        return played, left

    return asyncio.run(main())


def mine(steps: str) -> Scenario:
    (found,) = read_scenarios((HEAD + steps).encode(), "mine.yaml")
    return found


def left_out(played: Played) -> dict[str, str]:
    return {step.title: step.left_out for step in played.steps if step.left_out}


def wrong(played: Played) -> list[tuple[Done, str]]:
    return [(step, check.seen) for step in played.steps for check in step.checks if not check.holds]


@pytest.mark.parametrize("name", ["1-created", "3-deleted"])
def test_a_question_is_answered_and_nothing_stays(kubeconfig: Path, name: str) -> None:
    (scenario,) = (one for one in suite("lifecycle") if one.name == name)
    played, left = on_a_cluster(kubeconfig, scenario)
    assert wrong(played) == [] and played.holds and not played.in_part and played.mode is Mode.REAL
    assert not [one for one in left if one.startswith("regauge-verify-")]
    assert any(line.object.startswith("ResourceClaim default/a-gpu-") for line in played.timelines)


def test_what_the_api_does_not_tell_is_left_out_and_said(kubeconfig: Path) -> None:
    steps = (
        "- apply: pinned\n- wait: {pod: a, is: running, devices: [gpu-0]}\n"
        "- {title: prepared, expect: {device: node-1/gpu-0, is: prepared}}\n"
        "- {title: broken, fault: {what: driver-killed, node: node-1}}\n- {title: after, expect: {pod: a, is: running}}\n"
    )
    played, _ = on_a_cluster(kubeconfig, mine(steps))
    told = left_out(played)
    assert "prepared on nodes" in told["prepared"] and "nothing is broken" in told["broken"]
    assert "a fault was left out" in told["after"]
    assert played.holds and played.in_part
    assert as_document("mine", [played])["scenarios"][0]["inPart"] is True
    assert b"<skipped" in as_junit("mine", [played])


def test_a_scenario_of_which_nothing_is_seen_does_not_hold(kubeconfig: Path) -> None:
    played, _ = on_a_cluster(kubeconfig, mine("- fault: {what: driver-killed, node: node-1}\n"))
    assert not played.holds


def test_a_cluster_without_the_devices_is_refused(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regauge.rehearsal.real.PUBLISHED_WITHIN_S", 0.0)
    (scenario,) = read_scenarios((HEAD + "- sleep: 1\n").replace("steps:", ELSEWHERE).encode(), "mine.yaml")
    with pytest.raises(InputError, match="no node of this cluster has the devices"):
        on_a_cluster(kubeconfig, scenario)
