"""Playing recorded stories on a `World`: the test is scheduler and controllers, the recording says what must come of it.

Pods are bound, claims allocated and reserved by hand. Claims made from templates have no random suffix. Which device is
chosen is not compared, only how many.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.unit.cluster.kubelet.recorded import Recording, counted
from tests.unit.cluster.kubelet.world import FakeDriver, World

DIFFERENCES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())
STUBBORN = {"regauge.dev/ignore-stop": "true"}  # the recorded containers end only when they are killed


def pod(world: World, name: str, **options: object) -> str:
    return world.run_pod(name, annotations=STUBBORN, **options)  # type: ignore[arg-type]  # handed on


async def gone(world: World, name: str) -> None:
    world.delete_pod(name)
    await world.clock.sleep(4)


async def ready_driver(world: World, name: str) -> FakeDriver:
    driver = FakeDriver(world, name)
    await driver.start()
    await world.clock.sleep(2)
    world.spec_file(f"{name}/dev", *(f"gpu-{index}" for index in range(4)))
    return driver


async def claimed(
    world: World, driver: str, name: str, device: str = "gpu-0", claim: str = "", policy: str = "Always"
) -> None:
    """A pod with a claim of its own, as from a template."""
    claim = claim or f"{name}-g"
    world.claim(claim, ("g", driver, device))
    pod(world, name, claims={"g": claim}, policy=policy)
    await world.clock.sleep(1)


def same(world: World, recording: Recording, *pods: str, calls: tuple[str, ...] = ()) -> None:
    """The driver's calls (of these claims) and the pods' moments are the recorded ones. What a recording has besides these
    has to stand in differences.toml, and nothing else may.
    """
    known = DIFFERENCES.get(recording.story, {})
    assert set(known.get("pods", {})) == set(recording.pods) - set(pods)
    named = {claim for call in recording.calls for claim in call.partition(" ")[2].split(",")}
    others = {claim for claim in named if not claim.isdecimal()} - set(calls)
    assert set(known.get("claims", {})) == (others if calls else set())
    ours = [counted(call) for call in world.calls if not call.startswith(("pod ", "GetInfo"))]
    if calls:
        ours = [call for call in ours if set(call.partition(" ")[2].split(",")) & set(calls)]
    real = recording.calls_with(*calls)
    assert ours == real, f"{ours} are not {real}"
    for name in pods:
        told, really = world.pod_story[name], recording.pods[name]
        assert told == really, f"{name}: {told} is not {really}"
