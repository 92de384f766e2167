"""The pods that wait for the scheduler: ready, backing off, unschedulable until something changes, or held.

Pure bookkeeping; the time is passed in (seconds since 1970). Source: kube-scheduler backend/queue of 1.36.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from regauge.cluster.port import Key

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 10.0
FLUSH_EVERY_S = 30.0
LONGEST_UNSCHEDULABLE_S = 300.0


Held = Callable[["Waiting"], str]
"""Which plugin holds a pod before it is even tried, or ""."""


class Place(Enum):
    """Where a pod waits."""

    READY = "ready"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    HELD = "held"


@dataclass(slots=True)
class Waiting:
    """A pod that waits: why it was refused, how often, since when."""

    key: Key
    uid: str
    priority: int
    order: int
    place: Place
    since_s: float
    plugins: frozenset[str] = frozenset()
    refused: int = 0
    errors: int = 0
    born: int = 0

    @property
    def until_s(self) -> float:
        """When the back-off ends. Times are whole seconds, as upstream aligns them."""
        count = self.errors or self.refused
        if not count:
            return 0.0
        duration_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(count - 1, 10))
        return math.floor(self.since_s + duration_s) + 1.0

    @property
    def rank(self) -> tuple[int, int]:
        """Who is tried first: high priority, then first come."""
        return (-self.priority, self.order)


@dataclass(slots=True)
class SchedulingQueue:
    """All waiting pods by key."""

    pods: dict[Key, Waiting] = field(default_factory=dict)
    _ready: dict[Key, Waiting] = field(default_factory=dict)
    _asleep: dict[Key, Waiting] = field(default_factory=dict)
    _order: int = 0
    _born: int = 0
    _flushed_s: float = 0.0

    def _move(self, pod: Waiting, place: Place) -> None:
        self._ready.pop(pod.key, None)
        self._asleep.pop(pod.key, None)
        pod.place = place
        if place is Place.READY:
            self._order += 1
            pod.order = self._order
            self._ready[pod.key] = pod
        elif place in (Place.UNSCHEDULABLE, Place.HELD):
            self._asleep[pod.key] = pod

    def add(self, key: Key, uid: str, priority: int, now_s: float, held_by: str = "") -> None:
        """A new pod, ready at once or held by a plugin."""
        self.drop(key)
        plugins = frozenset({held_by} if held_by else ())
        self._born += 1
        pod = self.pods[key] = Waiting(key, uid, priority, 0, Place.HELD, now_s, plugins, born=self._born)
        self._move(pod, Place.HELD if held_by else Place.READY)

    def drop(self, key: Key) -> None:
        """The pod is gone or bound."""
        self.pods.pop(key, None)
        self._ready.pop(key, None)
        self._asleep.pop(key, None)

    def pop(self) -> Waiting | None:
        """The next pod to try. When none is ready, one that backs off after a refusal does not have to wait."""
        pod = min(self._ready.values(), key=lambda item: item.rank, default=None)
        if pod is None:
            backing_off = [item for item in self.pods.values() if item.place is Place.BACKOFF]
            pod = min(backing_off, key=lambda item: (item.until_s, *item.rank), default=None)
        if pod is not None:
            self.drop(pod.key)
        return pod

    def take(self, key: Key) -> Waiting | None:
        """A pod out of its turn, wherever it waits; one that is held is left alone."""
        pod = self.pods.get(key)
        if pod is None or pod.place is Place.HELD:
            return None
        self.drop(key)
        return pod

    def refused(self, pod: Waiting, plugins: frozenset[str], now_s: float) -> None:
        """Put a pod back that fits nowhere: it waits until a change concerns one of the plugins."""
        pod.plugins, pod.since_s = plugins, now_s
        pod.refused, pod.errors = pod.refused + 1, 0
        self.pods[pod.key] = pod
        self._move(pod, Place.UNSCHEDULABLE)

    def failed(self, pod: Waiting, now_s: float) -> None:
        """Put a pod back whose attempt ended in an error: it is tried again after a back-off."""
        pod.plugins, pod.since_s = frozenset(), now_s
        pod.errors += 1
        self.pods[pod.key] = pod
        self._move(pod, Place.ERROR_BACKOFF)

    def hold(self, pod: Waiting, plugin: str) -> None:
        """Put a pod back that must not be tried yet."""
        pod.plugins = frozenset({plugin})
        self.pods[pod.key] = pod
        self._move(pod, Place.HELD)

    def wake(
        self,
        concerns: Callable[[Waiting], bool],
        now_s: float,
        held: Held,
        keys: Iterable[Key] | None = None,
    ) -> None:
        """A change: sleeping pods (all, or those of `keys`) that it concerns may be tried again."""
        sleepers = self._asleep.values() if keys is None else map(self._asleep.get, keys)
        for pod in tuple(sleepers):
            if pod is not None and concerns(pod):
                self._release(pod, now_s, held)

    def _release(self, pod: Waiting, now_s: float, held: Held) -> None:
        holder = held(pod)
        if holder:
            pod.plugins = frozenset({holder})
            self._move(pod, Place.HELD)
        else:
            self._move(pod, Place.BACKOFF if pod.until_s > now_s else Place.READY)

    def tick(self, now_s: float, held: Held) -> None:
        """Time passed: back-offs end, and pods do not stay unschedulable for ever."""
        for pod in tuple(self.pods.values()):
            if pod.place in (Place.BACKOFF, Place.ERROR_BACKOFF) and pod.until_s <= now_s:
                self._release(pod, now_s, held)
        if now_s - self._flushed_s >= FLUSH_EVERY_S:
            self._flushed_s = now_s
            for pod in tuple(self.pods.values()):
                if pod.place is Place.UNSCHEDULABLE and now_s - pod.since_s > LONGEST_UNSCHEDULABLE_S:
                    self._release(pod, now_s, held)

    @property
    def has_work(self) -> bool:
        """Whether `pop` would give a pod now."""
        return bool(self._ready) or any(pod.place is Place.BACKOFF for pod in self.pods.values())

    def next_s(self) -> float | None:
        """When `tick` has something to do again, or None."""
        times = [pod.until_s for pod in self.pods.values() if pod.place is Place.ERROR_BACKOFF]
        if any(pod.place is Place.UNSCHEDULABLE for pod in self.pods.values()):
            oldest_s = min(pod.since_s for pod in self.pods.values() if pod.place is Place.UNSCHEDULABLE)
            times.append(max(oldest_s + LONGEST_UNSCHEDULABLE_S + 0.001, self._flushed_s + FLUSH_EVERY_S))
        return min(times, default=None)

    def waiting(self, place: Place) -> Iterable[Waiting]:
        """The pods that wait at one place."""
        return (pod for pod in self.pods.values() if pod.place is place)
