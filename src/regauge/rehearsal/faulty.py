"""The ports of a rehearsed process, with faults: files, plugin calls, waits, the API. Each passes named points (`faults`)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from regauge.base import Clock, Files
from regauge.cluster import ApiCall
from regauge.kube import ApiPort, Conflict, Gone, MemoryClient, ServerUnavailable, WatchEvent
from regauge.model import Kind
from regauge.pluginapi import (
    Channel,
    ClaimRef,
    ContainerAllocateResponse,
    DevicePlugin,
    DevicePluginOptions,
    DRAPlugin,
    PluginDevice,
    PluginNet,
    PreferredAllocationRequest,
    PrepareResult,
    RpcError,
    Served,
    Services,
)
from regauge.rehearsal.faults import What
from regauge.rehearsal.injector import Injector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a node as faults know it. `title` is unique in its world and its name as a writer at the API."""

    injector: Injector
    node: str
    name: str
    title: str

    def check_alive(self) -> None:
        self.injector.check_alive(self.title)


class FaultyFiles:
    """`Files` of one process. A dead process writes nothing."""

    def __init__(self, files: Files, process: Process) -> None:
        self._files = files
        self._process = process

    def _pass(self, path: str, moment: str) -> None:
        self._process.check_alive()
        name = path.rpartition("/")[2]
        fault = self._process.injector.reach(f"file {self._process.node} {self._process.name} {name} {moment}")
        if fault is not None and fault.what is What.FILES_FAIL:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def read(self, path: str) -> bytes:
        return self._files.read(path)

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self._pass(path, "before")
        self._files.write(path, data, mode)
        self._pass(path, "after")

    def remove(self, path: str) -> None:
        self._pass(path, "before")
        self._files.remove(path)
        self._pass(path, "after")

    def rename(self, old: str, new: str) -> None:
        self._pass(new, "before")
        self._files.rename(old, new)
        self._pass(new, "after")

    def names(self, directory: str) -> list[str]:
        return self._files.names(directory)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def make_directory(self, path: str, mode: int = 0o755) -> None:
        self._process.check_alive()
        self._files.make_directory(path, mode)

    def remove_directory(self, path: str) -> None:
        self._process.check_alive()
        self._files.remove_directory(path)


class FaultyClock:
    """`Clock` of one process, whose waits may be longer than they should."""

    def __init__(self, clock: Clock, process: Process) -> None:
        self._clock = clock
        self._process = process

    def now_s(self) -> float:
        return self._clock.now_s()

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    async def sleep(self, duration_s: float) -> None:
        fault = self._process.injector.reach(f"timer {self._process.node} {self._process.name}")
        late_s = fault.lasts_s if fault is not None and fault.what is What.TIMERS_LATE else 0.0
        await self._clock.sleep(duration_s + late_s)


class FaultyNet:
    """`PluginNet` of one process: the calls that it answers may hang, be slow, or fail."""

    def __init__(self, net: PluginNet, process: Process, clock: Clock) -> None:
        self.inner = net
        self._calls = _Calls(process, clock)

    async def serve(self, address: str, services: Services) -> Served:
        dra = None if services.dra is None else _FaultyDRA(services.dra, self._calls)
        plugin = None if services.device_plugin is None else _FaultyPlugin(services.device_plugin, self._calls)
        return await self.inner.serve(address, replace(services, dra=dra, device_plugin=plugin))

    async def connect(self, address: str, timeout_s: float = 10.0) -> Channel:
        return await self.inner.connect(address, timeout_s)

    def watch(self, directory: str) -> AsyncGenerator[Mapping[str, int], None]:
        return self.inner.watch(directory)

    async def remove(self, address: str) -> None:
        await self.inner.remove(address)


@dataclass(frozen=True, slots=True)
class _Calls:
    process: Process
    clock: Clock

    async def answer(self, method: str, work: Callable[[], Awaitable[T]]) -> T:
        """One call, with what may go wrong before it and after it."""
        await self._pass(method, "before")
        found = await work()
        await self._pass(method, "after")
        return found

    async def _pass(self, method: str, moment: str) -> None:
        fault = self.process.injector.reach(f"call {self.process.node} {method} {moment}")
        if fault is None:
            return
        if fault.what is What.DRIVER_HUNG:
            await asyncio.Event().wait()
        elif fault.what is What.DRIVER_SLOW:
            await self.clock.sleep(fault.lasts_s)
        elif fault.what is What.DRIVER_FAILS:
            raise RpcError("Internal", "the rehearsal lets this call fail")


class _FaultyDRA:
    """`DRAPlugin` in front of another."""

    def __init__(self, plugin: DRAPlugin, calls: _Calls) -> None:
        self._plugin = plugin
        self._calls = calls

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        return await self._calls.answer("NodePrepareResources", lambda: self._plugin.node_prepare_resources(claims))

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return await self._calls.answer("NodeUnprepareResources", lambda: self._plugin.node_unprepare_resources(claims))


class _FaultyPlugin:
    """`DevicePlugin` in front of another."""

    def __init__(self, plugin: DevicePlugin, calls: _Calls) -> None:
        self._plugin = plugin
        self._calls = calls

    async def get_options(self) -> DevicePluginOptions:
        return await self._plugin.get_options()

    def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        return self._plugin.list_and_watch()

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        return await self._plugin.get_preferred_allocation(requests)

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        return await self._calls.answer("Allocate", lambda: self._plugin.allocate(requests))

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        await self._calls.answer("PreStartContainer", lambda: self._plugin.pre_start_container(device_ids))


class FaultyClient(MemoryClient):
    """The client of a driver, whose watches may break."""

    def __init__(self, api: ApiPort, process: Process) -> None:
        super().__init__(api)
        self._process = process

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        events = super().watch(
            kind,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        async for event in events:
            fault = self._process.injector.reach(f"watch {self._process.node} {kind.plural}")
            if fault is not None and fault.what is What.WATCH_BROKEN:
                raise Gone(410, "Expired", "the rehearsal breaks this watch: list again")
            yield event


def pass_write(injector: Injector, call: ApiCall) -> None:
    """The API server's `cluster.server_state.Fault`: a write is about to happen, or has happened."""
    injector.check_alive(call.actor)
    kind = f"{call.kind.kind}/{call.subresource}" if call.subresource else call.kind.kind
    fault = injector.reach(f"write {call.actor} {call.verb} {kind} {call.moment}")
    if fault is None:
        return
    if fault.what is What.WRITES_CONFLICT:
        raise Conflict(409, "Conflict", f"the rehearsal was quicker than this write of {call.kind.kind} {call.name}")
    if fault.what is What.WRITES_FAIL:
        raise ServerUnavailable("the rehearsal lets this write fail")
    if fault.what is What.WRITES_SLOW:
        raise ServerUnavailable("the rehearsal lets this write take too long: nobody knows whether it happened")
