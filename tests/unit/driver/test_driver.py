"""The whole driver in memory: both stacks from one description."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from tests.unit.driver.fakes import CDI, DRIVER, FOUR, KUBELET, RESOURCE, Node, description, device, run, settle

from regauge.base import InputError
from regauge.kube import ServerUnavailable
from regauge.model.kinds import RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.pluginapi import ClaimRef, Health, PluginDevice, PreferredAllocationRequest, RpcError


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
        for bad, why in (("gpu-2", "served by claims"), ("gpu-9", "not on this node")):
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


@pytest.mark.row(49)
@pytest.mark.row(50)
@pytest.mark.row(51)
@pytest.mark.row(199)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_prepare_and_unprepare(version: str) -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-2", "gpu-3")
        dra = await node.kubelet.dra(version)
        result = (await dra.node_prepare_resources([ref]))["uid-c"]
        assert result.error == ""
        assert [(d.pool_name, d.device_name, d.request_names, d.cdi_device_ids) for d in result.devices] == [
            ("n1", name, ("gpus",), (f"example.com/gpu=claim-uid-c-{name}",)) for name in ("gpu-2", "gpu-3")
        ]
        spec = node.files.read(f"{CDI}/example.com-gpu_uid-c.yaml").decode()
        assert "cdiVersion: 0.3.0" in spec
        assert "name: claim-uid-c-gpu-3" in spec
        assert "GPU_GPU_2=gpu-2" in spec
        assert (await dra.node_prepare_resources([ref]))["uid-c"] == result
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}
        assert "example.com-gpu_uid-c.yaml" not in node.spec_names()
        assert await dra.node_unprepare_resources([ref, ClaimRef("x", "unknown", "y")]) == {"uid-c": "", "unknown": ""}

    run(scenario)


def test_subrequests_are_answered_by_their_request() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-2", request="gpus/small")
        result = (await (await node.kubelet.dra()).node_prepare_resources([ref]))["uid-c"]
        assert result.devices[0].request_names == ("gpus",)

    run(scenario)


def test_one_claim_that_fails_leaves_the_others_of_the_call_alone() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        good = node.claim("good", "gpu-2")
        again = node.claim("again", "gpu-2")
        foreign = node.claim("foreign", "gpu-3", pool="n2")
        plugin = node.claim("plugin", "gpu-0")
        lost = node.claim("lost", "gpu-9")
        replaced = ClaimRef("team", "other-uid", "good")
        node.kube.put(RESOURCE_CLAIM, "bare", "team", metadata={"uid": "uid-bare"}, spec={})
        bare, missing = ClaimRef("team", "uid-bare", "bare"), ClaimRef("team", "u", "missing")
        refs = [good, again, foreign, plugin, lost, replaced, bare, missing]
        results = await (await node.kubelet.dra()).node_prepare_resources(refs)
        assert results["uid-good"].error == ""
        expected = {
            "uid-again": "device gpu-2 is still prepared for claim team/good",
            "uid-foreign": "is of pool n2",
            "uid-plugin": "is served by the device plugin",
            "uid-lost": "is not on this node",
            "other-uid": "was replaced",
            "uid-bare": "is not allocated",
            "u": "does not exist",
        }
        for uid, text in expected.items():
            assert text in results[uid].error
            assert results[uid].devices == ()
        assert [name for name in node.spec_names() if "_" in name] == ["example.com-gpu_uid-good.yaml"]

    run(scenario)


def test_two_calls_for_one_claim_at_the_same_moment_prepare_it_once() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-2")
        dra = await node.kubelet.dra()
        one, other = await asyncio.gather(dra.node_prepare_resources([ref]), dra.node_prepare_resources([ref]))
        assert one == other
        assert one["uid-c"].error == ""
        assert len([call for call in node.kube.calls if call == ("get", "ResourceClaim")]) == 1  # type: ignore[union-attr]

    run(scenario)


def test_admin_access_and_shares_may_have_a_device_that_is_in_use() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        dra = await node.kubelet.dra()
        plain, admin = node.claim("plain", "gpu-2"), node.claim("admin", "gpu-2", adminAccess=True)
        one, two = (node.claim(f"share{i}", "gpu-3", shareID=f"s{i}") for i in (1, 2))
        results = await dra.node_prepare_resources([plain, admin, one, two])
        assert {result.error for result in results.values()} == {""}
        assert results["uid-share1"].devices[0].share_id == "s1"
        whole = node.claim("whole", "gpu-3")
        assert "still prepared" in (await dra.node_prepare_resources([whole]))["uid-whole"].error

    run(scenario)


def test_an_api_server_that_is_away_is_an_error_of_the_claim() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        ref = node.claim("c", "gpu-2")
        node.kube.fail = {"get": ServerUnavailable("connection refused")}
        dra = await node.kubelet.dra()
        assert "cannot be read: connection refused" in (await dra.node_prepare_resources([ref]))["uid-c"].error
        node.kube.fail = {}
        assert (await dra.node_prepare_resources([ref]))["uid-c"].error == ""
        node.kube.fail = {"get": ServerUnavailable("connection refused")}
        assert (await dra.node_prepare_resources([ref]))["uid-c"].error == ""  # known already
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}

    run(scenario)


def test_a_claim_stays_prepared_over_a_restart() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref, other = node.claim("c", "gpu-2"), node.claim("other", "gpu-2")
        before = await (await node.kubelet.dra()).node_prepare_resources([ref])
        await node.kill()
        await node.start()
        dra = await node.kubelet.dra()
        assert "still prepared" in (await dra.node_prepare_resources([other]))["uid-other"].error
        assert await dra.node_prepare_resources([ref]) == before
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}
        assert (await dra.node_prepare_resources([other]))["uid-other"].error == ""

    run(scenario)


def test_a_reboot_discards_what_was_prepared() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref, other = node.claim("c", "gpu-2"), node.claim("other", "gpu-2")
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        await node.kill()
        node.boot_id = "boot-2"
        await node.start()
        assert node.told("rebooted")
        assert [name for name in node.spec_names() if "_" in name] == []
        dra = await node.kubelet.dra()
        assert (await dra.node_prepare_resources([other]))["uid-other"].error == ""

    run(scenario)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_corrupt_checkpoint_is_kept_aside_and_its_devices_are_not_given_away(deleted: bool) -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref, other = node.claim("c", "gpu-2"), node.claim("other", "gpu-2")
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        await node.kill()
        path = f"{KUBELET}/plugins/{DRIVER}/checkpoint.json"
        content = node.files.read(path)
        if deleted:
            node.files.remove(path)
        else:
            node.files.write(path, content.replace(b"PrepareCompleted", b"PrepareCompletes"))
        await node.start()
        if not deleted:
            (notice,) = node.told("checkpoint-corrupt")
            assert "its checksum does not match" in notice.text
            assert b"PrepareCompletes" in node.files.read(f"{path}.corrupt-1")
        dra = await node.kubelet.dra()
        assert "still prepared" in (await dra.node_prepare_resources([other]))["uid-other"].error
        again = (await dra.node_prepare_resources([ref]))["uid-c"]
        assert again.devices[0].cdi_device_ids == ("example.com/gpu=claim-uid-c-gpu-2",)
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}
        assert (await dra.node_prepare_resources([other]))["uid-other"].error == ""

    run(scenario)


def test_a_spec_of_a_claim_that_is_not_prepared_is_removed() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        await (await node.kubelet.dra()).node_prepare_resources([node.claim("c", "gpu-2")])
        await node.kill()
        spec = node.files.read(f"{CDI}/example.com-gpu_uid-c.yaml")
        node.files.write(f"{CDI}/example.com-gpu_uid-old.yaml", spec)
        node.files.write(f"{CDI}/other.com-gpu_uid-old.yaml", spec)
        await node.start()
        names = ["example.com-gpu.yaml", "example.com-gpu_uid-c.yaml", "other.com-gpu_uid-old.yaml"]
        assert node.spec_names() == names

    run(scenario)


def test_a_cdi_spec_that_somebody_removed_is_written_again() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-2")
        dra = await node.kubelet.dra()
        before = await dra.node_prepare_resources([ref])
        node.files.remove(f"{CDI}/example.com-gpu_uid-c.yaml")
        assert await dra.node_prepare_resources([ref]) == before
        assert "example.com-gpu_uid-c.yaml" in node.spec_names()

    run(scenario)


def test_a_claim_gone_for_long_is_released_without_the_kubelet() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        ref, kept = node.claim("c", "gpu-2"), node.claim("kept", "gpu-3")
        await (await node.kubelet.dra()).node_prepare_resources([ref, kept])
        node.kube.remove(RESOURCE_CLAIM, "c", "team")
        await node.clock.advance(200)
        assert set(node.driver.claims.prepared) == {"uid-c", "uid-kept"}
        node.kube.fail = {"get": ServerUnavailable("away")}
        await node.clock.advance(200)
        assert set(node.driver.claims.prepared) == {"uid-c", "uid-kept"}
        node.kube.fail = {}
        await node.clock.advance(61)
        assert set(node.driver.claims.prepared) == {"uid-kept"}
        assert node.told("stale-claim")

    run(scenario)


def test_a_full_disk_prepares_nothing_and_leaves_nothing() -> None:
    class Full:
        def __init__(self, files: Any) -> None:
            self._files = files
            self.full = False

        def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
            if self.full:
                raise OSError(28, "No space left on device")
            self._files.write(path, data, mode)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._files, name)

    async def scenario(node: Node) -> None:
        disks: list[Full] = []

        def wrap(files: Any) -> Full:
            disks.append(Full(files))
            return disks[0]

        await node.start(wrap)
        ref = node.claim("c", "gpu-2")
        disks[0].full = True
        dra = await node.kubelet.dra()
        assert "No space left" in (await dra.node_prepare_resources([ref]))["uid-c"].error
        assert dict(node.driver.claims.prepared) == {}
        disks[0].full = False
        assert (await dra.node_prepare_resources([ref]))["uid-c"].error == ""

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
