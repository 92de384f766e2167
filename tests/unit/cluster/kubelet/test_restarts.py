"""The kubelet goes and comes back: what it keeps, what it asks again, what it loses when a checkpoint is spoilt."""

from __future__ import annotations

import pytest
from tests.unit.cluster.kubelet.world import ROOT, FakeDriver, FakePlugin, World, simulate

from regauge.base import InputError
from regauge.model.kinds import POD

RESOURCE = "g01.example.com/dev"
DRIVER = "g01d.example.com"
DEVICE_CHECKPOINT = f"{ROOT}/device-plugins/kubelet_internal_checkpoint"
CLAIM_CHECKPOINT = f"{ROOT}/dra_manager_state"


async def both(world: World) -> tuple[FakePlugin, FakeDriver]:
    """A plugin with one pod and a driver with one pod, both running."""
    world.spec_file(f"{DRIVER}/dev", "gpu-0", "gpu-1")
    plugin, driver = FakePlugin(world, RESOURCE, "ba0", "ba1"), FakeDriver(world, DRIVER)
    await plugin.start()
    await driver.start()
    await world.clock.sleep(6)
    world.run_pod("classic", limits={RESOURCE: "1"})
    world.claim("one", ("g", DRIVER, "gpu-0"))
    world.run_pod("claimed", claims={"g": "one"})
    await world.clock.sleep(1)
    assert (world.phase("classic"), world.phase("claimed")) == ("Running", "Running")
    world.calls.clear()
    return plugin, driver


