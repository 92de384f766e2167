"""CDI specs of others: served by the names that they have there, on both stacks."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.driver.fakes import CDI, Node
from tests.unit.driver.kinds.trees import Kind, played, text

from regauge.base import InputError
from regauge.cdi import inject
from regauge.cdi.directory import SpecDirectories
from regauge.driver import Stack

GPU = "GPU-11111111-aaaa-bbbb-cccc-000000000000"
NODES = (
    *("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"),
    *("/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/renderD130"),
)


@pytest.mark.row(36)
@pytest.mark.row(170)
def test_devices_are_taken_from_the_vendors_specs_by_rules() -> None:
    found = Kind("adopt").discover()
    assert list(found) == [
        "intel-0",
        "gpu-gpu-11111111-aaaa-bbbb-cccc-000000000000",
        f"gpu-{GPU[:3].lower()}-22222222-aaaa-bbbb-cccc-000000000001",
    ]
    gpu = found["gpu-gpu-11111111-aaaa-bbbb-cccc-000000000000"]
    assert gpu.stack is Stack.DRA
    assert gpu.identity.uuid == GPU
    assert gpu.cdi_names == (f"nvidia.com/gpu={GPU}",)
    assert gpu.attributes == {"tool": {"string": "nvidia-ctk"}}
    assert found["intel-0"].identity.pci == "0000:03:00.0"
    assert found["intel-0"].cdi_names == ("intel.com/gpu=0000:03:00.0",)


@pytest.mark.row(36)
def test_both_stacks_hand_out_the_vendors_own_names_and_a_container_gets_what_they_stand_for() -> None:
    async def scenario(node: Node) -> None:
        for path in NODES:
            node.host.devices[path] = node.host.devices["/dev/null"]
        await node.start()
        plugin = await node.kubelet.plugin()
        (allocated,) = await plugin.allocate([["intel-0"]])
        assert allocated.cdi_devices == ("intel.com/gpu=0000:03:00.0", "example.com/gpu=intel-0")
        ref = node.claim("c", "gpu-gpu-11111111-aaaa-bbbb-cccc-000000000000")
        result = (await (await node.kubelet.dra()).node_prepare_resources([ref]))[ref.uid]
        (device,) = result.devices
        assert device.cdi_device_ids[0] == f"nvidia.com/gpu={GPU}"
        catalog = SpecDirectories(node.files, ("/etc/cdi", CDI)).read()
        got = inject({"process": {"env": []}}, device.cdi_device_ids, catalog, node.host)
        document = got.document  # type: ignore[union-attr]
        assert [one["path"] for one in document["linux"]["devices"]] == [
            *("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/dri/renderD128")
        ]
        assert document["hooks"]["createContainer"][0]["path"] == "/usr/bin/nvidia-cdi-hook"
        assert f"CDI_GPU_GPU_11111111_AAAA_BBBB_CCCC_000000000000=nvidia.com/gpu={GPU}" in document["process"]["env"]
        again = (await (await node.kubelet.dra()).node_prepare_resources([ref]))[ref.uid]
        assert again == result

    played("adopt", scenario)


def test_our_own_specs_are_not_adopted() -> None:
    kind = Kind(
        "adopt", text("adopt").replace('uuid: "GPU-*"}', 'uuid: "GPU-*"}').replace("vendor: intel.com", 'name: "*"')
    )
    assert "gpu-gpu-0" not in kind.discover()
    assert all("example.com" not in name for one in kind.discover().values() for name in one.cdi_names)


def test_a_device_that_the_vendor_lists_three_times_is_served_once() -> None:
    kind = Kind("adopt", text("adopt").replace('uuid: "GPU-*"', 'name: "*"'))
    found = kind.discover()
    assert [one.cdi_names[0] for one in found.values()] == [
        *("intel.com/gpu=0000:03:00.0", "nvidia.com/gpu=0", "nvidia.com/gpu=1")
    ]
    kind.discover()
    told = {notice.about: notice.text for notice in kind.notices}
    assert told["gpu-all"] == "nvidia.com/gpu=all has the device nodes of gpu-0: write rules for one"
    assert len(kind.notices) == 3


def test_health_says_what_is_missing() -> None:
    kind = Kind("adopt")
    kind.node(*(path for path in NODES if path != "/dev/nvidia1"))
    bad = "gpu-gpu-22222222-aaaa-bbbb-cccc-000000000001"
    uuid = "nvidia.com/gpu=GPU-22222222-aaaa-bbbb-cccc-000000000001"
    assert kind.health() == {bad: f"device node /dev/nvidia1 of {uuid}: no such file or directory"}
    kind.node("/dev/nvidia1")
    assert kind.health() == {}
    devices = tuple(kind.discover().values())
    kind.files.remove("/etc/cdi/nvidia.json")
    found = asyncio.run(kind.kind.health(devices))
    assert found[bad].message == f"no spec defines {uuid}"


def test_a_spec_that_appears_and_goes_is_seen() -> None:
    kind = Kind("adopt")
    spec = kind.files.read("/etc/cdi/nvidia.json")
    kind.files.remove("/etc/cdi/nvidia.json")
    assert list(kind.discover()) == ["intel-0"]
    kind.files.write("/etc/cdi/nvidia.json", spec)
    assert len(kind.discover()) == 3
    kind.files.write("/etc/cdi/nvidia.json", b"{half")
    assert list(kind.discover()) == ["intel-0"]


def test_classic_fields_cannot_carry_an_adopted_device() -> None:
    async def scenario(node: Node) -> None:
        with pytest.raises(InputError, match="it has names in CDI specs of others, which the device plugin's classic"):
            await node.start()

    played("adopt", scenario, text("adopt").replace("rules:", "devicePlugin: {answer: classic}\nrules:"))
