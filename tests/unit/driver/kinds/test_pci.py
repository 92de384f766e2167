"""PCI functions from sysfs: what is read, what rules make of it, hot-plug, a device that falls off the bus."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.driver.fakes import FakeClock, FakeHost, Node, settle
from tests.unit.driver.kinds.trees import Kind, played, text

from regauge.base import InputError
from regauge.driver import Stack
from regauge.driver.kinds import Surroundings
from regauge.driver.kinds.pci import PciKind
from regauge.driver.slices import device_document
from regauge.driver.sysfs import Sysfs
from regauge.host import RealFiles

DEVICES = "/sys/bus/pci/devices"


@pytest.mark.row(9)
def test_functions_are_read_and_chosen_by_rules() -> None:
    found = Kind("pci").discover()
    assert list(found) == ["gpu-0", "gpu-1", "pci-0000-af-00-0", "pci-0000-d8-00-1"]
    gpu = found["gpu-1"]
    assert gpu.stack is Stack.DRA
    assert (gpu.identity.pci, gpu.numa_node) == ("0000:5e:00.0", 1)
    assert [node.path for node in gpu.edits.device_nodes] == ["/dev/kfd", "/dev/dri/renderD129"]
    assert device_document(gpu) == {
        "name": "gpu-1",
        "attributes": {
            "resource.kubernetes.io/pciBusID": {"string": "0000:5e:00.0"},
            "resource.kubernetes.io/numaNode": {"int": 1},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:5d"},
            "vendor": {"string": "1002"},
            "device": {"string": "74a1"},
            "sriov": {"string": "none"},
            "iommuGroup": {"int": 52},
            "model": {"string": "MI300X"},
            "render": {"string": "renderD129"},
            "group": {"int": 52},
        },
        "capacity": {"memory": {"value": "192Gi"}},
    }


def test_a_function_for_virtual_machines_brings_its_vfio_nodes() -> None:
    device = Kind("pci").discover()["pci-0000-af-00-0"]
    assert device.stack is Stack.DEVICE_PLUGIN
    assert device.numa_node is None
    assert [node.path for node in device.edits.device_nodes] == ["/dev/vfio/vfio", "/dev/vfio/17"]
    assert device.edits.env == ("PCI_0000_AF_00_0=0000:af:00.0",)


def test_two_functions_of_one_iommu_group_are_not_given_to_two_pods() -> None:
    kind = Kind("pci")
    twin = "0000:af:00.1"
    for path, data in [one for one in kind.files.content.items() if one[0].startswith(f"{DEVICES}/0000:af:00.0/")]:
        kind.files.make_directory(f"{DEVICES}/{twin}")
        kind.files.write(path.replace("0000:af:00.0", twin), data)
    kind.files.make_directory(f"/sys/kernel/iommu_groups/17/devices/{twin}")
    for _ in range(2):
        assert [name for name in kind.discover() if name.startswith("pci-0000-af")] == ["pci-0000-af-00-0"]
    (notice,) = kind.notices
    assert (notice.code, notice.about) == ("not-served", "pci-0000-af-00-1")
    assert "it is in the IOMMU group of pci-0000-af-00-0" in notice.text


def test_sriov_parents_children_and_the_rest_are_told_apart() -> None:
    kind = Kind("pci")
    read = {one.address: one for one in Sysfs(kind.files).functions()}
    assert [(one.sriov, one.pf, one.vfs) for one in read.values() if one.sriov != "none"] == [
        ("pf", "", 1),
        ("vf", "0000:d8:00.0", 0),
    ]
    assert read["0000:3a:01.0"].iommu_group == -1


@pytest.mark.row(9)
def test_hot_plug_is_seen_without_restart() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None

        def listed() -> list[str]:
            assert node.kube is not None
            return [one["name"] for slice_ in node.kube.slices() for one in slice_["spec"].get("devices", [])]

        assert listed() == ["gpu-0", "gpu-1", "pci-0000-d8-00-1"]
        source, plugged = f"{DEVICES}/0000:d8:00.1/", f"{DEVICES}/0000:d8:00.2/"
        copies = {
            plugged + path.removeprefix(source): data
            for path, data in node.files.content.items()
            if path.startswith(source)
        }
        for path, data in copies.items():
            node.files.make_directory(path.rpartition("/")[0])
            node.files.write(path, data)
        await node.clock.advance(11)
        assert listed() == ["gpu-0", "gpu-1", "pci-0000-d8-00-1", "pci-0000-d8-00-2"]
        assert [notice.text for notice in node.told("appeared")] == ["found: pci-0000-d8-00-2"]
        for path in copies:
            node.files.remove(path)
        node.files.directories = {path for path in node.files.directories if not path.startswith(plugged.rstrip("/"))}
        await node.clock.advance(11)
        assert listed() == ["gpu-0", "gpu-1", "pci-0000-d8-00-1"]
        assert [notice.text for notice in node.told("vanished")] == ["not found any more: pci-0000-d8-00-2"]
        await node.clock.advance(60)
        assert len(node.told("appeared")) == 1

    played("pci", scenario)


def test_a_device_that_is_unplugged_while_a_claim_holds_it_is_kept_until_it_is_released() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-1")
        dra = await node.kubelet.dra()
        assert not (await dra.node_prepare_resources([ref]))[ref.uid].error
        gone = f"{DEVICES}/0000:5e:00.0"
        node.files.content = {path: data for path, data in node.files.content.items() if not path.startswith(gone)}
        node.files.directories = {path for path in node.files.directories if not path.startswith(gone)}
        await node.clock.advance(11)
        assert "gpu-1" in {device.name for device in node.driver.fleet.description.devices}
        assert not node.driver.fleet.condition("gpu-1").healthy
        assert (await dra.node_unprepare_resources([ref]))[ref.uid] == ""
        await settle()
        assert "gpu-1" not in {device.name for device in node.driver.fleet.description.devices}

    played("pci", scenario)


def test_a_function_that_answers_with_ones_fell_off_the_bus() -> None:
    kind = Kind("pci")
    kind.node("/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/vfio/vfio", "/dev/vfio/17")
    assert kind.health() == {}
    kind.files.write(f"{DEVICES}/0000:5e:00.0/config", b"\xff" * 64)
    assert kind.health() == {"gpu-1": "0000:5e:00.0 does not answer on the bus"}


def test_the_host_may_be_anywhere() -> None:
    kind = Kind("pci", text("pci").replace("root: /", "root: /host"))
    with pytest.raises(FileNotFoundError):
        kind.discover()
    kind.files.content |= {f"/host{path}": data for path, data in kind.files.content.items()}
    kind.files.directories |= {f"/host{path}" for path in kind.files.directories}
    assert len(kind.discover()) == 4


def test_this_machines_functions_are_those_that_it_lists() -> None:
    if not os.path.isdir(DEVICES):
        pytest.skip("this machine has no PCI bus")
    read = {one.address: one for one in Sysfs(RealFiles()).functions()}
    assert sorted(read) == sorted(os.listdir(DEVICES))
    for address, one in read.items():
        link = os.path.realpath(f"{DEVICES}/{address}")
        assert one.root == next((part for part in link.split("/") if part.startswith("pci")), "")
        assert f"0x{one.vendor}" == Path(f"{DEVICES}/{address}/vendor").read_text().strip()
        driver = f"{DEVICES}/{address}/driver"
        assert one.driver == (os.path.basename(os.readlink(driver)) if os.path.islink(driver) else "")
    assert PciKind(Surroundings(RealFiles(), FakeHost(), FakeClock())).FACTS


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("vendor:", "vndor:", "rules[0].match.vndor: there is no such fact (did you mean vendor?)"),
        ("stack: dra", "stak: dra", "rules[0].stak: there is no such field (did you mean stack?)"),
        ("stack: dra", "stack: drs", "device gpu-0: stack: 'drs' is not known (did you mean dra?)"),
        ("{render}", "{rendr}", "attributes.render: there is no fact {rendr} here (did you mean render?)"),
        ("192Gi", "192Gb", "capacity.memory: '192Gb' is not a quantity"),
        ("gpu-{numaNode}", "gpu_{numaNode}", "'gpu_0' cannot be used: a device name has"),
        ("root: /", "root: host", "discover.root: 'host' is not an absolute path"),
        ("root: /", "rot: /", "discover.rot: there is no such field (did you mean root?)"),
        ("resource: example.com/gpu\n", "", "rules[1].stack: a device plugin needs a resource"),
        ("driver: vfio-pci}\n", "driver: vfio-pci}\n  skip: true\n", "rules[1].skip: a rule that leaves devices out"),
        ("deviceKind: pci", "deviceKind: pcie", "there is no kind of device 'pcie' (one of adopt, mock, net"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_before_a_device_is_found(old: str, new: str, expected: str) -> None:
    described = text("pci")
    assert old in described
    with pytest.raises(InputError) as caught:
        Kind("pci", described.replace(old, new, 1))
    assert str(caught.value).startswith("devices.yaml")
    assert expected in str(caught.value)


def test_without_a_rule_nothing_would_be_served() -> None:
    with pytest.raises(InputError, match="nothing would be served"):
        Kind("pci", text("pci").split("rules:")[0])


def test_what_cannot_be_served_is_told_once_and_does_not_hide_the_others() -> None:
    kind = Kind("pci", text("pci").replace("gpu-{numaNode}", "gpu"))
    assert list(kind.discover()) == ["gpu", "pci-0000-af-00-0", "pci-0000-d8-00-1"]
    kind.discover()
    (notice,) = kind.notices
    assert (notice.code, notice.about) == ("not-served", "pci-0000-5e-00-0")
    assert "use a fact in the rule's name" in notice.text


def test_a_rule_can_leave_devices_out() -> None:
    skip = '- {match: {numaNode: 1, vendor: "1002"}, skip: true}\n'
    assert list(Kind("pci", text("pci").replace("rules:\n", "rules:\n" + skip)).discover()) == [
        "gpu-0",
        "pci-0000-af-00-0",
        "pci-0000-d8-00-1",
    ]
