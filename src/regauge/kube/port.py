"""The client protocol to an API server. Every program talks to real Kubernetes and to our own cluster through it.

Objects go in and out as JSON documents. Retry: reads may be repeated; a write that ended in `TransientError` may have
happened, so writers look before they repeat. Concurrency: updates carry `resourceVersion` and end in `Conflict` when
somebody else was first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from regauge.base import RegaugeError, TransientError
from regauge.model import Kind, Object

PatchType = Literal["merge", "strategic", "json", "apply"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class ApiError(RegaugeError):
    """The API server refused: HTTP `code`, `reason` and `message` of its Status, and the whole Status object."""

    def __init__(self, code: int, reason: str, message: str, status: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.status = status or {}


class NotFound(ApiError):
    """404: there is no such object, or the kind is not served."""


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists."""


class Conflict(ApiError):
    """409: somebody changed the object first. Read it again."""


class Invalid(ApiError):
    """422: the object is not valid."""


class Forbidden(ApiError):
    """403: not allowed; the message names verb and resource."""


class Gone(ApiError):
    """410: the resourceVersion of a watch or a page is too old. List again."""


class ServerUnavailable(TransientError):
    """The API server did not answer, or answered that it cannot now."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change. For DELETED the object is its last state."""

    type: EventType
    object: Object


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list at one moment: watch on from `resource_version` to miss nothing."""

    items: tuple[Object, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Version:
    """What the server says of itself: `git_version` such as `v1.36.3`, `minor` such as `1.36`."""

    git_version: str
    minor: str


class KubeClient(Protocol):
    """`namespace` is "" for cluster-scoped kinds; for `list` and `watch` of namespaced kinds "" means all namespaces.

    `subresource` is "status", "binding", "eviction" or "" for the object itself. All calls raise `ApiError` or its kinds
    when the server refuses and `ServerUnavailable` when it does not answer.
    """

    async def version(self) -> Version: ...

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object: ...

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """The whole list (pages are followed)."""

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version` as they happen, until the iterator is closed. Ends when the server ends it."""

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object: ...

    async def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object:
        """What `create` would answer; nothing is written (a server-side dry run)."""

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object: ...

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Object: ...

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
        """`uid` is a precondition. An object with finalizers stays, marked, until they are gone."""

    async def close(self) -> None: ...
