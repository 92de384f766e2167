"""Troubles that people had with drivers: what this one does then, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import shared
from tests.unit.driver.fakes import DRIVER, FOUR, KUBELET, Node, description, device, run
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.driver.checkpoint import ClaimState, HeldDevice, PreparedClaim, Record, encode
from regauge.model.kinds import RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.pluginapi import ClaimRef

CHECKPOINT = f"{KUBELET}/plugins/{DRIVER}/checkpoint.json"


def as_ours(checkpoint: dict[str, Any]) -> bytes:
    """Another driver's checkpoint as this one would have written it."""
    claims = {
        uid: PreparedClaim(
            uid=uid,
            namespace=entry["namespace"],
            name=entry["name"],
            state=ClaimState(entry["state"]),
            devices=tuple(
                HeldDevice(device=name, pool="n1", requests=("r",), admin=entry.get("adminAccess", False))
                for name in entry["devices"]
            ),
        )
        for uid, entry in checkpoint["preparedClaims"].items()
    }
    return encode(Record("boot-1", claims))


@pytest.mark.row(255, how="unit")
def test_the_leftover_of_a_claim_removed_by_force_is_named_and_cleaned_and_nothing_else() -> None:
    """A pod cannot start: its device is prepared for a claim that the API server does not know any more."""
    place = shared("cases/31-driver-checkpoint-vs-api")

    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.describe(description(*(device(name, "dra") for name in ("a0", "a1", "a2"))))
        for claim in yaml.safe_load_all((place / "cluster.yaml").read_text().replace("accel.example.net", DRIVER)):
            metadata, rest = claim["metadata"], {key: claim[key] for key in ("spec", "status")}
            node.kube.put(RESOURCE_CLAIM, metadata["name"], metadata["namespace"], metadata=metadata, **rest)
        node.files.make_directory(CHECKPOINT.rpartition("/")[0])
        node.files.write(CHECKPOINT, as_ours(json.loads((place / "driver-checkpoint.json").read_text())))
        await node.start()
        new = ClaimRef("team-a", "c3c30000-0000-4000-8000-000000000004", "new")
        half = ClaimRef("team-a", "c3c30000-0000-4000-8000-000000000002", "half")
        dra = await node.kubelet.dra()
        refused = (await dra.node_prepare_resources([new]))[new.uid].error
        assert "a0 is still prepared for claim team-a/gone (c3c30000-0000-4000-8000-000000000001)" in refused
        assert [one.about for one in node.told("rolled-back")] == [f"team-a/half ({half.uid})"]
        assert (await dra.node_prepare_resources([half]))[half.uid].devices, "what was half prepared is tried again"
        await node.clock.advance(400)
        (stale,) = node.told("stale-claim")
        assert stale.about == "team-a/gone (c3c30000-0000-4000-8000-000000000001)"
        assert (await dra.node_prepare_resources([new]))[new.uid].devices
        left = {uid[-1] for uid in node.driver.claims.prepared}
        assert left == {"2", "3", "4", "5"}, "admin access shares a device, and stays"

    run(scenario)


@pytest.mark.row(261, how="unit")
@pytest.mark.row(84, how="unit")
@pytest.mark.parametrize("missing", ["", "cluster.yaml", "kubelet_internal_checkpoint"])
def test_gpus_that_two_others_advertise_already_are_not_advertised_a_third_time(missing: str) -> None:
    """A plugin knows them by UUID, a driver by index: whichever of the two can be seen is enough, for all four."""
    place = shared("cases/27-same-gpu-advertised-twice")

    async def scenario(node: Node) -> None:
        assert node.kube is not None
        gpus = (device(f"gpu-{index}", "dra").replace(f"GPU-gpu-{index}", f"GPU-0000{index}") for index in range(4))
        free = device("gpu-4", "dra")
        node.describe(description(*gpus, free))
        same = {f"GPU-0{index}": f"GPU-0000{index}" for index in range(4)}  # what is shorter says little
        if missing != "cluster.yaml":
            text = (place / "cluster.yaml").read_text()
            for short, long in same.items():
                text = text.replace(short, long)
            for one in yaml.safe_load_all(text):
                if one["kind"] != "Node":
                    metadata, rest = one["metadata"], {key: one[key] for key in ("spec", "status") if key in one}
                    kind = RESOURCE_SLICE if one["kind"] == "ResourceSlice" else RESOURCE_CLAIM
                    node.kube.put(kind, metadata["name"], metadata.get("namespace", ""), metadata=metadata, **rest)
        if missing != "kubelet_internal_checkpoint":
            text = (place / "kubelet_internal_checkpoint").read_text()
            for short, long in same.items():
                text = text.replace(short, long)
            node.files.make_directory(f"{KUBELET}/device-plugins")
            node.files.write(f"{KUBELET}/device-plugins/kubelet_internal_checkpoint", text.encode())
        await node.start()
        mine = [one for one in node.kube.slices() if one["spec"]["driver"] == DRIVER]
        assert [one["name"] for one in mine[0]["spec"]["devices"]] == ["gpu-4"]
        told = {one.about: one.text for one in node.told("advertised-twice")}
        assert sorted(told) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        if missing == "cluster.yaml":
            assert "a device plugin offers it as GPU-00001 of accel.example.net/gpu" in told["gpu-1"]
        else:
            assert "accel.example.net publishes it as a1 (pool n1)" in told["gpu-1"]

    run(scenario)


