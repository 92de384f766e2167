"""What is streamed: changes to watchers, logs to those who follow them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping

import msgspec

from regauge.cluster.api import Api
from regauge.cluster.conversion import outgoing
from regauge.cluster.exchange import Answer, Request, Target
from regauge.cluster.refusals import FieldError, bad_request, failure, invalid, invalid_object, not_found
from regauge.cluster.tables import Form, accepted, represented
from regauge.kube import ServerUnavailable, WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import NODE, POD

WATCH_BUFFER = 10_000
LINES_KEPT = 1024
BOOKMARK_EVERY_S = 60.0
LONGEST_WATCH_S = 3600.0
LOG_LOOK_S = 0.2
_TRUE = ("1", "true", "True", "maybe")


def line(type_: str, object_: Object) -> bytes:
    """One event of a watch as it goes over the wire."""
    return msgspec.json.encode({"type": type_, "object": object_}) + b"\n"


class Lines:
    """Events as they go over the wire: each is encoded once, however many watch it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, Kind], tuple[Object, bytes]] = {}
        self.encoded = 0

    def of(self, served: Kind, event: WatchEvent) -> bytes:
        key = (event.type, id(event.object), served)
        known = self._known.get(key)
        if known is not None and known[0] is event.object:
            return known[1]
        self.encoded += 1
        if len(self._known) >= LINES_KEPT:
            del self._known[next(iter(self._known))]
        made = line(event.type, outgoing(served, event.object))
        self._known[key] = (event.object, made)
        return made


class Streams:
    """What a server is streaming, so that all of it ends in order when the server does."""

    def __init__(self) -> None:
        self.ended = False
        self.lines = Lines()
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
        self._columns_told = False
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
        for line in self._waiting(streams.lines):
            yield line
        if self._initial_end and self._bookmarks:
            yield self._bookmark({"k8s.io/initial-events-end": "true"})
        while loop.time() < end and not streams.ended:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), min(BOOKMARK_EVERY_S, end - loop.time()))
            if len(self._events) > WATCH_BUFFER:
                return
            if not self._events and self._bookmarks:
                yield self._bookmark()
            for line in self._waiting(streams.lines):
                yield line

    def _waiting(self, lines: Lines) -> list[bytes]:
        self._api.state.store.flush()
        if self._as:
            found = [line(event.type, self._table(event)) for event in self._events]
        else:
            found = [lines.of(self._target.served, event) for event in self._events]
        self._events.clear()
        self._ready.clear()
        return found

    def _table(self, event: WatchEvent) -> Object:
        found = outgoing(self._target.served, event.object)
        state, kind = self._api.state, self._target.served
        form = Form(self._as, self._version, self._include)
        table = represented(state.store, state.schemas, kind, found, form, state.clock.now_s())
        if self._as == "Table" and self._columns_told:
            table = {**table, "columnDefinitions": None}  # upstream tells them with the first event only
        self._columns_told = True
        return table

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        kind = self._target.served
        metadata: Object = {"resourceVersion": str(self._api.state.store.revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return line("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})


def _seconds(text: str | None) -> float:
    return min(float(text), LONGEST_WATCH_S) if text and text.isdigit() and int(text) else LONGEST_WATCH_S


def pod_log(api: Api, target: Target, request: Request, streams: Streams) -> Answer | AsyncIterator[bytes]:
    """The log of a pod's container, as a whole or as a stream. Raises `ApiError` when there is none to choose."""
    pod = api.get(target.kind, target.name, target.namespace)
    _check_log_options(request.query, target.name)
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
    node = pod["spec"].get("nodeName")
    if not node:
        return Answer(204, None)
    if api.find(NODE, node) is None:
        raise not_found(POD, node)
    if found is None:
        why = "ContainerCreating"
        message = f'container "{name}" in pod "{target.name}" is waiting to start: {why}'
        return Answer(400, failure(400, "BadRequest", message))
    if request.query.get("follow") in _TRUE:
        return _follow_log(api, uid, name, request.query.get("tailLines"), streams)
    return Answer(200, _tail(found[0], request.query.get("tailLines")).decode(errors="replace"))


_LOG_OPTIONS = Kind("", "v1", "PodLogOptions", "podlogoptions")
_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}


def _check_log_options(query: Mapping[str, str], name: str) -> None:
    """Raises `Invalid` for numbers that mean nothing."""
    errors: list[FieldError] = []
    for field, least in _LEAST.items():
        text = query.get(field, "")
        if text.removeprefix("-").isdigit() and int(text) < least:
            told = "must be greater than or equal to 0" if least == 0 else f"must be greater than {least - 1}"
            errors.append(invalid(field, int(text), told))
    if errors:
        raise invalid_object(_LOG_OPTIONS, name, errors)


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
