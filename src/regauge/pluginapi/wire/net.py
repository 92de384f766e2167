"""`PluginNet` over gRPC on unix sockets of mode 0600."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from regauge.pluginapi.calls import RECEIVE_LIMIT_BYTES, RPCS, Clients, Rpc, offered
from regauge.pluginapi.failures import as_rpc_error, not_dialed, unavailable
from regauge.pluginapi.port import RpcError, Services
from regauge.pluginapi.wire.codec import Codec, codecs
from regauge.pluginapi.wire.sockets import (
    check_address,
    living_owner,
    publish,
    remove_own,
    sockets_in,
    temporary_name,
)
from regauge.pluginapi.wire.status import from_grpc, status_code

WATCH_PERIOD_S = 0.1
_NEVER_IDLE = ("grpc.client_idle_timeout_ms", 2**31 - 1)
_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", RECEIVE_LIMIT_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    _NEVER_IDLE,
)
_SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.server_max_unrequested_time_in_server", 60),  # the kubelet waits 45 s; 30 s is the default
)


class WireNet:
    """The machine's sockets. One per process is enough. It holds its servers until they are stopped."""

    def __init__(self) -> None:
        self._served: set[WireServed] = set()

    async def serve(self, address: str, services: Services) -> WireServed:
        check_address(address)
        temporary = temporary_name(address)
        server = grpc.aio.server(options=_SERVER_OPTIONS)
        server.add_generic_rpc_handlers(tuple(_handlers(name, who) for name, who in offered(services).items()))
        before = os.umask(0o177)
        try:
            server.add_insecure_port(f"unix:{temporary}")
        finally:
            os.umask(before)
        start = asyncio.ensure_future(server.start())
        try:
            await asyncio.shield(start)  # gRPC breaks when its start is cancelled
            own = publish(temporary, address)
        except BaseException:
            await asyncio.wait({start})
            await server.stop(None)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        served = WireServed(server, address, own, self._served.discard)
        self._served.add(served)
        return served

    async def connect(self, address: str, timeout_s: float = 10.0) -> WireChannel:
        channel = grpc.aio.insecure_channel(f"unix:{address}", options=_CHANNEL_OPTIONS)
        try:
            async with asyncio.timeout(timeout_s):  # wait_for loses a cancellation that meets a refused connection
                await _ready(channel, address)
        except TimeoutError:
            await channel.close()
            raise RpcError("DeadlineExceeded", f"{address} did not answer within {timeout_s:g} s") from None
        except BaseException:
            await channel.close()
            raise
        return WireChannel(channel)

    async def watch(self, directory: str) -> AsyncGenerator[Mapping[str, int], None]:
        told: Mapping[str, int] | None = None
        while True:
            seen = sockets_in(directory)
            if seen != told:
                told = seen
                yield dict(seen)
            await asyncio.sleep(WATCH_PERIOD_S)

    async def remove(self, address: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)


async def _ready(channel: grpc.aio.Channel, address: str) -> None:
    """Come back when the channel has a connection. Raises `RpcError` when the socket refuses."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise _refused(address)
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


def _refused(address: str) -> RpcError:
    if not os.path.lexists(address):
        return not_dialed(address, "no such file or directory")
    if living_owner(address) is None:
        return not_dialed(address, "connection refused")
    return unavailable(f"{address} accepts connections and does not speak HTTP/2")


class WireServed:
    """A gRPC server on a unix socket."""

    def __init__(
        self,
        server: grpc.aio.Server,
        address: str,
        own: tuple[int, int],
        stopped: Callable[[WireServed], None],
    ) -> None:
        self._server = server
        self._address = address
        self._own = own
        self._stopped = stopped

    @property
    def address(self) -> str:
        return self._address

    async def stop(self) -> None:
        remove_own(self._address, self._own)
        await self._server.stop(None)
        self._stopped(self)


class WireChannel(Clients):
    """A gRPC channel; it connects again by itself when the server came back."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        super().__init__(self)
        self._channel = channel
        self._closed = False

    async def call(self, service: str, method: str, *arguments: Any) -> Any:
        codec = codecs()[service, method]
        call = self._channel.unary_unary(_path(service, method))
        try:
            return codec.answer(await call(codec.request_bytes(arguments)))
        except grpc.aio.AioRpcError as error:
            raise from_grpc(error) from None
        except grpc.aio.UsageError:
            raise _closing() from None
        except asyncio.CancelledError:
            if self._cancelled_by_close():
                raise _closing() from None
            raise

    async def stream(self, service: str, method: str) -> AsyncIterator[Any]:
        codec = codecs()[service, method]
        try:
            call = self._channel.unary_stream(_path(service, method))(codec.request_bytes(()))
        except grpc.aio.UsageError:
            raise _closing() from None
        try:
            async for data in call:
                yield codec.answer(data)
        except grpc.aio.AioRpcError as error:
            raise from_grpc(error) from None
        except asyncio.CancelledError:
            if self._cancelled_by_close():
                raise _closing() from None
            raise
        finally:
            call.cancel()

    async def wait_lost(self) -> None:
        try:
            if self._channel.get_state() is grpc.ChannelConnectivity.READY:
                await self._channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        except grpc.aio.UsageError:
            return  # closed on our side

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()

    def _cancelled_by_close(self) -> bool:
        """gRPC ends the open calls of a closed channel by a cancellation that nobody asked the waiting task for."""
        task = asyncio.current_task()
        return self._closed and (task is None or not task.cancelling())


def _closing() -> RpcError:
    return RpcError("Canceled", "grpc: the client connection is closing")


def _path(service: str, method: str) -> str:
    return next(f"/{service}/{rpc.name}" for rpc in RPCS[service] if rpc.method == method)


def _handlers(service: str, who: object) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(
        service, {rpc.name: _handler(rpc, codecs()[service, rpc.method], who) for rpc in RPCS[service]}
    )


def _handler(rpc: Rpc, codec: Codec, who: object) -> grpc.RpcMethodHandler:
    method: Callable[..., Any] = getattr(who, rpc.method)
    if rpc.stream:
        return grpc.unary_stream_rpc_method_handler(_stream_answer(method, codec))
    return grpc.unary_unary_rpc_method_handler(_answer(method, codec))


def _answer(method: Callable[..., Any], codec: Codec) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            return codec.response_bytes(await method(*codec.arguments(request)))
        except Exception as error:
            problem = as_rpc_error(error)
        await context.abort(status_code(problem.code), problem.details)
        raise problem

    return answer


def _stream_answer(method: Callable[..., Any], codec: Codec) -> Callable[[bytes, Any], AsyncIterator[bytes]]:
    async def answer(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        source = method(*codec.arguments(request))
        try:
            async for item in source:
                yield codec.response_bytes(item)
            return
        except Exception as error:
            problem = as_rpc_error(error)
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()
        await context.abort(status_code(problem.code), problem.details)

    return answer
