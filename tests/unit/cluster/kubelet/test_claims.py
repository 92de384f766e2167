"""Claims on a node: prepare, share, fail, retry, unprepare, lose the driver. The order of calls is that of real kubelets."""

from __future__ import annotations

import pytest
from tests.unit.cluster.kubelet.world import NODE_NAME, ROOT, FakeDriver, FakePlugin, World, simulate

from regauge.model.kinds import POD, RESOURCE_CLAIM
from regauge.pluginapi import DeviceHealth, Health, PluginInfo

DRIVER = "b02.example.com"


async def ready(world: World, name: str = DRIVER) -> FakeDriver:
    driver = FakeDriver(world, name)
    await driver.start()
    await world.clock.sleep(2)
    world.spec_file(f"{name}/dev", "gpu-0", "gpu-1", "gpu-2")
    world.calls.clear()
    return driver


@pytest.mark.row(49, how="vectors")
@pytest.mark.row(51, how="vectors")
@pytest.mark.row(50)
def test_prepare_comes_first_and_unprepare_before_the_end_is_told() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(1)
        assert world.container("p")["allocatedResourcesStatus"] == [
            {"name": "claim:g", "resources": [{"resourceID": f"{DRIVER}/dev=gpu-0", "health": "Unknown"}]}
        ]
        (state,) = world.runtime.containers()
        assert state.spec["process"]["env"] == ["DEV_0=gpu-0"]
        world.delete_pod("p")
        await world.clock.sleep(1)
        assert driver.statuses[0].plugin_registered

    world = simulate(scenario)
    assert world.calls == [
        "pod p Pending",
        "Prepare one",
        "pod p Running",
        "Unprepare one",
        "pod p Succeeded",
        "pod p gone",
    ]
    assert not world.runtime.containers()


@pytest.mark.row(49)
def test_one_call_carries_all_claims_of_a_pod() -> None:
    async def scenario(world: World) -> None:
        await ready(world)
        for index in range(3):
            world.claim(f"c{index}", ("g", DRIVER, f"gpu-{index}"))
        world.run_pod(
            "three",
            claims={"a": "c0", "b": "c1", "c": "c2"},
            policy="Never",
            annotations={"regauge.dev/run-seconds": "3"},
        )
        await world.clock.sleep(5)

    world = simulate(scenario)
    assert world.calls == [
        "pod three Pending",
        "Prepare c0,c1,c2",
        "pod three Running",
        "Unprepare c0,c1,c2",
        "pod three Succeeded",
    ]


@pytest.mark.row(63, how="vectors")
def test_a_shared_claim_is_prepared_once_and_unprepared_after_the_last_pod() -> None:
    async def scenario(world: World) -> None:
        await ready(world)
        world.claim("shared", ("g", DRIVER, "gpu-0"))
        world.run_pod("first", claims={"g": "shared"})
        await world.clock.sleep(1)
        world.run_pod("second", claims={"g": "shared"})
        await world.clock.sleep(1)
        world.delete_pod("first")
        await world.clock.sleep(3)
        assert "Unprepare shared" not in world.calls
        world.delete_pod("second")
        await world.clock.sleep(3)

    world = simulate(scenario)
    driver_calls = [call for call in world.calls if not call.startswith("pod ")]
    assert driver_calls == ["Prepare shared", "Unprepare shared"]
    assert world.calls.index("Unprepare shared") > world.calls.index("pod first gone")


def test_two_pods_at_once_prepare_a_shared_claim_twice_and_hold_it_once() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        driver.slow_s = 2
        world.claim("shared", ("g", DRIVER, "gpu-0"))
        world.run_pod("first", claims={"g": "shared"})
        world.run_pod("second", claims={"g": "shared"})
        await world.clock.sleep(3)
        assert (world.phase("first"), world.phase("second")) == ("Running", "Running")
        info = world.kubelet.dra.cache.find("default", "shared")
        assert info is not None
        assert len(info.drivers[DRIVER] or ()) == 1

    world = simulate(scenario)
    assert world.calls.count("Prepare shared") == 2


