"""Objects in memory: one revision counter, a bounded log of changes, watches from a revision, optimistic locking.

The store knows nothing of what an object means. What goes in is never changed afterwards, so what comes out may be
shared; whoever wants to change an object copies it first.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from regauge.base import BugError
from regauge.kube import EventType, Gone, WatchEvent
from regauge.model import Kind, Object

LOG_LENGTH = 10_000
FIRST_REVISION = 1

Slot = tuple[str, str]  # group and plural: all versions of a kind are one collection
Key = tuple[str, str]  # namespace, name


def slot(kind: Kind) -> Slot:
    return kind.group, kind.plural


_SCALARS = frozenset({str, int, bool, float, type(None)})


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value. Called for every write: what cannot be copied is not asked twice."""
    if isinstance(value, dict):
        return {key: item if item.__class__ in _SCALARS else copy_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [item if item.__class__ in _SCALARS else copy_json(item) for item in value]
    return value


def controller_uid(object_: Object | None) -> str:
    """The uid of the owner that controls an object, "" without one."""
    for owner in ((object_ or {}).get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid") or "")
    return ""


@dataclass(frozen=True, slots=True)
class Change:
    """One step of the log. `object` is the new state, for DELETED the last one with the revision of the deletion."""

    revision: int
    kind: Kind
    key: Key
    type: EventType
    object: Object
    previous: Object | None
    event: WatchEvent = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "event", WatchEvent(self.type, self.object))


Listener = Callable[[Change], None]
_Listening = tuple[Listener, frozenset[Slot] | None]


class Store:
    """All objects of a cluster. `log_length` changes are kept for watches that start in the past."""

    def __init__(self, log_length: int = LOG_LENGTH) -> None:
        self._objects: dict[Slot, dict[Key, Object]] = {}
        self._sorted: dict[Slot, list[Key]] = {}
        self._owned: dict[tuple[Slot, str], dict[Key, None]] = {}
        self._log: deque[Change] = deque(maxlen=log_length)
        self._listeners: dict[int, _Listening] = {}
        self._listeners_of: dict[Slot, tuple[Listener, ...]] = {}
        self._undelivered: deque[Change] = deque()
        self._delivering = False
        self._next_listener = 0
        self.revision = FIRST_REVISION

    def load(self, names: Slot, key: Key, object_: Object) -> None:
        """Put an object as an earlier process left it: no change, nobody hears of it. Before anything else is written."""
        self._objects.setdefault(names, {})[key] = object_
        bisect.insort(self._sorted.setdefault(names, []), key)
        owner = controller_uid(object_)
        if owner:
            self._owned.setdefault((names, owner), {})[key] = None

    def flush(self) -> None:
        """Make all writes so far outlive the process, where there is a place for that. In memory there is none."""

    def find(self, kind: Kind, key: Key) -> Object | None:
        return self._objects.get(slot(kind), {}).get(key)

    def keys(self, kind: Kind, namespace: str = "") -> tuple[Key, ...]:
        """The keys of a kind, sorted by namespace and name."""
        keys = self._sorted.get(slot(kind), [])
        if not namespace:
            return tuple(keys)
        return tuple(keys[bisect.bisect_left(keys, (namespace, "")) : bisect.bisect_left(keys, (namespace + "\0", ""))])

    def list(self, kind: Kind, namespace: str = "") -> tuple[Object, ...]:
        objects = self._objects.get(slot(kind), {})
        return tuple(objects[key] for key in self.keys(kind, namespace))

    def owned(self, kind: Kind, uid: str) -> tuple[Object, ...]:
        """The objects of a kind whose controlling owner has this uid, sorted by namespace and name."""
        objects = self._objects.get(slot(kind), {})
        return tuple(objects[key] for key in sorted(self._owned.get((slot(kind), uid), ())))

    def _index(self, kind: Kind, key: Key, old: Object | None, new: Object | None) -> None:
        before, after = controller_uid(old), controller_uid(new)
        if before and before != after:
            self._owned.get((slot(kind), before), {}).pop(key, None)
        if after:
            self._owned.setdefault((slot(kind), after), {})[key] = None

    def list_at(self, kind: Kind, namespace: str, revision: int) -> tuple[Object, ...]:
        """The same as it was at an earlier revision. Raises `Gone` when the log does not reach back so far."""
        objects = dict(self._objects.get(slot(kind), {}))
        for change in reversed(list(self.since(revision))):
            if slot(change.kind) != slot(kind):
                continue
            if change.previous is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.previous
        return tuple(objects[key] for key in sorted(objects) if not namespace or key[0] == namespace)

    def slots(self) -> tuple[Slot, ...]:
        """The collections that hold objects now."""
        return tuple(sorted(name for name, objects in self._objects.items() if objects))

    def put(self, kind: Kind, key: Key, object_: Object) -> Object:
        """Write an object (new or changed) at the next revision; its resourceVersion is set. Returns what is stored."""
        objects = self._objects.setdefault(slot(kind), {})
        previous = objects.get(key)
        stored = self._at_next_revision(object_)
        objects[key] = stored
        self._index(kind, key, previous, stored)
        if previous is None:
            bisect.insort(self._sorted.setdefault(slot(kind), []), key)
        self._tell(Change(self.revision, kind, key, "MODIFIED" if previous else "ADDED", stored, previous))
        return stored

    def remove(self, kind: Kind, key: Key, last: Object | None = None) -> Object:
        """Take an object out at the next revision. `last` is its last state when it differs from the stored one."""
        objects = self._objects.get(slot(kind), {})
        previous = objects.pop(key, None)
        if previous is None:
            raise BugError(f"{kind.kind} {key} is not in the store and cannot be removed")
        self._index(kind, key, previous, None)
        keys = self._sorted[slot(kind)]
        del keys[bisect.bisect_left(keys, key)]
        stored = self._at_next_revision(last or previous)
        self._tell(Change(self.revision, kind, key, "DELETED", stored, previous))
        return stored

    def _at_next_revision(self, object_: Object) -> Object:
        self.revision += 1
        return {**object_, "metadata": {**object_["metadata"], "resourceVersion": str(self.revision)}}

    def since(self, revision: int) -> Iterator[Change]:
        """The changes after `revision`. Raises `Gone` when the log no longer holds all of them."""
        oldest = self._log[0].revision if self._log else self.revision + 1
        if revision < oldest - 1:
            raise Gone(410, "Expired", f"too old resource version: {revision} ({oldest - 1})")
        return iter([change for change in self._log if change.revision > revision])

    def listen(self, listener: Listener, slots: Iterable[Slot] | None = None) -> Callable[[], None]:
        """Call `listener` with every change from now on, or with those of some collections only. Returns what ends it.

        Listeners take note; they do not write.
        """
        number = self._next_listener
        self._next_listener += 1
        self._listeners[number] = (listener, None if slots is None else frozenset(slots))
        self._listeners_of.clear()
        return lambda: self._end_listening(number)

    def _end_listening(self, number: int) -> None:
        self._listeners.pop(number, None)
        self._listeners_of.clear()

    def _who_listens(self, names: Slot) -> tuple[Listener, ...]:
        """In the order in which they came."""
        found = self._listeners_of.get(names)
        if found is None:
            found = tuple(one for one, slots in self._listeners.values() if slots is None or names in slots)
            self._listeners_of[names] = found
        return found

    def _tell(self, change: Change) -> None:
        """Deliver in the order of revisions, even when a listener wrote: the outermost delivery goes on."""
        self._log.append(change)
        self._undelivered.append(change)
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._undelivered:
                current = self._undelivered.popleft()
                for listener in self._who_listens(slot(current.kind)):
                    listener(current)
        finally:
            self._delivering = False
