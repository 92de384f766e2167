"""Stories of device plugins, recorded with a real kubelet and played on ours: the same calls, the same moments of pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cluster.kubelet.playing import gone, pod, same
from tests.unit.cluster.kubelet.recorded import Recording
from tests.unit.cluster.kubelet.world import FakePlugin, World, simulate

from regauge.pluginapi import (
    ContainerAllocateResponse,
    DevicePluginOptions,
    DeviceSpec,
    RpcError,
)


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


def beside(spec: dict[str, Any], limits: dict[str, str]) -> None:
    """A second container with limits of its own."""
    spec["containers"].append({"name": "d", "image": "i", "resources": {"limits": limits, "requests": limits}})


@pytest.mark.row(14, how="vectors")
def test_a02_allocate() -> None:
    resource = "a02.example.com/dev"
    two = {resource: "2"}

    async def scenario(world: World) -> None:
        options = DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        plugin = FakePlugin(world, resource, *(f"w{index}" for index in range(6)), options=options)
        plugin.prefer = ("w4", "w5")
        await plugin.start()
        await world.clock.sleep(4)
        pod(world, "classic", limits=two)
        await world.clock.sleep(1)
        pod(world, "cdi", limits=two)
        await world.clock.sleep(1)
        await gone(world, "classic")
        await gone(world, "cdi")
        pod(world, "init", limits=two, init_limits=two)
        await world.clock.sleep(1)
        await gone(world, "init")
        pod(world, "two", limits={resource: "1"}, shape=lambda spec: beside(spec, {resource: "2"}))
        await world.clock.sleep(1)
        await gone(world, "two")
        for name, prefer in (("pref3", ("w1", "w2", "w3")), ("prefx", ("nobody",))):
            plugin.prefer = prefer
            pod(world, name, limits={resource: "1"})
            await world.clock.sleep(1)
            await gone(world, name)
        plugin.fail["GetPreferredAllocation"] = "no preference today"
        pod(world, "prefe", limits={resource: "1"})
        await world.clock.sleep(5)
        await gone(world, "prefe")
        plugin.fail.clear()
        annotations = {"regauge.dev/run-seconds": "2.5", "regauge.dev/exit-code": "1"}
        world.run_pod("rst", limits={resource: "1"}, annotations=annotations)
        await world.clock.sleep(2.5 + 2.5 + 10 + 1)

    world, recording = simulate(scenario), Recording("A02-dp-allocate")
    recording.pods["rst"] = recording.pods["rst"][:8]  # its end is not played
    same(world, recording, "classic", "cdi", "init", "two", "pref3", "prefx", "prefe", "rst")


@pytest.mark.row(14, how="vectors")
def test_a07_too_many() -> None:
    resource = "a07.example.com/dev"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0", "w1")
        await plugin.start()
        await world.clock.sleep(4)
        pod(world, "direct", limits={resource: "3"})
        await world.clock.sleep(3)
        pod(world, "race", limits={resource: "2"})
        await world.clock.sleep(0.1)
        plugin.list(("w0", "Healthy"))
        await world.clock.sleep(4)
        pod(world, "unknown", limits={"a07.example.com/never": "1"})
        await world.clock.sleep(3)
        await gone(world, "unknown")

    same(simulate(scenario), Recording("A07-dp-too-many"), "direct", "race", "unknown")


@pytest.mark.row(11, how="vectors")
def test_a12_removed_for_good() -> None:
    resource = "a12.example.com/dev"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0", "w1")
        await plugin.start()
        await world.clock.sleep(4)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        plugin.kill()
        await world.clock.sleep(310)
        pod(world, "q", limits={resource: "1"})
        await world.clock.sleep(4)
        assert f"cannot allocate unregistered device {resource}" in world.pod("q")["status"]["message"]

    same(simulate(scenario), Recording("A12-dp-removed-for-good"), "p", "q")


@pytest.mark.row(14, how="vectors")
def test_a05_reregister() -> None:
    resource = "a05.example.com/dev"
    both = DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0", "w1")
        await plugin.start()
        await world.clock.sleep(3)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        plugin.options = both
        await plugin.register(options=both)
        await world.clock.sleep(3)
        pod(world, "q", limits={resource: "1"})
        await world.clock.sleep(1)
        await gone(world, "q")
        plugin.options = DevicePluginOptions()
        await plugin.register(options=both)
        await world.clock.sleep(2)
        pod(world, "q2", limits={resource: "1"})
        await world.clock.sleep(1)

    same(simulate(scenario), Recording("A05-dp-reregister"), "p", "q", "q2")


@pytest.mark.row(14, how="vectors")
def test_a11_two_of_one_name() -> None:
    resource = "a11.example.com/dev"

    async def scenario(world: World) -> None:
        one, two = FakePlugin(world, resource, "a0", "a1"), FakePlugin(world, resource, "b0")
        await one.start()
        await world.clock.sleep(2)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(1)
        await two.serve_at("two.sock")
        await two.register(endpoint="two.sock")
        await world.clock.sleep(5)
        pod(world, "q", limits={resource: "1"})
        await world.clock.sleep(1)
        two.kill()
        await world.clock.sleep(6)
        assert world.node_counts(resource)[1] == "0"

    same(simulate(scenario), Recording("A11-dp-two-same-name"), "p", "q")


@pytest.mark.row(11, how="vectors")
def test_a13_stream_ends() -> None:
    resource = "a13.example.com/dev"

    async def scenario(world: World) -> None:
        plugin = FakePlugin(world, resource, "w0")
        await plugin.start()
        await world.clock.sleep(6)
        plugin.end()
        await world.clock.sleep(8)
        pod(world, "p", limits={resource: "1"})
        await world.clock.sleep(3)
        plugin.ending = None
        await plugin.register()
        await world.clock.sleep(6)
        assert world.node_counts(resource) == ("1", "1")

    same(simulate(scenario), Recording("A13-dp-stream-end"), "p")