@pytest.mark.row(49, how="vectors")
def test_a_failed_prepare_waits_for_the_next_sync_of_the_pod() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        world.claim("busy", ("g", DRIVER, "gpu-0"))
        driver.fail["busy"] = ["device busy", "device busy"]
        world.run_pod("p", claims={"g": "busy"})
        await world.clock.sleep(60)
        assert world.calls.count("Prepare busy") == 1
        assert world.phase("p") == "Pending"
        assert world.container("p")["state"]["waiting"] == {"reason": "ContainerCreating"}
        assert world.events("FailedPrepareDynamicResources") == [
            "Failed to prepare dynamic resources: prepare dynamic resources:"
            " NodePrepareResources failed for ResourceClaim busy: device busy"
        ]
        await world.clock.sleep(20)
        assert world.calls.count("Prepare busy") == 2
        world.api.patch(POD, "p", {"metadata": {"annotations": {"poke": "1"}}}, "default")
        await world.clock.sleep(0.5)
        assert world.phase("p") == "Running"

    simulate(scenario)


def test_a_prepare_that_hangs_is_cut_after_45_seconds() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        driver.slow_s = 70
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(44)
        assert not world.events("FailedPrepareDynamicResources")
        await world.clock.sleep(2)
        assert world.events("FailedPrepareDynamicResources") == [
            "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources:"
            " rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        ]

    simulate(scenario)


def test_a_pod_deleted_while_it_fails_to_prepare_is_unprepared() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        driver.fail["one"] = ["never"] * 9
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(1)
        world.delete_pod("p")
        await world.clock.sleep(1)

    world = simulate(scenario)
    assert world.calls == ["pod p Pending", "Prepare one", "Unprepare one", "pod p Failed", "pod p gone"]


def test_answers_that_leave_a_claim_out() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        driver.skip = True
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(1)
        (event,) = world.events("FailedPrepareDynamicResources")
        assert event.endswith("NodePrepareResources skipped 1 ResourceClaims")

    simulate(scenario)


def test_nobody_is_asked_when_a_claim_cannot_be_used() -> None:
    async def scenario(world: World) -> None:
        await ready(world)
        uid = world.claim("absent", ("g", "nobody.example.com", "gpu-0"))
        world.run_pod("absent", claims={"g": "absent"})
        await world.clock.sleep(1)
        pod_uid = world.run_pod("stranger")
        assert uid != pod_uid
        world.claim("foreign", ("g", DRIVER, "gpu-1"))
        world.run_pod("foreign", claims={"g": "foreign"})
        world.api.patch(RESOURCE_CLAIM, "foreign", {"status": {"reservedFor": []}}, "default", subresource="status")
        await world.clock.sleep(1)
        assert len(world.events("FailedPrepareDynamicResources")) == 2
        assert any(
            text.endswith("DRA driver nobody.example.com is not registered")
            for text in world.events("FailedPrepareDynamicResources")
        )
        assert any(
            "is not allowed to use ResourceClaim foreign" in text
            for text in world.events("FailedPrepareDynamicResources")
        )
        assert not [call for call in world.calls if call.startswith("Prepare")]
        world.delete_pod("absent")
        await world.clock.sleep(2)
        assert world.calls[-1] == "pod absent gone"

    simulate(scenario)


@pytest.mark.row(51, how="vectors")
def test_unprepare_is_tried_until_it_works_and_the_phase_waits_for_it() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        driver.fail_unprepare["one"] = ["cannot reset", "cannot reset"]
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(1)
        world.delete_pod("p")
        await world.clock.sleep(5)
        assert world.phase("p") == "Running"
        assert world.container("p")["state"]["terminated"]["exitCode"] == 0
        assert world.calls.count("Unprepare one") == 2
        await world.clock.sleep(15)

    world = simulate(scenario)
    assert world.calls[-3:] == ["Unprepare one", "pod p Succeeded", "pod p gone"]


@pytest.mark.row(51, how="vectors")
def test_slices_go_thirty_seconds_after_the_driver() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        world.slice(DRIVER)
        world.slice(DRIVER, "node-b")
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(1)
        driver.kill()
        world.delete_pod("p")
        await world.clock.sleep(5)
        again = FakeDriver(world, DRIVER)
        await again.start()
        await world.clock.sleep(20)
        assert world.calls[-2:] == ["pod p Succeeded", "pod p gone"]
        await world.clock.sleep(20)
        assert len(world.slices()) == 2
        again.kill()
        await world.clock.sleep(29)
        assert len(world.slices()) == 2
        await world.clock.sleep(2)
        assert world.slices() == [f"node-b-{DRIVER}"]

    simulate(scenario)


def test_the_first_version_of_the_plugins_list_that_is_known_is_used() -> None:
    async def scenario(world: World) -> None:
        driver = FakeDriver(world, DRIVER, versions=("v9.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAPlugin"))
        await driver.start()
        await world.clock.sleep(2)
        assert world.kubelet.dra.plugins.find(DRIVER).version == "v1beta1"

    simulate(scenario)


@pytest.mark.parametrize(
    ("versions", "why"),
    [
        ((), "empty list of supported gRPC services (aka supported versions)"),
        (
            ("v9.DRAPlugin",),
            'none of services supported by the plugin (["v9.DRAPlugin"])'
            ' are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])',
        ),
    ],
)
def test_a_refused_driver_is_told_why_and_asked_again(versions: tuple[str, ...], why: str) -> None:
    async def scenario(world: World) -> None:
        driver = FakeDriver(world, DRIVER, versions=versions)
        await driver.start()
        await world.clock.sleep(3.5)
        assert [status.error for status in driver.statuses] == [
            "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA driver"
            f" plugin {DRIVER} at endpoint {driver.endpoint}: {why}"
        ] * 2
        driver.versions = ("v1.DRAPlugin",)
        await world.clock.sleep(5)
        assert driver.statuses[-1].plugin_registered

    simulate(scenario)


def test_a_rolling_update_asks_the_newest_instance_and_falls_back() -> None:
    async def scenario(world: World) -> None:
        world.spec_file(f"{DRIVER}/dev", "gpu-0", "gpu-1")
        old, new = FakeDriver(world, DRIVER, tag="-old"), FakeDriver(world, DRIVER, tag="-new")
        await old.start()
        await world.clock.sleep(2)
        await new.start()
        await world.clock.sleep(2)
        world.slice(DRIVER)
        world.claim("a", ("g", DRIVER, "gpu-0"))
        world.run_pod("a", claims={"g": "a"})
        await world.clock.sleep(1)
        new.kill()
        await world.clock.sleep(40)
        world.claim("b", ("g", DRIVER, "gpu-1"))
        world.run_pod("b", claims={"g": "b"})
        await world.clock.sleep(1)
        assert world.slices() == [f"{NODE_NAME}-{DRIVER}"]

    world = simulate(scenario)
    assert [call for call in world.calls if call.startswith("Prepare")] == ["Prepare-new a", "Prepare-old b"]


def test_health_reaches_the_pod_and_grows_stale() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(6)
        sick = DeviceHealth(NODE_NAME, "gpu-0", Health.UNHEALTHY, 0, message="too hot")
        await driver.reports.put((sick,))
        await world.clock.sleep(1)
        (status,) = world.container("p")["allocatedResourcesStatus"]
        assert status["resources"] == [
            {"resourceID": f"{DRIVER}/dev=gpu-0", "health": "Unhealthy", "message": "too hot"}
        ]
        await world.clock.sleep(28)
        assert world.container("p")["allocatedResourcesStatus"] == [status]
        await world.clock.sleep(75)
        (status,) = world.container("p")["allocatedResourcesStatus"]
        assert status["resources"][0]["health"] == "Unknown"

    simulate(scenario)


def test_a_claim_made_again_under_its_name_has_to_wait() -> None:
    async def scenario(world: World) -> None:
        await ready(world)
        old = world.claim("f", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "f"})
        await world.clock.sleep(1)
        world.api.delete(RESOURCE_CLAIM, "f", "default")
        world.api.patch(RESOURCE_CLAIM, "f", {"metadata": {"finalizers": None}}, "default") if world.api.find(
            RESOURCE_CLAIM, "f", "default"
        ) else None
        world.claim("f", ("g", DRIVER, "gpu-1"))
        world.run_pod("q", claims={"g": "f"})
        await world.clock.sleep(1)
        (event,) = world.events("FailedPrepareDynamicResources")
        assert f"old ResourceClaim with same name f and different UID {old} still exists" in event

    simulate(scenario)


