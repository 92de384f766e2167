"""The plugin port in one process: no sockets, no serialisation, no time of its own.

It keeps the promises of `pluginapi.wire`, also the unpleasant ones: leftovers of a killed process refuse connections,
open calls end with `Unavailable`, a list over the receive limit ends its stream. Everything happens in one asyncio loop,
in an order that depends only on the order of the calls.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regauge.base import InputError, Where
from regauge.host import check_socket_path
from regauge.pluginapi.calls import RECEIVE_LIMIT_BYTES, Clients, dra_service, offered
from regauge.pluginapi.failures import as_rpc_error, in_use, lost, not_dialed, not_served, too_large
from regauge.pluginapi.messages import PluginDevice, PrepareResult
from regauge.pluginapi.port import RpcError, Services
from regauge.pluginapi.sizes import list_size_bytes

_QUEUE_LENGTH = 16


@dataclass(slots=True)
class _Board:
    """What all processes on this net see."""

    names: dict[str, MemoryServed] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    identities: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class MemoryNet:
    """`PluginNet` in one process. `process()` gives each simulated process a net of its own that can be killed."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self._board = _Board()
        self._served: dict[MemoryServed, None] = {}
        self._channels: dict[MemoryChannel, None] = {}

    def process(self, owner: str) -> MemoryNet:
        """The same net as another process sees it. `owner` is its name in messages."""
        net = MemoryNet(owner)
        net._board = self._board
        return net

    def kill(self) -> None:
        """The process dies: its servers stop answering and leave their addresses behind, its connections close."""
        for served in tuple(self._served):
            served.die()
        for channel in tuple(self._channels):
            channel.abandon()

    async def serve(self, address: str, services: Services) -> MemoryServed:
        try:
            check_socket_path(address)
        except ValueError as error:
            raise InputError(str(error), where=Where(file=address)) from None
        there = self._board.names.get(address)
        if there is not None and there.alive:
            raise in_use(address, there.owner)
        served = MemoryServed(self._board, address, self.owner, services)
        self._served[served] = None
        served.gone.add_done_callback(lambda _: self._served.pop(served, None))
        self._board.names[address] = served
        self._board.tell()
        return served

    async def connect(self, address: str, timeout_s: float = 10.0) -> MemoryChannel:
        channel = MemoryChannel(self._board, address)
        channel.find_server()
        self._channels[channel] = None
        channel.closed.add_done_callback(lambda _: self._channels.pop(channel, None))
        return channel

    async def watch(self, directory: str) -> AsyncGenerator[Mapping[str, int], None]:
        prefix = directory.rstrip("/") + "/"
        told: dict[str, int] | None = None
        while True:
            changed = self._board.changed
            seen = {
                address.removeprefix(prefix): served.identity
                for address, served in sorted(self._board.names.items())
                if address.startswith(prefix) and "/" not in address.removeprefix(prefix)
            }
            if seen != told:
                told = seen
                yield dict(seen)
            else:
                await changed.wait()

    async def remove(self, address: str) -> None:
        if self._board.names.pop(address, None) is not None:
            self._board.tell()


class MemoryServed:
    """A server on a `MemoryNet`."""

    def __init__(self, board: _Board, address: str, owner: str, services: Services) -> None:
        self._board = board
        self._address = address
        self.owner = owner
        self.identity = next(board.identities)
        self.services = offered(services)
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls: dict[asyncio.Task[Any], None] = {}

    @property
    def address(self) -> str:
        return self._address

    @property
    def alive(self) -> bool:
        return not self.gone.done()

    def die(self) -> None:
        """Stop answering at once. The address stays, as a socket file does."""
        if self.alive:
            self.gone.set_result(None)
            for call in tuple(self._calls):
                call.cancel()

    async def stop(self) -> None:
        if not self.alive:
            return
        self.die()
        if self._board.names.get(self._address) is self:
            del self._board.names[self._address]
            self._board.tell()
        others = {call for call in self._calls if call is not asyncio.current_task()}
        if others:
            await asyncio.wait(others)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run one call in the server's name."""
        task = asyncio.get_running_loop().create_task(work)
        self._calls[task] = None
        task.add_done_callback(lambda done: self._calls.pop(done, None))
        return task


