"""Playing recorded stories on a `World`: the test is scheduler and controllers, the recording says what must come of it.

Pods are bound, claims allocated and reserved by hand. Claims made from templates have no random suffix. Which device is
chosen is not compared, only how many.
"""

from __future__ import annotations

from tests.unit.cluster.kubelet.recorded import Recording, counted
from tests.unit.cluster.kubelet.world import FakeDriver, World

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
    """The driver's calls (of these claims) and the pods' moments are the recorded ones."""
    ours = [counted(call) for call in world.calls if not call.startswith(("pod ", "GetInfo"))]
    if calls:
        ours = [call for call in ours if set(call.partition(" ")[2].split(",")) & set(calls)]
    assert ours == recording.calls_with(*calls)
    for name in pods:
        assert (name, world.pod_story[name]) == (name, recording.pods[name])