@pytest.mark.row(49)
def test_an_extended_resource_served_by_a_claim_is_prepared_and_not_allocated() -> None:
    resource = "bridge.example.com/gpu"

    async def scenario(world: World) -> None:
        await ready(world)
        await FakePlugin(world, resource, "classic").start()
        await world.clock.sleep(1)
        world.claim("p-extended-resources-x", ("container-0-request-0", DRIVER, "gpu-1"))
        uid = world.run_pod("p", limits={resource: "1"}, node="")
        world.reserve("p-extended-resources-x", "p", uid)
        mapping = {"containerName": "c", "resourceName": resource, "requestName": "container-0-request-0"}
        status = {"resourceClaimName": "p-extended-resources-x", "requestMappings": [mapping]}
        world.api.patch(POD, "p", {"status": {"extendedResourceClaimStatus": status}}, "default", subresource="status")
        world.api.bind("default", "p", NODE_NAME)
        await world.clock.sleep(1)
        (state,) = world.runtime.containers()
        assert state.spec["process"]["env"] == ["DEV_1=gpu-1"]
        world.delete_pod("p")
        await world.clock.sleep(2)

    world = simulate(scenario)
    assert [call for call in world.calls if not call.startswith("pod ")] == [
        "Prepare p-extended-resources-x",
        "Unprepare p-extended-resources-x",
    ]


