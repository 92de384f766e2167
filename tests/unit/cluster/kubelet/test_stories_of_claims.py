"""Stories of claims, recorded with a real kubelet and played on ours: the same calls, the same moments of pods."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.unit.cluster.kubelet.playing import claimed, gone, pod, ready_driver, same
from tests.unit.cluster.kubelet.recorded import Recording
from tests.unit.cluster.kubelet.world import FakeDriver, FakePlugin, World, simulate

from regauge.pluginapi import (
    ClaimRef,
    DeviceHealth,
    Health,
    PrepareResult,
    RpcError,
)


@pytest.mark.row(49, how="vectors")
@pytest.mark.row(51, how="vectors")
def test_b02_normal() -> None:
    async def scenario(world: World) -> None:
        driver = "b02.example.com"
        await ready_driver(world, driver)
        await claimed(world, driver, "p")
        await gone(world, "p")
        for index, entry in enumerate("abc"):
            world.claim(f"three-{entry}", ("g", driver, f"gpu-{index}"))
        pod(world, "three", claims={entry: f"three-{entry}" for entry in "abc"})
        await world.clock.sleep(1)
        await gone(world, "three")
        for name, claim, seconds, code in (("done", "done-g", "2", "0"), ("fail", "named", "3", "3")):
            world.claim(claim, ("g", driver, "gpu-0"))
            ends = {"regauge.dev/run-seconds": seconds, "regauge.dev/exit-code": code}
            world.run_pod(name, claims={"g": claim}, policy="Never", annotations=ends)
            await world.clock.sleep(6)
        pod(world, "next", claims={"g": "named"})
        await world.clock.sleep(1)
        await gone(world, "next")
        world.claim("rst-g", ("g", driver, "gpu-1"))
        ends = {"regauge.dev/run-seconds": "2.5", "regauge.dev/exit-code": "1"}
        world.run_pod("rst", claims={"g": "rst-g"}, annotations=ends)
        await world.clock.sleep(2.5 + 2.5 + 10 + 1)

    recording = Recording("B02-dra-normal")
    recording.pods["rst"] = recording.pods["rst"][:8]  # its end is not played
    same(simulate(scenario), recording, "p", "three", "done", "fail", "next", "rst")


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
        for name, shape in (("multi", _many), ("unref", _unnamed)):
            world.claim(f"{name}-g", ("g", "b03.example.com", "gpu-0"))
            pod(world, name, claims={"g": f"{name}-g"}, shape=shape)
            await world.clock.sleep(2)
            if name == "multi":
                await gone(world, name)

    same(simulate(scenario), Recording("B03-dra-shared"), "p1", "p2", "q1", "q2", "multi", "unref")


def _many(spec: dict[str, Any]) -> None:
    """An init container and three others, all with the claim."""
    first = spec["containers"][0]
    spec["initContainers"] = [{**first, "name": "i"}]
    spec["containers"] = [first, {**first, "name": "d"}, {**first, "name": "e"}]


def _unnamed(spec: dict[str, Any]) -> None:
    """The pod has the claim, no container names it."""
    del spec["containers"][0]["resources"]


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
        driver.broken = "internal trouble"
        await claimed(world, name, "rpcerr")
        await world.clock.sleep(30)
        await gone(world, "rpcerr")
        driver.broken, driver.skip = "", True
        await claimed(world, name, "omit")
        await world.clock.sleep(13)
        await gone(world, "omit")
        driver.skip, driver.cdi = False, False
        await claimed(world, name, "nocdi")
        await gone(world, "nocdi")
        driver.cdi, driver.requests = True, ("other",)
        await claimed(world, name, "wrongreq")
        await gone(world, "wrongreq")

    pods = ("once", "thrice", "forever", "rpcerr", "omit", "nocdi", "wrongreq")
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

    same(simulate(scenario), Recording("B08-dra-force-delete"), "p", "q", "r", calls=("c", "c2", "c3"))


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
        for index, claim in enumerate(("q-a", "q-b")):
            world.claim(claim, ("g", f"b15{'ab'[index]}.example.com", "gpu-0"))
        pod(world, "q", claims={"a": "q-a", "b": "q-b"})
        await world.clock.sleep(1)
        world.claim("both", ("a", "b15a.example.com", "gpu-1"), ("b", "b15b.example.com", "gpu-1"))
        pod(world, "w", claims={"g": "both"})
        await world.clock.sleep(1)

    recording = Recording("B15-dra-two-drivers")
    recording.calls[4:6] = sorted(recording.calls[4:6])  # which of the two is asked first is chance, and by name here
    same(simulate(scenario), recording, "p", "q", "w")


@pytest.mark.row(49, how="vectors")
def test_b18_and_b19_retries() -> None:
    async def scenario(world: World) -> None:
        driver = await ready_driver(world, "b18.example.com")
        for index in range(4):
            driver.fail[f"p{index}-g"] = ["not yet"] * 3
            await claimed(world, "b18.example.com", f"p{index}", f"gpu-{index}")
        await world.clock.sleep(3 * 75 + 1)

    world, recording = simulate(scenario), Recording("B18-dra-retry-period")
    recording.calls.sort()  # which of the four comes first is chance
    world.calls.sort()
    same(world, recording, "p0", "p1", "p2", "p3")


class Hanging(FakeDriver):
    """Unprepares slowly, too."""

    slow_unprepare_s = 0.0

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        answer = await super().node_unprepare_resources(claims)
        await self.world.clock.sleep(self.slow_unprepare_s)
        return answer


@pytest.mark.row(49, how="vectors")
def test_b05_hangs() -> None:
    async def scenario(world: World) -> None:
        driver = Hanging(world, "b05.example.com")
        await driver.start()
        await ready_driver(world, "b05b.example.com")
        driver.slow_s = driver.slow_unprepare_s = 70
        await claimed(world, "b05b.example.com", "q")
        await claimed(world, "b05.example.com", "p")
        await world.clock.sleep(60)
        world.delete_pod("p")
        await world.clock.sleep(40)
        driver.slow_unprepare_s = 0
        await world.clock.sleep(10)

    same(simulate(scenario), Recording("B05-dra-prepare-hangs"), "p", "q", calls=("p-g", "q-g"))


class DyingDriver(FakeDriver):
    """Dies in the prepare of a claim."""

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.world.calls.append(f"Prepare {claims[0].name}")
        self.kill()
        raise RpcError("Internal", "dead")


@pytest.mark.row(49, how="vectors")
def test_b06_driver_dies() -> None:
    name = "b06.example.com"

    async def scenario(world: World) -> None:
        dying = DyingDriver(world, name)
        await dying.start()
        await world.clock.sleep(2)
        await claimed(world, name, "p")
        (event,) = world.events("FailedPrepareDynamicResources")
        assert "NodePrepareResources: rpc error: code = Unavailable desc = error reading from server" in event
        driver = await ready_driver(world, name)
        await world.clock.sleep(60)
        await claimed(world, name, "q")
        driver.kill()
        await world.clock.sleep(5)

    same(simulate(scenario), Recording("B06-dra-driver-dies"), "p", "q")


@pytest.mark.row(51, how="vectors")
def test_b07_driver_gone() -> None:
    name = "b07.example.com"

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        world.slice(name)
        await claimed(world, name, "p")
        await claimed(world, name, "keep", "gpu-1", "named")
        driver.kill()
        world.delete_pod("p")
        await world.clock.sleep(5)
        await claimed(world, name, "new", "gpu-2")
        await world.clock.sleep(27)
        assert world.slices() == []
        again = FakeDriver(world, name)
        await again.start()
        await world.clock.sleep(100)

    same(simulate(scenario), Recording("B07-dra-driver-gone"), "p", "keep", "new", calls=("p-g", "named", "new-g"))


@pytest.mark.row(49, how="vectors")
def test_b10_not_registered() -> None:
    async def scenario(world: World) -> None:
        await claimed(world, "b10.example.com", "p")
        await world.clock.sleep(25)
        await gone(world, "p")

    same(simulate(scenario), Recording("B10-dra-not-registered"), "p")


@pytest.mark.row(49, how="vectors")
def test_b13_rolling_update() -> None:
    name = "b13.example.com"

    async def scenario(world: World) -> None:
        world.spec_file(f"{name}/dev", *(f"gpu-{index}" for index in range(4)))
        first, second, third = (FakeDriver(world, name, tag=tag) for tag in ("a", "b", "c"))
        await first.start()
        await world.clock.sleep(2)
        await claimed(world, name, "p1", "gpu-0")
        await second.start()
        await world.clock.sleep(2)
        await claimed(world, name, "p2", "gpu-1")
        await first.stop()
        await claimed(world, name, "p3", "gpu-2")
        await gone(world, "p1")
        await third.start()
        await world.clock.sleep(2)
        third.kill()
        await claimed(world, name, "p4", "gpu-0")

    world, recording = simulate(scenario), Recording("B13-dra-rolling-update")
    asked = [call for call in world.calls if not call.startswith(("pod ", "GetInfo"))]
    assert asked == ["Preparea p1-g", "Prepareb p2-g", "Prepareb p3-g", "Unprepareb p1-g", "Prepareb p4-g"]
    world.calls = [re.sub(r"^(Unprepare|Prepare)[abc] ", r"\1 ", call) for call in asked]
    same(world, recording, "p1", "p2", "p3", "p4")


@pytest.mark.row(51, how="vectors")
def test_g08_forced_while_down() -> None:
    name = "g08.example.com"

    async def scenario(world: World) -> None:
        await ready_driver(world, name)
        await claimed(world, name, "p", claim="c")
        await claimed(world, name, "stay", "gpu-1", "stay")
        await world.kubelet.kill()
        world.node_net.kill()
        world.delete_pod("p", 0)
        await world.clock.sleep(2)
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await world.clock.sleep(61)

    same(simulate(scenario), Recording("G08-forced-while-down"), "p", "stay", calls=("c", "stay"))


@pytest.mark.row(11, how="vectors")
@pytest.mark.row(49, how="vectors")
def test_g01_kubelet_restart() -> None:
    back, gone_for_good = "g01back.example.com/dev", "g01gone.example.com/dev"

    async def scenario(world: World) -> None:
        first, second = FakePlugin(world, back, "ba0", "ba1"), FakePlugin(world, gone_for_good, "bb0", "bb1")
        await first.start()
        await second.start()
        await ready_driver(world, "g01.example.com")
        absent = await ready_driver(world, "g01absent.example.com")
        pod(world, "pback", limits={back: "1"})
        pod(world, "pgone", limits={gone_for_good: "1"})
        await world.clock.sleep(1)
        await claimed(world, "g01.example.com", "pforce", "gpu-2", "forced")
        await claimed(world, "g01.example.com", "pdra", "gpu-0", "named")
        await claimed(world, "g01.example.com", "pdel", "gpu-1")
        await claimed(world, "g01absent.example.com", "pabs")
        absent.kill()
        await world.kubelet.kill()
        world.node_net.kill()
        world.delete_pod("pdel")
        world.delete_pod("pforce", 0)
        await world.clock.sleep(2)
        second.kill()
        first.kill()
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await FakePlugin(world, back, "ba0", "ba1").start()
        await world.clock.sleep(6)
        pod(world, "n1", limits={back: "1"})
        pod(world, "n2", limits={gone_for_good: "1"})
        await world.clock.sleep(2)
        world.delete_pod("pabs")
        await world.clock.sleep(4)
        await FakeDriver(world, "g01absent.example.com").start()
        await world.clock.sleep(16)

    pods = ("pback", "pgone", "pdra", "pdel", "pforce", "n1", "n2", "pabs")
    same(simulate(scenario), Recording("G01-kubelet-restart"), *pods)


@pytest.mark.row(49, how="vectors")
def test_b17_admin() -> None:
    async def scenario(world: World) -> None:
        await ready_driver(world, "b17.example.com")
        await claimed(world, "b17.example.com", "p", claim="c")
        await claimed(world, "b17.example.com", "mon", claim="adm")
        await gone(world, "mon")

    same(simulate(scenario), Recording("B17-dra-admin"), "p", "mon")


@pytest.mark.row(50, how="vectors")
def test_b22_answers() -> None:
    """Which devices the container gets by what the driver answers and what the container names."""
    name = "b22.example.com"
    got: dict[str, int] = {}

    async def play(world: World, driver: FakeDriver, pod_name: str, request: str = "", wait_s: float = 1) -> None:
        world.claim(f"{pod_name}-g", ("g", name, "gpu-0"))
        pod(world, pod_name, claims={"g": f"{pod_name}-g"}, request=request)
        await world.clock.sleep(wait_s)
        for state in world.runtime.containers():
            got[pod_name] = len(state.spec["process"]["env"])
        await gone(world, pod_name)

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        await play(world, driver, "normal")
        await play(world, driver, "byrequest", "g")
        driver.cdi = False
        await play(world, driver, "nocdi")
        driver.cdi, driver.requests = True, ("other",)
        await play(world, driver, "wrongreq-claim")
        await play(world, driver, "wrongreq-request", "g")
        driver.requests = ()
        await play(world, driver, "noreq", "g")
        driver.cdi = "not a cdi name"
        await play(world, driver, "badname", wait_s=12)

    world, recording = simulate(scenario), Recording("B22-dra-answer-details")
    same(world, recording, *recording.pods)
    assert got == {"normal": 1, "byrequest": 1, "nocdi": 0, "wrongreq-claim": 1, "wrongreq-request": 0, "noreq": 1}


@pytest.mark.row(49, how="vectors")
def test_b12_health() -> None:
    name = "b12.example.com"

    def report(health: Health, message: str = "", timeout_s: int = 0) -> tuple[DeviceHealth, ...]:
        return (DeviceHealth("node-a", "gpu-0", health, 0, timeout_s, message),)

    async def scenario(world: World) -> None:
        driver = await ready_driver(world, name)
        await claimed(world, name, "p")
        for told in (
            report(Health.HEALTHY),
            report(Health.UNHEALTHY, "XID 79: fell off the bus"),
            report(Health.HEALTHY),
            report(Health.UNKNOWN, "no answer"),
            report(Health.HEALTHY, timeout_s=5),
        ):
            await driver.reports.put(told)
            await world.clock.sleep(1)
        await world.clock.sleep(20)
        await driver.reports.put(report(Health.HEALTHY))
        await world.clock.sleep(12)
        await driver.reports.put((DeviceHealth("elsewhere", "gpu-0", Health.UNHEALTHY, 0),))
        await driver.reports.put(report(Health.UNHEALTHY))
        await world.clock.sleep(1)
        driver.drop = True
        await driver.reports.put(())
        await world.clock.sleep(20)
        driver.drop = False
        await world.clock.sleep(5)
        await driver.reports.put(report(Health.HEALTHY))
        await world.clock.sleep(5)
        driver.kill()
        await world.clock.sleep(80)

    world, recording = simulate(scenario), Recording("B12-dra-health")
    assert world.health_story["p"] == recording.health["p"]


@pytest.mark.row(49, how="vectors")
@pytest.mark.row(11, how="vectors")
def test_g04_node_restart() -> None:
    back, late = "g04back.example.com/dev", "g04late.example.com"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, back, "da0", "da1", "da2")
        await plugin.start()
        await FakePlugin(world, "g04gone.example.com/dev", "db0").start()
        await ready_driver(world, "g04.example.com")
        late_driver = await ready_driver(world, late)
        pod(world, "dpalways", limits={back: "1"})
        pod(world, "dpnever", limits={back: "1"}, policy="Never")
        pod(world, "dpgone", limits={"g04gone.example.com/dev": "1"})
        await world.clock.sleep(1)
        await claimed(world, "g04.example.com", "draalways")
        await claimed(world, "g04.example.com", "dranever", "gpu-1", policy="Never")
        await claimed(world, late, "dralate")
        late_driver.kill()
        world.runtime.power_off()
        await world.kubelet.kill()
        world.node_net.kill()
        await world.clock.sleep(1)
        world.kubelet = world.new_kubelet()
        await world.kubelet.start()
        await plugin.serve()
        await plugin.register()
        await world.clock.sleep(20)
        await FakeDriver(world, late).start()
        await world.clock.sleep(80)
        assert world.pod("dpgone")["status"]["reason"] == "UnexpectedAdmissionError"

    claims = ("draalways-g", "dranever-g", "dralate-g")
    world, recording = simulate(scenario), Recording("G04-node-restart")
    del recording.calls[:2], recording.calls[recording.calls.index("Unprepare dralate-g")]  # an earlier story's end
    pods = ("dpalways", "dpnever", "draalways", "dranever", "dralate")
    same(world, recording, *pods, calls=claims)
