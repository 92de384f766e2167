"""A client whose requests are timed, told to whoever counts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from regauge.base import Clock
from regauge.driver.meter import Meter
from regauge.kube import ApiError, KubeClient, ObjectList, PatchType, ServerUnavailable, Version, WatchEvent
from regauge.model import Kind, Object

OK = "ok"
UNAVAILABLE = "unavailable"


class MeasuredClient:
    """`KubeClient` that tells a meter of every request: its verb, what it was about, how it ended, how long it took.

    How it ended is `ok`, the code of the server's refusal, or `unavailable`. A watch is told when it begins to fail, and not
    while it runs: its length says nothing about the server.
    """

    def __init__(self, kube: KubeClient, meter: Meter, clock: Clock) -> None:
        self._inner = kube
        self._meter = meter
        self._clock = clock

    @contextmanager
    def _timed(self, verb: str, resource: str) -> Iterator[None]:
        began_s = self._clock.monotonic_s()
        code = OK
        try:
            yield
        except ApiError as error:
            code = str(error.code)
            raise
        except ServerUnavailable:
            code = UNAVAILABLE
            raise
        finally:
            self._meter.asked(verb, resource, code, self._clock.monotonic_s() - began_s)

    async def version(self) -> Version:
        with self._timed("get", "version"):
            return await self._inner.version()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        with self._timed("get", kind.plural):
            return await self._inner.get(kind, name, namespace)

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        with self._timed("list", kind.plural):
            return await self._inner.list(kind, namespace, label_selector=label_selector, field_selector=field_selector)

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        events = self._inner.watch(
            kind,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        began_s = self._clock.monotonic_s()
        try:
            async for event in events:
                yield event
        except (ApiError, ServerUnavailable) as error:
            code = str(error.code) if isinstance(error, ApiError) else UNAVAILABLE
            self._meter.asked("watch", kind.plural, code, self._clock.monotonic_s() - began_s)
            raise
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        with self._timed("create", _resource(kind, subresource)):
            return await self._inner.create(kind, object_, namespace, subresource=subresource)

    async def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object:
        with self._timed("create", kind.plural):
            return await self._inner.try_create(kind, object_, namespace)

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        with self._timed("update", _resource(kind, subresource)):
            return await self._inner.update(kind, object_, namespace, subresource=subresource)

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
        with self._timed("patch", _resource(kind, subresource)):
            return await self._inner.patch(kind, name, body, namespace, patch_type=patch_type, subresource=subresource)

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
        with self._timed("delete", kind.plural):
            await self._inner.delete(
                kind,
                name,
                namespace,
                uid=uid,
                grace_period_s=grace_period_s,
                propagation_policy=propagation_policy,
            )

    async def close(self) -> None:
        await self._inner.close()


def _resource(kind: Kind, subresource: str) -> str:
    return f"{kind.plural}/{subresource}" if subresource else kind.plural
