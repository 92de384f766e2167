"""A real container with what the driver prepared: it may do with a device what the description allows, and no more.

Needs root, runc, and cgroups that keep permissions.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.cluster.runtimes.test_oci import program, until_ended
from tests.unit.driver.fakes import CDI, Node, description, run

from regauge.cdi import HostDevice
from regauge.cdi.directory import RealHost
from regauge.cluster.runtimes import ContainerRequest
from regauge.cluster.runtimes.oci import OciOptions, OciRuntime
from regauge.host import RealClock

# Tells what it has, and how each node can be opened.
SCRIPT = """
for d in read write both other; do
  test -e /dev/rg-$d || continue
  opens=
  (exec 3</dev/rg-$d) 2>/dev/null && opens=r
  (exec 3>/dev/rg-$d) 2>/dev/null && opens=${opens}w
  echo "$d:$opens"
done
test -f /opt/rg/mark && cat /opt/rg/mark
(echo x > /opt/rg/mark) 2>/dev/null && echo written
echo "$RG_READ$RG_WRITE$RG_BOTH$RG_OTHER"
"""


def host_node() -> str:
    """A device that no container may open by itself, and that does nothing when it is opened."""
    for path in ("/dev/loop-control", "/dev/net/tun"):
        if os.path.exists(path):
            return path
    pytest.skip("this machine has no device node to try")


def described(mark: Path) -> str:
    permissions = {"read": "r", "write": "w", "both": "rw", "other": "rw"}
    return "".join(
        f"""- name: {name}
  stack: {"device-plugin" if name == "write" else "dra"}
  deviceNodes: [{{path: /dev/rg-{name}, hostPath: {host_node()}, permissions: {letters}}}]
  mounts: [{{hostPath: {mark}, containerPath: /opt/rg}}]
  env: {{RG_{name.upper()}: "{name}"}}
"""
        for name, letters in permissions.items()
    )


@pytest.mark.row(31, how="real")
@pytest.mark.row(32, how="real")
@pytest.mark.row(50, how="real")
def test_permissions_of_a_device_are_kept_in_a_real_container(tmp_path: Path) -> None:
    runc = program()
    mark = tmp_path / "given"
    mark.mkdir()
    (mark / "mark").write_text("here\n")
    seen: dict[str, list[str]] = {}

    async def scenario(node: Node) -> None:
        found = RealHost().device(host_node())
        assert isinstance(found, HostDevice)
        node.host.devices[host_node()] = found
        node.describe(description(described(mark)))
        await node.start()
        dra = await node.kubelet.dra()
        prepared = await dra.node_prepare_resources([node.claim("x", "read"), node.claim("y", "both")])
        names = {uid: result.devices[0].cdi_device_ids for uid, result in prepared.items()}
        (allocated,) = await (await node.kubelet.plugin()).allocate([["write"]])
        runtime = OciRuntime(RealClock(), node.files, RealHost(), (CDI,), OciOptions(runc, str(tmp_path / "oci")))
        try:
            for name, ids in (("read", names["uid-x"]), ("both", names["uid-y"]), ("write", allocated.cdi_devices)):
                asked = ContainerRequest("u", "n", "p", name, command=("/bin/sh", "-c", SCRIPT), cdi_devices=ids)
                state = await until_ended(runtime, await runtime.start(asked))
                seen[name] = runtime.logs(state.id).decode().split()
        finally:
            await runtime.close()

    run(scenario)
    assert seen == {
        "read": ["read:r", "here", "read"],
        "both": ["both:rw", "here", "both"],
        "write": ["write:w", "here", "write"],
    }
    assert (mark / "mark").read_text() == "here\n"
