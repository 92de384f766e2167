"""Pieces and replicas of one device change over to the other stack together with it: never while somebody holds one."""

from __future__ import annotations

import pytest
from tests.unit.driver.fakes import CONFIG, Node
from tests.unit.driver.kinds.trees import played, text
from tests.unit.driver.test_handover import with_pods

PIECES = text("partition").split("- name: gpu-1")[0]
WHOLE = PIECES.replace("stack: dra", "stack: device-plugin")
REPLICAS = (
    "discover: {replicas: 3}\ndevices:\n- {name: gpu-0, stack: device-plugin, identity: {uuid: GPU-0}, env: {A: x}}\n"
)
HEAD = text("shared").split("discover:")[0]
SHARED = REPLICAS.replace("device-plugin", "dra, shared: true")


def listed(node: Node) -> list[str]:
    assert node.kube is not None
    return [one["name"] for slice_ in node.kube.slices() for one in slice_["spec"].get("devices", [])]


def offered(node: Node) -> list[str]:
    return [one.id for one in node.kubelet.lists[-1]] if node.kubelet.lists else []


async def change(node: Node, described: str, seconds: float = 30) -> None:
    node.files.write(CONFIG, described.encode())
    await node.clock.advance(seconds)


@pytest.mark.row(66)
@pytest.mark.parametrize("restart", [False, True])
def test_a_whole_does_not_go_to_the_device_plugin_while_a_claim_has_a_piece(restart: bool) -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-0-small-2")
        dra = await node.kubelet.dra()
        assert not (await dra.node_prepare_resources([ref]))[ref.uid].error
        if restart:
            await node.kill()
            node.describe(WHOLE)
            await node.start()
        await change(node, WHOLE)
        assert offered(node) == []
        assert "held by claim team/c" in node.told("handover-refused")[0].text
        await (await node.kubelet.dra()).node_unprepare_resources([ref])
        assert node.kube is not None
        node.kube.objects.pop(("ResourceClaim", "team", "c"))
        await node.clock.advance(60)
        assert offered(node) == ["gpu-0"]
        assert listed(node) == []

    played("partition", scenario, PIECES)


@pytest.mark.parametrize("restart", [False, True])
def test_pieces_are_not_published_while_a_pod_has_the_whole(restart: bool) -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert offered(node) == ["gpu-0"]
        pods = await with_pods(node, "gpu-0")
        if restart:
            await node.kill()
            node.describe(PIECES)
            await node.start()
        await change(node, PIECES)
        assert listed(node) == []
        pods.pods.clear()
        await node.clock.advance(60)
        assert "gpu-0-small-0" in listed(node)
        assert "gpu-0" in listed(node)
        assert offered(node) == []

    played("partition", scenario, WHOLE)


@pytest.mark.parametrize("replica", [0, 1, 2])
def test_a_device_is_not_published_while_a_pod_has_one_of_its_replicas(replica: int) -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert offered(node) == ["gpu-0-0", "gpu-0-1", "gpu-0-2"]
        pods = await with_pods(node, f"gpu-0-{replica}")
        await change(node, HEAD + SHARED)
        assert listed(node) == []
        assert f"it was gpu-0-{replica} before: held by" in node.told("advertised-twice")[0].text
        pods.pods.clear()
        await node.clock.advance(60)
        assert listed(node) == ["gpu-0"]

    played("shared", scenario, HEAD + REPLICAS)
