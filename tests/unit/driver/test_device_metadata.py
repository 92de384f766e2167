"""What containers are told of their devices: the same files, names and answers as upstream's helper has."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support import oracle
from tests.unit.driver.fakes import CDI, CONFIG, DRIVER, KUBELET, Node, description, device, run

from regauge.driver import Device
from regauge.driver.device_metadata import decode
from regauge.driver.instances import addresses
from regauge.driver.kinds import KINDS, ClaimUse, Network, Report, StaticKind
from regauge.driver.process import check
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.pluginapi import ClaimRef

TWO = description(device("gpu-2", "dra"), device("gpu-3", "dra"), top="deviceMetadata: true\ndeviceKind: wired")
DIRECTORY = f"{KUBELET}/plugins/{DRIVER}/dra-device-metadata"


class WiredKind(StaticKind):
    """Knows where its devices' cables end, and learns more later."""

    MORE: ClassVar[dict[str, Report]] = {}

    async def report(self, device: Device, use: ClaimUse) -> Report:
        usual = Report(network=Network("net1", ("192.0.2.5/24", "2001:db8::5/64"), "02:00:00:00:00:01"))
        return self.MORE.get(device.name, usual)


@pytest.fixture(autouse=True)
def _nothing_more() -> None:
    WiredKind.MORE.clear()


def played(scenario: Any, text: str = TWO) -> Node:
    async def play(node: Node) -> None:
        node.describe(text)
        await node.start()
        await scenario(node)

    return run(play, kinds={**KINDS, "wired": WiredKind})


def claim(node: Node, name: str, requests: dict[str, str], pod_claim: str = "", uid: str = "") -> ClaimRef:
    assert node.kube is not None
    results = [{"request": r, "driver": DRIVER, "pool": "n1", "device": d} for d, r in requests.items()]
    metadata: dict[str, Any] = {"uid": uid or f"uid-{name}"}
    if pod_claim:
        metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": pod_claim}
    status = {"allocation": {"devices": {"results": results}}}
    node.kube.put(RESOURCE_CLAIM, name, "team", metadata=metadata, spec={}, status=status)
    return ClaimRef("team", metadata["uid"], name)


def told(node: Node) -> dict[str, str]:
    """The files of metadata and its CDI specs, below the directories of the kubelet and of CDI."""
    named = {path.removeprefix(KUBELET + "/").replace(CDI, "cdi"): data for path, data in node.files.content.items()}
    return {path: data.decode() for path, data in named.items() if "metadata" in path}


def documents(stream: str) -> list[Any]:
    decoder, found = json.JSONDecoder(), []
    while stream := stream.lstrip():
        document, end = decoder.raw_decode(stream)
        found.append(document)
        stream = stream[end:]
    return found


def attributes(text: str) -> dict[str, Any]:
    """As the driver publishes them."""
    (found,) = [one for one in check(TWO.encode(), CONFIG, {**KINDS, "wired": WiredKind}).devices if one.name == text]
    return {
        "uuid": {"string": found.identity.uuid},
        "resource.kubernetes.io/numaNode": {"int": 0},
        **found.attributes,
    }


CASES = (
    ({"gpu-2": "gpus"}, ""),
    ({"gpu-2": "gpus"}, "my-gpu"),
    ({"gpu-2": "gpus", "gpu-3": "gpus"}, ""),
    ({"gpu-2": "big/fast", "gpu-3": "small"}, "both"),
)


@pytest.mark.parametrize(("requests", "pod_claim"), CASES)
def test_the_same_files_and_answers_as_upstreams_helper(requests: dict[str, str], pod_claim: str) -> None:
    program = oracle("plugin_helper")

    async def scenario(node: Node) -> None:
        assert node.kube is not None
        ref = claim(node, "c", requests, pod_claim)
        dra = await node.kubelet.dra()
        answer = (await dra.node_prepare_resources([ref]))["uid-c"]
        devices = [
            {
                "requests": [request],
                "pool": "n1",
                "device": name,
                "cdi": [f"example.com/gpu=claim-uid-c-{name}"],
                "attributes": attributes(name),
                "networkData": {
                    "interfaceName": "net1",
                    "ips": ["192.0.2.5/24", "2001:db8::5/64"],
                    "hardwareAddress": "02:00:00:00:00:01",
                },
            }
            for name, request in requests.items()
        ]
        theirs, root = asked(program, {"claim": node.kube.objects["ResourceClaim", "team", "c"], "devices": devices})
        expected = {name: text for name, text in theirs["prepared"].items() if "metadata" in name}
        mine = told(node)
        assert sorted(mine) == sorted(expected)
        for name, text in mine.items():
            here, there = documents(text), documents(expected[name].replace(f"{root}/plugins", f"{KUBELET}/plugins"))
            assert here == there, name
        assert [list(one.cdi_device_ids) for one in answer.devices] == [
            one["cdi_device_ids"] for one in theirs["answer"]["claims"]["uid-c"]["devices"]
        ]
        assert [list(one.request_names) for one in answer.devices] == [
            one["request_names"] for one in theirs["answer"]["claims"]["uid-c"]["devices"]
        ]
        assert await dra.node_unprepare_resources([ref]) == {"uid-c": ""}
        assert told(node) == {name: text for name, text in theirs["unprepared"].items() if "metadata" in name} == {}
        assert [name for name in node.files.directories if "team_c" in name] == []

    played(scenario)


