"""What a container gets: exactly the devices it was given, whichever stack gave them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.driver.fakes import CDI, Node, description, run

from regauge.cdi import Injected, Refused, inject
from regauge.cdi.directory import SpecDirectories

DEVICES = "".join(
    f"""- name: {name}
  stack: {stack}
  deviceNodes: [{{path: /dev/{name}, hostPath: /dev/null, permissions: r}}]
  mounts: [{{hostPath: /opt/{name}, containerPath: /lib/{name}}}]
  env: {{DEVICE_{name.upper()}: "{name}"}}
"""
    for name, stack in (("a", "device-plugin"), ("b", "device-plugin"), ("c", "dra"), ("d", "dra"))
)


def injected(node: Node, names: tuple[str, ...]) -> Any:
    """The container's configuration after the runtime looked the names up."""
    catalog = SpecDirectories(node.files, (CDI,)).read()
    return inject({"process": {"env": ["PATH=/bin"]}}, list(names), catalog, node.host)


def seen(result: Any) -> tuple[list[str], list[str], list[str], list[str]]:
    """Environment, device nodes, mounts and device access of a container."""
    assert isinstance(result, Injected), result
    document = result.document
    return (
        document["process"]["env"][1:],
        [one["path"] for one in document["linux"]["devices"]],
        [one["destination"] for one in document["mounts"]],
        [one["access"] for one in document["linux"]["resources"]["devices"]],
    )


@pytest.mark.row(2)
@pytest.mark.row(31)
@pytest.mark.row(32)
@pytest.mark.row(33)
@pytest.mark.row(50)
def test_exactly_what_was_given_is_in_the_container() -> None:
    async def scenario(node: Node) -> None:
        node.describe(description(DEVICES))
        await node.start()
        (answer,) = await (await node.kubelet.plugin()).allocate([["b"]])
        assert seen(injected(node, answer.cdi_devices)) == (["DEVICE_B=b"], ["/dev/b"], ["/lib/b"], ["r"])
        dra = await node.kubelet.dra()
        ref = node.claim("x", "d", "c")
        result = (await dra.node_prepare_resources([ref]))["uid-x"]
        names = tuple(name for device in result.devices for name in device.cdi_device_ids)
        env, paths, mounts, _ = seen(injected(node, names))
        assert env == ["DEVICE_D=d", "DEVICE_C=c"]
        assert (sorted(paths), sorted(mounts)) == (["/dev/c", "/dev/d"], ["/lib/c", "/lib/d"])
        assert isinstance(injected(node, ("example.com/gpu=c",)), Refused), (
            "a claim's device has no name without a claim"
        )
        await dra.node_unprepare_resources([ref])
        assert isinstance(injected(node, names), Refused)

    run(scenario)
