"""Network interfaces: virtual functions with RDMA, what the node needs itself, moved ones, names that claims choose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.driver.fakes import CDI, DRIVER, FakeClock, Node
from tests.unit.driver.kinds.trees import USE, Kind, played, text

from regauge.cdi import NetDevice
from regauge.cdi.directory import RealHost, read_file
from regauge.driver import Stack
from regauge.driver.kinds import Surroundings
from regauge.driver.kinds.net import NetKind
from regauge.driver.process import check
from regauge.host import RealFiles

VF = "/sys/bus/pci/devices/0000:18:00.3"


def parameters(**fields: Any) -> dict[str, Any]:
    typed = {"apiVersion": "regauge.dev/v1alpha1", "kind": "NetConfig", **fields}
    return {"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": typed}}


@pytest.mark.row(9)
def test_virtual_functions_come_with_their_rdma_nodes() -> None:
    kind = Kind("net")
    kind.node("/dev/infiniband/rdma_cm")
    found = kind.discover()
    assert list(found) == ["vf-0", "vf-1", "net-dummy0"]
    vf = found["vf-1"]
    assert vf.stack is Stack.DRA
    assert vf.identity.pci == "0000:18:00.3"
    assert vf.edits.net_devices == (NetDevice(host_interface_name="ens1f0v1", name="ens1f0v1"),)
    assert [node.path for node in vf.edits.device_nodes] == ["/dev/infiniband/uverbs2", "/dev/infiniband/rdma_cm"]
    assert vf.attributes["mac"] == {"string": "02:18:00:00:00:01"}
    assert vf.attributes["speed"] == {"int": 100_000}
    assert vf.attributes["rdma"] == {"bool": True}
    assert vf.attributes["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:17"}


def test_what_the_node_needs_itself_is_never_served() -> None:
    """eth0 has the default route, eth1 belongs to a bridge; a rule asks for both."""
    kind = Kind("net")
    assert not {"eth0", "eth1"} & {
        device.host_interface_name for found in kind.discover().values() for device in found.edits.net_devices
    }
    kind.files.write("/proc/net/route", b"Iface\n")
    kind.files.make_directory("/proc/net")
    route = "0" * 32 + " 00 " + "0" * 32 + " 00 " + "f" * 32 + " 00000400 00000001 00000000 00000003     eth0\n"
    assert "net-0000-00-03-0" in kind.discover()
    kind.files.write("/proc/net/ipv6_route", route.encode())
    assert "net-0000-00-03-0" not in kind.discover()


def test_an_interface_that_was_moved_into_a_container_stays_a_device() -> None:
    kind = Kind("net")
    before = kind.discover()
    for path in [path for path in kind.files.content if path.startswith((f"{VF}/net/", "/sys/class/net/ens1f0v1/"))]:
        kind.files.remove(path)
    kind.files.directories -= {f"{VF}/net", f"{VF}/net/ens1f0v1", "/sys/class/net/ens1f0v1"}
    assert kind.discover() == before
    for path in [path for path in kind.files.content if path.startswith(VF)]:
        kind.files.remove(path)
    kind.files.directories = {path for path in kind.files.directories if not path.startswith(VF)}
    assert list(kind.discover()) == ["vf-0", "net-dummy0"]


def test_a_port_without_carrier_is_unhealthy_and_one_that_is_down_is_not_asked() -> None:
    kind = Kind("net")
    kind.node("/dev/infiniband/uverbs1", "/dev/infiniband/uverbs2")
    assert kind.health() == {}
    kind.files.write("/sys/class/net/ens1f0v0/carrier", b"0\n")
    assert kind.health() == {"vf-0": "ens1f0v0 has no carrier"}
    kind.files.write("/sys/class/net/ens1f0v0/flags", b"0x1002\n")
    assert kind.health() == {}


def test_a_claim_names_the_interface_in_its_container() -> None:
    async def scenario(node: Node) -> None:
        node.host.devices["/dev/infiniband/uverbs1"] = node.host.devices["/dev/null"]
        await node.start()
        assert node.kube is not None
        ref = node.claim("c", "vf-0")
        claim = node.kube.objects[("ResourceClaim", "team", "c")]
        claim["status"]["allocation"]["devices"]["config"] = [parameters(interfaceName="net1")]
        dra = await node.kubelet.dra()
        result = (await dra.node_prepare_resources([ref]))[ref.uid]
        assert not result.error
        spec = read_file(node.files, f"{CDI}/example.com-gpu_uid-c.yaml")
        assert spec.cdi_version == "1.1.0"
        assert spec.devices[0].container_edits.net_devices == (NetDevice(host_interface_name="ens1f0v0", name="net1"),)

    played("net", scenario)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"interfaceNme": "a"}, "NetConfig: Object contains unknown field `interfaceNme`"),
        ({"interfaceName": "a", "mtu": 9000}, "Object contains unknown field `mtu`"),
        ({"interfaceName": "much-too-long-name"}, "matching regex"),
        ({"interfaceName": 7}, "Expected `str`, got `int`"),
        ({"interfaceName": "a", "kind": "NetConf"}, "say apiVersion: regauge.dev/v1alpha1 and kind: NetConfig"),
        ({"interfaceName": "a", "apiVersion": "regauge.dev/v2"}, "there are no parameters NetConfig of regauge.dev/v2"),
    ],
)
def test_parameters_that_are_not_understood_keep_a_claim_from_being_prepared(
    fields: dict[str, Any], expected: str
) -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        ref = node.claim("c", "vf-0")
        claim = node.kube.objects[("ResourceClaim", "team", "c")]
        claim["status"]["allocation"]["devices"]["config"] = [parameters(**fields)]
        dra = await node.kubelet.dra()
        result = (await dra.node_prepare_resources([ref]))[ref.uid]
        assert expected in result.error
        assert result.error.startswith("claim team/c: ")
        assert node.driver.claims.prepared == {}

    played("net", scenario)


def test_an_interface_can_be_left_to_the_host() -> None:
    kind = Kind("net", text("net").replace("rules:", "discover: {move: false}\nrules:"))
    vf = kind.discover()["vf-0"]
    assert vf.edits.net_devices == ()
    assert [node.path for node in vf.edits.device_nodes] == ["/dev/infiniband/uverbs1"]
    assert asyncio.run(kind.kind.prepare(vf, USE)).is_empty()


def test_this_machines_uplink_is_not_served() -> None:
    """The real sysfs: with a rule for everything, what has the default route is left alone."""
    route = Path("/proc/net/route")
    if not route.exists():
        pytest.skip("this machine has no network")
    lines = [line.split() for line in route.read_text().splitlines()[1:]]
    uplinks = {fields[0] for fields in lines if fields[1] == fields[7] == "00000000"}
    kind = NetKind(Surroundings(RealFiles(), RealHost(), FakeClock()))
    described = check((text("net").split("rules:")[0] + "rules: [{stack: dra}]\n").encode(), "f")
    found = asyncio.run(kind.discover(described))
    served = {one.host_interface_name for device in found for one in device.edits.net_devices}
    assert not served & (uplinks | {"lo"})
    assert served <= {path.name for path in Path("/sys/class/net").iterdir()}
