"""Claims whose devices stand for resources of their node cannot be shared by pods; those that only burden it can."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.scheduler.making import DRIVER, claim, device_class, node, state
from tests.unit.scheduler.test_gangs import group, member, tried, untouched

from regauge.features import rules
from regauge.model import view
from regauge.model.resource import ResourceSlice
from regauge.scheduler import Scheduled, Unschedulable

GATES = ("GenericWorkload", "DRANodeAllocatableResources")


def offering(**taken: Any) -> ResourceSlice:
    """One device on n1 that takes of its memory."""
    device = {"name": "gpu-0", "nodeAllocatableResources": {"memory": taken}}
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [device]}
    return view({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)


@pytest.mark.parametrize(
    ("taken", "shared"),
    [
        ({"overhead": {"perPod": "3Gi"}}, True),
        ({"overhead": {"perPod": "5Gi"}}, False),  # of 8Gi, twice
        ({"mapping": {"deviceMultiplier": "1Gi"}}, False),
    ],
)
def test_pods_of_a_group_share_a_claim_unless_its_device_is_mapped(taken: dict[str, Any], shared: bool) -> None:
    pods = (member("a", "c"), member("b", "c"))
    made = state(
        node("n1"),
        device_class(),
        offering(**taken),
        claim("c"),
        *pods,
        ruling=rules("1.37", dict.fromkeys(GATES, True)),
    )
    made.put_group(group())
    outcome = tried(made, *pods)
    first, second = (result for _, result in outcome.pods)
    assert isinstance(first, Scheduled) and first.mapped
    assert outcome.fits is shared and untouched(made, *pods)
    if shared:
        assert isinstance(second, Scheduled) and second.mapped == first.mapped
        return
    assert isinstance(second, Unschedulable)
    says = "c has a mapped device and cannot be shared across pods" if "mapping" in taken else "Insufficient memory"
    assert says in second.message
