"""A rehearsal that finds nothing proves nothing: here something is wrong each time, and the right check says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cluster import VirtualClock, run_virtual
from regauge.cluster.kubelet import KubeletOptions
from regauge.driver import Driver, Options
from regauge.features import rules
from regauge.model.kinds import RESOURCE_SLICE
from regauge.pluginapi import ClaimRef, PluginNet, Services
from regauge.rehearsal import rehearsing
from regauge.rehearsal.first_move import first_move
from regauge.rehearsal.nodes import MemoryMachine, NodePlan, NodeWorld, Place, Plugin
from regauge.rehearsal.report import Mode, Recorder, Step
from regauge.rehearsal.samples import NODE, facts_of, load_sample, sample_devices
from regauge.rehearsal.world import TIMINGS, NodeFacts

Change = Callable[[dict[str, Any]], None]
OTHER = "other.example.com"


@dataclass(frozen=True)
class Wrong:
    """What is wrong in one world: the description the driver serves, the drivers beside it, the facts of the node."""

    change: Change = lambda document: None
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    facts: Mapping[tuple[str, str, str], Mapping[str, str]] = field(default_factory=dict)
    driver: Callable[[NodeWorld, bytes], Plugin] = lambda world, description: world.driver_plugin(description)


def changed(change: Change) -> bytes:
    document = yaml.safe_load(sample_devices())
    change(document)
    return yaml.safe_dump(document).encode()


def run(wrong: Wrong) -> list[Step]:
    async def main(clock: VirtualClock) -> list[Step]:
        sample, rules_ = load_sample(), rules("1.36", {})
        world = NodeWorld(
            Mode.SIMULATED, clock, rules_, Random(0), MemoryMachine, lambda name: name.startswith("ACCEL_")
        )
        world.control.start()
        facts = facts_of(sample.description, NODE)
        facts = NodeFacts(facts.identities, {**facts.published, **wrong.facts})
        plugins = {"driver": wrong.driver(world, changed(wrong.change)), **wrong.plugins}
        try:
            await world.add_node(NodePlan(NODE, KubeletOptions(rules=rules_, timings=TIMINGS), plugins, facts))
            recorder = Recorder(clock.monotonic_s, lambda title, step: None)
            await first_move(world, sample, recorder)
        finally:
            await world.stop()
        return recorder.steps

    return run_virtual(main, epoch_s=1_800_000_000.0, limit_s=3600.0)


def failing(wrong: Wrong) -> set[tuple[str, str]]:
    return {(step.name, check.what) for step in run(wrong) for check in step.checks if not check.holds}


def devices(document: dict[str, Any], stack: str) -> list[dict[str, Any]]:
    return [device for device in document["devices"] if device["stack"] == stack]


def test_with_nothing_wrong_nothing_fails() -> None:
    assert failing(Wrong()) == set()


def without_nodes(stack: str) -> Change:
    def change(document: dict[str, Any]) -> None:
        for device in devices(document, stack):
            device.pop("deviceNodes")

    return change


@pytest.mark.row(50, how="unit")
@pytest.mark.parametrize(("stack", "step"), [("device-plugin", "limits"), ("dra", "claim")])
def test_a_container_without_its_device_nodes(stack: str, step: str) -> None:
    found = failing(Wrong(without_nodes(stack)))
    assert (step, "its container finds the device nodes of these devices only") in found


def test_a_container_with_a_node_too_many() -> None:
    def change(document: dict[str, Any]) -> None:
        for device in devices(document, "dra"):
            device["deviceNodes"].append({"path": "/dev/accel99", "hostPath": "/dev/null", "permissions": "rw"})

    assert ("claim", "its container finds the device nodes of these devices only") in failing(Wrong(change))


def test_a_container_with_the_variables_of_another_device() -> None:
    def change(document: dict[str, Any]) -> None:
        for device in devices(document, "dra"):
            device["env"] = {"ACCEL_0": "x"}

    assert ("claim", "its container sees the variables of these devices only") in failing(Wrong(change))


def test_a_device_that_the_driver_does_not_serve() -> None:
    def change(document: dict[str, Any]) -> None:
        document["devices"] = document["devices"][1:]

    found = failing(Wrong(change))
    assert ("node", "the node counts 4 accel.regauge.dev/accelerator") in found


def test_devices_that_swapped_their_stacks() -> None:
    def change(document: dict[str, Any]) -> None:
        first, last = document["devices"][0], document["devices"][-1]
        first["stack"], last["stack"] = last["stack"], first["stack"]

    assert ("ownership", "device-plugin serves what the description gives it") in failing(Wrong(change))


async def publish_again(net: PluginNet, place: Place) -> None:
    """A second driver that publishes a device which the device plugin counts already."""
    await asyncio.sleep(2.0)  # a kubelet that starts removes the slices of drivers that are not there
    slice_ = {
        "metadata": {"name": "again"},
        "spec": {
            "driver": OTHER,
            "nodeName": place.node,
            "pool": {"name": place.node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "zero"}],
        },
    }
    await place.kube.create(RESOURCE_SLICE, slice_)
    await asyncio.Event().wait()


@pytest.mark.row(208, how="unit")
@pytest.mark.row(234, how="unit")
def test_a_device_on_both_stacks() -> None:
    identity = facts_of(load_sample().description, NODE).identities["accel.regauge.dev/accelerator", "accel-0"]

    async def slow(world: NodeWorld, net: PluginNet, place: Place, description: bytes) -> None:
        await asyncio.sleep(3.0)  # so that both are there when the node is first looked at
        await world.driver_plugin(description)(net, place)

    def driver(world: NodeWorld, description: bytes) -> Plugin:
        return lambda net, place: slow(world, net, place, description)

    wrong = Wrong(plugins={"other": publish_again}, facts={(OTHER, NODE, "zero"): identity}, driver=driver)
    found = failing(wrong)
    assert ("ownership", "no device is advertised twice") in found
    assert not any(step in ("limits", "claim", "move") for step, _ in found)


class NeverUnprepares:
    """The DRA service of a driver whose unprepare always fails."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def node_unprepare_resources(self, claims: list[ClaimRef]) -> dict[str, str]:
        return {claim.uid: "busy" for claim in claims}


