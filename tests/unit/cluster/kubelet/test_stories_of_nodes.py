"""Stories of slow plugins, odd registrations, broken CDI files and damaged checkpoints, recorded with a real kubelet."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence

import pytest
from tests.unit.cluster.kubelet.playing import claimed, gone, pod, ready_driver, same
from tests.unit.cluster.kubelet.recorded import Recording
from tests.unit.cluster.kubelet.world import ROOT, FakeDriver, FakePlugin, World, simulate

from regauge.base import InputError
from regauge.pluginapi import ClaimRef, DevicePluginOptions, PluginDevice, PrepareResult, RpcError
from regauge.scheduler import Topology

DEVICE_FILE = f"{ROOT}/device-plugins/kubelet_internal_checkpoint"
CLAIM_FILE = f"{ROOT}/dra_manager_state"


@pytest.mark.row(11, how="vectors")
def test_a04_socket_deleted() -> None:
    resource = "a04.example.com/dev"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0", "w1")
        await plugin.start()
        await world.clock.sleep(4)
        await world.net.remove(f"{ROOT}/device-plugins/{plugin.socket}")
        await world.clock.sleep(6)
        assert world.node_counts(resource) == ("2", "2")
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        plugin.list(("w0", "Healthy"), ("w1", "Healthy"), ("w2", "Healthy"))
        await world.clock.sleep(6)
        assert world.node_counts(resource) == ("3", "3")

    same(simulate(scenario), Recording("A04-dp-socket-deleted"), "p")


@pytest.mark.row(14, how="vectors")
def test_a09_allocate_slow() -> None:
    resource, other = "a09.example.com/dev", "a09b.example.com/dev"

    async def scenario(world: World) -> None:
        plugin, second = FakePlugin(world, resource, "w0", "w1"), FakePlugin(world, other, "x0", "x1")
        await plugin.start()
        await second.start()
        await world.clock.sleep(4)
        plugin.slow_s["Allocate"] = 25
        pod(world, "slow", limits={resource: "1"})
        await world.clock.sleep(1.5)
        pod(world, "other", limits={other: "1"})
        pod(world, "plain")
        await world.clock.sleep(20)
        assert (world.phase("slow"), world.phase("other"), world.phase("plain")) == ("Pending", "Pending", "Pending")
        await world.clock.sleep(8)
        plugin.slow_s = {"PreStartContainer": 40}
        plugin.options = DevicePluginOptions(pre_start_required=True)
        await plugin.register()
        await world.clock.sleep(2)
        pod(world, "pre", limits={resource: "1"})
        await world.clock.sleep(30.2)
        plugin.kill()
        await world.clock.sleep(1)
        assert world.events("Failed")[0].endswith("rpc error: code = DeadlineExceeded desc = context deadline exceeded")

    same(simulate(scenario), Recording("A09-dp-allocate-slow"), "slow", "other", "plain", "pre")


@pytest.mark.row(11, how="vectors")
def test_a10_limits() -> None:
    resource = "a10.example.com/dev"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0")
        await plugin.start()
        await world.clock.sleep(4)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        odd = ("x" * 100, "", "a/b c", "dup", "dup")
        plugin.list(*((id_, "Healthy") for id_ in odd))
        await world.clock.sleep(6)
        assert world.node_counts(resource) == ("4", "4")
        refused = {}
        for changes in (
            {"version": "v1alpha"},
            {"resource_name": "widget"},
            {"resource_name": "kubernetes.io/widget"},
            {"resource_name": "foo.kubernetes.io/widget"},
            {"resource_name": "a10.example.com/wid get"},
            {"resource_name": "requests.a10.example.com/x"},
            {"resource_name": ""},
        ):
            with pytest.raises(RpcError) as error:
                await plugin.register(**changes)
            refused[next(iter(changes.values()))] = str(error.value)
        said = "rpc error: code = Unknown desc = "
        assert refused.pop("v1alpha") == (
            f'{said}requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]'
        )
        assert refused == {name: f'{said}the ResourceName "{name}" is invalid' for name in refused}

    same(simulate(scenario), Recording("A10-dp-limits"), "p")


@pytest.mark.row(11, how="vectors")
@pytest.mark.row(68, how="vectors")
def test_a14_health_of_the_same_id() -> None:
    resource = "a14.example.com/dev"

    async def scenario(world: World) -> None:
        await FakePlugin(world, "a14z.example.com/dev", "w0", "w1", "w2").start()
        await world.clock.sleep(2)
        pod(world, "z", limits={"a14z.example.com/dev": "3"})
        await world.clock.sleep(1)
        plugin = FakePlugin(world, resource, "w1", "w0")
        await plugin.start()
        await world.clock.sleep(4)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        for health in ("Unhealthy", "Healthy", "healthy", "Degraded", "Healthy"):
            plugin.list(("w1", health))
            await world.clock.sleep(6)
        await gone(world, "p")

    world = simulate(scenario)
    same(world, Recording("A14-dp-health-same-id"), "z", "p")
    told = [moment for moment in world.health_story["p"] if moment]
    assert told == ["Healthy", "Unhealthy", "Healthy", "Unhealthy", "Healthy"]  # the recorded one stays at Unhealthy


class Unable(FakeDriver):
    """Says that it serves a version and does not."""

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        raise RpcError("Unimplemented", "Method not found!")


@pytest.mark.row(49, how="vectors")
def test_b01_register() -> None:
    served = (
        ("v1.DRAPlugin", "v1beta1.DRAPlugin"),
        ("v1beta1.DRAPlugin", "v1.DRAPlugin"),
        ("v9.DRAPlugin", "v1beta1.DRAPlugin"),
    )

    async def scenario(world: World) -> None:
        for index, versions in enumerate(served):
            name = f"b01n{index}.example.com"
            driver = FakeDriver(world, name, versions=versions)
            await driver.start()
            await world.clock.sleep(2)
            assert driver.statuses[-1].plugin_registered
            world.spec_file(f"{name}/dev", "gpu-0")
            await claimed(world, name, f"p{index}")
            await gone(world, f"p{index}")
            await driver.stop()
        for index, versions in ((3, ("v9.DRAPlugin",)), (4, ("1.0.0",)), (5, ()), (7, ("v1alpha1.DRAResourceHealth",))):
            driver = FakeDriver(world, f"b01n{index}.example.com", versions=versions)
            await driver.start()
            await world.clock.sleep(2)
            assert driver.statuses[-1].error.startswith(
                "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA driver"
            )
            await driver.stop()
        await Unable(world, "b01n6.example.com").start()
        await world.clock.sleep(2)
        await claimed(world, "b01n6.example.com", "p6")
        await world.clock.sleep(5)
        (event,) = world.events("FailedPrepareDynamicResources")
        assert event.endswith("NodePrepareResources: rpc error: code = Unimplemented desc = Method not found!")

    same(simulate(scenario), Recording("B01-dra-register"), "p0", "p1", "p2", "p6")


@pytest.mark.row(50, how="vectors")
def test_b11_cdi() -> None:
    name, path = "b11.example.com", "/var/run/cdi/b11.json"

    def device(version: str = "0.5.0", **more: object) -> bytes:
        edits = {"env": ["A=b"], **more}
        devices = [{"name": "gpu-0", "containerEdits": edits}]
        return json.dumps({"cdiVersion": version, "kind": f"{name}/dev", "devices": devices}).encode()

    files = {
        "missing": None,
        "invalid": device()[:40],
        "badschema": device(unknown="field"),
        "newversion": device("9.9.0"),
        "mode000": device(),
    }

    async def scenario(world: World) -> None:
        driver = FakeDriver(world, name)
        await driver.start()
        await world.clock.sleep(2)
        driver.cdi = f"{name}/dev=does-not-exist"
        await claimed(world, name, "unknown")
        await gone(world, "unknown")
        driver.cdi = True
        for pod_name, content in files.items():
            if content is not None:
                world.files.write(path, content)
            await claimed(world, name, pod_name)
            await gone(world, pod_name)
        unresolvable = "failed to create containerd container: CDI device injection failed: unresolvable CDI devices"
        assert f"Error: {unresolvable} b11.example.com/dev=does-not-exist" in world.events("Failed")

    pods = ("unknown", *files)
    same(simulate(scenario), Recording("B11-dra-cdi"), *pods, calls=tuple(f"{one}-g" for one in pods))


@pytest.mark.row(49, how="vectors")
def test_b19_a_change_of_the_pod_is_a_retry() -> None:
    name = "b19.example.com"

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        driver.fail["p-g"] = ["not yet"]
        await claimed(world, name, "p")
        await world.clock.sleep(10)
        assert world.phase("p") == "Pending"
        world.annotate("p", poke="1")
        await world.clock.sleep(1)

    same(simulate(scenario), Recording("B19-dra-retry-poke"), "p")


@pytest.mark.row(49, how="vectors")
def test_b21_concurrency() -> None:
    """Four claims are prepared at the same time, and unprepared at the same time."""
    name = "b21.example.com"

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        driver.slow_s = 6
        began_s = world.clock.now_s()
        for index in range(4):
            world.claim(f"p{index}-g", ("g", name, f"gpu-{index}"))
            pod(world, f"p{index}", claims={"g": f"p{index}-g"})
        await world.clock.sleep(8)
        assert [world.phase(f"p{index}") for index in range(4)] == ["Running"] * 4
        assert world.clock.now_s() - began_s < 9
        for index in range(4):
            world.delete_pod(f"p{index}")
        await world.clock.sleep(10)

    world, recording = simulate(scenario), Recording("B21-dra-concurrency")
    # The driver's socket broke in the recording: every first call was cancelled. Which call is first is chance.
    first, second = recording.calls[:4], recording.calls[4:8]
    assert sorted(first) == sorted(second)
    del recording.calls[:4]
    recording.calls[:4], recording.calls[4:] = sorted(recording.calls[:4]), sorted(recording.calls[4:])
    asked = [call for call in world.calls if call.startswith(("Prepare", "Unprepare"))]
    world.calls = [*sorted(asked[:4]), *sorted(asked[4:])]
    same(world, recording, "p0", "p1", "p2", "p3")


@pytest.mark.row(14, how="vectors")
@pytest.mark.row(49, how="vectors")
def test_d01_one_pod_after_the_other() -> None:
    resource, name = "d01dp.example.com/dev", "d01.example.com"

    async def scenario(world: World) -> None:
        await FakePlugin(world, resource, "w0", "w1").start()
        await ready_driver(world, name)
        await world.clock.sleep(2)
        for index in range(8):
            pod(world, f"plain{index}")
            await world.clock.sleep(1)
            await gone(world, f"plain{index}")
        for index in range(8):
            pod(world, f"dp{index}", limits={resource: "1"})
            await world.clock.sleep(1)
            await gone(world, f"dp{index}")
        for index in range(8):
            await claimed(world, name, f"dra{index}")
            await gone(world, f"dra{index}")
        await claimed(world, name, "x", claim="a")
        await gone(world, "x")
        await claimed(world, name, "y", claim="b")

    recording = Recording("D01-timings")
    same(simulate(scenario), recording, *recording.pods)


@pytest.mark.row(11, how="vectors")
def test_g02_device_checkpoint_damaged() -> None:
    """A checkpoint that cannot be read is put aside, and what runs goes on; its devices are given away again."""
    resource = "g02.example.com/dev"

    async def restart(world: World, damaged: bytes | None) -> None:
        await world.kubelet.kill()
        world.node_net.kill()
        if damaged is None:
            world.files.remove(DEVICE_FILE)
        else:
            world.files.write(DEVICE_FILE, damaged)
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await FakePlugin(world, resource, "ca1", "ca0").start()
        await world.clock.sleep(4)

    async def scenario(world: World) -> None:
        await FakePlugin(world, resource, "ca1", "ca0").start()
        await world.clock.sleep(2)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        found = json.loads(world.files.read(DEVICE_FILE))
        await restart(world, json.dumps({**found, "Checksum": found["Checksum"] * 10 + 7}).encode())
        pod(world, "q", limits={resource: "1"})
        await world.clock.sleep(1)
        await gone(world, "q")
        await restart(world, world.files.read(DEVICE_FILE)[:30])
        assert world.phase("p") == "Running"
        await gone(world, "p")
        pod(world, "p3", limits={resource: "1"})
        await world.clock.sleep(1)
        await restart(world, None)
        pod(world, "n0", limits={resource: "1"})
        await world.clock.sleep(2)
        aside = [name for name in world.files.names(f"{ROOT}/device-plugins") if "corrupt" in name]
        assert len(aside) == 2

    same(simulate(scenario), Recording("G02-dp-checkpoint-corrupt"), "p", "q", "p3", "n0")


@pytest.mark.row(49, how="vectors")
def test_g03_claim_checkpoint_damaged() -> None:
    """With a damaged file no kubelet starts; without it one starts that has forgotten what it prepared."""
    name = "g03.example.com"

    async def scenario(world: World) -> None:
        await ready_driver(world, name)
        await claimed(world, name, "p", claim="c")
        await claimed(world, name, "x", "gpu-1", "x")
        await world.kubelet.kill()
        world.node_net.kill()
        whole = world.files.read(CLAIM_FILE)
        found = json.loads(whole)
        for damaged in (
            json.dumps({**found, "Checksum": found["Checksum"] * 10}).encode(),
            whole[: len(whole) // 2],
            b"",
        ):
            world.files.write(CLAIM_FILE, damaged)
            world.kubelet = world.new_kubelet()
            with pytest.raises(InputError, match="dra_manager_state"):
                await world.kubelet.start()
            world.node_net.kill()
        world.files.remove(CLAIM_FILE)
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await world.clock.sleep(4)
        await gone(world, "p")
        pod(world, "again", claims={"g": "x"})
        await world.clock.sleep(2)

    same(simulate(scenario), Recording("G03-dra-state-corrupt"), "p", "x", "again")


@pytest.mark.row(49, how="vectors")
def test_g09_checksum_and_version_of_the_claim_checkpoint() -> None:
    name = "g09.example.com"

    async def scenario(world: World) -> None:
        await ready_driver(world, name)
        await claimed(world, name, "p", claim="c")
        await world.kubelet.kill()
        world.node_net.kill()
        found = json.loads(world.files.read(CLAIM_FILE))
        world.files.write(CLAIM_FILE, json.dumps({**found, "Checksum": found["Checksum"] ^ 1}).encode())
        world.kubelet = world.new_kubelet()
        with pytest.raises(InputError, match="the checkpoint is corrupted"):
            await world.kubelet.start()
        world.node_net.kill()
        data = found["Data"].replace("kubelet.k8s.io/v1", "kubelet.k8s.io/v9")
        assert data != found["Data"]
        world.files.write(CLAIM_FILE, json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode())
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await world.clock.sleep(5)

    same(simulate(scenario), Recording("G09-dra-state-checksum"), "p")


@pytest.mark.row(189, how="vectors")
def test_g07_topology() -> None:
    """The recorded machine has one NUMA node; devices that say another one are taken as well."""
    resource = "g07.example.com/dev"

    async def scenario(world: World) -> None:
        options = DevicePluginOptions(get_preferred_allocation_available=True)
        plugin = FakePlugin(world, resource, options=options)
        plugin.devices = (
            PluginDevice("ia0", numa_nodes=(0,)),
            PluginDevice("ib0", numa_nodes=(1,)),
            PluginDevice("ib1", numa_nodes=(1,)),
            PluginDevice("ic0"),
        )
        plugin.prefer = ("ic0", "ib1", "ib0", "ia0")
        await plugin.start()
        await world.clock.sleep(3)
        for name in ("p0", "p1", "p2", "cpu"):
            pod(world, name, limits={resource: "1"})
            await world.clock.sleep(1)

    world = simulate(scenario, topology=Topology("single-numa-node"))
    same(world, Recording("G07-topology"), "p0", "p1", "p2", "cpu")
