"""The objects of a cluster, kept up to date by list and watch.

Objects are kept as JSON bytes and read when somebody asks; what nobody asks for (managed fields but for their times, and
all but the metadata of kinds that are only owners) is not kept. What is kept has a limit in bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from regauge.base import Clock, Where
from regauge.collect import Skipped, list_newest
from regauge.kube import ApiError, Forbidden, Gone, KubeClient, NotFound, ServerUnavailable, WatchEvent
from regauge.model import Document, Kind, Object, Snapshot

MOST_BYTES = 2 << 30
RETRY_S = (0.5, 15.0)
REFUSED_RETRY_S = 60.0
SILENT_S = 300.0
"""After so long without an event or a bookmark a watch is begun anew where it was."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_Key = tuple[str, str]


class Watched:
    """A cluster's objects of some kinds. `run` keeps them up to date until it is cancelled; `snapshot` may be called at
    any time and is what was known at that moment.

    A kind that may not be read, or is not served, stands in `skipped` and is tried again from time to time. While the server
    does not answer the last known objects stay. `slim` are kinds of which only names, owners and labels are kept; `only`
    are field selectors of kinds of which not all objects are wanted, `optional` kinds that many clusters do not serve;
    of namespaced kinds those of `namespace` are followed, of all if it is "".
    """

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        kinds: Iterable[Kind],
        *,
        slim: Sequence[Kind] = (),
        only: Mapping[Kind, str] | None = None,
        optional: Sequence[Kind] = (),
        namespace: str = "",
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._client = client
        self._clock = clock
        self._kinds = (*kinds, *slim, *optional)
        self._optional = frozenset(optional)
        self._slim = frozenset(kind.resource for kind in slim)
        self._only = only or {}
        self._namespace = namespace
        self._most_bytes = most_bytes
        self._bytes = 0
        self._objects: dict[Kind, dict[_Key, Document]] = {}
        self._listed: set[Kind] = set()
        self._skipped: dict[Kind, str] = {}
        self._groups: dict[Kind, tuple[Document, ...]] = {}
        self._snapshot = Snapshot({})
        self._news = asyncio.Event()
        self.revision = 0
        self.lost: dict[str, float] = {}

    @property
    def ready(self) -> bool:
        """Whether every kind was read once, or was found to be not readable."""
        return len(self._listed) == len(self._kinds)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The kinds that are not there, and why."""
        return tuple(Skipped(kind.resource, why) for kind, why in self._skipped.items())

    @property
    def resources(self) -> tuple[str, ...]:
        """All that is followed, by plural and group."""
        return tuple(kind.resource for kind in self._kinds)

    @property
    def held_bytes(self) -> int:
        return self._bytes

    async def run(self) -> None:
        """Follow every kind, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self._kinds:
                tasks.create_task(self._follow(kind), name=f"watch of {kind.plural}")

    async def changed(self, since: int) -> None:
        """Come back when the revision is another than `since`."""
        while self.revision == since:
            await self._news.wait()

    def snapshot(self) -> Snapshot:
        """What is known now. Views of objects that did not change since the last call are not made again."""
        groups: dict[tuple[str, str], tuple[Document, ...]] = {}
        for kind, found in self._objects.items():
            if kind not in self._groups:
                self._groups[kind] = tuple(found.values())
            groups[kind.group, kind.kind] = self._groups[kind]
        self._snapshot = self._snapshot.replaced(groups)
        return self._snapshot

    async def _follow(self, kind: Kind) -> None:
        wait_s = RETRY_S[0]
        while True:
            try:
                served, found = await list_newest(self._client, kind, self._place(kind), self._only.get(kind, ""))
                self._replace(kind, served, found.items)
                wait_s = RETRY_S[0]
                version = found.resource_version
                with contextlib.suppress(Gone):
                    while True:
                        version = await self._watch(kind, served, version)
                        await self._clock.sleep(RETRY_S[0])
            except (Forbidden, NotFound) as error:
                self._refused(kind, error)
                await self._clock.sleep(REFUSED_RETRY_S)
            except (ApiError, ServerUnavailable):
                self.lost.setdefault(kind.resource, self._clock.now_s())
                await self._clock.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_S[1])

    async def _watch(self, kind: Kind, served: Kind, version: str) -> str:
        """Follow the changes after `version` until the server ends it, as it does from time to time, or says nothing for
        long: a connection may be dead without a word. The version reached."""
        selector = self._only.get(kind, "")
        where = self._place(kind)
        events = self._client.watch(served, where, resource_version=version, field_selector=selector)
        while True:
            event = await _next(events)
            if event is None:
                return version
            self.lost.pop(kind.resource, None)
            version = str(event.object.get("metadata", {}).get("resourceVersion") or version)
            if event.type != "BOOKMARK":
                self._change(kind, self._document(served, event.object), gone=event.type == "DELETED")

    def _place(self, kind: Kind) -> str:
        return self._namespace if kind.namespaced else ""

    def _change(self, kind: Kind, document: Document, *, gone: bool) -> None:
        key = (document.namespace, document.name)
        self._forget(self._objects[kind].pop(key, None) if gone else self._objects[kind].get(key))
        if not gone:
            self._put(kind, key, document)
        self._tell(kind)

    def _replace(self, kind: Kind, served: Kind, items: Sequence[Object]) -> None:
        for document in self._objects.get(kind, {}).values():
            self._forget(document)
        self._objects[kind] = {}
        self._skipped.pop(kind, None)
        self.lost.pop(kind.resource, None)
        for item in items:
            document = self._document(served, item)
            self._put(kind, (document.namespace, document.name), document)
        self._listed.add(kind)
        self._tell(kind)

    def _put(self, kind: Kind, key: _Key, document: Document) -> None:
        size = len(document.raw or b"")
        if self._bytes + size > self._most_bytes:
            self._skipped[kind] = f"more than {self._most_bytes} bytes of objects: not all of them are kept"
            self._objects[kind].pop(key, None)
            return
        self._bytes += size
        self._objects[kind][key] = document

    def _forget(self, document: Document | None) -> None:
        if document is not None:
            self._bytes -= len(document.raw or b"")

    def _refused(self, kind: Kind, error: Forbidden | NotFound) -> None:
        missing = isinstance(error, NotFound)
        if not missing:
            self._skipped[kind] = f"the verbs list and watch on {kind.resource} are missing ({error.message})"
        elif kind not in self._optional:
            self._skipped[kind] = f"no version of {kind.kind} is served by this cluster"
        for document in self._objects.pop(kind, {}).values():
            self._forget(document)
        self._listed.add(kind)
        self._tell(kind)

    def _document(self, served: Kind, object_: Object) -> Document:
        kept = _slim(object_) if served.resource in self._slim else _trimmed(object_)
        whole = {"apiVersion": served.api_version, "kind": served.kind, **kept}
        return Document(None, Where(object=f"live {served.plural}"), msgspec.json.encode(whole))

    def _tell(self, kind: Kind) -> None:
        self._groups.pop(kind, None)
        self.revision += 1
        self._news.set()
        self._news = asyncio.Event()


async def _next(events: AsyncIterator[WatchEvent]) -> WatchEvent | None:
    """The next event; None at the end, and after a long silence."""
    try:
        async with asyncio.timeout(SILENT_S):
            return await anext(events)
    except (StopAsyncIteration, TimeoutError):
        return None


def _trimmed(object_: Object) -> Object:
    metadata = dict(_mapping(object_.get("metadata")))
    managed = metadata.pop("managedFields", None)
    times = [{"time": entry["time"]} for entry in managed or () if isinstance(entry, dict) and entry.get("time")]
    if times:
        metadata["managedFields"] = times
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {name: text for name, text in annotations.items() if name != _LAST_APPLIED}
    return {**object_, "metadata": metadata}


def _slim(object_: Object) -> Object:
    metadata = _mapping(object_.get("metadata"))
    kept = ("name", "namespace", "uid", "labels", "ownerReferences", "resourceVersion")
    return {"metadata": {name: metadata[name] for name in kept if name in metadata}}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