@pytest.mark.row(261, how="unit")
@pytest.mark.row(84, how="unit")
def test_one_of_eight_devices_that_somebody_else_has_is_held_back() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.describe(description(*(device(f"gpu-{index}", "dra") for index in range(8))))
        theirs = [{"name": "x", "attributes": {"uuid": {"string": "GPU-gpu-5"}}}]
        spec = {"driver": "other.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1}}
        node.kube.objects["ResourceSlice", "", "theirs"] = {
            "metadata": {"name": "theirs"},
            "spec": {**spec, "devices": theirs},
        }
        await node.start()
        mine = [one for one in node.kube.slices() if one["spec"]["driver"] == DRIVER]
        assert [one["name"] for one in mine[0]["spec"]["devices"]] == [f"gpu-{i}" for i in range(8) if i != 5]
        (notice,) = node.told("advertised-twice")
        assert notice.about == "gpu-5"
        assert "other.example.com publishes it as x" in notice.text

    run(scenario)


@pytest.mark.row(267, how="unit")
def test_a_device_that_falls_sick_in_use_is_said_tainted_and_not_given_again() -> None:
    """Its Pod and its claim say so, and what is healthy is given to the next one."""

    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.describe(FOUR.replace("name: gpu-2\n", "name: gpu-2\n  healthFile: /run/gpu-2\n"))
        await node.start()
        dra = await node.kubelet.dra()
        await dra.node_prepare_resources([node.claim("c", "gpu-2")])
        node.files.make_directory("/run")
        node.files.write("/run/gpu-2", b"fell off the bus")
        await node.clock.advance(30)
        health = (await node.net.connect((await node.kubelet.info()).endpoint)).health("v1")
        report = {one.device_name: (one.health.name, one.message) for one in await anext(health.node_watch_resources())}
        assert report == {"gpu-2": ("UNHEALTHY", "fell off the bus"), "gpu-3": ("HEALTHY", "")}
        (entry,) = node.kube.objects["ResourceClaim", "team", "c"]["status"]["devices"]
        assert (entry["conditions"][0]["status"], entry["conditions"][0]["message"]) == ("False", "fell off the bus")
        sick, well = node.kube.slices()[0]["spec"]["devices"]
        assert [taint["effect"] for taint in sick["taints"]] == ["NoSchedule"]
        assert "taints" not in well

    run(scenario)


@pytest.mark.row(11)
@pytest.mark.row(267, how="unit")
def test_an_unhealthy_device_in_use_blocks_a_healthy_one_by_the_plugin_and_not_by_claims(tmp_path: Path) -> None:
    """A plugin can only say that it has one less; a slice says which one, so the pod that waits gets the other."""
    (host, holder, waiting) = yaml.safe_load_all(
        (shared("cases/23-unhealthy-device-held-by-running-pod") / "cluster.yaml").read_text()
    )
    (bad,) = holder["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"]
    assert waiting["status"]["phase"] == "Pending"
    ids = (bad["resourceID"].lower(), "gpu-good")

    def described(node: Node, stack: str) -> None:
        node.files.make_directory("/run")
        node.files.write(f"/run/{ids[0]}", b"fell off the bus")
        node.describe(description(device(ids[0], stack, f"  healthFile: /run/{ids[0]}\n"), device(ids[1], stack)))

    async def by_limits(node: Node) -> None:
        described(node, "device-plugin")
        await node.start()
        await node.clock.advance(2)
        told = {one.id: one.health for one in node.kubelet.lists[-1]}
        assert told == dict(zip(ids, ("Unhealthy", "Healthy"), strict=True))
        healthy = sum(one == "Healthy" for one in told.values())
        counts = [host["status"][part]["accel.example.net/gpu"] for part in ("capacity", "allocatable")]
        assert counts == [str(len(told)), str(healthy)]

    async def by_claims(node: Node) -> None:
        assert node.kube is not None
        described(node, "dra")
        await node.start()
        class_ = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        claim = {"kind": "ResourceClaim", "metadata": {"name": "waiting", "namespace": "team-a"}}
        claim["spec"] = {"devices": {"requests": [request]}}
        slices = [{**one, "kind": "ResourceSlice"} for one in node.kube.slices()]
        objects = [{"apiVersion": "resource.k8s.io/v1", **one} for one in (*slices, class_, claim)]
        (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([host, *objects]))

    run(by_limits)
    run(by_claims)
    arguments = ["explain", "claim", "team-a/waiting", "--from", str(tmp_path), "-o", "json"]
    answer = json.loads(CliRunner().invoke(app, arguments).stdout)
    (place,) = answer["nodes"]
    assert [one["chosen"] for one in place["requests"]] == [[f"{DRIVER}/n1/{ids[1]}"]]


@pytest.mark.row(268, how="unit")
def test_a_device_that_goes_in_use_stays_its_claims_and_is_not_offered() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        await node.start()
        dra = await node.kubelet.dra()
        ref = node.claim("c", "gpu-3")
        answer = await dra.node_prepare_resources([ref])
        before = node.kube.slices()[0]["spec"]["pool"]["generation"]
        node.describe(FOUR[: FOUR.index("- name: gpu-3")])
        await node.clock.advance(5)
        (slice_,) = node.kube.slices()
        assert [one["name"] for one in slice_["spec"]["devices"]] == ["gpu-2"]
        assert slice_["spec"]["pool"]["generation"] > before
        assert await dra.node_prepare_resources([ref]) == answer
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}

    run(scenario)


@pytest.mark.row(249, how="unit")
def test_a_driver_that_starts_again_writes_no_slice_and_prepares_nothing_twice() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        await node.start()
        ref = node.claim("c", "gpu-2")
        answer = await (await node.kubelet.dra()).node_prepare_resources([ref])
        slices, files = node.kube.slices(), dict(node.files.content)
        for _ in range(3):
            await node.kill()
            await node.start()
            await node.clock.advance(5)
            assert node.kube.slices() == slices
            assert await (await node.kubelet.dra()).node_prepare_resources([ref]) == answer
            assert node.files.content == files

    run(scenario)
