"""The tests' API server on a unix socket: what the driver asks for, over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.unit.driver.fakes import FakeKube

from regauge.kube import ApiError
from regauge.model import KINDS, Kind

_BY_PLURAL = {kind.plural: kind for kind in KINDS if kind.group in ("", "resource.k8s.io")}


def application(kube: FakeKube) -> Starlette:
    async def version(request: Request) -> Response:
        return JSONResponse({"gitVersion": "v1.36.3", "major": "1", "minor": "36"})

    async def objects(request: Request) -> Response:
        kind, name, namespace = _names(request.url.path)
        try:
            return await _serve(kube, request, kind, name, namespace)
        except ApiError as error:
            status = {"kind": "Status", "status": "Failure", "reason": error.reason, "message": error.message}
            return JSONResponse({**status, "code": error.code}, error.code)

    methods = ["GET", "POST", "PUT", "DELETE"]
    return Starlette(routes=[Route("/version", version), Route("/{path:path}", objects, methods=methods)])


def _names(path: str) -> tuple[Kind, str, str]:
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return _BY_PLURAL[parts[0]], parts[1] if len(parts) > 1 else "", namespace


async def _serve(kube: FakeKube, request: Request, kind: Kind, name: str, namespace: str) -> Response:
    if request.method == "POST":
        return JSONResponse(await kube.create(kind, await request.json(), namespace), 201)
    if request.method == "PUT":
        return JSONResponse(await kube.update(kind, await request.json(), namespace))
    if request.method == "DELETE":
        await kube.delete(kind, name, namespace)
        return JSONResponse({"kind": "Status", "status": "Success"})
    if name:
        return JSONResponse(await kube.get(kind, name, namespace))
    if request.query_params.get("watch"):
        return StreamingResponse(_events(kube, kind), media_type="application/json")
    found = await kube.list(kind, namespace)
    metadata = {"resourceVersion": found.resource_version}
    document = {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "metadata": metadata}
    return JSONResponse({**document, "items": list(found.items)})


async def _events(kube: FakeKube, kind: Kind) -> AsyncIterator[str]:
    async for event in kube.watch(kind):
        yield json.dumps({"type": event.type, "object": event.object}) + "\n"


@contextlib.asynccontextmanager
async def served(kube: FakeKube, path: str) -> AsyncIterator[None]:
    """Serve `kube` on the unix socket at `path`."""
    config: Any = uvicorn.Config(
        application(kube), uds=path, log_level="error", lifespan="off", timeout_graceful_shutdown=0
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.ensure_future(server._serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn tells it by a flag alone
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        kube.end_watches()
        server.should_exit = True
        await task
