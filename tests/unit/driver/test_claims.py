"""Claims before the driver in memory: prepare, unprepare, and what is kept of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.driver.fakes import CDI, DRIVER, FOUR, KUBELET, Node, description, run, settle

from regauge.driver import Identity, Stack
from regauge.driver.claims import Assigned, Refusal, plan
from regauge.kube import ServerUnavailable
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.pluginapi import ClaimRef


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


def test_a_device_prepared_under_another_name_is_known_by_what_it_is() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-3")
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        found = replace(node.driver.fleet.description.devices[2], identity=Identity(uuid="GPU-gpu-3"))
        renamed = replace(node.driver.fleet.description, devices=(found,))
        claim = {
            "metadata": {"uid": "u"},
            "status": {"allocation": {"devices": {"results": [RESULT]}}},
        }
        refused = plan(
            ClaimRef("ns", "u", "x"),
            claim,
            Assigned(renamed, {"gpu-2": Stack.DRA}, "n1"),
            node.driver.claims.prepared.values(),
        )
        assert isinstance(refused, Refusal)
        assert refused.text.startswith("device gpu-2 is still prepared as gpu-3 for claim team/c")

    run(scenario)


RESULT = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-2"}


def test_claims_can_be_released_after_a_restart_without_any_device_of_this_stack() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-2")
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        await node.kill()
        node.describe(FOUR[: FOUR.index("- name: gpu-2")])
        await node.start()
        assert await (await node.kubelet.dra()).node_unprepare_resources([ref]) == {"uid-c": ""}

    run(scenario)


def test_calls_that_wait_for_each_other_share_the_writes_of_the_checkpoint() -> None:
    written: list[str] = []

    class Counting:
        def __init__(self, files: Any) -> None:
            self._files = files

        def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
            written.append(path)
            self._files.write(path, data, mode)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._files, name)

    async def scenario(node: Node) -> None:
        names = [f"g{i}" for i in range(250)]
        node.describe(description(*(f"- {{name: {name}, stack: dra, env: {{A: x}}}}\n" for name in names)))
        await node.start(Counting)
        dra = await node.kubelet.dra()
        refs = [node.claim(f"c-{name}", name) for name in names]
        written.clear()
        answers = await asyncio.gather(*(dra.node_prepare_resources([ref]) for ref in refs))
        assert {answer[ref.uid].error for answer, ref in zip(answers, refs, strict=True)} == {""}
        assert sum(path.endswith("checkpoint.json") for path in written) <= 8  # of 1, 100, 100 and 49 calls
        assert len(node.driver.claims.prepared) == 250
        written.clear()
        assert await dra.node_unprepare_resources(refs) == {ref.uid: "" for ref in refs}
        assert [path.endswith("checkpoint.json") for path in written] == [True]
        assert [name for name in node.spec_names() if "_" in name] == []

    run(scenario)


def test_a_call_that_is_given_up_does_not_take_those_behind_it_along() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        dra = await node.kubelet.dra()
        refs = [node.claim("one", "gpu-2"), node.claim("two", "gpu-3")]
        gate = asyncio.Event()
        get = node.kube.get

        async def slow(*arguments: Any) -> Any:
            await gate.wait()
            return await get(*arguments)

        node.kube.get = slow  # type: ignore[method-assign]
        first, second = (asyncio.ensure_future(dra.node_prepare_resources([ref])) for ref in refs)
        await settle()
        first.cancel()
        await settle()
        gate.set()
        assert (await second)["uid-two"].error == ""
        assert (await dra.node_prepare_resources(refs))["uid-one"].error == ""

    run(scenario)


def test_a_stop_lets_a_running_call_end() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        dra = await node.kubelet.dra()
        ref = node.claim("c", "gpu-2")
        gate = asyncio.Event()
        get = node.kube.get

        async def slow(*arguments: Any) -> Any:
            await gate.wait()
            return await get(*arguments)

        node.kube.get = slow  # type: ignore[method-assign]
        call = asyncio.ensure_future(dra.node_prepare_resources([ref]))
        await settle()
        stopping = asyncio.ensure_future(node.stop())
        await settle()
        assert not stopping.done()
        assert f"{DRIVER}-reg.sock" not in await anext(node.net.watch(f"{KUBELET}/plugins_registry"))
        gate.set()
        assert (await call)["uid-c"].error == ""
        await stopping

    run(scenario)