class MemoryChannel(Clients):
    """A connection on a `MemoryNet`. Like a gRPC channel it finds the server again when it came back."""

    def __init__(self, board: _Board, address: str) -> None:
        super().__init__(self)
        self._board = board
        self._address = address
        self._server: MemoryServed | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def find_server(self) -> MemoryServed:
        """Whoever answers now. Raises `RpcError`."""
        if self.closed.done():
            raise _closing()
        if self._server is None or not self._server.alive:
            there = self._board.names.get(self._address)
            if there is None:
                raise not_dialed(self._address, "no such file or directory")
            if not there.alive:
                raise not_dialed(self._address, "connection refused")
            self._server = there
        return self._server

    async def call(self, service: str, method: str, *arguments: Any) -> Any:
        server = self.find_server()
        task = server.start(getattr(self._answerer(server, service), method)(*arguments))
        try:
            await self._wait(server, task)
            answer = self._result(server, task)
        finally:
            task.cancel()
        return _as_sent(service, method, answer)

    async def stream(self, service: str, method: str) -> AsyncIterator[Any]:
        server = self.find_server()
        pipe = _Pipe()
        task = server.start(pipe.fill(getattr(self._answerer(server, service), method)()))
        try:
            while True:
                while not pipe.items and not task.done() and server.alive and not self.closed.done():
                    await self._wait(server, task, pipe.changed)
                if not pipe.items:
                    self._result(server, task)
                    return
                item = pipe.take()
                _check_size(method, item)
                yield item
        finally:
            task.cancel()

    async def wait_lost(self) -> None:
        if self._server is not None and self._server.alive and not self.closed.done():
            await asyncio.wait({self._server.gone, self.closed}, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Close, and end what is open."""
        if not self.closed.done():
            self.closed.set_result(None)

    def _answerer(self, server: MemoryServed, service: str) -> object:
        who = server.services.get(service)
        if who is None:
            raise not_served(service)
        return who

    async def _wait(self, server: MemoryServed, *others: asyncio.Future[Any]) -> None:
        await asyncio.wait({server.gone, self.closed, *others}, return_when=asyncio.FIRST_COMPLETED)

    def _result(self, server: MemoryServed, task: asyncio.Task[Any]) -> Any:
        if self.closed.done():
            raise _closing()
        if not server.alive:
            raise lost()
        if task.cancelled():
            raise RpcError("Canceled", "context canceled")
        error = task.exception()
        if isinstance(error, Exception):
            raise as_rpc_error(error) from None
        return task.result()


class _Pipe:
    """What a stream has sent and nobody has read yet, so many items and no more."""

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _tell(self) -> None:
        self.changed.set_result(None)
        self.changed = asyncio.get_running_loop().create_future()

    def take(self) -> Any:
        item = self.items.popleft()
        self._tell()
        return item

    async def fill(self, source: AsyncIterator[Any]) -> None:
        """Read the whole of `source`, and close it whatever happens."""
        try:
            async for item in source:
                self.items.append(item)
                self._tell()
                while len(self.items) >= _QUEUE_LENGTH:
                    await asyncio.wait({self.changed})
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()


def _closing() -> RpcError:
    return RpcError("Canceled", "grpc: the client connection is closing")


def _check_size(method: str, item: Any) -> None:
    if method == "list_and_watch":
        devices: Sequence[PluginDevice] = item
        size = list_size_bytes(devices)
        if size > RECEIVE_LIMIT_BYTES:
            raise too_large(size, RECEIVE_LIMIT_BYTES)


def _as_sent(service: str, method: str, answer: Any) -> Any:
    """What of an answer the API version can carry."""
    if method == "node_prepare_resources" and service == dra_service("v1beta1"):
        results: Mapping[str, PrepareResult] = answer
        return {
            uid: replace(result, devices=tuple(replace(device, share_id=None) for device in result.devices))
            for uid, result in results.items()
        }
    return answer
