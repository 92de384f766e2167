"""The tutorial for vendors, carried out: its package is installed, its description served, its promises held."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support import ROOT
from tests.unit.driver.fakes import CDI, CONFIG, Node

from regauge.base import InputError
from regauge.cdi import HostDevice
from regauge.driver.kinds import DeviceKind
from regauge.driver.live import installed_kinds

PAGE = (ROOT / "docs" / "vendor-kind.md").read_text()
DRIVER = "npu.acme.example"
BOARDS = "/sys/class/acme_npu"


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return str(found)


def install(place: Path, **points: str) -> None:
    """The package as an installer would put it: the module, and its metadata with the entry points."""
    (place / "acme_regauge.py").write_text(block("python"))
    metadata = place / "acme_regauge-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-regauge\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (metadata / "entry_points.txt").write_text(f"[regauge.kinds]\n{lines}")


@pytest.fixture
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, type[DeviceKind]]]:
    name, target = re.findall(r'^(\w+) = "(\S+:\S+)"$', block("toml"), re.M)[0]
    install(tmp_path, **{name: target})
    monkeypatch.syspath_prepend(str(tmp_path))
    yield installed_kinds()
    sys.modules.pop("acme_regauge", None)


def node(kinds: Mapping[str, type[DeviceKind]]) -> Node:
    """A node with two boards of the first generation and one of the generation before."""
    made = Node(kinds=kinds)
    made.files.write(CONFIG, block("yaml").encode())
    for index, serial in enumerate(("A1-0001", "A1-0002", "A0-0007")):
        made.files.make_directory(f"{BOARDS}/npu{index}")
        made.host.devices[f"/dev/npu{index}"] = HostDevice("c", 240, index, 0o666)
        values = {"serial": serial, "memory_mib": "32768", "numa_node": "0", "temperature": "50", "partition": "x"}
        for file, value in values.items():
            made.files.write(f"{BOARDS}/npu{index}/{file}", f"{value}\n".encode())
    return made


def config(made: Node, claim: str, **parameters: Any) -> None:
    assert made.kube is not None
    typed = {"apiVersion": "acme.example/v1", "kind": "NpuConfig", **parameters}
    entry = {"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": typed}}
    made.kube.objects[("ResourceClaim", "team", claim)]["status"]["allocation"]["devices"]["config"] = [entry]


@pytest.mark.row(242)
def test_a_vendor_needs_less_than_a_hundred_lines() -> None:
    lines = [line for line in block("python").splitlines() if line.strip()]
    assert len(lines) < 100


@pytest.mark.row(9)
@pytest.mark.row(242)
def test_the_package_is_found_and_its_boards_are_served_on_both_stacks(kinds: Mapping[str, type[DeviceKind]]) -> None:
    async def scenario() -> None:
        made = node(kinds)
        await made.kubelet.start()
        await made.start()
        assert made.kube is not None
        (slice_,) = made.kube.slices()
        assert slice_["spec"]["driver"] == DRIVER
        assert [one["name"] for one in slice_["spec"]["devices"]] == ["npu-a1-0001", "npu-a1-0002"]
        assert slice_["spec"]["devices"][0]["attributes"]["generation"] == {"int": 1}
        assert [one.id for one in made.kubelet.lists[-1]] == ["npu-a0-0007"]
        ref = made.claim("c", "npu-a1-0001", driver=DRIVER)
        config(made, "c", mode="latency")
        dra = (await made.net.connect(f"/var/lib/kubelet/plugins/{DRIVER}/dra.sock")).dra("v1")
        assert not (await dra.node_prepare_resources([ref]))[ref.uid].error
        assert made.files.read(f"{BOARDS}/npu0/partition") == b"latency"
        written = made.files.read(f"{CDI}/acme.example-npu_uid-c.yaml").decode()
        assert "ACME_MODE=latency" in written
        assert "/dev/npu0" in written
        await dra.node_unprepare_resources([ref])
        assert made.files.read(f"{BOARDS}/npu0/partition") == b"throughput"
        wrong = made.claim("w", "npu-a1-0002", driver=DRIVER)
        config(made, "w", mod="latency")
        assert "unknown field `mod`" in (await dra.node_prepare_resources([wrong]))[wrong.uid].error
        made.files.write(f"{BOARDS}/npu1/temperature", b"99\n")
        await made.clock.advance(14)
        assert made.told("unhealthy")[-1].text == "99 degrees"
        assert made.kube.slices()[0]["spec"]["devices"][1]["taints"][0]["key"] == f"{DRIVER}/unhealthy"
        await made.stop()

    asyncio.run(scenario())


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, acme="acme_regauge:Nothing")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="the kind of device 'acme' of acme-regauge cannot be loaded"):
        installed_kinds()


def test_a_package_cannot_take_the_name_of_a_kind_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, pci="acme_regauge:NpuKind")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="acme-regauge brings a kind of device 'pci' and there is one"):
        installed_kinds()
