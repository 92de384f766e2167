"""Answers scrapes: an ASGI application over an `Exporter`. It only answers GET, and gives nothing but metrics and health."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from regauge.observe.exporter import Exporter
from regauge.observe.exposition import OLD, OPENMETRICS

METRICS_PATH, LIVE_PATH, READY_PATH = "/metrics", "/healthz", "/readyz"
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Accept, Accept-Encoding"}


class Guard:
    """Who may scrape: whoever shows the token, where there is one. Without one, requests must name loopback in their Host
    header (or one of `names`), so that no web page reaches the exporter through a name of its own.
    """

    def __init__(self, token: str = "", names: Iterable[str] = ()) -> None:
        self._token = token.encode()
        self._hosts = _LOOPBACK | {name.lower() for name in names}

    def refusal(self, request: Request) -> Response | None:
        if self._token:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            shown = token.strip().encode() if scheme.lower() == "bearer" else b""
            if hmac.compare_digest(shown, self._token):
                return None
            return PlainTextResponse("a token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
        host = request.headers.get("host", "").lower()
        plain = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if plain in self._hosts:
            return None
        return PlainTextResponse("the Host header names no address of this exporter\n", 403)


def wants_openmetrics(accept: str) -> bool:
    """Whether OpenMetrics is asked for, at least as much as anything else: who does not know it does not name it."""
    weights = {"openmetrics": 0.0, "others": 0.0}
    for part in accept.split(","):
        media, *parameters = (one.strip().lower() for one in part.split(";"))
        kind = "openmetrics" if media == "application/openmetrics-text" else "others"
        given = next((one.removeprefix("q=") for one in parameters if one.startswith("q=")), "1")
        try:
            weights[kind] = max(weights[kind], float(given))
        except ValueError:
            continue
    return weights["openmetrics"] > 0 and weights["openmetrics"] >= weights["others"]


def make_app(exporter: Exporter, guard: Guard) -> Starlette:
    """The exporter over HTTP: metrics, whether it lives, and whether it has something to say."""

    async def metrics(request: Request) -> Response:
        refused = guard.refusal(request)
        if refused is not None:
            return refused
        modern = wants_openmetrics(request.headers.get("accept", ""))
        answer = exporter.answer if modern else await exporter.old_answer()
        if answer is None:
            return PlainTextResponse("the cluster is still being read\n", 503, {"Retry-After": "5"})
        headers = {**_HEADERS, "Content-Type": OPENMETRICS if modern else OLD}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(answer.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(answer.body, headers=headers)

    async def live(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        known = exporter.answer is not None
        return PlainTextResponse("ok\n" if known else "the cluster is still being read\n", 200 if known else 503)

    return Starlette(
        routes=[
            Route(METRICS_PATH, metrics, methods=["GET"]),
            Route(LIVE_PATH, live, methods=["GET"]),
            Route(READY_PATH, ready, methods=["GET"]),
        ]
    )
