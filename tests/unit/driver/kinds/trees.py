"""Fixture trees of the kinds of devices, as a node in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support import ROOT
from tests.unit.driver.fakes import CONFIG, FakeClock, FakeHost, Node

from regauge.base import MemoryFiles
from regauge.cdi import HostDevice
from regauge.driver import Description, Device, Notice
from regauge.driver.kinds import KINDS, ClaimUse, DeviceKind, Surroundings
from regauge.driver.process import check

FIXTURES = ROOT / "tests" / "fixtures" / "kinds"
USE = ClaimUse("uid-1", "team", "claim", ("gpus",))


def tree(kind: str) -> MemoryFiles:
    """The fixture of a kind below /, its description included."""
    files = MemoryFiles()
    place = FIXTURES / kind
    for path in sorted(place.rglob("*")):
        inside = "/" + path.relative_to(place).as_posix()
        if path.is_file():
            files.make_directory(inside.rpartition("/")[0] or "/")
            files.write(inside, path.read_bytes())
    return files


def text(kind: str) -> str:
    return (FIXTURES / kind / "devices.yaml").read_text()


class Kind:
    """A kind on its fixture tree, with the description that stands there."""

    def __init__(self, name: str, described: str = "") -> None:
        self.files = tree(name)
        self.host = FakeHost()
        self.clock = FakeClock()
        self.notices: list[Notice] = []
        around = Surroundings(self.files, self.host, self.clock, self.notices.append)
        self.kind: DeviceKind = KINDS[name](around)
        self.described: Description = check((described or text(name)).encode(), "devices.yaml")

    def discover(self) -> dict[str, Device]:
        found = asyncio.run(self.kind.discover(self.described))
        return {device.name: device for device in found}

    def again(self, described: str) -> dict[str, Device]:
        self.described = check(described.encode(), "devices.yaml")
        return self.discover()

    def health(self) -> dict[str, str]:
        """By device, why it is not healthy; the others are left out."""
        devices = tuple(self.discover().values())
        found = asyncio.run(self.kind.health(devices))
        return {name: one.message for name, one in found.items() if not one.healthy}

    def env(self, device: Device, **use: Any) -> dict[str, str]:
        """What prepare adds to the environment."""
        edits = asyncio.run(self.kind.prepare(device, replace(USE, **use)))
        return dict(item.split("=", 1) for item in edits.env)

    def node(self, *paths: str) -> None:
        for number, path in enumerate(paths):
            self.host.devices[path] = HostDevice("c", 195, number, 0o666)


def played(name: str, scenario: Callable[[Node], Any], described: str = "", **parts: Any) -> Node:
    """A whole driver on a fixture tree, with a kubelet that runs."""

    async def play() -> Node:
        node = Node(files=tree(name), **parts)
        node.files.write(CONFIG, (described or text(name)).encode())
        await node.kubelet.start()
        try:
            await scenario(node)
        finally:
            if hasattr(node, "task"):
                await node.stop()
        return node

    return asyncio.run(play())