def test_a_plugin_of_a_type_nobody_keeps_is_told_so() -> None:
    class Nonsense(FakeDriver):
        async def get_info(self) -> PluginInfo:
            return PluginInfo("Nonsense", self.name, self.endpoint, self.versions)

    async def scenario(world: World) -> None:
        driver = Nonsense(world, DRIVER)
        await driver.start()
        await world.clock.sleep(1.5)
        assert driver.statuses[0].error == (
            "RegisterPlugin error -- no handler registered for plugin type: Nonsense"
            f" at socket {ROOT}/plugins_registry/{DRIVER}-reg.sock"
        )

    simulate(scenario)


def test_slow_prepares_do_not_hold_each_other_up() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        driver.slow_s = 6
        for index in range(3):
            world.claim(f"c{index}", ("g", DRIVER, f"gpu-{index}"))
            world.run_pod(f"p{index}", claims={"g": f"c{index}"})
        await world.clock.sleep(7)
        assert [world.phase(f"p{index}") for index in range(3)] == ["Running"] * 3

    simulate(scenario)


def test_a_pod_deleted_while_its_prepare_hangs_ends_at_once() -> None:
    async def scenario(world: World) -> None:
        driver = await ready(world)
        driver.slow_s = 40
        world.claim("one", ("g", DRIVER, "gpu-0"))
        world.run_pod("p", claims={"g": "one"})
        await world.clock.sleep(1)
        world.delete_pod("p")
        await world.clock.sleep(2)

    world = simulate(scenario)
    assert world.calls == ["pod p Pending", "Prepare one", "Unprepare one", "pod p Failed", "pod p gone"]
