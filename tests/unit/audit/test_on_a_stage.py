"""The audit of clusters in virtual time: real controllers, kubelets and drivers make what is wrong, or nothing is."""

from __future__ import annotations

from random import Random

import pytest

from regauge.audit import AuditInput, Finding, audit_estate
from regauge.base import Clock
from regauge.cluster import run_virtual
from regauge.collect import AUDIT_KINDS, collect_live
from regauge.features import rules
from regauge.model.kinds import CORE_EVENT
from regauge.rehearsal import Mode
from regauge.rehearsal.nodes import MemoryMachine, NodeWorld
from regauge.rehearsal.playing import EPOCH_S, LIMIT_S, Stage
from regauge.rehearsal.scenario import read_scenarios

HEAD = """
apiVersion: regauge.dev/v1alpha1
kind: Scenario
metadata: {name: audited}
title: what the audit sees
base: gpus
checked: false
steps:
"""


def audited(*steps: str) -> tuple[Finding, ...]:
    """What is found after the steps, and a quarter of an hour."""
    text = HEAD + "\n".join(f"- {one}" for one in (*steps, "sleep: 900"))
    (scenario,) = read_scenarios(text.encode(), "steps")

    async def play(clock: Clock) -> tuple[Finding, ...]:
        world = NodeWorld(Mode.SIMULATED, clock, rules("1.36"), Random(0), MemoryMachine)
        stage = Stage(scenario, world)
        try:
            await stage.build()
            for step in scenario.steps:
                await stage.take(step)
            assert all(check.holds for done in stage.done for check in done.checks), stage.done
            estate = await collect_live(world.kube, more=(*AUDIT_KINDS, CORE_EVENT))
            given = AuditInput(estate.snapshot, rules("1.36"), "stage", clock.now_s(), server_version="v1.36.3")
            return audit_estate(given).findings
        finally:
            await stage.stop()
            await world.stop()

    return run_virtual(play, epoch_s=EPOCH_S, limit_s=LIMIT_S)


def test_a_cluster_at_work_has_no_finding() -> None:
    assert audited("apply: [pod-a, counting]", 'wait: {pod: "*", is: running, count: 2}') == ()


@pytest.mark.row(257, how="unit")
@pytest.mark.parametrize("fault", ["driver-stopped", "driver-fails"])
def test_a_driver_that_does_not_prepare(fault: str) -> None:
    lasting = ", times: 0, lasts: 3600" if fault == "driver-fails" else ""
    (found,) = audited(f"fault: {{what: {fault}, node: node-1{lasting}}}", "apply: pinned")
    assert found.code == "PREPARE-FAILING"
    count = int(found.what.partition(" times")[0].rpartition(" ")[2])
    assert count > 10  # the kubelet tries on and on
    assert "first at 2027-01-15T08:" in found.what and ", last at 2027-01-15T08:1" in found.what
    assert len(found.devices) == 1


def test_a_device_that_vanishes_under_its_pod() -> None:
    running = ("apply: pinned", "wait: {pod: a, is: running}")
    (found,) = audited(*running, "fault: {what: device-vanished, node: node-1, device: gpu-0}")
    assert (found.code, found.devices) == ("CLAIM-DEVICE-GONE", ("gpu.example.com/node-1/gpu-0",))
