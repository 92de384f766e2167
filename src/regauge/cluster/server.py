"""The API server on a unix socket (mode 0600), or on TCP with TLS: HTTP and JSON, watches and logs as streams."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from regauge.base import InputError
from regauge.cluster import discovery
from regauge.cluster.access.guard import Guard
from regauge.cluster.access.identity import CREDENTIAL
from regauge.cluster.api import Api
from regauge.cluster.bodies import MAX_BODY_BYTES
from regauge.cluster.exchange import Answer, Request, Target, find_target, refusal
from regauge.cluster.listing import watch_query
from regauge.cluster.refusals import failure
from regauge.cluster.rest import answer, authorize
from regauge.cluster.streams import Streams, Watch, line, pod_log
from regauge.host import check_socket_path, is_listening, private_socket
from regauge.kube import ApiError, Gone, ServerUnavailable

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5
END_IN_ORDER_S = 1.0
_PEER = "regauge.peer"
_COMMON: dict[str, Any] = {
    "log_config": None,
    "access_log": False,
    "lifespan": "off",
    "server_header": False,
    "timeout_graceful_shutdown": STOP_TIMEOUT_S,
}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
_TRUE = ("1", "true", "True", "maybe")


def make_app(api: Api, streams: Streams, guard: Guard | None = None) -> Starlette:
    """The API as an ASGI application. Without a guard whoever reaches it may do everything."""

    async def handle(request: HttpRequest) -> Response:
        try:
            call = await _read(request, guard)
        except ApiError as error:
            return _respond(refusal(error), "")
        if isinstance(call, Answer):
            return _respond(call, "")
        response = _handled(api, call, streams)
        try:
            api.state.store.flush()
        except ServerUnavailable as error:
            return _respond(Answer(503, failure(503, "ServiceUnavailable", str(error))), "")
        return response

    return Starlette(routes=[Route("/{path:path}", handle, methods=_METHODS)])


_OLD_WATCH = re.compile(r"(/api/v1|/apis/[^/]+/[^/]+)/watch/(.*)")


def _handled(api: Api, call: Request, streams: Streams) -> Response:
    old = _OLD_WATCH.fullmatch(call.path) if call.method == "GET" else None
    if old is not None:
        call = replace(call, path=f"{old[1]}/{old[2]}", query={**call.query, "watch": "true"})
    if call.method == "GET":
        target = find_target(api.state.catalog, call.path)
        if target is not None and target.subresource == "log":
            return _log(api, call, target, streams)
        if target is not None and call.query.get("watch") in _TRUE:
            return _watch(api, call, target, streams)
    return _respond(answer(api, call), call.accept)


async def _read(request: HttpRequest, guard: Guard | None) -> Request | Answer:
    user = None
    if guard is not None:
        peer = request.scope.get("extensions", {}).get(_PEER)
        user = guard.user(request.url.path, request.headers, peer)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
            return Answer(413, failure(413, "RequestEntityTooLarge", message, {}))
    query = dict(request.query_params)
    actor = query.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]
    actor = actor or "unknown"
    return Request(
        request.method,
        request.url.path,
        query,
        request.headers.get("content-type", ""),
        bytes(body),
        actor=actor,
        manager=actor,
        accept=request.headers.get("accept", ""),
        user=user,
    )


def _respond(found: Answer, accept: str) -> Response:
    if isinstance(found.body, str):
        return PlainTextResponse(found.body, status_code=found.code)
    if isinstance(found.body, bytes):
        return Response(found.body, status_code=found.code, media_type="application/octet-stream")
    kind = found.body.get("kind") if isinstance(found.body, dict) else ""
    media = discovery.MEDIA_TYPE if kind == "APIGroupDiscoveryList" else "application/json"
    if found.body is None:
        return Response(status_code=found.code)
    if accept.partition(",")[0].partition(";")[0].strip() == "application/yaml":
        text = yaml.safe_dump(msgspec.to_builtins(found.body), allow_unicode=True, default_flow_style=False)
        response = Response(text, status_code=found.code, media_type="application/yaml")
    else:
        response = Response(msgspec.json.encode(found.body), status_code=found.code, media_type=media)
    for warning in found.warnings:
        text = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.append("Warning", f'299 - "{text}"')
    return response


def _log(api: Api, call: Request, target: Target, streams: Streams) -> Response:
    try:
        authorize(api, call)
        found = pod_log(api, target, call, streams)
    except ApiError as error:
        return _respond(refusal(error), call.accept)
    if isinstance(found, Answer):
        return _respond(found, call.accept)
    return StreamingResponse(found, media_type="text/plain")


def _watch(api: Api, call: Request, target: Target, streams: Streams) -> Response:
    try:
        authorize(api, call)
        query = watch_query(call, target)
        stream = Watch(api, replace(target, name=""), query, call.accept)
    except Gone as error:
        # Upstream says it in the stream: 200 with one ERROR event.
        return _stream(_one_error(error))
    except ApiError as error:
        return _respond(refusal(error), call.accept)
    return _stream(stream.lines(streams))


def _stream(lines: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(lines, media_type="application/json")


async def _one_error(error: ApiError) -> AsyncIterator[bytes]:
    yield line("ERROR", refusal(error).body)


class _Running:
    """A uvicorn server as a task of this loop."""

    def __init__(self, config: uvicorn.Config, where: str, streams: Streams) -> None:
        self._streams = streams
        self._server = _Server(config)
        self._where = where
        self._task: asyncio.Task[None] | None = None

    async def start(self, sockets: list[socket.socket] | None = None) -> None:
        """Returns when it answers, on `sockets` where some are given. Raises `InputError` when it cannot listen."""
        self._task = asyncio.create_task(self._server.serve(sockets), name="api-server")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_TIMEOUT_S
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise InputError(f"the API server could not listen on {self._where}", fix="check the address")
            if loop.time() > deadline:
                raise InputError(f"the API server did not start within {START_TIMEOUT_S:g} s", fix="try again")
            await asyncio.sleep(0.005)

    @property
    def port(self) -> int:
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.should_exit = True
        self._streams.end()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=END_IN_ORDER_S)
            self._server.force_exit = True
            await self._task


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the server's certificate and key are, and the authority that clients' certificates must come from."""

    certificate: str
    key: str
    authority: str


