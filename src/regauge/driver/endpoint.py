"""Health, readiness and metrics over HTTP, on loopback or a unix socket (needs the extra `driver`).

Whoever is allowed to ask is decided by the address: one of another interface is refused, and a socket has mode 0600.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from regauge.base import Clock, InputError
from regauge.driver.metrics import CONTENT_TYPE, Metrics
from regauge.driver.notices import Tell
from regauge.driver.process import Driver
from regauge.driver.status import Status
from regauge.host import check_socket_path, is_listening, private_socket

LIVE_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
START_TIMEOUT_S = 10.0
_TCP = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[0-9.]+|localhost):(?P<port>[0-9]{1,5})")
_FIX = "say 127.0.0.1:PORT, [::1]:PORT or unix:PATH; what others may see goes through a proxy that checks who asks"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: a unix socket, or a port of a loopback address."""

    socket: str = ""
    host: str = ""
    port: int = 0


def address(text: str) -> Address:
    """`unix:/PATH` or `HOST:PORT`. Raises `InputError` for anything but a socket or loopback."""
    if text.startswith("unix:/"):
        path = text.removeprefix("unix:")
        try:
            check_socket_path(path)
        except ValueError as error:
            raise InputError(str(error), fix="choose a shorter path") from None
        return Address(socket=path)
    match = _TCP.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise InputError(f"{text!r} is no address to listen on", fix=_FIX)
    host = "127.0.0.1" if match["host"] == "localhost" else match["host"].strip("[]")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise InputError(f"{text!r} is no address to listen on", fix=_FIX) from None
    if not loopback:
        raise InputError(f"{text!r} is not a loopback address", fix=_FIX)
    return Address(host=host, port=int(match["port"]))


class Endpoint:
    """Listens to one driver and answers for it."""

    def __init__(self, where: Address, clock: Clock) -> None:
        self._where = where
        self._status = Status(clock)
        self.meter = Metrics()

    def hear(self, tell: Tell) -> Tell:
        """The `Tell` to give to the driver."""
        return self.meter.hear(self._status.hear(tell))

    @contextlib.asynccontextmanager
    async def served(self, driver: Driver) -> AsyncIterator[None]:
        """Answer while the block runs. Raises `InputError` when the address is in use."""
        self.meter.watch(driver)
        config = uvicorn.Config(
            self.application(driver), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
        )
        if not self._where.socket:
            config.host, config.port = self._where.host, self._where.port
        server = _Server(config)
        task = await _started(server, self._where)
        try:
            yield
        finally:
            server.should_exit = server.force_exit = True
            await task
            if self._where.socket:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._where.socket)

    def application(self, driver: Driver) -> Starlette:
        """The three answers as an ASGI application."""

        def probe(reasons: Callable[[Driver], Sequence[str]]) -> Callable[[Request], Awaitable[Response]]:
            async def answer(request: Request) -> Response:
                found = reasons(driver)
                return PlainTextResponse("\n".join(found or ("ok",)) + "\n", 503 if found else 200)

            return answer

        async def metrics(request: Request) -> Response:
            return Response(self.meter.text(), headers={"content-type": CONTENT_TYPE})

        return Starlette(
            routes=[
                Route(LIVE_PATH, probe(self._status.ailing)),
                Route(READY_PATH, probe(self._status.unready)),
                Route(METRICS_PATH, metrics),
            ]
        )


def _free(path: str) -> None:
    if os.path.lexists(path):
        if is_listening(path):
            raise InputError(f"another process listens on {path}", fix="stop it, or choose another path")
        os.unlink(path)


async def _started(server: uvicorn.Server, where: Address) -> asyncio.Task[None]:
    """The server's task, once it listens."""
    task = asyncio.create_task(_serve(server, where), name="endpoint")
    deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
    while not server.started:
        if task.done():
            task.result()
        if task.done() or asyncio.get_running_loop().time() > deadline:
            task.cancel()
            raise InputError(f"it cannot listen on {where.socket or where.host}", fix="choose another address")
        await asyncio.sleep(0.005)
    return task


async def _serve(server: uvicorn.Server, where: Address) -> None:
    sockets = None
    if where.socket:
        _free(where.socket)
        try:
            sockets = [private_socket(where.socket)]
        except OSError as error:
            raise InputError(
                f"it cannot listen on {where.socket}: {error.strerror}", fix="choose another path"
            ) from None
    try:
        await server.serve(sockets)
    except SystemExit:  # so uvicorn says that the address is taken
        raise InputError(
            f"it cannot listen on {where.socket or f'{where.host}:{where.port}'}: the address is in use",
            fix="stop who uses it, or choose another",
        ) from None


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process belongs to the driver."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
