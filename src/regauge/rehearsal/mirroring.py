"""A real cluster as a world: what it has of a scenario is followed by watches, and kept where looks look.

A scenario gets a namespace of its own there and does not know it: what it calls `default` is that namespace. Who wrote
what is told by the managed fields of each version; who deleted an object no watch tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any

from regauge.base import Clock
from regauge.cluster.story import Write, changed_fields
from regauge.kube import ApiError, KubeClient, ObjectList, PatchType, ServerUnavailable, Version, WatchEvent
from regauge.model import Kind, Object, Rules
from regauge.model.kinds import (
    CORE_EVENT,
    DEVICE_CLASS,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from regauge.rehearsal.nodes import MemoryMachine, NodeWorld
from regauge.rehearsal.report import Mode

HERE = "default"
FOLLOWED = (NODE, RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM_TEMPLATE, RESOURCE_CLAIM, POD, CORE_EVENT)
AGAIN_S = 1.0
UNKNOWN = "somebody"


class Moved:
    """`KubeClient` on whose other side a namespace, and nodes, have other names. `made`: what was made outside of the
    namespace, in order. `nodes`: what the nodes of a scenario are called there; such a name is a whole text wherever it is.
    """

    def __init__(self, kube: KubeClient, namespace: str, nodes: Mapping[str, str] = MappingProxyType({})) -> None:
        self._kube = kube
        self._namespace = namespace
        self._nodes = dict(nodes)
        self._shown = {there: here for here, there in nodes.items()}
        self.made: list[tuple[Kind, str]] = []

    def _there(self, namespace: str) -> str:
        return self._namespace if namespace == HERE else namespace

    def _sent(self, object_: Object) -> Object:
        object_ = _renamed(object_, self._nodes)
        metadata = object_.get("metadata") or {}
        if metadata.get("namespace") != HERE:
            return object_
        return {**object_, "metadata": {**metadata, "namespace": self._namespace}}

    def shown(self, object_: Object) -> Object:
        object_ = _renamed(object_, self._shown)
        metadata = object_["metadata"]
        if metadata.get("namespace") != self._namespace:
            return object_
        return {**object_, "metadata": {**metadata, "namespace": HERE}}

    async def version(self) -> Version:
        return await self._kube.version()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return self.shown(await self._kube.get(self._served(kind, name), name, self._there(namespace)))

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        where = self._there(namespace or HERE) if kind.namespaced else ""
        found = await self._kube.list(kind, where, label_selector=label_selector, field_selector=field_selector)
        return ObjectList(tuple(map(self.shown, found.items)), found.resource_version)

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        where = self._there(namespace or HERE) if kind.namespaced else ""
        async for event in self._kube.watch(
            kind,
            where,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        ):
            yield WatchEvent(event.type, self.shown(event.object))

    def _served(self, kind: Kind, name: str) -> Kind:
        """The kind in the version in which an object of that name was made: a server may not have the newest."""
        return next((made for made, told in self.made if (made.kind, told) == (kind.kind, name)), kind)

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        sent = {"apiVersion": kind.api_version, "kind": kind.kind, **self._sent(object_)}
        version = str(sent["apiVersion"]).rpartition("/")[2]
        kind = replace(kind, version=version) if version in kind.others else kind
        found = await self._kube.create(kind, sent, self._there(namespace), subresource=subresource)
        if not kind.namespaced:
            self.made.append((kind, found["metadata"]["name"]))
        return self.shown(found)

    async def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object:
        return self.shown(await self._kube.try_create(kind, self._sent(object_), self._there(namespace)))

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        sent = self._sent(object_)
        kind = self._served(kind, sent["metadata"]["name"])
        return self.shown(await self._kube.update(kind, sent, self._there(namespace), subresource=subresource))

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
        where, kind = self._there(namespace), self._served(kind, name)
        return self.shown(
            await self._kube.patch(kind, name, body, where, patch_type=patch_type, subresource=subresource)
        )

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
        where = self._there(namespace)
        kind = self._served(kind, name)
        await self._kube.delete(
            kind, name, where, uid=uid, grace_period_s=grace_period_s, propagation_policy=propagation_policy
        )

    async def close(self) -> None:
        """Whoever made the client closes it."""


class MirrorWorld(NodeWorld):
    """A world without parts of its own: its store is what the watches tell, its clock the machine's."""

    def __init__(self, kube: Moved, clock: Clock, rules: Rules) -> None:
        super().__init__(Mode.REAL, clock, rules, Random(0), MemoryMachine)
        self.kube: Moved = kube
        self._tasks: list[asyncio.Task[None]] = []

    async def follow(self) -> None:
        """Begin, and return when all that is there now is known. Raises `ApiError` for what may not be read."""
        for kind in FOLLOWED:
            found = await self.kube.list(kind)
            self._take_all(kind, found)
            self._tasks.append(asyncio.create_task(self._keep(kind, found.resource_version), name=kind.plural))

    async def _keep(self, kind: Kind, version: str) -> None:
        """A watch that ends is begun anew, from a new list when it is too far behind."""
        while True:
            try:
                async for event in self.kube.watch(kind, resource_version=version):
                    version = event.object["metadata"].get("resourceVersion", version)
                    if event.type in ("ADDED", "MODIFIED", "DELETED"):
                        self._take(kind, event.type, event.object)
            except (ApiError, ServerUnavailable):
                await self.clock.sleep(AGAIN_S)
                try:
                    found = await self.kube.list(kind)
                except (ApiError, ServerUnavailable):
                    continue
                self._take_all(kind, found)
                version = found.resource_version

    def _take_all(self, kind: Kind, found: ObjectList) -> None:
        there = {_key(kind, item) for item in found.items}
        store = self.control.api.state.store
        for key in store.keys(kind):
            if key not in there:
                self._take(kind, "DELETED", store.find(kind, key) or {})
        for item in found.items:
            self._take(kind, "MODIFIED", item)

    def _take(self, kind: Kind, type_: str, object_: Object) -> None:
        store, key = self.control.api.state.store, _key(kind, object_)
        old = store.find(kind, key)
        if type_ == "DELETED":
            if old is not None:
                store.remove(kind, key)
                self._note(kind, key, old, None)
            return
        new = {"apiVersion": kind.api_version, "kind": kind.kind, **object_}
        seen = old["metadata"].get(SEEN) if old is not None else None
        version = object_["metadata"].get("resourceVersion")
        if seen == version:
            return
        store.put(kind, key, {**new, "metadata": {**new["metadata"], SEEN: version}})
        self._note(kind, key, old, new)

    def _note(self, kind: Kind, key: tuple[str, str], old: Object | None, new: Object | None) -> None:
        actor, subresource = _writer(old, new)
        write = Write(
            revision=self._version(new or old),
            time_s=self.clock.now_s(),
            actor=actor,
            verb="delete" if new is None else "create" if old is None else "update",
            kind=kind,
            namespace=key[0],
            name=key[1],
            subresource=subresource,
            fields=_told(old, new) if old is not None and new is not None else (),
        )
        self._put(write)

    def _version(self, object_: Object | None) -> int:
        text = str(((object_ or {}).get("metadata") or {}).get("resourceVersion", ""))
        return int(text) if text.isdigit() else 0

    def _put(self, write: Write) -> None:
        """Each kind has a watch of its own: what they tell is put in the order of the revisions."""
        story = self.control.api.state.story
        at = len(story)
        while write.verb != "delete" and at and story[at - 1].revision > write.revision:
            at -= 1
        story.insert(at, write)

    def check(self) -> None:
        """Raises what a watch ended by."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


SEEN = "regauge.dev/seen-version"


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if not names:
        return value
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return value


def _key(kind: Kind, object_: Object) -> tuple[str, str]:
    metadata = object_["metadata"]
    return (metadata.get("namespace", "") if kind.namespaced else "", metadata["name"])


def _told(old: Object, new: Object) -> tuple[str, ...]:
    return tuple(item for item in changed_fields(old, new) if not item.endswith(SEEN))


def _writer(old: Object | None, new: Object | None) -> tuple[str, str]:
    """Whose entry of the managed fields is new or has changed, and through which subresource."""
    before = {_entry(one): one for one in _managed(old)}
    changed = [one for one in _managed(new) if before.get(_entry(one)) != one]
    if not changed:
        return UNKNOWN, ""
    last = max(changed, key=lambda one: str(one.get("time", "")))
    return str(last.get("manager", UNKNOWN)), str(last.get("subresource", ""))


def _managed(object_: Object | None) -> Iterator[Object]:
    yield from ((object_ or {}).get("metadata") or {}).get("managedFields") or ()


def _entry(one: Object) -> tuple[Any, ...]:
    return one.get("manager"), one.get("operation"), one.get("subresource", "")
