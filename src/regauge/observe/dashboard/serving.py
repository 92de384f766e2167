"""The server of the page on an address, with TLS where files for it are given."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette

from regauge.base import InputError

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 1
MOST_CONNECTIONS = 512
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[0-9.]+|localhost)")


@dataclass(frozen=True, slots=True)
class Site:
    """Where to listen, and with which certificate and key (files in PEM), both "" for plain HTTP."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str = ""
    key: str = ""

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def url(self) -> str:
        """The address as a browser takes it; of one that means all of them, loopback's."""
        address = ipaddress.ip_address(self.host)
        host = ("::1" if address.version == 6 else "127.0.0.1") if address.is_unspecified else self.host
        named = f"[{host}]" if ":" in host else host
        return f"{'https' if self.certificate else 'http'}://{named}:{self.port}/"


def site_of(listen: str, port: int, certificate: str = "", key: str = "") -> Site:
    """A site of what was said. Raises `InputError` for an address that is none, and for half of a certificate."""
    match = _ADDRESS.fullmatch(listen)
    host = "127.0.0.1" if listen == "localhost" else listen.strip("[]")
    try:
        ipaddress.ip_address(host if match else "")
    except ValueError:
        raise InputError(f"--listen: {listen} is no IP address", fix="give one, such as 127.0.0.1") from None
    if bool(certificate) != bool(key):
        raise InputError("a certificate and its key go together", fix="give --tls-cert-file and --tls-private-key-file")
    return Site(host, port, certificate, key)


@contextlib.asynccontextmanager
async def serving(app: Starlette, site: Site) -> AsyncIterator[int]:
    """Answer while the block runs; gives the port. Raises `InputError` when it cannot listen or read the certificate."""
    config = uvicorn.Config(
        app,
        host=site.host,
        port=site.port,
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
        ssl_certfile=site.certificate or None,
        ssl_keyfile=site.key or None,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"the certificate cannot be used: {error}", fix="give PEM files that belong together"
        ) from None
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    server = _Server(config)
    task = asyncio.create_task(_serve(server, site), name="dashboard")
    try:
        await _started(server, task, site)
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.gather(task, return_exceptions=True)
        await _hang_up(server)


async def _hang_up(server: uvicorn.Server) -> None:
    """End what is still being answered: streams have no end of their own."""
    answering = list(server.server_state.tasks)
    for one in answering:
        one.cancel()
    await asyncio.gather(*answering, return_exceptions=True)


async def _started(server: uvicorn.Server, task: asyncio.Task[None], site: Site) -> None:
    deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
    while not server.started:
        if task.done():
            task.result()
        if task.done() or asyncio.get_running_loop().time() > deadline:
            raise InputError(f"it cannot listen on {site.host}:{site.port}", fix="choose another address or port")
        await asyncio.sleep(0.005)


async def _serve(server: uvicorn.Server, site: Site) -> None:
    try:
        await server.serve()
    except SystemExit:
        fix = "the address is in use or not of this machine: choose another with --listen and --port"
        raise InputError(f"it cannot listen on {site.host}:{site.port}", fix=fix) from None


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process belongs to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