class ApiListener:
    """The server on TCP with TLS. `start` returns when it answers; `port` is then known."""

    def __init__(self, api: Api, guard: Guard, host: str, port: int, tls: TlsFiles) -> None:
        self._api = api
        self._guard = guard
        self._host = host
        streams = Streams()
        config = uvicorn.Config(
            make_app(api, streams, guard),
            host=host,
            port=port,
            http=_PeerProtocol,
            ssl_certfile=tls.certificate,
            ssl_keyfile=tls.key,
            ssl_ca_certs=tls.authority,
            ssl_cert_reqs=ssl.CERT_OPTIONAL,
            **_COMMON,
        )
        config.load()
        assert config.ssl is not None
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
        self._running = _Running(config, f"{host}:{port}", streams)

    async def start(self) -> None:
        try:
            await self._running.start()
        except SystemExit:
            raise InputError(f"cannot listen on {self._host}: the address is in use or not of this machine",
                             fix="choose another with --listen") from None  # fmt: skip
        self._guard.listen(self._host, self.port)
        self._api.state.address = f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    @property
    def port(self) -> int:
        return self._running.port

    async def stop(self) -> None:
        await self._running.stop()


class _PeerProtocol(HttpToolsProtocol):
    """HTTP that tells the application the verified certificate of the client."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        connection = self.transport.get_extra_info("ssl_object")
        peer = dict((connection.getpeercert() if connection is not None else None) or {})
        if peer:
            peer[CREDENTIAL] = f"X509SHA256={hashlib.sha256(connection.getpeercert(True)).hexdigest()}"
        self.scope["extensions"] = {_PEER: peer}


class ApiSocket:
    """The server on its socket. `start` returns when it answers, `stop` when the socket is gone."""

    def __init__(self, api: Api, path: str) -> None:
        self.path = path
        streams = Streams()
        self._running = _Running(uvicorn.Config(make_app(api, streams), **_COMMON), path, streams)

    async def start(self) -> None:
        """Raises `InputError` when the path is too long or another server listens there."""
        try:
            check_socket_path(self.path)
        except ValueError as error:
            raise InputError(str(error), fix="choose a shorter directory") from None
        if os.path.lexists(self.path):
            if is_listening(self.path):
                raise InputError(f"another server listens on {self.path}", fix="stop it, or choose another directory")
            os.unlink(self.path)
        await self._running.start([private_socket(self.path)])

    async def stop(self) -> None:
        await self._running.stop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process belongs to the cluster."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
