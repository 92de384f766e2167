"""The device plugin stack of the driver in memory."""

from __future__ import annotations

import pytest
from tests.unit.driver.fakes import CDI, RESOURCE, Node, description, device, run, settle

from regauge.pluginapi import PluginDevice, PreferredAllocationRequest, RpcError


@pytest.mark.row(9)
@pytest.mark.row(10)
@pytest.mark.row(191)
def test_the_device_plugin_registers_and_lists_its_half() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert [request.resource_name for request in node.kubelet.registered] == [RESOURCE]
        assert node.kubelet.registered[0].version == "v1beta1"
        assert node.kubelet.lists == [(PluginDevice("gpu-0", "Healthy", (0,)), PluginDevice("gpu-1", "Healthy", (0,)))]

    run(scenario)


@pytest.mark.row(14)
@pytest.mark.row(18)
@pytest.mark.row(195)
def test_allocate_answers_cdi_names_that_a_spec_defines() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        plugin = await node.kubelet.plugin()
        (answer,) = await plugin.allocate([["gpu-1"]])
        assert answer.cdi_devices == ("example.com/gpu=gpu-1",)
        assert (answer.devices, answer.mounts, dict(answer.envs)) == ((), (), {})
        spec = node.files.read(f"{CDI}/example.com-gpu.yaml").decode()
        assert "cdiVersion: 0.3.0" in spec
        assert "GPU_GPU_1=gpu-1" in spec
        assert "gpu-2" not in spec
        for bad, why in (("gpu-2", "not served by the device plugin"), ("gpu-9", "not on this node")):
            with pytest.raises(RpcError, match=why):
                await plugin.allocate([[bad]])

    run(scenario)


@pytest.mark.row(15)
@pytest.mark.row(16)
@pytest.mark.row(17)
def test_classic_fields_say_the_same_as_the_spec() -> None:
    async def scenario(node: Node) -> None:
        extra = "  mounts: [{hostPath: /opt/lib, containerPath: /lib/gpu}]\n"
        node.describe(
            description(
                device("gpu-0", "device-plugin", extra), device("gpu-1", "dra"), top="devicePlugin: {answer: both}"
            )
        )
        await node.start()
        (answer,) = await (await node.kubelet.plugin()).allocate([["gpu-0"]])
        assert answer.cdi_devices == ("example.com/gpu=gpu-0",)
        assert dict(answer.envs) == {"GPU_GPU_0": "gpu-0"}
        assert [(d.container_path, d.host_path, d.permissions) for d in answer.devices] == [
            ("/dev/null", "/dev/null", "rw")
        ]
        assert [(m.container_path, m.host_path, m.read_only) for m in answer.mounts] == [("/lib/gpu", "/opt/lib", True)]

    run(scenario)


@pytest.mark.row(196)
def test_preferred_allocation_is_asked_of_the_plugin() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        plugin = await node.kubelet.plugin()
        assert (await plugin.get_options()).get_preferred_allocation_available
        wish = PreferredAllocationRequest(("gpu-1", "gpu-0"), ("gpu-1",), 2)
        assert await plugin.get_preferred_allocation([wish]) == (("gpu-1", "gpu-0"),)

    run(scenario)


@pytest.mark.row(197)
def test_pre_start_is_asked_for_only_when_described_and_refuses_a_broken_device() -> None:
    async def scenario(node: Node) -> None:
        node.describe(
            description(
                device("gpu-0", "device-plugin", "  healthFile: /run/gpu-0\n"), top="devicePlugin: {preStart: true}"
            )
        )
        await node.start()
        plugin = await node.kubelet.plugin()
        assert (await plugin.get_options()).pre_start_required
        await plugin.pre_start_container(["gpu-0"])
        node.files.make_directory("/run")
        node.files.write("/run/gpu-0", b"fell off the bus")
        await node.clock.advance(2)
        with pytest.raises(RpcError, match="fell off the bus"):
            await plugin.pre_start_container(["gpu-0"])

    run(scenario)


@pytest.mark.row(10)
@pytest.mark.row(198)
def test_a_kubelet_that_starts_again_finds_the_plugin_again() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        await node.kubelet.stop()
        await settle()
        await node.kubelet.start()
        await settle()
        await node.clock.advance(1)
        assert len(node.kubelet.registered) == 2
        assert node.kubelet.lists[-1][0].id == "gpu-0"
        assert (await (await node.kubelet.plugin()).allocate([["gpu-0"]]))[0].cdi_devices

    run(scenario)


def test_a_kubelet_that_refuses_is_asked_again() -> None:
    async def scenario(node: Node) -> None:
        node.kubelet.refuse = "not now"
        await node.start()
        await node.clock.advance(0.5)
        assert node.told("register-failed")
        node.kubelet.refuse = ""
        await node.clock.advance(1)
        assert len(node.kubelet.registered) == 1

    run(scenario)


def test_a_list_that_the_kubelet_hung_up_is_registered_again() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        node.kubelet.tasks[-1].cancel()
        await settle()
        await node.clock.advance(1)
        assert len(node.kubelet.registered) == 2

    run(scenario)


def test_a_kubelet_that_keeps_hanging_up_is_met_ever_more_slowly() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        for _ in range(600):
            node.kubelet.tasks[-1].cancel()
            await node.clock.advance(0.5)
        assert 8 <= len(node.kubelet.registered) <= 16

    run(scenario)
