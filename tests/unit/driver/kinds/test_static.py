"""Everything a description may give to a container arrives in its configuration."""

from __future__ import annotations

import pytest
from tests.unit.driver.fakes import CDI, Node
from tests.unit.driver.kinds.trees import Kind, played, text

from regauge.base import InputError
from regauge.cdi import inject
from regauge.cdi.directory import SpecDirectories


@pytest.mark.row(32)
@pytest.mark.row(33)
@pytest.mark.row(34)
@pytest.mark.row(35)
@pytest.mark.row(36)
def test_nodes_mounts_variables_hooks_and_names_are_emitted_and_applied() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        ref = node.claim("c", "gpu-0")
        (device,) = (await (await node.kubelet.dra()).node_prepare_resources([ref]))[ref.uid].devices
        assert device.cdi_device_ids == ("example.com/gpu=claim-uid-c-gpu-0",)
        catalog = SpecDirectories(node.files, (CDI,)).read()
        got = inject({"process": {"env": ["GPU=old"]}}, device.cdi_device_ids, catalog, node.host)
        document = got.document  # type: ignore[union-attr]
        linux = document["linux"]
        assert linux["devices"] == [
            {"path": "/dev/gpu0", "type": "c", "major": 1, "minor": 3, "fileMode": 0o640, "uid": 1000, "gid": 44}
        ]
        assert linux["resources"]["devices"] == [{"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}]
        assert linux["netDevices"] == {"eth7": {"name": "net0"}}
        assert document["mounts"] == [
            {"source": "/opt/gpu", "destination": "/usr/local/gpu", "options": ["ro", "bind"]}
        ]
        assert document["hooks"] == {
            "createContainer": [
                {"path": "/usr/bin/gpu-hook", "args": ["gpu-hook", "setup"], "env": ["A=1"], "timeout": 5}
            ]
        }
        assert document["process"] == {"env": ["GPU=0"], "user": {"uid": 0, "gid": 0, "additionalGids": [44]}}

    played("static", scenario)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("type: c", "type: x", "deviceNodes[0].type: 'x' is not known"),
        ("uid: 1000", "uid: -1", "deviceNodes[0].uid: -1 is out of range"),
        ("name: net0", "name: a/b", "'a/b' cannot be the name of an interface"),
        ("hookName: createContainer", "hookName: onStart", "onStart"),
        ("path: /usr/bin/gpu-hook", "path: gpu-hook", "hooks[0].path: 'gpu-hook' is not an absolute path"),
        ("gids: [44]", "gids: [-4]", "gids: a list of whole numbers from 0 is expected"),
        ("timeout: 5", "timout: 5", "hooks[0].timout: there is no such field (did you mean timeout?)"),
        ("devices:\n", "discover: {root: /}\ndevices:\n", "discover.root: there is no such field"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, expected: str) -> None:
    assert old in text("static")
    with pytest.raises(InputError) as caught:
        Kind("static", text("static").replace(old, new, 1))
    assert expected in str(caught.value)


def test_what_the_classic_answer_cannot_carry_is_said_before_a_container_misses_it() -> None:
    classic = text("static").replace("devices:", "devicePlugin: {answer: classic}\ndevices:")
    Kind("static", classic)
    with pytest.raises(
        InputError, match="device gpu-0: it has hooks, netDevices, gids, which the device plugin's classic"
    ):
        Kind("static", classic.replace("stack: dra", "stack: device-plugin"))


@pytest.mark.parametrize("section", ["discover: {}", "rules: []"])
def test_a_description_without_devices_is_refused(section: str) -> None:
    with pytest.raises(InputError, match=r"nothing would be served \(list at least one under devices\)"):
        Kind("static", text("static").split("devices:")[0] + section + "\n")
