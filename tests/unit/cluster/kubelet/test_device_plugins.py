"""Device plugins on a node: registration, capacity, admission, health, loss. The order of calls is that of real kubelets."""

from __future__ import annotations

import pytest

from tests.unit.cluster.kubelet.world import FakePlugin, World, simulate

RESOURCE = "a01.example.com/dev"


@pytest.mark.row(11, how="vectors")
@pytest.mark.row(1)
def test_capacity_follows_the_list() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "aa0", "aa1")
        assert world.node_counts(RESOURCE) == (None, None)
        await plugin.start()
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("2", "2")
        world.run_pod("p", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        assert world.phase("p") == "Running"
        for devices, counts, health in (
            ((("aa0", "Healthy"), ("aa1", "Healthy"), ("aa2", "Healthy")), ("3", "3"), "Healthy"),
            ((("aa0", "Healthy"),), ("1", "1"), "Healthy"),
            ((("aa0", "Unhealthy"),), ("1", "0"), "Unhealthy"),
            ((("aa0", "Healthy"),), ("1", "1"), "Healthy"),
            ((("aa0", "healthy"),), ("1", "0"), "Unhealthy"),
            ((("aa0", "Degraded"),), ("1", "0"), "Unhealthy"),
        ):
            plugin.list(*devices)
            await world.clock.sleep(6)
            assert world.node_counts(RESOURCE) == counts
            allocated = world.container("p")["allocatedResourcesStatus"]
            assert allocated == [{"name": RESOURCE, "resources": [{"resourceID": "aa0", "health": health}]}]
            assert world.phase("p") == "Running"
        world.delete_pod("p")
        await world.clock.sleep(3)

    world = simulate(scenario)
    assert world.calls == ["pod p Pending", "Allocate aa0", "pod p Running", "pod p Succeeded", "pod p gone"]
