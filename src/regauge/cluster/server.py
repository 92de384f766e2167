"""The API server on a unix socket (mode 0600): HTTP and JSON, watches as streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from regauge.base import InputError
from regauge.cluster.api import Api
from regauge.cluster.refusals import failure
from regauge.cluster.rest import MAX_BODY_BYTES, Answer, Request, Target, answer, find_target, no_watch_on_one, refusal
from regauge.host import check_socket_path, is_listening
from regauge.kube import ApiError, Gone, WatchEvent
from regauge.model import Object

WATCH_BUFFER = 10_000
BOOKMARK_EVERY_S = 60.0
LONGEST_WATCH_S = 3600.0
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_TRUE = ("1", "true", "True", "maybe")


def make_app(api: Api) -> Starlette:
    """The API as an ASGI application."""

    async def handle(request: HttpRequest) -> Response:
        call = await _read(request)
        if isinstance(call, Answer):
            return _respond(call)
        if call.method == "GET" and call.query.get("watch") in _TRUE:
            return _watch(api, call)
        return _respond(answer(api, call))

    return Starlette(routes=[Route("/{path:path}", handle, methods=_METHODS)])


async def _read(request: HttpRequest) -> Request | Answer:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
            return Answer(413, failure(413, "RequestEntityTooLarge", message, {}))
    query = dict(request.query_params)
    agent = request.headers.get("user-agent", "unknown").partition("/")[0]
    actor = query.get("fieldManager") or agent
    return Request(request.method, request.url.path, query, request.headers.get("content-type", ""), bytes(body), actor)


def _respond(found: Answer) -> Response:
    if isinstance(found.body, str):
        return PlainTextResponse(found.body, status_code=found.code)
    return Response(msgspec.json.encode(found.body), status_code=found.code, media_type="application/json")


def _watch(api: Api, call: Request) -> Response:
    target = find_target(api, call.path)
    if target is None:
        return _respond(answer(api, call))
    try:
        no_watch_on_one(target)
        stream = Watch(api, target, call.query)
    except Gone as error:
        # Upstream says it in the stream: 200 with one ERROR event.
        return _stream(_one_error(error))
    except ApiError as error:
        return _respond(refusal(error))
    return _stream(stream.lines())


def _stream(lines: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(lines, media_type="application/json")


async def _one_error(error: ApiError) -> AsyncIterator[bytes]:
    yield _line("ERROR", refusal(error).body)


def _line(type_: str, object_: Object) -> bytes:
    return msgspec.json.encode({"type": type_, "object": object_}) + b"\n"


class Watch:
    """One watcher: events are kept until it reads them; one that falls too far behind is ended."""

    def __init__(self, api: Api, target: Target, options: Mapping[str, str]) -> None:
        self._api = api
        self._target = target
        self._bookmarks = options.get("allowWatchBookmarks") in _TRUE
        self._initial_end = options.get("sendInitialEvents") in _TRUE
        self._timeout_s = _seconds(options.get("timeoutSeconds"))
        self._events: deque[WatchEvent] = deque()
        self._ready = asyncio.Event()
        self._stop = api.follow(
            target.kind,
            target.namespace,
            options.get("resourceVersion", ""),
            options.get("labelSelector", ""),
            options.get("fieldSelector", ""),
            self._deliver,
        )

    def _deliver(self, event: WatchEvent) -> None:
        self._events.append(event)
        self._ready.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """The events as lines of JSON, until the time is over or the reader is gone."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout_s
        try:
            for line in self._waiting():
                yield line
            if self._initial_end:
                yield self._bookmark({"k8s.io/initial-events-end": "true"})
            while loop.time() < end:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ready.wait(), min(BOOKMARK_EVERY_S, end - loop.time()))
                if len(self._events) > WATCH_BUFFER:
                    return
                if not self._events and self._bookmarks:
                    yield self._bookmark()
                for line in self._waiting():
                    yield line
        finally:
            self._stop()

    def _waiting(self) -> list[bytes]:
        found = [_line(event.type, event.object) for event in self._events]
        self._events.clear()
        self._ready.clear()
        return found

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        kind = self._target.kind
        metadata: Object = {"resourceVersion": str(self._api.state.store.revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return _line("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})


def _seconds(text: str | None) -> float:
    return min(float(text), LONGEST_WATCH_S) if text and text.isdigit() and int(text) else LONGEST_WATCH_S


class ApiSocket:
    """The server on its socket. `start` returns when it answers, `stop` when the socket is gone."""

    def __init__(self, api: Api, path: str) -> None:
        self.path = path
        config = uvicorn.Config(
            make_app(api),
            uds=path,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

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
        mask = os.umask(0o177)
        try:
            self._task = asyncio.create_task(self._server.serve(), name="api-server")
            await self._started()
        finally:
            os.umask(mask)
        os.chmod(self.path, 0o600)

    async def _started(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_TIMEOUT_S
        while not self._server.started:
            if self._task is not None and self._task.done():
                self._task.result()
                raise InputError(f"the API server could not listen on {self.path}", fix="check the directory")
            if loop.time() > deadline:
                raise InputError(f"the API server did not start within {START_TIMEOUT_S:g} s", fix="try again")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        if self._task is not None:
            await self._task
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process belongs to the cluster."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
