"""Being known to the kubelet: a socket beside kubelet.sock for the device plugin, two for DRA.

A restarting kubelet removes every socket in device-plugins/ and makes its own anew, and forgets all device plugins; the
sockets of DRA drivers stay and are found again by the kubelet itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from regauge.base import Clock
from regauge.driver.device_plugin import Plugin
from regauge.driver.instances import Addresses
from regauge.driver.notices import Notice, Tell
from regauge.driver.signals import Signal, wait_at_most
from regauge.pluginapi import (
    DEVICE_PLUGIN_VERSION,
    DRA_PLUGIN_TYPE,
    DRA_V1,
    DRA_V1BETA1,
    HEALTH_V1,
    HEALTH_V1ALPHA1,
    DRAHealth,
    DRAPlugin,
    PluginInfo,
    PluginNet,
    RegisterRequest,
    RegistrationStatus,
    RpcError,
    Served,
    Services,
)

KUBELET_SOCKET = "kubelet.sock"
RETRY_FIRST_S = 1.0
RETRY_LAST_S = 30.0


class DevicePluginRegistration:
    """Serves the plugin and keeps it registered. `directory` is the kubelet's device-plugins."""

    def __init__(self, plugin: Plugin, resource: str, directory: str, net: PluginNet, clock: Clock, tell: Tell) -> None:
        self._plugin = plugin
        self._resource = resource
        self._directory = directory
        self._net = net
        self._clock = clock
        self._tell = tell
        self._served: Served | None = None
        self._sockets: dict[str, int] = {}
        self._seen = Signal()
        self._registered: int | None = None
        self.endpoint = f"{resource.replace('/', '-')}.sock"

    async def watch(self) -> None:
        """Follow the directory. Runs until it is cancelled."""
        async for sockets in self._net.watch(self._directory):
            self._sockets = dict(sockets)
            self._seen.set()

    async def listen(self) -> None:
        """Register again when the kubelet hung up on the list: to it the plugin is gone then. Runs on.

        Not at once, and ever more slowly if it keeps hanging up; a kubelet that is new is met at once all the same.
        """
        heard = self._plugin.unheard.version
        retry_s = RETRY_FIRST_S
        while True:
            before_s = self._clock.monotonic_s()
            heard = await self._plugin.unheard.wait(heard)
            if self._clock.monotonic_s() - before_s > RETRY_LAST_S:
                retry_s = RETRY_FIRST_S
            kubelet = self._registered
            await self._clock.sleep(retry_s)
            retry_s = min(retry_s * 2, RETRY_LAST_S)
            if self._registered == kubelet:
                self._registered = None
                self._seen.set()

    async def run(self) -> None:
        """Serve at once, register whenever there is a kubelet that has not heard of the plugin. Runs on."""
        await self._serve()
        retry_s = RETRY_FIRST_S
        try:
            while True:
                seen = self._seen.version
                kubelet = self._sockets.get(KUBELET_SOCKET)
                if kubelet is None or kubelet == self._registered:
                    await self._seen.wait(seen)
                    continue
                if await self._register(kubelet):
                    retry_s = RETRY_FIRST_S
                elif self._sockets.get(KUBELET_SOCKET) == kubelet:
                    await wait_at_most(self._seen, self._seen.version, self._clock, retry_s)
                    retry_s = min(retry_s * 2, RETRY_LAST_S)
        finally:
            if self._served is not None:
                await self._served.stop()

    async def _serve(self) -> None:
        if self._served is not None:
            await self._served.stop()
        self._served = await self._net.serve(f"{self._directory}/{self.endpoint}", Services(device_plugin=self._plugin))

    async def _register(self, kubelet: int) -> bool:
        if self.endpoint not in self._sockets:
            await self._serve()
        self._registered = kubelet  # before the call: a kubelet that hangs up during it must be noticed
        try:
            channel = await self._net.connect(f"{self._directory}/{KUBELET_SOCKET}", timeout_s=5.0)
            try:
                options = await self._plugin.get_options()
                request = RegisterRequest(DEVICE_PLUGIN_VERSION, self.endpoint, self._resource, options)
                await channel.kubelet_registration().register(request)
            finally:
                await channel.close()
        except RpcError as error:
            self._registered = None
            self._tell(Notice("register-failed", str(error), "warning", self._resource))
            return False
        self._tell(Notice("registered", f"device plugin at {self.endpoint}", about=self._resource))
        return True


class DRARegistration:
    """Serves prepare, unprepare and health, and the registration socket by which the kubelet finds them."""

    def __init__(self, driver: str, at: Addresses, net: PluginNet, tell: Tell) -> None:
        self._driver = driver
        self._net = net
        self._tell = tell
        self.registered = Signal()
        self.endpoint = at.endpoint
        self.registry = at.registry

    async def run(self, dra: DRAPlugin, health: DRAHealth, drained: Callable[[], Awaitable[None]]) -> None:
        """Serve until it is cancelled. The registry socket goes first, so that no kubelet finds a driver half gone, then
        calls that are being carried out end (`drained`): a call cut off costs its pod a minute.

        A registry socket that somebody removes is made again; one that a dead process left is replaced.
        """
        async with contextlib.AsyncExitStack() as stack:
            served = await self._net.serve(self.endpoint, Services(dra=dra, health=health))
            stack.push_async_callback(served.stop)
            stack.push_async_callback(drained)
            registry = _Registry(self._net, self.registry, Services(plugin_registration=self))
            stack.push_async_callback(registry.stop)
            directory, _, name = self.registry.rpartition("/")
            await registry.serve()
            async for sockets in self._net.watch(directory):
                if name not in sockets:
                    await registry.serve()

    async def get_info(self) -> PluginInfo:
        """Newest first: the kubelet takes the first version that it knows."""
        versions = (DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1)
        return PluginInfo(DRA_PLUGIN_TYPE, self._driver, self.endpoint, versions)

    async def notify_registration_status(self, status: RegistrationStatus) -> None:
        if status.plugin_registered:
            self._tell(Notice("registered", "DRA driver", about=self._driver))
            self.registered.set()
        else:
            text = f"the kubelet refused the driver: {status.error}"
            self._tell(Notice("register-failed", text, "error", self._driver))


class _Registry:
    """One socket that can be made again."""

    def __init__(self, net: PluginNet, address: str, services: Services) -> None:
        self._net = net
        self._address = address
        self._services = services
        self._served: Served | None = None

    async def serve(self) -> None:
        await self.stop()
        self._served = await self._net.serve(self._address, self._services)

    async def stop(self) -> None:
        if self._served is not None:
            await self._served.stop()
            self._served = None
