"""Stories recorded with a real kubelet, played on ours: the same calls of drivers, the same moments of pods.

The scheduler and the controllers are played by the test: pods are bound, claims allocated and reserved by hand. Claims made
from templates have no random suffix. Which device is chosen is not compared, only how many.
"""

from __future__ import annotations

import pytest
from tests.unit.cluster.kubelet.recorded import Recording, counted
from tests.unit.cluster.kubelet.world import FakeDriver, FakePlugin, World, simulate

from regauge.pluginapi import ContainerAllocateResponse, DevicePluginOptions, DeviceSpec, RpcError

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


async def claimed(world: World, driver: str, name: str, device: str = "gpu-0", claim: str = "") -> None:
    """A pod with a claim of its own, as from a template."""
    claim = claim or f"{name}-g"
    world.claim(claim, ("g", driver, device))
    pod(world, name, claims={"g": claim})
    await world.clock.sleep(1)


def same(world: World, recording: Recording, *pods: str, calls: tuple[str, ...] = ()) -> None:
    """The driver's calls (of these claims) and the pods' moments are the recorded ones."""
    ours = [counted(call) for call in world.calls if not call.startswith(("pod ", "GetInfo"))]
    if calls:
        ours = [call for call in ours if set(call.partition(" ")[2].split(",")) & set(calls)]
    assert ours == recording.calls_with(*calls)
    for name in pods:
        assert world.pod_story[name] == recording.pods[name], name


@pytest.mark.row(11, how="vectors")
@pytest.mark.row(14, how="vectors")
def test_a01_lifecycle() -> None:
    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, "a01.example.com/dev", "aa0", "aa1")
        await plugin.start()
        await world.clock.sleep(6)
        pod(world, "p", limits={"a01.example.com/dev": "1"})
        await world.clock.sleep(1)
        for health in ("Healthy", "Unhealthy", "Healthy", "healthy", "Degraded", "Healthy"):
            plugin.list(("aa0", health))
            await world.clock.sleep(6)
        await gone(world, "p")

    same(simulate(scenario), Recording("A01-dp-lifecycle"), "p")


@pytest.mark.row(14, how="vectors")
def test_a03_crash() -> None:
    resource = "a03.example.com/dev"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0", "w1")
        await plugin.start()
        await world.clock.sleep(5)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        plugin.kill()
        await world.clock.sleep(8)
        pod(world, "qn", limits={resource: "1"})
        await world.clock.sleep(3)
        await FakePlugin(world, resource, "w0", "w1").start()
        await world.clock.sleep(3)
        pod(world, "q", limits={resource: "1"})
        await world.clock.sleep(1)

    same(simulate(scenario), Recording("A03-dp-crash"), "p", "q", "qn")


@pytest.mark.row(14, how="vectors")
def test_a06_vanish() -> None:
    resource = "a06.example.com/dev"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0")
        await plugin.start()
        await world.clock.sleep(5)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        plugin.list()
        await world.clock.sleep(7)
        assert world.container("p")["allocatedResourcesStatus"][0]["resources"][0]["health"] == "Healthy"
        plugin.list(("w9", "Healthy"))
        await world.clock.sleep(5)
        pod(world, "qn", limits={resource: "1"})
        await world.clock.sleep(3)
        await gone(world, "p")

    same(simulate(scenario), Recording("A06-dp-vanish"), "p", "qn")


class Dying(FakePlugin):
    """Dies in the call that is named."""

    dies_in = ""

    async def _note(self, call: str, what: str) -> None:
        if call == self.dies_in:
            self.world.calls.append(f"{call} {what}") if call == "Allocate" else None
            self.kill()
            raise RpcError("Internal", "dead")
        await super()._note(call, what)


@pytest.mark.row(14, how="vectors")
def test_a08_errors() -> None:
    resource = "a08.example.com/dev"
    limits = {resource: "1"}

    async def one(world: World, name: str, wait_s: float = 6) -> None:
        pod(world, name, limits=limits)
        await world.clock.sleep(wait_s)
        await gone(world, name)

    async def scenario(world: World) -> None:
        plugin = Dying(world, resource, "w0", "w1", "w2", "w3")
        await plugin.start()
        await world.clock.sleep(5)
        plugin.fail["Allocate"] = "device is on fire"
        await one(world, "allocerr")
        plugin.fail.clear()
        plugin.empty_answer = True
        await one(world, "emptyresp")
        plugin.empty_answer = False
        plugin.answer = lambda ids: ContainerAllocateResponse(devices=(DeviceSpec("/dev/x", "/dev/no-such-device"),))
        await one(world, "baddev")
        assert world.events("Failed")[0].endswith("lstat /dev/no-such-device: no such file or directory")
        plugin.answer = lambda ids: ContainerAllocateResponse(cdi_devices=("a08.example.com/dev=nobody",))
        await one(world, "badcdi")
        plugin.answer = lambda ids: ContainerAllocateResponse()
        plugin.options = DevicePluginOptions(pre_start_required=True)
        await plugin.register()
        plugin.fail["PreStartContainer"] = "reset failed"
        await world.clock.sleep(2)
        await one(world, "prestarterr", 14)
        plugin.fail.clear()
        await one(world, "afterwards")
        plugin.dies_in = "Allocate"
        await one(world, "dieinside")
        again = Dying(world, resource, "w0", "w1", "w2", "w3", options=plugin.options)
        await again.start()
        await world.clock.sleep(3)
        again.dies_in = "PreStartContainer"
        await one(world, "dieafter", 5)

    names = ("allocerr", "emptyresp", "baddev", "badcdi", "prestarterr", "afterwards", "dieinside", "dieafter")
    same(simulate(scenario), Recording("A08-dp-allocate-error"), *names)


