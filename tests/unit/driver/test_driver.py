"""The whole driver in memory: slices, health, stop, reload."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from tests.unit.driver.fakes import CDI, CONFIG, DRIVER, FOUR, KUBELET, Node, description, device, run, settle

from regauge.base import InputError
from regauge.driver import Driver, Options
from regauge.driver.process import check
from regauge.driver.signals import Rate
from regauge.kube import ServerUnavailable
from regauge.model.kinds import NODE, RESOURCE_SLICE
from regauge.pluginapi import ClaimRef, Health


@pytest.mark.row(11)
def test_health_goes_to_both_stacks_and_back() -> None:
    async def scenario(node: Node) -> None:
        node.describe(
            description(
                device("gpu-0", "device-plugin", "  healthFile: /run/gpu-0\n"),
                device("gpu-2", "dra", "  healthFile: /run/gpu-2\n"),
            )
        )
        await node.start()
        info = await node.kubelet.info()
        reports = (await node.net.connect(info.endpoint)).health("v1").node_watch_resources()
        (first,) = await anext(reports)
        assert (first.pool_name, first.device_name, first.health) == ("n1", "gpu-2", Health.HEALTHY)
        node.files.make_directory("/run")
        for name in ("gpu-0", "gpu-2"):
            node.files.write(f"/run/{name}", b"too hot\n")
        await node.clock.advance(2)
        assert node.kubelet.lists[-1][0].health == "Unhealthy"
        (second,) = await anext(reports)
        assert (second.health, second.message) == (Health.UNHEALTHY, "too hot")
        for name in ("gpu-0", "gpu-2"):
            node.files.remove(f"/run/{name}")
        await node.clock.advance(2)
        assert node.kubelet.lists[-1][0].health == "Healthy"
        assert (await anext(reports))[0].health is Health.HEALTHY

    run(scenario)


def test_health_is_sent_again_before_the_kubelet_calls_it_stale() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        info = await node.kubelet.info()
        reports = (await node.net.connect(info.endpoint)).health("v1alpha1").node_watch_resources()
        times = []

        async def read() -> None:
            async for report in reports:
                times.append(node.clock.monotonic_s())
                assert report[0].check_timeout_s == 30

        reading = asyncio.ensure_future(read())
        await node.clock.advance(100)
        reading.cancel()
        assert len(times) >= 8
        assert max(later - earlier for earlier, later in itertools.pairwise(times)) <= 15

    run(scenario)


def test_a_device_node_that_vanishes_makes_the_device_unhealthy_not_missing() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        node.host.devices.clear()
        await node.clock.advance(2)
        assert [(one.id, one.health) for one in node.kubelet.lists[-1]] == [
            ("gpu-0", "Unhealthy"),
            ("gpu-1", "Unhealthy"),
        ]

    run(scenario)


@pytest.mark.row(43)
@pytest.mark.row(192)
@pytest.mark.row(200)
def test_slices_are_published_with_the_node_as_owner() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        (slice_,) = node.kube.slices()
        assert slice_["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}
        ]
        spec = slice_["spec"]
        assert spec["pool"] == {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        assert (spec["driver"], spec["nodeName"]) == (DRIVER, "n1")
        assert [one["name"] for one in spec["devices"]] == ["gpu-2", "gpu-3"]
        assert spec["devices"][0]["attributes"] == {
            "uuid": {"string": "GPU-gpu-2"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "model": {"string": "A100"},
            "memoryGiB": {"int": 80},
        }
        assert spec["devices"][0]["capacity"] == {"memory": {"value": "80Gi"}}

    run(scenario)


@pytest.mark.row(192)
def test_slices_that_a_kubelet_deleted_come_back_and_nothing_is_written_without_need() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        await node.clock.advance(1300)
        writes = [call for call in node.kube.calls if call[0] in ("create", "update") and call[1] == "ResourceSlice"]
        assert writes == [("create", "ResourceSlice")]
        node.kube.remove(RESOURCE_SLICE, node.kube.slices()[0]["metadata"]["name"])
        await node.clock.advance(1)
        assert node.kube.slices()[0]["spec"]["pool"]["generation"] == 2
        node.kube.end_watches()
        await node.clock.advance(1)
        node.kube.remove(RESOURCE_SLICE, node.kube.slices()[0]["metadata"]["name"])
        await node.clock.advance(1)
        assert node.kube.slices()[0]["spec"]["pool"]["generation"] == 3

    run(scenario)


def test_an_orphan_slice_is_removed_and_a_foreign_one_left() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        pool = {"name": "n1", "generation": 7, "resourceSliceCount": 2}
        node.kube.put(RESOURCE_SLICE, "old", spec={"driver": DRIVER, "nodeName": "n1", "pool": pool})
        node.kube.put(RESOURCE_SLICE, "foreign", spec={"driver": DRIVER, "nodeName": "n2", "pool": pool})
        await node.start()
        await node.clock.advance(1)
        names = [one["metadata"]["name"] for one in node.kube.slices()]
        assert "old" not in names
        assert "foreign" in names
        mine = [one for one in node.kube.slices() if one["spec"]["nodeName"] == "n1"]
        assert [one["spec"]["pool"]["generation"] for one in mine] == [8]

    run(scenario)


def test_an_api_server_that_is_away_delays_slices_and_nothing_else() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.kube.fail = {"list": ServerUnavailable("connection refused"), "get": ServerUnavailable("refused")}
        await node.start()
        assert node.kubelet.registered
        await node.clock.advance(20)
        assert node.kube.slices() == []
        assert 3 <= len(node.told("publish-failed")) <= 10
        node.kube.fail = {}
        await node.clock.advance(31)
        assert len(node.kube.slices()) == 1

    run(scenario)


def test_a_field_that_the_api_server_drops_is_told_with_its_gate_and_not_written_for_ever() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.kube.drops = ("allowMultipleAllocations",)
        node.describe(description(device("gpu-2", "dra", "  shared: true\n")))
        await node.start()
        await node.clock.advance(2000)
        (notice,) = node.told("fields-dropped")
        assert "gate DRAConsumableCapacity is off" in notice.text
        assert sum(call == ("update", "ResourceSlice") for call in node.kube.calls) == 0

    run(scenario)


def test_without_an_api_server_slices_go_to_a_file() -> None:
    async def scenario(node: Node) -> None:
        node.files.make_directory("/out")
        await node.start()
        first = node.files.read("/out/slices.json")
        assert b'"generation": 1' in first
        assert b'"gpu-3"' in first
        result = (await (await node.kubelet.dra()).node_prepare_resources([ClaimRef("ns", "u", "c")]))["u"]
        assert "without an API server" in result.error
        await node.stop()
        await node.start()
        assert node.files.read("/out/slices.json") == first

    run(scenario, kube=None, slices_file="/out/slices.json")


def test_dra_registers_newest_version_first() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        info = await node.kubelet.info()
        assert (info.type, info.name) == ("DRAPlugin", DRIVER)
        assert info.endpoint == f"{KUBELET}/plugins/{DRIVER}/dra.sock"
        assert info.supported_versions == (
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        )

    run(scenario)


def test_a_registry_socket_that_was_removed_is_made_again() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        await node.net.remove(f"{KUBELET}/plugins_registry/{DRIVER}-reg.sock")
        await settle()
        assert (await node.kubelet.info()).name == DRIVER

    run(scenario)


def test_a_graceful_stop_takes_the_sockets_away_and_leaves_specs_for_running_containers() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        await (await node.kubelet.dra()).node_prepare_resources([node.claim("c", "gpu-2")])
        await node.stop()
        for directory in ("device-plugins", "plugins_registry", f"plugins/{DRIVER}"):
            left = await anext(node.net.watch(f"{KUBELET}/{directory}"))
            assert [name for name in left if name != "kubelet.sock"] == []
        assert node.spec_names() == ["example.com-gpu.yaml", "example.com-gpu_uid-c.yaml"]

    run(scenario)


def test_a_second_driver_on_the_same_sockets_is_refused() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        with pytest.raises(InputError, match="in use by driver"):
            await Node.start(Node(node.files, node.host, node.kube, node.clock, node.net))

    run(scenario)


def test_devices_that_appear_and_go_are_seen_without_a_restart() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        node.describe(FOUR.replace("- name: gpu-1\n", "- name: gpu-8\n").replace("GPU-gpu-1", "GPU-gpu-8"))
        await node.clock.advance(3)
        assert [one.id for one in node.kubelet.lists[-1]] == ["gpu-0", "gpu-8"]
        node.describe(FOUR.replace("stack: dra", "stack: drs"))
        await node.clock.advance(3)
        (notice,) = node.told("reload-refused")
        assert "did you mean dra?" in notice.text
        assert [one.id for one in node.kubelet.lists[-1]] == ["gpu-0", "gpu-8"]
        node.describe(FOUR.replace(f"driver: {DRIVER}", "driver: other.example.com"))
        await node.clock.advance(3)
        assert "start it anew" in node.told("reload-refused")[-1].text

    run(scenario)


def test_a_node_that_is_not_there_is_said() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.kube.remove(NODE, "n1")
        await node.start()
        await node.clock.advance(5)
        assert "there is no node n1 (yet): check --node" in node.told("publish-failed")[0].text
        node.kube.put(NODE, "n1", metadata={"uid": "late"})
        await node.clock.advance(31)
        assert node.kube.slices()[0]["metadata"]["ownerReferences"][0]["uid"] == "late"

    run(scenario)


def test_a_device_that_fell_off_does_not_keep_the_others_from_being_served_after_a_restart() -> None:
    async def scenario(node: Node) -> None:
        node.host.devices["/dev/gpu0"] = node.host.devices["/dev/null"]
        text = FOUR.replace("/dev/null", "/dev/gpu0", 1)
        node.describe(text.replace("/dev/gpu0", "/dev/none"))
        with pytest.raises(
            InputError, match="device gpu-0: deviceNodes: the device node /dev/none is not on this host"
        ):
            await node.start()
        node.describe(text)
        await node.start()
        await node.kill()
        del node.host.devices["/dev/gpu0"]
        await node.start()
        assert [(one.id, one.health) for one in node.kubelet.lists[-1]] == [
            ("gpu-0", "Unhealthy"),
            ("gpu-1", "Healthy"),
        ]

    run(scenario)


def test_a_directory_too_long_for_sockets_is_said() -> None:
    async def scenario(node: Node) -> None:
        options = Options(CONFIG, "n1", node.host, "b", kubelet_dir="/" + "x" * 90, cdi_dir=CDI)
        with pytest.raises(InputError, match=r"-reg\.sock|Linux allows 107"):
            await Driver(options, node.net, node.kube, node.files, node.clock).run()

    run(scenario)


def test_a_directory_that_cannot_be_written_is_said() -> None:
    class Forbidding:
        def __init__(self, files: Any) -> None:
            self._files = files

        def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
            if path.startswith(CDI):
                raise PermissionError(13, "Permission denied", path)
            self._files.write(path, data, mode)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._files, name)

    async def scenario(node: Node) -> None:
        with pytest.raises(InputError, match=r"example.com-gpu.yaml: the driver cannot start: Permission denied"):
            await node.start(Forbidding)

    run(scenario)


NETWORK = """networkPool: {name: fabric-a, nodeLabels: {fabric: a}, publishedBy: PUBLISHER}
"""


@pytest.mark.parametrize(("publisher", "slices"), [("n1", 1), ("n2", 0)])
def test_a_pool_of_several_nodes_is_published_by_one_and_prepared_by_all(publisher: str, slices: int) -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.describe(description(device("gpu-2", "dra"), top=NETWORK.replace("PUBLISHER", publisher)))
        await node.start()
        assert len(node.kube.slices()) == slices
        dra = await node.kubelet.dra()
        answer = (await dra.node_prepare_resources([node.claim("c", "gpu-2", pool="fabric-a")]))["uid-c"]
        assert [one.pool_name for one in answer.devices] == ["fabric-a"]
        other = (await dra.node_prepare_resources([node.claim("d", "gpu-2")]))["uid-d"]
        assert "is of pool n1, this node serves fabric-a" in other.error

    run(scenario)


def test_a_device_plugin_has_no_devices_of_other_nodes() -> None:
    with pytest.raises(InputError, match="serves the devices of its own node only"):
        check(FOUR.replace("devices:", NETWORK + "devices:").encode(), CONFIG)


def test_slices_that_are_deleted_again_and_again_are_not_written_without_measure() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        await node.start()
        for _ in range(300):  # 30 s long, ten times a second
            for slice_ in node.kube.slices():
                node.kube.remove(RESOURCE_SLICE, slice_["metadata"]["name"])
            await node.clock.advance(0.1)
        assert 20 <= node.kube.calls.count(("create", "ResourceSlice")) <= 42
        await node.clock.advance(2)
        assert len(node.kube.slices()) == 1

    run(scenario)


def test_a_rate_is_a_burst_and_then_a_period() -> None:
    rate = Rate(3, 1.0)
    assert [rate.pause_s(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 1.0, 2.0]
    assert rate.pause_s(100.0) == 0.0
