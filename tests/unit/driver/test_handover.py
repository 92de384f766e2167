"""A device goes from one stack to the other only when nobody holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.unit.driver.fakes import FOUR, KUBELET, RESOURCE, Node, run

from regauge.model.kinds import RESOURCE_CLAIM
from regauge.pluginapi import ContainerDevices, ContainerResources, PodResources, RpcError, Services

MOVED = FOUR.replace("stack: device-plugin", "stack: dra", 1)
BACK = FOUR.replace("stack: dra", "stack: device-plugin", 1)


class Pods:
    """The kubelet's pod resources."""

    def __init__(self) -> None:
        self.pods: list[PodResources] = []

    async def list(self) -> tuple[PodResources, ...]:
        return tuple(self.pods)

    async def get(self, namespace: str, name: str) -> PodResources:
        raise RpcError("NotFound", name)

    async def get_allocatable_resources(self) -> Sequence[ContainerDevices]:
        return ()


async def with_pods(node: Node, *held: str) -> Pods:
    pods = Pods()
    if held:
        pods.pods.append(PodResources("web", "team", (ContainerResources("c", (ContainerDevices(RESOURCE, held),)),)))
    await node.net.serve(f"{KUBELET}/pod-resources/kubelet.sock", Services(pod_resources=pods))  # type: ignore[arg-type]
    return pods


def listed(node: Node) -> list[str]:
    return [one.id for one in node.kubelet.lists[-1]]


def published(node: Node) -> list[str]:
    assert node.kube is not None
    return [one["name"] for slice_ in node.kube.slices() for one in slice_["spec"].get("devices", [])]


@pytest.mark.row(84)
def test_a_free_device_goes_to_claims_and_is_never_in_both() -> None:
    async def scenario(node: Node) -> None:
        await with_pods(node)
        await node.start()
        node.describe(MOVED)
        both = False
        for _ in range(100):
            await node.clock.advance(0.1)
            both = both or bool(set(listed(node)) & set(published(node)))
        assert not both
        assert listed(node) == ["gpu-1"]
        assert published(node) == ["gpu-0", "gpu-2", "gpu-3"]
        assert node.told("handed-over")[0].text == "from device-plugin to dra"
        ref = node.claim("c", "gpu-0")
        assert (await (await node.kubelet.dra()).node_prepare_resources([ref]))["uid-c"].error == ""

    run(scenario)


