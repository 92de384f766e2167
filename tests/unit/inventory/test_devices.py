"""Devices by physical identity."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import shared

from regauge.collect import load_estate
from regauge.inventory import Stack, is_extended_resource, pod_ask, take_inventory
from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport, Snapshot, read_documents
from regauge.model.core import Container, ResourceRequirements

SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: g0
    attributes:
      uuid: {string: GPU-00000000-0000-4000-8000-000000000000}
      resource.kubernetes.io/pciBusID: {string: "0000:01:00.0"}
  - name: g1
    attributes: {uuid: {string: GPU-00000000-0000-4000-8000-000000000001}}
"""


def _snapshot(text: str = SLICE) -> Snapshot:
    return Snapshot.of(read_documents(text.encode(), "f"))


@pytest.mark.row(84, 219, 227)
def test_one_device_in_eight_that_both_stacks_advertise_is_found() -> None:
    listed = [
        PluginDeviceReport("example.com/gpu", f"GPU-00000000-0000-4000-8000-00000000000{number}")
        for number in range(1, 8)
    ]
    found = take_inventory(_snapshot(), [NodeReport("n1", tuple(listed))])
    assert len(found.devices) == 8
    (double,) = found.doubly_owned
    assert double.stacks == {Stack.DEVICE_PLUGIN, Stack.DRA}
    assert double.identity.endswith("0001")


def test_identity_joins_over_different_facts() -> None:
    """A plugin that knows the PCI address and one that knows the UUID speak of one device when a third knows both."""
    listed = (
        PluginDeviceReport("a/x", "0000:01:00.0"),
        PluginDeviceReport("b/y", "GPU-00000000-0000-4000-8000-000000000000::3"),
    )
    found = take_inventory(_snapshot(), [NodeReport("n1", listed)])
    assert sorted(len(device.advertisements) for device in found.devices) == [1, 3]


@pytest.mark.row(261)
def test_devices_that_are_advertised_twice_are_joined_by_uuid_and_not_by_index() -> None:
    case = shared("cases/27-same-gpu-advertised-twice")
    entries = json.loads((case / "kubelet_internal_checkpoint").read_text())["Data"]
    pods = {pod["uid"]: pod for pod in json.loads((case / "pods.json").read_text())}
    listed = [PluginDeviceReport(name, id_) for name, ids in entries["RegisteredDevices"].items() for id_ in ids]
    holders = [
        PluginDeviceHolder(
            pods[entry["PodUID"]]["namespace"],
            pods[entry["PodUID"]]["name"],
            entry["ContainerName"],
            entry["ResourceName"],
            tuple(id_ for ids in entry["DeviceIDs"].values() for id_ in ids),
        )
        for entry in entries["PodDeviceEntries"]
    ]
    snapshot = load_estate(str(case / "cluster.yaml")).snapshot
    node = snapshot.slices[0].spec.node_name or ""
    found = take_inventory(snapshot, [NodeReport(node, tuple(listed), tuple(holders))])
    held = {device.identity: device.holders for device in found.doubly_owned}
    assert held == {
        "GPU-00": ("pod team-c/plugin-pod",),
        "GPU-01": ("pod team-a/dra-a-pod", "pod team-c/plugin-pod"),
        "GPU-02": (),
        "GPU-03": ("pod team-b/dra-b-pod",),
    }


def test_the_same_identity_on_another_node_is_another_device() -> None:
    listed = (PluginDeviceReport("a/x", "GPU-00000000-0000-4000-8000-000000000001"),)
    assert not take_inventory(_snapshot(), [NodeReport("n2", listed)]).doubly_owned


def test_holders_come_from_claims_and_from_the_kubelet() -> None:
    text = (
        SLICE
        + """---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: ns}
spec: {}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: n1, device: g1}]}}
  reservedFor: [{resource: pods, name: p, uid: u}]
"""
    )
    holder = PluginDeviceHolder("ns", "q", "c", "a/x", ("dev-7",))
    report = NodeReport("n1", (PluginDeviceReport("a/x", "dev-7"),), (holder,))
    by_name = {item.advertisements[0].name: item.holders for item in take_inventory(_snapshot(text), [report]).devices}
    assert by_name == {
        "gpu.example.com/n1/g0": (),
        "gpu.example.com/n1/g1": ("pod ns/p",),
        "dev-7": ("pod ns/q",),
    }


