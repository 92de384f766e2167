"""The plugin watcher: finds registration sockets in plugins_registry, asks who is there, tells it the outcome.

Source: pkg/kubelet/pluginmanager. Retry: a plugin that was refused or did not answer is asked again with a growing delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from regauge.base import Clock
from regauge.cluster.kubelet.device_manager import DeviceManager, is_extended_resource
from regauge.cluster.kubelet.dra_plugins import DRAPlugins
from regauge.cluster.kubelet.options import KubeletOptions
from regauge.cluster.kubelet.work import Work, deadline
from regauge.model.quoting import go_quote
from regauge.pluginapi import (
    DEVICE_PLUGIN_VERSION,
    DRA_PLUGIN_TYPE,
    Channel,
    PluginInfo,
    PluginNet,
    RegistrationStatus,
    RpcError,
)

DEVICE_PLUGIN_TYPE = "DevicePlugin"
_CALL_S = 10.0
_RETRY_LIMIT_S = 122.0


@dataclass(slots=True)
class _Socket:
    """One registration socket. `info` is set while its plugin is registered."""

    path: str
    identity: int
    task: asyncio.Task[None] | None = None
    info: PluginInfo | None = None


@dataclass(slots=True)
class PluginRegistry:
    """The registered plugins of a node."""

    net: PluginNet
    clock: Clock
    options: KubeletOptions
    work: Work
    dra: DRAPlugins
    device_plugins: DeviceManager
    _sockets: dict[str, _Socket] = field(default_factory=dict)

    def start(self) -> None:
        self.work.start(self._watch(), "plugin watcher")

    async def _watch(self) -> None:
        pause_s = 0.0  # what is there at the start is asked at once, what comes later at the next tick
        async for names in self.net.watch(self.options.plugins_registry):
            await self._bring_about(names, pause_s)
            pause_s = self.options.timings.registry_tick_s

    async def _bring_about(self, names: Mapping[str, int], pause_s: float) -> None:
        """Deregister what is gone or was made anew, then register what is new."""
        for name, socket in tuple(self._sockets.items()):
            if names.get(name) != socket.identity:
                del self._sockets[name]
                await self._end(socket)
        for name, identity in names.items():
            if name not in self._sockets and not name.startswith("."):
                socket = _Socket(f"{self.options.plugins_registry}/{name}", identity)
                self._sockets[name] = socket
                socket.task = self.work.start(self._register(socket, pause_s), f"registration {name}")

    async def _end(self, socket: _Socket) -> None:
        if socket.task is not None:
            socket.task.cancel()
        if socket.info is None:
            return
        if socket.info.type == DRA_PLUGIN_TYPE:
            await self.dra.remove(socket.info.name, socket.info.endpoint)
        else:
            await self.device_plugins.disconnect(socket.info.name)

    async def _register(self, socket: _Socket, pause_s: float) -> None:
        again_s = self.options.timings.registry_tick_s
        while True:
            await self.clock.sleep(pause_s)
            if await self._registered(socket):
                return
            pause_s, again_s = again_s, min(_RETRY_LIMIT_S, again_s * 2)

    async def _registered(self, socket: _Socket) -> bool:
        try:
            async with deadline(_CALL_S):
                channel = await self.net.connect(socket.path, timeout_s=_CALL_S)
                try:
                    return await self._agree(socket, channel)
                finally:
                    await channel.close()
        except RpcError as error:
            self.options.say(f"registration at {socket.path} failed: {error}")
            return False

    async def _agree(self, socket: _Socket, channel: Channel) -> bool:
        plugin = channel.plugin_registration()
        told = await plugin.get_info()
        info = PluginInfo(told.type, told.name, told.endpoint or socket.path, told.supported_versions)
        trouble = await self._take(info, socket.path)
        if not trouble:
            socket.info = info
        await plugin.notify_registration_status(RegistrationStatus(not trouble, trouble))
        if trouble:
            self.options.say(trouble)
        return not trouble

    async def _take(self, info: PluginInfo, path: str) -> str:
        """Hand the plugin to whoever keeps its type. Returns why not, in upstream's words."""
        if info.type not in (DRA_PLUGIN_TYPE, DEVICE_PLUGIN_TYPE):
            return f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {path}"
        try:
            self._validate(info)
        except ValueError as error:
            return f"RegisterPlugin error -- plugin validation failed with err: {error}"
        try:
            if info.type == DRA_PLUGIN_TYPE:
                self.dra.add(info.name, info.endpoint, info.supported_versions)
            else:
                await self.device_plugins.connect(info.name, info.endpoint)
        except (ValueError, RpcError) as error:
            return f"RegisterPlugin error -- plugin registration failed with err: {error}"
        return ""

    def _validate(self, info: PluginInfo) -> None:
        if info.type == DRA_PLUGIN_TYPE:
            self.dra.choose_version(info.name, info.endpoint, info.supported_versions)
            return
        if DEVICE_PLUGIN_VERSION not in info.supported_versions:
            versions = " ".join(info.supported_versions)
            raise ValueError(
                f"manager version, {DEVICE_PLUGIN_VERSION}, is not among plugin supported versions [{versions}]"
            )
        if not is_extended_resource(info.name):
            raise ValueError(f"invalid name of device plugin socket: the ResourceName {go_quote(info.name)} is invalid")
