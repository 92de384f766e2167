"""Kubernetes objects at one moment, indexed. Everything that decides is a function of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from regauge.base import InputError
from regauge.model.core import Node, Pod
from regauge.model.documents import Document
from regauge.model.kinds import (
    DEVICE_CLASS,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    Kind,
)
from regauge.model.meta import View
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from regauge.model.views import document_view

V = TypeVar("V", bound=View)
GroupKind = tuple[str, str]


class Snapshot:
    """An immutable set of documents. Views are made at the first look and remembered."""

    __slots__ = ("_documents", "_single", "_views")

    def __init__(self, documents: dict[GroupKind, tuple[Document, ...]]) -> None:
        self._documents = documents
        self._views: dict[tuple[GroupKind, type[View]], tuple[View, ...]] = {}
        self._single: dict[tuple[int, type[View]], View] = {}

    @classmethod
    def of(cls, documents: Iterable[Document]) -> Snapshot:
        """A snapshot of documents. Raises `InputError` when an object stands in it twice with different content."""
        grouped: dict[GroupKind, dict[tuple[str, str], Document]] = {}
        for document in documents:
            known = document.known
            group = known.group if known else document.api_version.rpartition("/")[0]
            of_kind = grouped.setdefault((group, document.kind), {})
            key = (document.namespace, document.name)
            earlier = of_kind.get(key)
            if earlier is not None and document.name and earlier.object != document.object:
                raise InputError(
                    f"{document.title} stands twice with different content, first at {earlier.where}",
                    where=document.where,
                    fix="remove one of the two",
                )
            if not document.name:
                key = (document.namespace, f"\0{len(of_kind)}")
            of_kind[key] = document
        return cls({kind: tuple(found.values()) for kind, found in grouped.items()})

    def replaced(self, documents: dict[GroupKind, tuple[Document, ...]]) -> Snapshot:
        """A snapshot of these documents instead. Views of documents that it has, too, are not made again."""
        found = Snapshot(documents)
        kept = {id(document) for group in documents.values() for document in group}
        found._single = {key: view for key, view in self._single.items() if key[0] in kept}
        found._views = {
            key: views for key, views in self._views.items() if documents.get(key[0]) is self._documents.get(key[0])
        }
        return found

    def kinds(self) -> tuple[GroupKind, ...]:
        """The (group, kind) pairs there are, sorted."""
        return tuple(sorted(self._documents))

    def documents(self, kind: Kind | GroupKind) -> tuple[Document, ...]:
        """All documents of a kind, in the order they were read."""
        return self._documents.get((kind.group, kind.kind) if isinstance(kind, Kind) else kind, ())

    def all_documents(self) -> Iterable[Document]:
        for found in self._documents.values():
            yield from found

    def views(self, kind: Kind, type_: type[V]) -> tuple[V, ...]:
        """All objects of a kind as views, in the order of their documents. Raises `InputError` for a malformed one."""
        key = ((kind.group, kind.kind), type_)
        if key not in self._views:
            self._views[key] = tuple(self.view(document, type_) for document in self.documents(kind))
        return cast("tuple[V, ...]", self._views[key])

    def view(self, document: Document, type_: type[V]) -> V:
        """One document of the snapshot as a view, remembered. Raises `InputError` for a malformed one."""
        key = (id(document), type_)
        if key not in self._single:
            self._single[key] = document_view(document, type_)
        return cast("V", self._single[key])

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.views(NODE, Node)

    @property
    def pods(self) -> tuple[Pod, ...]:
        return self.views(POD, Pod)

    @property
    def slices(self) -> tuple[ResourceSlice, ...]:
        return self.views(RESOURCE_SLICE, ResourceSlice)

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        return self.views(RESOURCE_CLAIM, ResourceClaim)

    @property
    def claim_templates(self) -> tuple[ResourceClaimTemplate, ...]:
        return self.views(RESOURCE_CLAIM_TEMPLATE, ResourceClaimTemplate)

    @property
    def device_classes(self) -> tuple[DeviceClass, ...]:
        return self.views(DEVICE_CLASS, DeviceClass)