def test_old_generations_of_a_pool_do_not_count() -> None:
    newer = SLICE.replace("name: s", "name: s2").replace("generation: 1", "generation: 2").split("  - name: g1")[0]
    assert len(take_inventory(_snapshot(SLICE + "---" + newer)).devices) == 1


def test_what_only_the_kubelet_knows_is_unknown_and_not_fine() -> None:
    found = take_inventory(load_estate(str(shared("estates/small"))).snapshot)
    assert any("node a100-0: which devices stand behind nvidia.com/gpu (8)" in text for text in found.unknown)
    mixed = next(item for item in found.counted if (item.node, item.resource_name) == ("mixed-0", "nvidia.com/gpu"))
    assert (mixed.capacity, mixed.requested) == (4, 2)


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/batch-cpu", False),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("requests.nvidia.com/gpu", False),
        ("attachable-volumes-aws-ebs", False),
    ],
)
def test_extended_resources_by_name(name: str, extended: bool) -> None:
    assert is_extended_resource(name) is extended


@given(st.lists(st.integers(0, 4), max_size=4), st.lists(st.integers(0, 4), max_size=4))
def test_a_pod_needs_its_containers_or_its_largest_init_container(main: list[int], init: list[int]) -> None:
    def container(count: int) -> Container:
        return Container(resources=ResourceRequirements(limits={"a/b": str(count)}))

    ask = pod_ask(map(container, main), map(container, init))
    assert ask.get("a/b", 0) == max([sum(main), *init])


def test_devices_that_containers_hold_stay_seen_when_their_plugin_is_gone() -> None:
    held = (PluginDeviceHolder("ns", "p", "main", "example.com/gpu", ("gpu-7", "gpu-8")),)
    report = NodeReport("n1", (PluginDeviceReport("example.com/gpu", "gpu-8"),), held)
    plugin = [d for d in take_inventory(_snapshot(), [report]).devices if d.stacks == {Stack.DEVICE_PLUGIN}]
    assert [(d.advertisements[0].name, d.holders, d.advertisements[0].healthy) for d in plugin] == [
        ("gpu-8", ("pod ns/p",), True),
        ("gpu-7", ("pod ns/p",), False),
    ]


def test_a_device_that_a_pod_holds_from_a_plugin_that_is_gone_is_owned_twice_once_a_driver_publishes_it() -> None:
    uuid = "GPU-00000000-0000-4000-8000-000000000001"
    held = (PluginDeviceHolder("ns", "p", "main", "example.com/gpu", (uuid,)),)
    (double,) = take_inventory(_snapshot(), [NodeReport("n1", (), held)]).doubly_owned
    assert (double.identity, double.holders) == (uuid, ("pod ns/p",))


@pytest.mark.parametrize(
    ("holder", "held"),
    [
        (PluginDeviceHolder("ns", "runs", "main", "example.com/gpu", ("gpu-1",)), True),
        (PluginDeviceHolder("", "", "main", "example.com/gpu", ("gpu-1",), "u-runs"), True),
        (PluginDeviceHolder("ns", "ended", "main", "example.com/gpu", ("gpu-1",)), False),
        (PluginDeviceHolder("ns", "gone", "main", "example.com/gpu", ("gpu-1",), "u-gone"), False),
        (PluginDeviceHolder("ns", "runs", "main", "example.com/gpu", ("gpu-1",), "u-before"), False),
    ],
)
def test_a_checkpoint_that_still_names_a_pod_that_is_gone_holds_no_device(
    holder: PluginDeviceHolder, held: bool
) -> None:
    pods = """
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: ns, uid: u-runs}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: ended, namespace: ns, uid: u-ended}
status: {phase: Succeeded}
"""
    found = take_inventory(_snapshot(pods), [NodeReport("n1", (), (holder,))])
    assert [device.advertisements[0].name for device in found.devices] == (["gpu-1"] if held else [])
