"""Waiting for something in a cluster."""

from __future__ import annotations

from random import Random

from regauge.cluster import VirtualClock, run_virtual
from regauge.features import rules
from regauge.rehearsal.nodes import MemoryMachine, NodeWorld
from regauge.rehearsal.report import Mode
from regauge.rehearsal.watching import until


def looks(comes_s: float, timeout_s: float) -> tuple[int, float, bool]:
    """How often it looked, when it ended, and whether it found what comes after `comes_s`."""

    async def main(clock: VirtualClock) -> tuple[int, float, bool]:
        world = NodeWorld(Mode.SIMULATED, clock, rules("1.36", {}), Random(0), MemoryMachine)
        count = 0

        async def probe() -> bool:
            nonlocal count
            count += 1
            return clock.monotonic_s() >= comes_s

        found = await until(world, probe, timeout_s)
        return count, clock.monotonic_s(), bool(found)

    return run_virtual(main, epoch_s=0.0)


def test_what_comes_soon_is_seen_soon() -> None:
    count, ended_s, found = looks(0.45, 30.0)
    assert found and count == 6
    assert ended_s < 0.56


def test_what_never_comes_is_looked_for_seldom_and_not_too_long() -> None:
    count, ended_s, found = looks(1e9, 300.0)
    assert not found
    assert abs(ended_s - 300.0) < 1e-6
    assert count < 90


def test_what_comes_late_is_found_within_a_tenth() -> None:
    _, ended_s, found = looks(100.0, 300.0)
    assert found and ended_s <= 110.0