@pytest.mark.row(49, how="vectors")
def test_a_kubelet_restart_asks_nothing_again_for_running_pods() -> None:
    async def scenario(world: World) -> None:
        plugin, _ = await both(world)
        world.slice(DRIVER)
        before = [state.id for state in world.runtime.containers()]
        await world.restart_kubelet()
        assert world.slices() == [] or await _soon(world)
        assert world.node_counts(RESOURCE) == ("0", "0")
        assert not [name for name in await _sockets(world) if name != "kubelet.sock"]
        await world.clock.sleep(5)
        assert (world.phase("classic"), world.phase("claimed")) == ("Running", "Running")
        assert [state.id for state in world.runtime.containers()] == before
        assert world.calls == ["GetInfo"]
        plugin.kill()
        again = FakePlugin(world, RESOURCE, "ba0", "ba1")
        await again.start()
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("2", "2")
        world.run_pod("next", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        assert world.calls[-2:] == ["Allocate ba1", "pod next Running"]
        world.delete_pod("claimed")
        await world.clock.sleep(2)
        assert "Unprepare one" in world.calls
        assert world.calls[-1] == "pod claimed gone"

    simulate(scenario)


async def _soon(world: World) -> bool:
    await world.clock.sleep(0.6)
    return world.slices() == []


async def _sockets(world: World) -> list[str]:
    async for names in world.net.watch(f"{ROOT}/device-plugins"):
        return list(names)
    return []


def test_a_node_restart_prepares_again_and_rejects_pods_whose_plugin_is_not_back() -> None:
    async def scenario(world: World) -> None:
        plugin, driver = await both(world)
        world.claim("never", ("g", DRIVER, "gpu-1"))
        world.run_pod("never", claims={"g": "never"}, policy="Never")
        await world.clock.sleep(1)
        world.calls.clear()
        plugin.kill()
        driver.kill()
        await world.kubelet.kill()
        world.node_net.kill()
        await world.runtime.close()
        await FakeDriver(world, DRIVER).start()
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await world.clock.sleep(1)
        assert world.pod("classic")["status"]["reason"] == "UnexpectedAdmissionError"
        assert (
            f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
            in (world.pod("classic")["status"]["message"])
        )
        await world.clock.sleep(90)
        assert world.phase("claimed") == "Running"
        assert world.container("claimed")["restartCount"] == 1
        assert "Prepare one" in world.calls
        assert "Unprepare never" in world.calls
        assert "Prepare never" not in world.calls
        assert world.phase("never") == "Failed"
        assert world.container("never")["state"]["terminated"]["reason"] == "ContainerStatusUnknown"

    simulate(scenario)


def test_a_pod_deleted_while_the_kubelet_is_away_ends_when_it_is_back() -> None:
    async def scenario(world: World) -> None:
        await both(world)
        await world.kubelet.kill()
        world.node_net.kill()
        world.delete_pod("claimed")
        await world.clock.sleep(5)
        assert world.phase("claimed") == "Running"
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await world.clock.sleep(20)
        assert world.calls[-3:] == ["Unprepare one", "pod claimed Succeeded", "pod claimed gone"]

    simulate(scenario)


def test_a_pod_forced_away_while_the_kubelet_is_down_is_unprepared_by_the_reconcile_loop() -> None:
    async def scenario(world: World) -> None:
        await both(world)
        await world.kubelet.kill()
        world.node_net.kill()
        world.delete_pod("claimed", 0)
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await world.clock.sleep(5)
        assert [state.request.pod for state in world.runtime.containers()] == ["classic"]
        await world.clock.sleep(54)
        assert "Unprepare one" not in world.calls
        await world.clock.sleep(2)
        assert "Unprepare one" in world.calls

    simulate(scenario)


def test_a_force_deleted_pod_is_unprepared_although_nobody_waits_for_it() -> None:
    async def scenario(world: World) -> None:
        await both(world)
        world.delete_pod("claimed", 0)
        await world.clock.sleep(2)
        assert world.calls == ["pod claimed gone", "Unprepare one"]
        assert [state.request.pod for state in world.runtime.containers()] == ["classic"]

    simulate(scenario)


@pytest.mark.row(11)
def test_a_corrupt_device_checkpoint_is_kept_aside_and_said() -> None:
    async def scenario(world: World) -> None:
        await both(world)
        await world.kubelet.kill()
        world.node_net.kill()
        world.files.write(DEVICE_CHECKPOINT, b"garbage")
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        (aside,) = [name for name in world.files.names(f"{ROOT}/device-plugins") if ".corrupt-" in name]
        assert world.files.read(f"{ROOT}/device-plugins/{aside}") == b"garbage"
        assert any("Device allocation info may NOT be up-to-date" in text for text in world.said)
        assert world.phase("classic") == "Running"

    simulate(scenario)


@pytest.mark.row(49)
def test_a_corrupt_claim_checkpoint_keeps_the_kubelet_from_starting() -> None:
    async def scenario(world: World) -> None:
        await both(world)
        await world.kubelet.kill()
        world.node_net.kill()
        good = world.files.read(CLAIM_CHECKPOINT)
        world.files.write(CLAIM_CHECKPOINT, good.replace(b'"Checksum":', b'"Checksum":9'))
        world.kubelet = world.new_kubelet()
        with pytest.raises(InputError, match="dra_manager_state: Checksum: the checkpoint is corrupted"):
            await world.kubelet.start()
        world.files.write(CLAIM_CHECKPOINT, good)
        await world.kubelet.start()
        await world.clock.sleep(1)
        assert world.phase("claimed") == "Running"

    simulate(scenario)


def test_a_second_pod_on_a_claim_prepared_before_the_restart_prepares_it_again() -> None:
    async def scenario(world: World) -> None:
        await both(world)
        await world.restart_kubelet()
        await world.clock.sleep(3)
        world.run_pod("second", claims={"g": "one"})
        await world.clock.sleep(1)
        assert world.calls == ["GetInfo", "pod second Pending", "Prepare one", "pod second Running"]
        world.delete_pod("claimed")
        await world.clock.sleep(2)
        assert "Unprepare one" not in world.calls

    simulate(scenario)


def test_two_runs_are_the_same_to_the_byte() -> None:
    async def scenario(world: World) -> None:
        await both(world)
        await world.restart_kubelet()
        await world.clock.sleep(30)
        world.api.delete(POD, "claimed", "default")
        await world.clock.sleep(30)

    first, second = simulate(scenario), simulate(scenario)
    assert first.calls == second.calls
    assert first.files.content == second.files.content
    assert first.api.list(POD) == second.api.list(POD)
