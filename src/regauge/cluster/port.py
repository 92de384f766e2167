"""What the parts of the cluster know of each other: the API as in-process programs use it, and how a controller runs.

Everything in the cluster runs in one asyncio loop. The API is synchronous: a write is done when the call returns, and no
other part runs in between. So an interleaving is decided only where a part awaits (a timer, a plugin, a process).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from regauge.kube import PatchType, WatchEvent
from regauge.model import Kind, Object

Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds), name


class Killed(asyncio.CancelledError):
    """The caller's process dies here, as by `kill -9`: whoever raises this also ends the other tasks of the process."""


class ClusterApi(Protocol):
    """The API server as one actor (a controller, the scheduler, a kubelet, a user) uses it.

    Objects that come out are shared with the store: never change them, copy first. Errors are those of `kube`
    (`NotFound`, `Conflict`, `Invalid`, ...); a fault at this port may raise any of them, or kill the actor, before or after
    the write took effect.
    """

    @property
    def actor(self) -> str:
        """Who writes: the field manager and the name in the story of writes."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """Raises `NotFound`."""

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """The object, or None."""

    def list(self, kind: Kind, namespace: str = "") -> tuple[Object, ...]:
        """All of a kind (in one namespace, or everywhere with ""), sorted by namespace and name."""

    def create(self, kind: Kind, object_: Object, namespace: str = "") -> Object: ...

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

    def bind(self, namespace: str, pod: str, node: str, *, uid: str = "") -> None:
        """The pod's binding subresource: nodeName, PodScheduled true, nominatedNodeName removed, in one write."""

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

    def event(self, regarding: Object, type_: str, reason: str, message: str) -> None:
        """Record an Event about an object; a repetition counts up instead of making another."""

    def subscribe(self, kinds: Iterable[Kind], listener: Callable[[Kind, WatchEvent], None]) -> Callable[[], None]:
        """Every existing object as ADDED and then every change, in the order of revisions, delivered before the writing
        call returns to the loop's next step. Returns what ends the subscription."""


class Controller(Protocol):
    """A control loop: events become keys, each key is brought to its desired state.

    Restart: a controller keeps nothing that it cannot make again from the API. Retry: an exception of `reconcile` puts the
    key back with a growing delay; `Conflict` is ordinary. Concurrency: one reconcile at a time per controller.
    """

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> tuple[Kind, ...]: ...

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        """The keys that an event touches."""

    def reconcile(self, key: Key) -> float | None:
        """Do what is to be done for a key. Seconds after which to look again, or None."""


Spawn = Callable[[Awaitable[None], str], None]
