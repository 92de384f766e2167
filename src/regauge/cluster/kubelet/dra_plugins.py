"""DRA drivers of a node: their connections, which of several instances is asked, and the end of their ResourceSlices.

Source: pkg/kubelet/cm/dra/plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from regauge.base import Clock, Machine, Table, TransientError
from regauge.cluster.kubelet.claims import ClaimTrouble
from regauge.cluster.kubelet.options import KubeletOptions
from regauge.cluster.kubelet.work import Work, deadline
from regauge.cluster.port import ClusterApi
from regauge.kube import ApiError, NotFound
from regauge.model.kinds import NODE, RESOURCE_SLICE
from regauge.model.quoting import go_quote
from regauge.pluginapi import Channel, DeviceHealth, PluginNet, RpcError

T = TypeVar("T")
_BACKOFF_S, _BACKOFF_FACTOR, _BACKOFF_LIMIT_S = 1.0, 1.6, 120.0
_WIPE_AGAIN_S = 1.0


class LinkState(Enum):
    """The connection to one instance of a driver."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"
    REMOVED = "removed"


class LinkEvent(Enum):
    DIALED = "dialed"
    DROPPED = "dropped"
    DEREGISTERED = "deregistered"


LINK_STATES: Table[LinkState, LinkEvent] = {
    LinkState.CONNECTING: {
        LinkEvent.DIALED: LinkState.CONNECTED,
        LinkEvent.DROPPED: LinkState.LOST,
        LinkEvent.DEREGISTERED: LinkState.REMOVED,
    },
    LinkState.CONNECTED: {
        LinkEvent.DROPPED: LinkState.LOST,
        LinkEvent.DEREGISTERED: LinkState.REMOVED,
    },
    LinkState.LOST: {
        LinkEvent.DIALED: LinkState.CONNECTED,
        LinkEvent.DROPPED: LinkState.LOST,
        LinkEvent.DEREGISTERED: LinkState.REMOVED,
    },
    LinkState.REMOVED: {},
}


@dataclass(eq=False, slots=True)
class Link:
    """One registered instance of a driver. `version` is that of the DRA service the kubelet uses."""

    driver: str
    endpoint: str
    version: str
    supported: tuple[str, ...]
    machine: Machine[LinkState, LinkEvent]
    channel: Channel | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    up: asyncio.Event = field(default_factory=asyncio.Event)
    down: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def connected(self) -> bool:
        return self.machine.state is LinkState.CONNECTED