def test_a_device_that_a_pod_holds_stays_until_the_pod_is_gone() -> None:
    async def scenario(node: Node) -> None:
        pods = await with_pods(node, "gpu-0")
        await node.start()
        node.describe(MOVED)
        await node.clock.advance(60)
        (notice,) = node.told("handover-refused")
        assert notice.text.startswith("not handed to dra: held by pod team/web, container c")
        assert (listed(node), published(node)) == (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"])
        pods.pods.clear()
        await node.clock.advance(30)
        assert (listed(node), published(node)) == (["gpu-1"], ["gpu-0", "gpu-2", "gpu-3"])

    run(scenario)


def test_who_holds_it_is_unknown_so_it_stays() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        node.describe(MOVED)
        await node.clock.advance(30)
        assert "is unknown: neither the kubelet's pod resources socket nor" in node.told("handover-refused")[0].text
        assert listed(node) == ["gpu-0", "gpu-1"]

    run(scenario)


@pytest.mark.parametrize(("held", "moves"), [("gpu-0", False), ("gpu-1", True)])
def test_the_kubelets_checkpoint_is_asked_when_there_is_no_socket(held: str, moves: bool) -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        entry: dict[str, Any] = {
            "PodUID": "p",
            "ContainerName": "c",
            "ResourceName": RESOURCE,
            "DeviceIDs": {"-1": [held]},
        }
        document = {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1}
        path = f"{KUBELET}/device-plugins/kubelet_internal_checkpoint"
        node.files.write(path, msgspec.json.encode(document))
        node.describe(MOVED)
        await node.clock.advance(30)
        assert ("gpu-0" in published(node)) == moves

    run(scenario)


def test_a_claim_holds_a_device_from_its_allocation_to_its_unprepare() -> None:
    async def scenario(node: Node) -> None:
        await with_pods(node)
        await node.start()
        assert node.kube is not None
        ref = node.claim("c", "gpu-2")
        node.describe(BACK)
        await node.clock.advance(30)
        assert "held by claim team/c, allocated" in node.told("handover-refused")[-1].text
        dra = await node.kubelet.dra()
        await dra.node_prepare_resources([ref])
        node.kube.objects.pop(("ResourceClaim", "team", "c"))
        await node.clock.advance(30)
        assert "prepared here" in node.told("handover-refused")[-1].text
        assert (listed(node), published(node)) == (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"])
        await dra.node_unprepare_resources([ref])
        await node.clock.advance(30)
        assert (listed(node), published(node)) == (["gpu-0", "gpu-1", "gpu-2"], ["gpu-3"])
        plugin = await node.kubelet.plugin()
        assert (await plugin.allocate([["gpu-2"]]))[0].cdi_devices == ("example.com/gpu=gpu-2",)
        assert b"gpu-2" in node.files.read("/var/run/cdi/example.com-gpu.yaml")

    run(scenario)


def test_an_allocation_that_comes_while_it_is_withdrawn_gives_it_back() -> None:
    async def scenario(node: Node) -> None:
        await with_pods(node)
        await node.start()
        node.describe(BACK)
        for _ in range(60):
            await node.clock.advance(0.1)
            if "gpu-2" not in published(node):
                break
        assert listed(node) == ["gpu-0", "gpu-1"]
        node.claim("c", "gpu-2")
        await node.clock.advance(6)
        assert published(node) == ["gpu-2", "gpu-3"]
        assert listed(node) == ["gpu-0", "gpu-1"]

    run(scenario)


def test_a_description_that_changed_while_the_driver_was_away_changes_nothing_at_once() -> None:
    async def scenario(node: Node) -> None:
        pods = await with_pods(node, "gpu-0")
        await node.start()
        await node.kill()
        node.describe(MOVED)
        await node.start()
        await node.clock.advance(5)
        assert (listed(node), published(node)) == (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"])
        pods.pods.clear()
        await node.clock.advance(30)
        assert (listed(node), published(node)) == (["gpu-1"], ["gpu-0", "gpu-2", "gpu-3"])

    run(scenario)


def test_killed_on_the_way_a_device_is_where_it_was() -> None:
    async def scenario(node: Node) -> None:
        await with_pods(node)
        await node.start()
        node.describe(MOVED)
        await node.clock.advance(3)
        assert listed(node) == ["gpu-1"]
        assert "gpu-0" not in published(node)
        await node.kill()
        await node.start()
        await node.clock.advance(0.1)
        assert (listed(node), published(node)) in (
            (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"]),
            (["gpu-1"], ["gpu-2", "gpu-3"]),
        )
        await node.clock.advance(30)
        assert (listed(node), published(node)) == (["gpu-1"], ["gpu-0", "gpu-2", "gpu-3"])

    run(scenario)


def test_a_device_left_out_while_a_claim_holds_it_can_still_be_released() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-3")
        dra = await node.kubelet.dra()
        await dra.node_prepare_resources([ref])
        node.describe(FOUR[: FOUR.index("- name: gpu-3")])
        await node.clock.advance(5)
        assert published(node) == ["gpu-2"]
        other = node.claim("other", "gpu-3")
        assert (await dra.node_prepare_resources([other]))["uid-other"].error
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}
        assert [name for name in node.spec_names() if "_" in name] == []

    run(scenario)


RENAMED = FOUR.replace("name: gpu-3", "name: new-3").replace("name: gpu-1", "name: new-1")


def test_a_device_that_is_held_is_not_advertised_under_another_name() -> None:
    async def scenario(node: Node) -> None:
        pods = await with_pods(node, "gpu-1")
        await node.start()
        ref = node.claim("c", "gpu-3")
        dra = await node.kubelet.dra()
        await dra.node_prepare_resources([ref])
        node.describe(RENAMED)
        await node.clock.advance(15)
        assert (listed(node), published(node)) == (["gpu-0"], ["gpu-2"])
        texts = {notice.about: notice.text for notice in node.told("advertised-twice")}
        assert "it was gpu-1 before: held by pod team/web" in texts["new-1"]
        assert "it was gpu-3 before: held by claim team/c" in texts["new-3"]
        await node.kill()
        await node.start()
        await node.clock.advance(15)
        assert (listed(node), published(node)) == (["gpu-0"], ["gpu-2"])
        pods.pods.clear()
        dra = await node.kubelet.dra()
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}
        node.kube.remove(RESOURCE_CLAIM, "c", "team")  # type: ignore[union-attr]
        await node.clock.advance(30)
        assert (listed(node), published(node)) == (["gpu-0", "new-1"], ["gpu-2", "new-3"])

    run(scenario)


@pytest.mark.parametrize("described", [MOVED, BACK])
def test_who_chose_a_device_just_before_it_was_withdrawn_is_served_and_it_stays(described: str) -> None:
    async def scenario(node: Node) -> None:
        pods = await with_pods(node)
        await node.start()
        ref = node.claim("late", "gpu-2")
        node.kube.objects.pop(("ResourceClaim", "team", "late"))  # type: ignore[union-attr]
        node.describe(described)
        await node.clock.advance(3)
        assert node.told("handed-over") == []
        if described is MOVED:
            assert listed(node) == ["gpu-1"]
            assert (await (await node.kubelet.plugin()).allocate([["gpu-0"]]))[0].cdi_devices
            assert b"gpu-0" in node.files.read("/var/run/cdi/example.com-gpu.yaml")
            devices = ContainerDevices(RESOURCE, ("gpu-0",))
            pods.pods.append(PodResources("web", "team", (ContainerResources("c", (devices,)),)))
        else:
            assert published(node) == ["gpu-3"]
            node.claim("late", "gpu-2")
            assert (await (await node.kubelet.dra()).node_prepare_resources([ref]))["uid-late"].error == ""
        await node.clock.advance(15)
        assert (listed(node), published(node)) == (["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"])
        assert node.told("handover-refused")

    run(scenario)


def test_an_api_server_that_hangs_keeps_no_claim_from_being_released() -> None:
    """What the handover asks of others is asked before it takes its turn."""

    async def hanging(*arguments: Any, **options: Any) -> Any:
        await asyncio.Event().wait()

    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.describe(FOUR[: FOUR.index("- name: gpu-3")])
        await node.start()
        ref = node.claim("c", "gpu-2")
        dra = await node.kubelet.dra()
        assert (await dra.node_prepare_resources([ref]))["uid-c"].devices
        node.kube.list = hanging  # type: ignore[method-assign]
        node.describe(FOUR)
        await node.clock.advance(20)
        async with asyncio.timeout(5):
            assert (await dra.node_prepare_resources([ref]))["uid-c"].devices
            assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}

    run(scenario)


def test_a_release_is_looked_at_only_while_a_device_waits_for_it() -> None:
    """Otherwise each would cost the time that all devices of the node take."""
    read: list[str] = []

    class Watched:
        def __init__(self, files: Any) -> None:
            self._files = files

        def read(self, path: str) -> Any:
            read.append(path)
            return self._files.read(path)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._files, name)

    async def scenario(node: Node) -> None:
        await with_pods(node)
        await node.start(Watched)
        dra = await node.kubelet.dra()
        for description, looks in ((FOUR, False), (BACK, True)):
            ref = node.claim("c", "gpu-2")
            await dra.node_prepare_resources([ref])
            node.describe(description)
            await node.clock.advance(15)
            read.clear()
            await dra.node_unprepare_resources([ref])
            await node.clock.advance(0.1)
            assert any(path.endswith("example.com-gpu.yaml") for path in read) is looks

    run(scenario)