def asked(program: Path, line: dict[str, Any], *options: str) -> tuple[dict[str, Any], str]:
    with tempfile.TemporaryDirectory(prefix="rg-", dir="/tmp") as root:
        done = subprocess.run(
            [program, "-dir", root, "-driver", DRIVER, *options],
            input=json.dumps(line),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found, root


@pytest.mark.row(249, how="oracle")
def test_sockets_of_an_instance_are_called_as_upstreams_helper_calls_them() -> None:
    uid = "11111111-0000-4000-8000-000000000001"
    claim_ = {"metadata": {"name": "c", "namespace": "team", "uid": "u"}, "status": {"allocation": {"devices": {}}}}
    found, root = asked(oracle("plugin_helper"), {"claim": claim_, "devices": []}, "-pod-uid", uid)
    at = addresses(root, DRIVER, uid)
    sockets = {f"{root}/{name}" for name in found["prepared"] if name.endswith(".sock")}
    assert sockets == {at.registry, at.endpoint}
    assert f"plugins/{DRIVER}/serialize.lock" in found["prepared"]


def test_without_the_option_there_is_nothing() -> None:
    async def scenario(node: Node) -> None:
        ref = claim(node, "c", {"gpu-2": "gpus"})
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        assert told(node) == {}

    played(scenario, TWO.replace("deviceMetadata: true", "deviceMetadata: false"))


def test_what_is_learnt_later_is_the_next_generation() -> None:
    async def scenario(node: Node) -> None:
        ref = claim(node, "c", {"gpu-2": "gpus"})
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        await node.clock.advance(5)
        path = f"{DIRECTORY}/team_c/gpus/metadata.json"
        assert decode(node.files.read(path))["metadata"]["generation"] == 1
        WiredKind.MORE["gpu-2"] = Report(network=Network("net9"), attributes={"lane": {"int": 4}})
        await node.clock.advance(70)
        newest = decode(node.files.read(path))
        assert newest["metadata"]["generation"] == 2
        (known,) = newest["requests"][0]["devices"]
        assert known["networkData"] == {"interfaceName": "net9"}
        assert known["attributes"]["lane"] == {"int": 4}
        assert len(node.told("metadata-updated")) == 1

    played(scenario)


def test_what_was_removed_is_written_again_when_the_kubelet_asks_again() -> None:
    async def scenario(node: Node) -> None:
        ref = claim(node, "c", {"gpu-2": "gpus"}, "mine")
        dra = await node.kubelet.dra()
        answer = await dra.node_prepare_resources([ref])
        before = told(node)
        for path in [path for path in node.files.content if "metadata" in path]:
            node.files.remove(path)
            assert await dra.node_prepare_resources([ref]) == answer
            assert told(node) == before

    played(scenario)


def test_the_file_of_a_newer_claim_of_the_same_name_stays() -> None:
    async def scenario(node: Node) -> None:
        dra = await node.kubelet.dra()
        old = claim(node, "c", {"gpu-2": "gpus"})
        await dra.node_prepare_resources([old])
        new = claim(node, "c", {"gpu-3": "gpus"}, uid="uid-new")
        assert (await dra.node_prepare_resources([new]))["uid-new"].devices
        await dra.node_unprepare_resources([old])
        assert sorted(told(node)) == [
            f"cdi/{DRIVER}_metadata_uid-new_gpus.json",
            f"plugins/{DRIVER}/dra-device-metadata/team_c/gpus/metadata.json",
        ]
        await dra.node_unprepare_resources([new])
        assert told(node) == {}

    played(scenario)


def test_what_belongs_to_no_claim_is_removed_at_the_start() -> None:
    async def scenario(node: Node) -> None:
        ref = claim(node, "c", {"gpu-2": "gpus"})
        await (await node.kubelet.dra()).node_prepare_resources([ref])
        before = told(node)
        await node.kill()
        node.files.write(f"{CDI}/{DRIVER}_metadata_gone_gpus.json", b"{}")
        node.files.make_directory(f"{DIRECTORY}/team_gone/gpus")
        node.files.write(f"{DIRECTORY}/team_gone/gpus/metadata.json", b"{}")
        await node.start()
        assert told(node) == before
        assert sorted(one.about for one in node.told("orphan-metadata")) == [
            f"{DRIVER}_metadata_gone_gpus.json",
            "team_gone",
        ]

    played(scenario)


def test_a_kind_that_cannot_tell_keeps_no_pod_waiting() -> None:
    class Silent(StaticKind):
        async def report(self, device: Device, use: ClaimUse) -> Report:
            raise RuntimeError("no answer")

    async def play(node: Node) -> None:
        node.describe(TWO.replace("wired", "silent"))
        await node.start()
        answer = await (await node.kubelet.dra()).node_prepare_resources([claim(node, "c", {"gpu-2": "gpus"})])
        assert answer["uid-c"].devices
        assert len(told(node)) == 2
        assert [one.text for one in node.told("report-failed")] == ["no answer"]

    run(play, kinds={**KINDS, "silent": Silent})
