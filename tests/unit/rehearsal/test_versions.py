"""What a rehearsal's server and kubelets say that they are."""

from __future__ import annotations

from random import Random

import pytest

from regauge.cluster import VirtualClock, run_virtual
from regauge.cluster.kubelet import KubeletOptions
from regauge.features import rules
from regauge.model.kinds import NODE
from regauge.rehearsal.nodes import MemoryMachine, NodePlan, NodeWorld
from regauge.rehearsal.report import Mode

EPOCH_S = 1_793_000_000.0


@pytest.mark.row(238, how="unit")
@pytest.mark.parametrize(
    ("minor", "given", "told"),
    [
        ("1.36", "", "v1.36.3"),
        ("1.37", "", "v1.37.2"),
        ("1.35", "", "v1.35.0"),
        ("1.37", "v1.37.0-gke.1", "v1.37.0-gke.1"),
    ],
)
def test_server_and_kubelets_are_of_the_minor_that_is_rehearsed(minor: str, given: str, told: str) -> None:
    async def body(clock: VirtualClock) -> tuple[str, str]:
        known = rules(minor)
        world = NodeWorld(Mode.SIMULATED, clock, known, Random(1), MemoryMachine, git_version=given)
        await world.add_node(NodePlan("n", KubeletOptions(rules=known), {}))
        node = world.control.api.get(NODE, "n")
        version = world.control.api.version().git_version
        await world.stop()
        return version, node["status"]["nodeInfo"]["kubeletVersion"]

    assert run_virtual(body, epoch_s=EPOCH_S, limit_s=1000.0) == (told, told)
