"""Device plugins on a node: registration, capacity, admission, health, loss. The order of calls is that of real kubelets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.cluster.kubelet.world import NODE_NAME, ROOT, FakePlugin, World, simulate

from regauge.model import Object
from regauge.model.kinds import POD
from regauge.pluginapi import ContainerAllocateResponse, DevicePluginOptions, DeviceSpec, Mount, RpcError

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


@pytest.mark.row(14, how="vectors")
def test_allocation_prefers_asks_once_and_reuses_what_init_containers_had() -> None:
    async def scenario(world: World) -> None:
        options = DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        plugin = FakePlugin(world, RESOURCE, "w0", "w1", "w2", "w3", options=options)
        plugin.prefer = ("w2", "nobody", "w3", "w1")
        await plugin.start()
        await world.clock.sleep(1)
        world.run_pod("init", limits={RESOURCE: "2"}, init_limits={RESOURCE: "2"})
        await world.clock.sleep(1)
        assert world.phase("init") == "Running"
        plugin.prefer = ()
        world.run_pod("rest", limits={RESOURCE: "2"})
        await world.clock.sleep(1)

    world = simulate(scenario)
    plugin_calls = [call for call in world.calls if not call.startswith("pod ")]
    assert plugin_calls == [
        "GetPreferredAllocation w0,w1,w2,w3 2",
        "Allocate w2,w3",
        "Allocate w2,w3",
        "PreStartContainer w2,w3",
        "PreStartContainer w2,w3",
        "GetPreferredAllocation w0,w1 2",
        "Allocate w0,w1",
        "PreStartContainer w0,w1",
    ]


@pytest.mark.row(14)
def test_a_container_restart_repeats_pre_start_and_never_allocate() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w5", options=DevicePluginOptions(pre_start_required=True))
        await plugin.start()
        await world.clock.sleep(1)
        annotations = {"regauge.dev/run-seconds": "2", "regauge.dev/exit-code": "1"}
        world.run_pod("rst", limits={RESOURCE: "1"}, annotations=annotations)
        await world.clock.sleep(3)
        assert world.container("rst")["restartCount"] == 1
        await world.clock.sleep(14)
        assert world.container("rst")["restartCount"] == 2
        await world.clock.sleep(14)
        container = world.container("rst")
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["state"]["waiting"]["message"].startswith(
            "back-off 20s restarting failed container=c pod=rst_"
        )
        assert container["lastState"]["terminated"]["exitCode"] == 1
        assert world.phase("rst") == "Running"
        assert world.events("BackOff")[0].startswith("Back-off restarting failed container c in pod rst_default(")

    world = simulate(scenario)
    assert [call for call in world.calls if not call.startswith("pod ")] == [
        "Allocate w5",
        "PreStartContainer w5",
        "PreStartContainer w5",
        "PreStartContainer w5",
    ]


REFUSALS: dict[str, tuple[Callable[[FakePlugin], object], str]] = {
    "allocate fails": (
        lambda plugin: plugin.fail.update(Allocate="device is on fire"),
        "rpc error: code = Internal desc = device is on fire",
    ),
    "preference fails": (
        lambda plugin: plugin.fail.update(GetPreferredAllocation="no preference today"),
        "device plugin GetPreferredAllocation rpc failed with err:"
        " rpc error: code = Internal desc = no preference today",
    ),
    "empty answer": (
        lambda plugin: setattr(plugin, "empty_answer", True),
        "no containers return in allocation response ",
    ),
    "too many": (
        lambda plugin: plugin.list(("w0", "Healthy")),
        f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 1",
    ),
    "plugin gone": (
        lambda plugin: plugin.kill(),
        f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}",
    ),
}


@pytest.mark.row(14, how="vectors")
@pytest.mark.parametrize("case", REFUSALS)
def test_what_goes_wrong_at_admission_is_final(case: str) -> None:
    spoil, why = REFUSALS[case]

    async def scenario(world: World) -> None:
        options = DevicePluginOptions(get_preferred_allocation_available=True)
        plugin = FakePlugin(world, RESOURCE, "w0", "w1", "w2", options=options)
        await plugin.start()
        await world.clock.sleep(1)
        spoil(plugin)
        await world.clock.sleep(1)
        world.run_pod("p", limits={RESOURCE: "2"})
        await world.clock.sleep(200)
        status = world.pod("p")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert status["message"] == f"Pod was rejected: Allocate failed due to {why}, which is unexpected"
        assert "containerStatuses" not in status
        assert world.events("UnexpectedAdmissionError") == [f"Allocate failed due to {why}, which is unexpected"]
        world.delete_pod("p")
        await world.clock.sleep(1)
        assert world.calls[-1] == "pod p gone"

    world = simulate(scenario)
    assert world.calls.count("Allocate w0,w1") <= 1


def test_a_refused_pod_gives_back_what_it_got() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0")
        plugin.fail["Allocate"] = "not now"
        await plugin.start()
        await world.clock.sleep(1)
        world.run_pod("bad", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        plugin.fail.clear()
        world.run_pod("good", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        assert (world.phase("bad"), world.phase("good")) == ("Failed", "Running")

    simulate(scenario)


@pytest.mark.row(14)
def test_one_slow_allocate_holds_up_every_pod() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0")
        plugin.slow_s["Allocate"] = 25
        await plugin.start()
        await world.clock.sleep(1)
        world.run_pod("slow", limits={RESOURCE: "1"})
        world.run_pod("plain")
        await world.clock.sleep(24)
        assert world.phase("plain") == "Pending"
        await world.clock.sleep(2)
        assert (world.phase("slow"), world.phase("plain")) == ("Running", "Running")

    simulate(scenario)


@pytest.mark.row(11)
def test_a_plugin_gone_for_good_ends_at_zero() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0", "w1")
        await plugin.start()
        await world.clock.sleep(6)
        world.run_pod("p", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        plugin.kill()
        await world.clock.sleep(5)
        assert world.node_counts(RESOURCE) == ("2", "0")
        await world.clock.sleep(290)
        assert world.node_counts(RESOURCE) == ("2", "0")
        await world.clock.sleep(15)
        assert world.node_counts(RESOURCE) == ("0", "0")
        assert world.phase("p") == "Running"
        assert world.container("p")["allocatedResourcesStatus"][0]["resources"][0]["health"] == "Healthy"
        world.run_pod("late", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        assert "cannot allocate unregistered device" in world.pod("late")["status"]["message"]
        again = FakePlugin(world, RESOURCE, "w0", "w1")
        await again.start()
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("2", "2")

    simulate(scenario)


def test_the_last_plugin_to_register_answers_and_takes_both_with_it() -> None:
    async def scenario(world: World) -> None:
        first = FakePlugin(world, RESOURCE, "a0", "a1")
        await first.start()
        second = FakePlugin(world, RESOURCE, "b0")
        await second.serve_at("second.sock")
        await second.register(endpoint="second.sock")
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("1", "1")
        first.list(("a0", "Healthy"), ("a1", "Healthy"), ("a2", "Healthy"))
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("3", "3")
        second.kill()
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("3", "0")

    simulate(scenario)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"version": "v1alpha"},
            'requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]',
        ),
        ({"resource_name": "widget"}, 'the ResourceName "widget" is invalid'),
        ({"resource_name": "kubernetes.io/widget"}, 'the ResourceName "kubernetes.io/widget" is invalid'),
        ({"resource_name": "foo.kubernetes.io/widget"}, 'the ResourceName "foo.kubernetes.io/widget" is invalid'),
        ({"resource_name": "example.com/wid get"}, 'the ResourceName "example.com/wid get" is invalid'),
        ({"resource_name": "requests.example.com/a"}, 'the ResourceName "requests.example.com/a" is invalid'),
        ({"resource_name": ""}, 'the ResourceName "" is invalid'),
        ({"endpoint": "nobody.sock"}, "failed to dial device plugin: context deadline exceeded"),
    ],
)
def test_bad_registrations(changes: dict[str, str], message: str) -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0")
        await plugin.serve()
        with pytest.raises(RpcError) as caught:
            await plugin.register(**changes)
        assert caught.value.details == message

    simulate(scenario)


@pytest.mark.parametrize("error", ["", "broken"])
def test_the_end_of_the_stream_deregisters(error: str) -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0")
        await plugin.start()
        await world.clock.sleep(6)
        plugin.end(error)
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("1", "0")
        assert any("ListAndWatch ended unexpectedly" in text for text in world.said)

    simulate(scenario)


@pytest.mark.row(50)
def test_a_container_sees_exactly_what_the_plugin_gave_it() -> None:
    async def scenario(world: World) -> None:
        world.spec_file("a01.example.com/dev", "w0", "w1")
        plugin = FakePlugin(world, RESOURCE, "w0", "w1")
        plugin.answer = lambda ids: ContainerAllocateResponse(
            envs={"DP_DEV": ",".join(ids)},
            mounts=(Mount("/dpmount", "/srv", True),),
            devices=(DeviceSpec("/dev/dp0", "/dev/zero", "rw"),),
            cdi_devices=tuple(f"a01.example.com/dev={id_}" for id_ in ids),
        )
        await plugin.start()
        await world.clock.sleep(1)
        world.run_pod("p", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        (state,) = world.runtime.containers()
        assert state.spec["process"]["env"] == ["DP_DEV=w0", "DEV_0=w0"]
        assert [device["path"] for device in state.spec["linux"]["devices"]] == ["/dev/dp0", "/dev/w0"]
        assert [mount["destination"] for mount in state.spec["mounts"]] == ["/dpmount"]

    simulate(scenario)


def test_cdi_trouble_stands_in_the_container_and_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0")
        plugin.answer = lambda ids: ContainerAllocateResponse(cdi_devices=("a01.example.com/dev=none",))
        await plugin.start()
        await world.clock.sleep(1)
        world.run_pod("badcdi", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        message = (
            "failed to create containerd container: CDI device injection failed:"
            " unresolvable CDI devices a01.example.com/dev=none"
        )
        assert world.container("badcdi")["state"]["waiting"] == {"reason": "CreateContainerError", "message": message}
        assert world.phase("badcdi") == "Pending"
        assert world.events("Failed")[0] == f"Error: {message}"
        world.spec_file("a01.example.com/dev", "none")
        await world.clock.sleep(14)
        assert world.phase("badcdi") == "Running"

    simulate(scenario)


def test_pre_start_is_tried_again_and_cut_after_thirty_seconds() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0", options=DevicePluginOptions(pre_start_required=True))
        plugin.slow_s["PreStartContainer"] = 40
        await plugin.start()
        await world.clock.sleep(1)
        world.run_pod("p", limits={RESOURCE: "1"})
        await world.clock.sleep(31)
        waiting = world.container("p")["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert waiting["message"] == (
            "device plugin PreStartContainer rpc failed with err:"
            " rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        )
        plugin.slow_s.clear()
        await world.clock.sleep(60)
        assert world.phase("p") == "Running"

    simulate(scenario)


def test_a_resource_nobody_ever_registered_is_not_the_kubelets_business() -> None:
    async def scenario(world: World) -> None:
        world.run_pod("unknown", limits={"nobody.example.com/dev": "3"})
        await world.clock.sleep(1)
        assert world.phase("unknown") == "Running"

    simulate(scenario)


def test_a_socket_file_that_is_deleted_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0")
        await plugin.start()
        await world.clock.sleep(6)
        await world.net.remove(f"{ROOT}/device-plugins/{plugin.socket}")
        plugin.list(("w0", "Healthy"), ("w1", "Healthy"))
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("2", "2")
        world.run_pod("p", limits={RESOURCE: "1"})
        await world.clock.sleep(1)
        assert world.phase("p") == "Running"

    simulate(scenario)


def test_a_list_over_four_mebibytes_ends_the_plugin() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, RESOURCE, "w0")
        await plugin.start()
        await world.clock.sleep(6)
        plugin.list(*((f"device-{index:030}", "Healthy") for index in range(90_000)))
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("1", "0")
        assert any("ResourceExhausted desc = grpc: received message larger than max" in text for text in world.said)

    simulate(scenario)


def test_many_devices_are_a_quantity() -> None:
    async def scenario(world: World) -> None:
        await FakePlugin(world, RESOURCE, *map(str, range(20_000))).start()
        await world.clock.sleep(6)
        assert world.node_counts(RESOURCE) == ("20k", "20k")

    simulate(scenario)


def test_two_containers_never_share_a_device() -> None:
    """Each container of a pod gets devices of its own; where there are too few for all, the pod is refused."""

    def two(name: str) -> Object:
        limits = {"limits": {RESOURCE: "1"}, "requests": {RESOURCE: "1"}}
        containers = [{"name": one, "image": "i", "resources": limits} for one in ("a", "b")]
        spec = {"nodeName": NODE_NAME, "restartPolicy": "Never", "containers": containers}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    async def scenario(world: World) -> None:
        await FakePlugin(world, RESOURCE, "d0", "d1", "d2").start()
        await world.clock.sleep(2)
        for name in ("p", "q"):
            world.api.create(POD, two(name), "default")
            await world.clock.sleep(1)

    world = simulate(scenario)
    given = [call.removeprefix("Allocate ") for call in world.calls if call.startswith("Allocate ")]
    assert given[:2] == ["d0", "d1"] and len(set(given)) == len(given)
    assert world.phase("p") == "Running"
    status = world.pod("q")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert status["message"].endswith(
        f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0, which is unexpected"
    )
