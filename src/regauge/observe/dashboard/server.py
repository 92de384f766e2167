"""The page, its data and its changes over HTTP: an ASGI application that only answers GET, but for the door's token.

Nothing is written anywhere, and nothing is loaded from anywhere else: the policy that goes with every answer lets a browser
run the packaged modules and talk to this server, and nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from regauge.observe.dashboard.door import Door, Entry
from regauge.observe.dashboard.feed import Feed

SEND_WITHIN_S = 20.0
HEARTBEAT_S = 15.0
END_WITHIN_S = 0.2
MOST_READERS = 64
MOST_TOKEN_BYTES = 4096
RETRY_MS = 2000
COMPRESS_FROM = 1400
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_REFUSALS = {
    Entry.WRONG_HOST: (403, "the Host header names no address of this server; --name says others\n"),
    Entry.FOREIGN_SITE: (403, "another site made this request\n"),
    Entry.STRANGER: (401, "a token is needed\n"),
}
_NEAR = ("127.0.0.1", "::1")
"""For readers on this machine compressing takes longer than it saves."""

_LOGIN = "login.html"
_PUBLIC = frozenset((_LOGIN, "login.js", "page.css", "theme.js", "icon.svg"))
Details = Callable[[str], Mapping[str, object] | None]
Handler = Callable[[Request], Awaitable[Response]]


@cache
def packaged() -> Mapping[str, tuple[str, bytes]]:
    """The files of the page by name: media type and content."""
    folder = files("regauge.observe.dashboard").joinpath("static")
    found = {}
    for one in folder.iterdir():
        media = _TYPES.get(f".{one.name.rpartition('.')[2]}")
        if media is not None:
            found[one.name] = media, one.read_bytes()
    return found


def make_app(feed: Feed, door: Door, details: Details) -> Starlette:
    """The dashboard as an ASGI application. `details` is what else is known of a device by its row's name."""
    readers = Readers(feed)

    async def page(request: Request) -> Response:
        if door.entry(request.headers, request.cookies) is Entry.STRANGER:
            return _file(_LOGIN, request, 401)
        return _file("index.html", request)

    async def static(request: Request) -> Response:
        return _file(request.path_params["name"], request)

    async def view(request: Request) -> Response:
        return await asyncio.to_thread(_body, feed.whole(), "application/json", request)

    async def device(request: Request) -> Response:
        found = details(request.query_params.get("name", ""))
        if found is None:
            return Response(status_code=204)
        return _body(msgspec.json.encode(found), "application/json", request)

    async def login(request: Request) -> Response:
        return await _login(request, door)

    def behind(handler: Handler, *, public: Callable[[Request], bool] = lambda _: False) -> Handler:
        async def guarded(request: Request) -> Response:
            entry = door.entry(request.headers, request.cookies, public=public(request))
            response = await handler(request) if entry is Entry.WELCOME else _refused(entry)
            response.headers.update(_HEADERS)
            return response

        return guarded

    def follow(request: Request) -> Awaitable[Response]:
        return readers.follow(request)

    routes = [
        Route("/", behind(page, public=lambda _: True), methods=["GET"]),
        Route("/api/view", behind(view), methods=["GET"]),
        Route("/api/device", behind(device), methods=["GET"]),
        Route("/api/events", behind(follow), methods=["GET"]),
        Route("/login", behind(login, public=lambda _: True), methods=["POST"]),
        Route("/static/{name}", behind(static, public=_is_public), methods=["GET"]),
    ]
    return Starlette(routes=routes)


def _is_public(request: Request) -> bool:
    return request.path_params["name"] in _PUBLIC


def _refused(entry: Entry) -> Response:
    code, text = _REFUSALS[entry]
    return PlainTextResponse(text, code)


async def _login(request: Request, door: Door) -> Response:
    """A token becomes a cookie, which is good for this run of the server and out of reach of scripts."""
    token = bytearray()
    async for chunk in request.stream():
        token += chunk
        if len(token) > MOST_TOKEN_BYTES:
            return PlainTextResponse("this is no token\n", 413)
    if not door.asks or not door.known(token.decode(errors="replace").strip()):
        return PlainTextResponse("this is not the token\n", 401)
    response = PlainTextResponse("welcome\n")
    response.set_cookie(
        door.cookie_name, door.cookie, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


def _file(name: str, request: Request, code: int = 200) -> Response:
    found = packaged().get(name)
    if found is None:
        return PlainTextResponse("there is no such file\n", 404)
    return _body(found[1], found[0], request, code)


def _body(data: bytes, media: str, request: Request, code: int = 200) -> Response:
    near = request.client is not None and request.client.host in _NEAR
    if near or len(data) < COMPRESS_FROM or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(data, code, media_type=media)
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(gzip.compress(data, 1), code, headers, media_type=media)


class Readers:
    """Those who follow the changes: each at its own pace, with a limit to how many, and to how long one may not read."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._count = 0

    async def follow(self, request: Request) -> Response:
        if self._count >= MOST_READERS:
            return PlainTextResponse(f"{MOST_READERS} readers follow already\n", 503)
        place = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return _Stream(self, place)

    async def send(self, place: str, send: Send) -> None:
        """Tell a reader at `place` what is new, until it goes, falls behind, or does not read."""
        self._count += 1
        try:
            await self._told(send, f"retry: {RETRY_MS}\n\n".encode())
            while True:
                events = self._feed.since(place)
                if events is None:
                    await self._told(send, b"event: again\ndata: {}\n\n", last=True)
                    return
                for event in events:
                    await self._told(send, b"id: " + event.id.encode() + b"\ndata: " + event.data + b"\n\n")
                    place = event.id
                if not events:
                    await self._feed.news(HEARTBEAT_S)
                    if not self._feed.since(place):
                        await self._told(send, b": still here\n\n")
        except TimeoutError:
            return
        finally:
            self._count -= 1

    async def _told(self, send: Send, data: bytes, *, last: bool = False) -> None:
        """Raises `TimeoutError` for a reader that does not read."""
        async with asyncio.timeout(SEND_WITHIN_S):
            await send({"type": "http.response.body", "body": data, "more_body": not last})


class _Stream(Response):
    """The changes as server-sent events."""

    def __init__(self, readers: Readers, place: str) -> None:
        self._readers = readers
        self._place = place
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        telling = asyncio.ensure_future(self._readers.send(self._place, send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((telling, gone), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            await _ended(send)
            raise
        finally:
            gone.cancel()
            telling.cancel()
            await asyncio.gather(telling, gone, return_exceptions=True)


async def _ended(send: Send) -> None:
    """The server ends: so does the stream, in order if the reader reads."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_WITHIN_S):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
