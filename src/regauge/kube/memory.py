"""The client on an API server in the same process. Objects are copied both ways, so nobody can change the store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from regauge.kube.port import Gone, ObjectList, PatchType, Version, WatchEvent
from regauge.model import Kind, Object

WATCH_BUFFER = 10_000


class ApiPort(Protocol):
    """The synchronous API server as this client needs it. The cluster's `Api` is one. Errors are those of `kube`."""

    def version(self) -> Version: ...

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object: ...

    def select(
        self, kind: Kind, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> ObjectList: ...

    def follow(
        self,
        kind: Kind,
        namespace: str,
        resource_version: str,
        label_selector: str,
        field_selector: str,
        deliver: Callable[[WatchEvent], None],
    ) -> Callable[[], None]:
        """Deliver changes until the returned function is called. Delivers what is past before it returns."""

    def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object: ...

    def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object: ...

    def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object: ...

    def patch(
        self,
        kind: Kind,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Object: ...

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
        propagation_policy: str = "",
    ) -> None: ...


class MemoryClient:
    """`KubeClient` on an `ApiPort`. Every call gives other tasks one turn first, as a call over a socket would."""

    def __init__(self, api: ApiPort) -> None:
        self._api = api

    async def version(self) -> Version:
        await asyncio.sleep(0)
        return self._api.version()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        await asyncio.sleep(0)
        return _copy(self._api.get(kind, name, namespace))

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        await asyncio.sleep(0)
        found = self._api.select(kind, namespace, label_selector, field_selector)
        return ObjectList(tuple(_copy(item) for item in found.items), found.resource_version)

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """A watcher that falls `WATCH_BUFFER` events behind is ended with `Gone`, as upstream does."""
        events: deque[WatchEvent] = deque()
        ready = asyncio.Event()

        def deliver(event: WatchEvent) -> None:
            events.append(event)
            ready.set()

        stop = self._api.follow(kind, namespace, resource_version, label_selector, field_selector, deliver)
        try:
            while True:
                await ready.wait()
                if len(events) > WATCH_BUFFER:
                    raise Gone(410, "Expired", f"the watcher is {len(events)} events behind: list again")
                while events:
                    event = events.popleft()
                    yield WatchEvent(event.type, _copy(event.object))
                ready.clear()
        finally:
            stop()

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        await asyncio.sleep(0)
        return _copy(self._api.create(kind, object_, namespace, subresource=subresource))

    async def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object:
        await asyncio.sleep(0)
        return _copy(self._api.try_create(kind, object_, namespace))

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        await asyncio.sleep(0)
        return _copy(self._api.update(kind, object_, namespace, subresource=subresource))

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Object:
        await asyncio.sleep(0)
        return _copy(self._api.patch(kind, name, body, namespace, patch_type=patch_type, subresource=subresource))

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        await asyncio.sleep(0)
        self._api.delete(
            kind,
            name,
            namespace,
            uid=uid,
            grace_period_s=grace_period_s,
            propagation_policy=propagation_policy,
        )

    async def close(self) -> None:
        """Nothing is held."""


def _copy(object_: Object) -> Object:
    return {key: _copied(value) for key, value in object_.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return _copy(value)
    return [_copied(item) for item in value] if isinstance(value, list) else value