@dataclass(slots=True)
class DRAPlugins:
    """`on_health` hears health messages (driver, reports; None when the stream ended)."""

    node: str
    api: ClusterApi
    net: PluginNet
    clock: Clock
    options: KubeletOptions
    work: Work
    on_health: Callable[[str, Sequence[DeviceHealth] | None], None]
    _links: dict[str, list[Link]] = field(default_factory=dict)
    _wipes: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def versions(self) -> tuple[str, ...]:
        """The services the kubelet knows, newest first."""
        return tuple(f"{version}.DRAPlugin" for version in self.options.rules.services.get("dra", ()))

    def start(self) -> None:
        """No driver is usable yet, so nothing of this node may be given away: all its slices go."""
        self.work.start(self._wipe("", 0.0), "slices at start")

    def choose_version(self, name: str, endpoint: str, supported: Sequence[str]) -> str:
        """The first of the plugin's services that the kubelet knows. Raises `ValueError` in upstream's words."""
        for service in supported:
            if service in self.versions:
                return service.removesuffix(".DRAPlugin")
        why = "empty list of supported gRPC services (aka supported versions)"
        if supported:
            why = (
                f"none of services supported by the plugin ({_go_list(supported)})"
                f" are supported by the kubelet ({_go_list(self.versions)})"
            )
        raise ValueError(f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {why}")

    def add(self, name: str, endpoint: str, supported: Sequence[str]) -> None:
        """An instance registered. Raises `ValueError` when another one has its endpoint."""
        version = self.choose_version(name, endpoint, supported)
        links = self._links.setdefault(name, [])
        if any(link.endpoint == endpoint for link in links):
            raise ValueError(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        machine = Machine(f"DRA driver {name} at {endpoint}", LINK_STATES, LinkState.CONNECTING)
        link = Link(name, endpoint, version, tuple(supported), machine)
        links.append(link)
        link.tasks.append(self.work.start(self._hold(link), f"connection {name}"))
        if self.options.rules.on("ResourceHealthStatus"):
            link.tasks.append(self.work.start(self._watch_health(link), f"health {name}"))
        self._look_at(name)

    async def remove(self, name: str, endpoint: str) -> None:
        """An instance's registration socket is gone."""
        links = self._links.get(name, [])
        for link in [link for link in links if link.endpoint == endpoint]:
            links.remove(link)
            link.machine.step(LinkEvent.DEREGISTERED)
            for task in link.tasks:
                if task is not asyncio.current_task():
                    task.cancel()
            if link.channel is not None:
                await link.channel.close()
        if not links:
            self._links.pop(name, None)
        self._look_at(name)

    def find(self, driver: str) -> Link:
        """The instance to ask: the latest connected one, else the latest. Raises `ClaimTrouble` when none registered."""
        links = self._links.get(driver, [])
        if not links:
            raise ClaimTrouble(f"DRA driver {driver} is not registered")
        return next((link for link in reversed(links) if link.connected), links[-1])

    async def call(self, link: Link, ask: Callable[[Channel], Awaitable[T]]) -> T:
        """One call to a driver, cut after the kubelet's limit. Raises `RpcError`."""
        async with deadline(self.options.timings.dra_call_s):
            channel = link.channel
            if channel is None or not link.connected:
                channel = await self.net.connect(link.endpoint)
                try:
                    return await ask(channel)
                finally:
                    await channel.close()
            return await ask(channel)

    async def stop(self) -> None:
        for links in self._links.values():
            for link in links:
                if link.channel is not None:
                    await link.channel.close()
        self._links.clear()

    async def _hold(self, link: Link) -> None:
        """Keep the connection: dial, wait until it is lost, dial again with a growing delay."""
        pause_s = _BACKOFF_S
        while link.machine.state is not LinkState.REMOVED:
            try:
                channel = await self.net.connect(link.endpoint)
            except RpcError:
                self._step(link, LinkEvent.DROPPED)
                await self.clock.sleep(pause_s)
                pause_s = min(_BACKOFF_LIMIT_S, pause_s * _BACKOFF_FACTOR)
                continue
            if link.channel is not None:
                await link.channel.close()  # only now: calls that broke must say so, not that we hung up
            link.channel = channel
            pause_s = _BACKOFF_S
            self._step(link, LinkEvent.DIALED)
            await channel.wait_lost()
            self._step(link, LinkEvent.DROPPED)

    def _step(self, link: Link, event: LinkEvent) -> None:
        link.machine.step(event)
        now, before = (link.up, link.down) if link.connected else (link.down, link.up)
        now.set()
        before.clear()
        self._look_at(link.driver)

    def _look_at(self, driver: str) -> None:
        """A driver without any connection loses its slices after a while; one that is back keeps them."""
        pending = self._wipes.get(driver)
        if any(link.connected for link in self._links.get(driver, [])):
            if pending is not None:
                pending.cancel()
                del self._wipes[driver]
        elif pending is None or pending.done():
            wipe = self._wipe(driver, self.options.timings.slice_wipe_s)
            self._wipes[driver] = self.work.start(wipe, f"slices of {driver}")

    async def _wipe(self, driver: str, delay_s: float) -> None:
        await self.clock.sleep(delay_s)
        pause_s = _WIPE_AGAIN_S
        while not self._wiped(driver):
            await self.clock.sleep(pause_s)
            pause_s = min(_BACKOFF_LIMIT_S, pause_s * 2)

    def _wiped(self, driver: str) -> bool:
        """Delete the slices of this node (of one driver, or of all with ""). False when it is to be tried again."""
        try:
            self.api.get(NODE, self.node)
            for slice_ in self.api.list(RESOURCE_SLICE):
                spec = slice_.get("spec", {})
                if spec.get("nodeName") == self.node and driver in ("", spec.get("driver")):
                    self._delete_slice(slice_["metadata"]["name"])
        except (ApiError, TransientError):
            return False
        return True

    def _delete_slice(self, name: str) -> None:
        try:
            self.api.delete(RESOURCE_SLICE, name)
        except NotFound:
            return

    async def _watch_health(self, link: Link) -> None:
        known = [f"{version}.DRAResourceHealth" for version in self.options.rules.services.get("dra-health", ())]
        told = next((service for service in link.supported if service in known), None)
        version = (told or known[-1]).partition(".")[0]
        while link.machine.state is not LinkState.REMOVED:
            await link.up.wait()
            unserved = await self._read_health(link, version)
            if unserved and told is None:
                await link.down.wait()
            await self.clock.sleep(self.options.timings.health_reopen_s)

    async def _read_health(self, link: Link, version: str) -> bool:
        """Listen until the stream ends. Returns whether the driver said that it has no such service."""
        if link.channel is None:
            return False
        try:
            async for reports in link.channel.health(version).node_watch_resources():
                self.on_health(link.driver, reports)
            return False
        except RpcError as error:
            self.options.say(f"health stream of DRA driver {link.driver} ended: {error}")
            return error.code == "Unimplemented"
        finally:
            self.on_health(link.driver, None)


def _go_list(texts: Sequence[str]) -> str:
    return "[" + " ".join(go_quote(text) for text in texts) + "]"