class Net:
    """A net on which DRA services are broken."""

    def __init__(self, inner: PluginNet) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def serve(self, address: str, services: Services) -> Any:
        broken = replace(services, dra=NeverUnprepares(services.dra)) if services.dra is not None else services
        return await self._inner.serve(address, broken)


@pytest.mark.row(51, how="unit")
def test_claims_that_are_never_given_back() -> None:
    def driver(world: NodeWorld, description: bytes) -> Plugin:
        inner = world.driver_plugin(description)
        return lambda net, place: inner(Net(net), place)  # type: ignore[arg-type]  # what it lacks it hands on

    assert ("release", "no pod, claim or held device is left within 40 s") in failing(Wrong(driver=driver))


def test_a_driver_that_does_not_come_back() -> None:
    starts: list[int] = []

    def driver(world: NodeWorld, description: bytes) -> Plugin:
        inner = world.driver_plugin(description)

        async def once(net: PluginNet, place: Place) -> None:
            starts.append(1)
            if len(starts) > 1:
                await asyncio.Event().wait()
            await inner(net, place)

        return once

    found = failing(Wrong(driver=driver))
    assert ("driver-restart", "both stacks are served again within 30 s") in found


def test_a_driver_that_comes_back_with_other_devices() -> None:
    starts: list[int] = []

    def driver(world: NodeWorld, description: bytes) -> Plugin:
        def other(document: dict[str, Any]) -> None:
            for device in devices(document, "dra"):
                device["name"] += "-renamed"

        async def again(net: PluginNet, place: Place) -> None:
            starts.append(1)
            served = description if len(starts) == 1 else changed(other)
            config = f"{place.kubelet_dir}/devices.yaml"
            place.files.write(config, served)
            options = Options(
                config=config,
                node_name=place.node,
                host=place.host,
                boot_id="one",
                kubelet_dir=place.kubelet_dir,
                cdi_dir=place.cdi_dir,
            )
            await Driver(options, net, place.kube, place.files, world.clock, world._registrations.hear).run()

        return again

    assert any(step == "driver-restart" for step, _ in failing(Wrong(driver=driver)))


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_program_says_so_and_ends_with_one(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.setattr(rehearsing, "sample_devices", lambda: changed(without_nodes("dra")))
    done = CliRunner().invoke(app, ["rehearse", "--simulated", "-o", output])
    assert done.exit_code == 1
    if output == "json":
        assert '"holds": false' in done.stdout
    else:
        assert "The move does NOT hold: Workload B runs by ResourceClaim" in done.stdout
        assert "FAIL Workload B runs by ResourceClaim" in done.stderr
