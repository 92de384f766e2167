"""What is streamed: changes to watchers, logs to those who follow them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping

import msgspec

from regauge.cluster.api import Api
from regauge.cluster.exchange import Answer, Request, Target
from regauge.cluster.refusals import bad_request, failure
from regauge.cluster.tables import accepted, represented
from regauge.kube import ServerUnavailable, WatchEvent
from regauge.model import Object

WATCH_BUFFER = 10_000
BOOKMARK_EVERY_S = 60.0
LONGEST_WATCH_S = 3600.0
LOG_LOOK_S = 0.2
_TRUE = ("1", "true", "True", "maybe")


def line(type_: str, object_: Object) -> bytes:
    """One event of a watch as it goes over the wire."""
    return msgspec.json.encode({"type": type_, "object": object_}) + b"\n"


class Streams:
    """What a server is streaming, so that all of it ends in order when the server does."""

    def __init__(self) -> None:
        self.ended = False
        self._waiting: set[asyncio.Event] = set()

    def end(self) -> None:
        self.ended = True
        for event in self._waiting:
            event.set()

    @contextlib.contextmanager
    def waking(self, event: asyncio.Event) -> Iterator[None]:
        """`event` is set when all streams end."""
        self._waiting.add(event)
        try:
            yield
        finally:
            self._waiting.discard(event)


class Watch:
    """One watcher: events are kept until it reads them; one that falls too far behind is ended."""

    def __init__(self, api: Api, target: Target, options: Mapping[str, str], accept: str = "") -> None:
        self._api = api
        self._target = target
        self._as, self._version = accepted(accept)
        self._include = options.get("includeObject", "")
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

    async def lines(self, streams: Streams) -> AsyncIterator[bytes]:
        """The events as lines of JSON, until the time is over, the reader is gone or all streams end."""
        try:
            with streams.waking(self._ready):
                async for told in self._told(streams):
                    yield told
        except ServerUnavailable:
            return  # what cannot be made to last is not told; the client lists again
        finally:
            self._stop()

    async def _told(self, streams: Streams) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout_s
        for line in self._waiting():
            yield line
        if self._initial_end:
            yield self._bookmark({"k8s.io/initial-events-end": "true"})
        while loop.time() < end and not streams.ended:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), min(BOOKMARK_EVERY_S, end - loop.time()))
            if len(self._events) > WATCH_BUFFER:
                return
            if not self._events and self._bookmarks:
                yield self._bookmark()
            for line in self._waiting():
                yield line

    def _waiting(self) -> list[bytes]:
        self._api.state.store.flush()
        found = [line(event.type, self._shown(event)) for event in self._events]
        self._events.clear()
        self._ready.clear()
        return found

    def _shown(self, event: WatchEvent) -> Object:
        if not self._as:
            return event.object
        state, kind = self._api.state, self._target.kind
        return represented(state.store, kind, event.object, self._as, self._version, state.clock.now_s(), self._include)

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        kind = self._target.kind
        metadata: Object = {"resourceVersion": str(self._api.state.store.revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return line("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})


def _seconds(text: str | None) -> float:
    return min(float(text), LONGEST_WATCH_S) if text and text.isdigit() and int(text) else LONGEST_WATCH_S


def pod_log(api: Api, target: Target, request: Request, streams: Streams) -> Answer | AsyncIterator[bytes]:
    """The log of a pod's container, as a whole or as a stream. Raises `ApiError` when there is none to choose."""
    pod = api.get(target.kind, target.name, target.namespace)
    names = [item["name"] for item in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])]
    name = request.query.get("container") or ""
    if not name:
        if len(pod["spec"]["containers"]) > 1:
            told = " ".join(item["name"] for item in pod["spec"]["containers"])
            raise bad_request(f"a container name must be specified for pod {target.name}, choose one of: [{told}]")
        name = pod["spec"]["containers"][0]["name"]
    if name not in names:
        raise bad_request(f"container {name} is not valid for pod {target.name}")
    if request.query.get("previous") in _TRUE:
        raise bad_request(f'previous terminated container "{name}" in pod "{target.name}" not found')
    uid = pod["metadata"]["uid"]
    found = api.state.pod_logs(uid, name)
    if found is None:
        why = "ContainerCreating" if pod["spec"].get("nodeName") else "not assigned to a node"
        message = f'container "{name}" in pod "{target.name}" is waiting to start: {why}'
        return Answer(400, failure(400, "BadRequest", message))
    if request.query.get("follow") in _TRUE:
        return _follow_log(api, uid, name, request.query.get("tailLines"), streams)
    return Answer(200, _tail(found[0], request.query.get("tailLines")).decode(errors="replace"))


def _tail(data: bytes, lines: str | None) -> bytes:
    if lines is None or not lines.isdigit():
        return data
    kept = data.splitlines(keepends=True)
    return b"".join(kept[-int(lines) :]) if int(lines) else b""


async def _follow_log(api: Api, uid: str, name: str, lines: str | None, streams: Streams) -> AsyncIterator[bytes]:
    found = api.state.pod_logs(uid, name)
    at = 0 if found is None else len(found[0]) - len(_tail(found[0], lines))
    while found is not None:
        data, running = found
        if len(data) > at:
            yield data[at:]
            at = len(data)
        if not running or streams.ended:
            return
        await asyncio.sleep(LOG_LOOK_S)
        found = api.state.pod_logs(uid, name)
