"""A device that somebody else on the node advertises is held back, and told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.driver.fakes import DRIVER, FOUR, KUBELET, RESOURCE, Node, device, run
from tests.unit.driver.test_handover import Pods, listed, published

from regauge.kube import ServerUnavailable
from regauge.model.kinds import DEVICE_CLASS, RESOURCE_SLICE
from regauge.pluginapi import ContainerDevices, Services


def foreign(node: Node, where: str, **attributes: str) -> None:
    assert node.kube is not None
    values = {name: {"string": value} for name, value in attributes.items()}
    spec: dict[str, Any] = {
        "driver": "gpu.vendor.com",
        "pool": {"name": where, "generation": 1, "resourceSliceCount": 1},
        "nodeName": where,
        "devices": [{"name": "theirs", "attributes": values}],
    }
    node.kube.put(RESOURCE_SLICE, f"foreign-{where}", spec=spec)


def test_a_neighbour_with_devices_of_its_own_disturbs_nobody() -> None:
    async def scenario(node: Node) -> None:
        foreign(node, "n1", uuid="GPU-gpu-7", model="A100")
        await node.start()
        assert listed(node) == ["gpu-0", "gpu-1"]
        assert node.told("advertised-twice") == []

    run(scenario)


@pytest.mark.row(84)
@pytest.mark.parametrize("ours", ["gpu-0", "gpu-2"])
def test_the_same_uuid_under_any_attribute_is_the_same_device_and_waits(ours: str) -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        foreign(node, "n1", serial=f"gpu-{ours}".upper())
        foreign(node, "n2", serial="GPU-gpu-1")  # another node's business
        await node.start()
        assert {*listed(node), *published(node)} == {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "theirs"} - {ours}
        (notice,) = node.told("advertised-twice")
        assert notice.about == ours
        assert "gpu.vendor.com publishes it as theirs (pool n1)" in notice.text
        node.kube.remove(RESOURCE_SLICE, "foreign-n1")
        await node.clock.advance(11)
        assert {*listed(node), *published(node)} == {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "theirs"}

    run(scenario)


@pytest.mark.row(84)
def test_another_device_plugin_that_has_it() -> None:
    class Kubelet(Pods):
        entries: tuple[ContainerDevices, ...] = (
            ContainerDevices("vendor.com/gpu", ("GPU-gpu-1",)),
            ContainerDevices(RESOURCE, ("gpu-0",)),
        )

        async def get_allocatable_resources(self) -> tuple[ContainerDevices, ...]:
            return self.entries

    async def scenario(node: Node) -> None:
        await node.net.serve(f"{KUBELET}/pod-resources/kubelet.sock", Services(pod_resources=Kubelet()))
        await node.start()
        assert listed(node) == ["gpu-0"]
        assert "a device plugin offers it as GPU-gpu-1 of vendor.com/gpu" in node.told("advertised-twice")[0].text

    run(scenario)


def test_one_that_was_ours_before_stays_ours() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        await node.kill()
        foreign(node, "n1", uuid="GPU-gpu-0")
        await node.start()
        assert listed(node) == ["gpu-0", "gpu-1"]

    run(scenario)


def test_a_new_device_is_looked_at_too() -> None:
    async def scenario(node: Node) -> None:
        node.describe(FOUR[: FOUR.index("- name: gpu-3")])
        await node.start()
        foreign(node, "n1", uuid="GPU-gpu-3")
        node.describe(FOUR)
        await node.clock.advance(30)
        assert "gpu-3" not in published(node)
        assert node.told("advertised-twice")

    run(scenario)


def test_what_cannot_be_seen_is_said() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.kube.fail = {"list": ServerUnavailable("connection refused")}
        await node.start()
        texts = " ".join(notice.text for notice in node.told("unseen"))
        assert "the slices of other drivers cannot be seen" in texts
        assert "the devices of other device plugins cannot be seen" in texts
        assert listed(node) == ["gpu-0", "gpu-1"]

    run(scenario)


def serve(node: Node, name: str, resource: str, expression: str = "") -> None:
    assert node.kube is not None
    selectors = [{"cel": {"expression": expression}}] if expression else []
    node.kube.put(DEVICE_CLASS, name, spec={"extendedResourceName": resource, "selectors": selectors})


@pytest.mark.row(262, how="unit")
def test_what_a_class_with_the_plugins_resource_name_selects_is_held_back() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        serve(node, "other", "vendor.com/gpu")
        serve(node, "gpus", RESOURCE, f'device.attributes["{DRIVER}"].uuid == "GPU-gpu-3"')
        await node.start()
        assert listed(node) == ["gpu-0", "gpu-1"]
        assert published(node) == ["gpu-2"]
        (notice,) = node.told("resource-name-twice")
        assert notice.text.startswith(f"DeviceClass gpus serves {RESOURCE} by claims")
        (held,) = node.told("advertised-twice")
        assert held.about == "gpu-3"
        assert f"DeviceClass gpus gives it to pods that ask for {RESOURCE}" in held.text
        node.kube.remove(DEVICE_CLASS, "gpus")
        await node.clock.advance(11)
        assert published(node) == ["gpu-2", "gpu-3"]

    run(scenario)


@pytest.mark.row(262, how="unit")
def test_a_name_that_another_driver_serves_by_claims_here_is_not_served_by_the_plugin() -> None:
    async def scenario(node: Node) -> None:
        foreign(node, "n1", model="B200")
        serve(node, "gpus", RESOURCE, 'device.driver == "gpu.vendor.com"')
        await node.start()
        assert node.kubelet.registered == []
        assert {one.about for one in node.told("advertised-twice")} == {"gpu-0", "gpu-1"}
        assert (
            "serves example.com/gpu on this node by theirs of gpu.vendor.com" in node.told("advertised-twice")[0].text
        )

    run(scenario)


def test_a_name_that_is_served_by_claims_on_another_node_disturbs_nobody() -> None:
    async def scenario(node: Node) -> None:
        foreign(node, "n2", model="B200")
        serve(node, "gpus", RESOURCE, 'device.driver == "gpu.vendor.com"')
        await node.start()
        assert listed(node) == ["gpu-0", "gpu-1"]

    run(scenario)


def test_a_device_is_not_handed_over_into_a_clash_and_all_of_them_are() -> None:
    async def scenario(node: Node) -> None:
        await node.net.serve(f"{KUBELET}/pod-resources/kubelet.sock", Services(pod_resources=Pods()))
        await node.start()
        serve(node, "gpus", RESOURCE)
        node.describe(FOUR.replace(device("gpu-1", "device-plugin"), device("gpu-1", "dra")))
        await node.clock.advance(30)
        assert listed(node) == ["gpu-0", "gpu-1"]
        assert "DeviceClass gpus gives it to pods" in node.told("handover-refused")[0].text
        node.describe(FOUR.replace("stack: device-plugin", "stack: dra"))
        await node.clock.advance(60)
        assert published(node) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]

    run(scenario)


def test_a_class_that_cannot_be_evaluated_is_unknown_and_not_fine() -> None:
    async def scenario(node: Node) -> None:
        serve(node, "gpus", RESOURCE, 'device.attributes["x"].y == 1')
        await node.start()
        texts = [notice.text for notice in node.told("unseen")]
        assert any("what DeviceClass gpus selects cannot be seen, so whether they overlap" in text for text in texts)

    run(scenario)
