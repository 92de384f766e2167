"""Shared devices: amounts by claim, replicas by device plugin."""

from __future__ import annotations

import pytest
from tests.unit.driver.fakes import CDI, Node
from tests.unit.driver.kinds.trees import Kind, played, text

from regauge.base import InputError
from regauge.driver.slices import device_document


@pytest.mark.row(65)
def test_a_shared_device_publishes_what_a_claim_may_ask_for() -> None:
    document = device_document(Kind("shared").discover()["nic-0"])
    assert document["allowMultipleAllocations"] is True
    assert document["capacity"] == {
        "bandwidth": {
            "value": "40G",
            "requestPolicy": {"default": "1G", "validRange": {"min": "1G", "max": "10G", "step": "500M"}},
        },
        "queues": {"value": "64", "requestPolicy": {"default": "4", "validValues": ["4", "8", "16"]}},
    }


def test_the_device_plugin_offers_replicas_with_one_identity() -> None:
    found = Kind("shared").discover()
    assert [name for name in found if name.startswith("gpu")] == ["gpu-0-0", "gpu-0-1", "gpu-0-2"]
    assert [found[f"gpu-0-{i}"].identity.uuid for i in range(3)] == [
        "GPU-shared-0",
        "GPU-shared-0::1",
        "GPU-shared-0::2",
    ]
    assert list(Kind("shared", text("shared").replace("{replicas: 3}", "{}")).discover()) == ["nic-0", "gpu-0"]


@pytest.mark.row(65)
def test_two_claims_get_their_parts_and_are_told_how_much() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        dra = await node.kubelet.dra()
        for name, amount in (("a", "1G"), ("b", "10G")):
            ref = node.claim(name, "nic-0", shareID=f"share-{name}", consumedCapacity={"bandwidth": amount})
            result = (await dra.node_prepare_resources([ref]))[ref.uid]
            assert not result.error
            assert result.devices[0].share_id == f"share-{name}"
            assert (
                f"SHARE_NIC_0_BANDWIDTH={amount}" in node.files.read(f"{CDI}/example.com-gpu_uid-{name}.yaml").decode()
            )
        await node.kill()
        node.files.remove(f"{CDI}/example.com-gpu_uid-b.yaml")
        await node.start()
        ref = node.claim("b", "nic-0", shareID="share-b", consumedCapacity={"bandwidth": "10G"})
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        assert b"SHARE_NIC_0_BANDWIDTH=10G" in node.files.read(f"{CDI}/example.com-gpu_uid-b.yaml")

    played("shared", scenario)


@pytest.mark.row(65)
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("shared: true\n", "shared: false\n", "only a device that is shared is given out in parts"),
        ("value: 40G, ", "", "bandwidth.value: it is missing"),
        ("default: 1G, ", "", "a range needs min and default"),
        ("default: 1G, ", "default: 20G, ", "20G is not between 1G and 10G"),
        ("max: 10G", "max: 50G", "50G is more than the device has: 40G"),
        ("min: 1G", "min: 11G", "11G is more than 10G"),
        ("step: 500M", "step: 700M", "10G is not a number of steps of 700M from 1G"),
        ("step: 500M", "step: 40G", "one step from 1G is more than 40G"),
        ("step: 500M", "stp: 500M", "bandwidth.stp: there is no such field (did you mean step?)"),
        ("default: 4", "default: 5", "it is not one of the values"),
        ("[4, 8, 16]", "[4, 8, 128]", "128 is more than the device has: 64"),
        ("[4, 8, 16]", "[]", "a list of 1 to 10 quantities is expected"),
        ("[4, 8, 16]", "[4], min: 4", "there are both single values and a range"),
        ("replicas: 3", "replicas: 0", "discover.replicas: 0 is out of range"),
    ],
)
def test_policies_that_an_api_server_would_refuse_are_refused_here(old: str, new: str, expected: str) -> None:
    assert old in text("shared")
    with pytest.raises(InputError) as caught:
        Kind("shared", text("shared").replace(old, new, 1))
    assert expected in str(caught.value)


def test_a_device_of_this_kind_is_shared() -> None:
    described = text("shared").replace("  shared: true\n", "")
    described = described.split("  capacity:")[0] + "  deviceNodes: [{path: /dev/null}]\n"
    with pytest.raises(InputError, match="device nic-0: shared: a device of the kind shared is not shared"):
        Kind("shared", described).discover()