@pytest.mark.row(49, how="vectors")
@pytest.mark.row(51, how="vectors")
def test_b02_normal() -> None:
    async def scenario(world: World) -> None:
        await ready_driver(world, "b02.example.com")
        await claimed(world, "b02.example.com", "p")
        await gone(world, "p")

    same(simulate(scenario), Recording("B02-dra-normal"), "p", calls=("p-g",))


@pytest.mark.row(62, how="vectors")
@pytest.mark.row(63, how="vectors")
def test_b03_shared() -> None:
    async def scenario(world: World) -> None:
        driver = await ready_driver(world, "b03.example.com")
        world.claim("sh", ("g", "b03.example.com", "gpu-0"))
        for name in ("p1", "p2"):
            pod(world, name, claims={"g": "sh"})
            await world.clock.sleep(1)
        for name in ("p1", "p2"):
            await gone(world, name)
        driver.slow_s = 0.1
        for name in ("q1", "q2"):
            pod(world, name, claims={"g": "sh"})
        await world.clock.sleep(1)
        for name in ("q1", "q2"):
            await gone(world, name)

    same(simulate(scenario), Recording("B03-dra-shared"), "p1", "p2", "q1", "q2", calls=("sh",))


@pytest.mark.row(49, how="vectors")
def test_b04_prepare_fails() -> None:
    name = "b04.example.com"

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        waits = {"once": 16.0, "thrice": 60.0, "forever": 50.0}
        for pod_name, wait_s in waits.items():
            driver.fail[f"{pod_name}-g"] = ["device busy"] * 5
            await claimed(world, name, pod_name)
            await world.clock.sleep(wait_s)
            await gone(world, pod_name)
        driver.skip = True
        await claimed(world, name, "omit")
        await world.clock.sleep(13)
        await gone(world, "omit")
        driver.skip, driver.cdi = False, False
        await claimed(world, name, "nocdi")
        await gone(world, "nocdi")

    pods = ("once", "thrice", "forever", "omit", "nocdi")
    same(simulate(scenario), Recording("B04-dra-prepare-fails"), *pods, calls=tuple(f"{one}-g" for one in pods))


@pytest.mark.row(51, how="vectors")
def test_b08_force_delete() -> None:
    name = "b08.example.com"

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        await claimed(world, name, "p", claim="c")
        world.delete_pod("p", 0)
        await world.clock.sleep(3)
        await claimed(world, name, "q", claim="c2")
        driver.kill()
        world.delete_pod("q", 0)
        await world.clock.sleep(2)
        await claimed(world, name, "r", claim="c3")
        await world.clock.sleep(3)
        await FakeDriver(world, name).start()
        await world.clock.sleep(5)
        assert world.calls[-1] == "Unprepare c2"
        await world.clock.sleep(75)

    same(simulate(scenario), Recording("B08-dra-force-delete"), "r", calls=("c", "c2", "c3"))


@pytest.mark.row(51, how="vectors")
def test_b14_unprepare_fails() -> None:
    name = "b14.example.com"

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        await claimed(world, name, "p", claim="c")
        driver.fail_unprepare["c"] = ["cannot reset"] * 2
        await gone(world, "p")
        await world.clock.sleep(20)

    same(simulate(scenario), Recording("B14-dra-unprepare-fails"), "p", calls=("c",))


@pytest.mark.row(49, how="vectors")
def test_b15_two_drivers() -> None:
    async def scenario(world: World) -> None:
        await ready_driver(world, "b15a.example.com")
        other = await ready_driver(world, "b15b.example.com")
        world.claim("p-a", ("g", "b15a.example.com", "gpu-0"))
        world.claim("p-b", ("g", "b15b.example.com", "gpu-0"))
        other.fail["p-b"] = ["nic is down"]
        pod(world, "p", claims={"a": "p-a", "b": "p-b"})
        await world.clock.sleep(25)
        await gone(world, "p")

    same(simulate(scenario), Recording("B15-dra-two-drivers"), "p", calls=("p-a", "p-b"))


@pytest.mark.row(49, how="vectors")
def test_b18_and_b19_retries() -> None:
    async def scenario(world: World) -> None:
        driver = await ready_driver(world, "b18.example.com")
        driver.fail["p0-g"] = ["not yet"] * 3
        await claimed(world, "b18.example.com", "p0")
        await world.clock.sleep(3 * 75 + 1)

    same(simulate(scenario), Recording("B18-dra-retry-period"), "p0", calls=("p0-g",))
