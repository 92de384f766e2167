"""Garbage collection by owner references: in the background, in the foreground, or leaving the dependents alone.

Source: pkg/controller/garbagecollector of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regauge.cluster.deletion import FOREGROUND, ORPHAN
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import Conflict, NotFound, WatchEvent
from regauge.model import KINDS, Kind, Object
from regauge.model.kinds import CORE_EVENT, EVENT

Place = tuple[str, str, str]  # resource (plural.group), namespace, name

_NOT_COLLECTED = (CORE_EVENT, EVENT)


class GarbageCollector:
    """One object a key. What it knows (who owns whom) comes again with the subscription."""

    name = "generic-garbage-collector"

    def __init__(self, api: ClusterApi, kinds: Iterable[Kind] = KINDS) -> None:
        self._api = api
        self.watches = tuple(kind for kind in kinds if kind not in _NOT_COLLECTED)
        self._kinds = {kind.resource: kind for kind in self.watches}
        self._by_uid: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}
        self._owners: dict[Place, frozenset[str]] = {}

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        place = (kind.resource, metadata.get("namespace", ""), metadata["name"])
        uid = metadata["uid"]
        if event.type == "DELETED":
            self._by_uid.pop(uid, None)
            waiting = self._owners.get(place, frozenset())
            self._remember(place, frozenset())
            dependents = tuple(self._dependents.get(uid, ()))
            return [_key(item) for item in (*dependents, *self._ending_owners(waiting))]
        self._by_uid[uid] = place
        owners = frozenset(owner.get("uid", "") for owner in metadata.get("ownerReferences") or [])
        self._remember(place, owners)
        ending = metadata.get("deletionTimestamp") and {FOREGROUND, ORPHAN} & set(metadata.get("finalizers") or [])
        return [_key(place)] if owners or ending else []

    def _remember(self, place: Place, owners: frozenset[str]) -> None:
        for uid in self._owners.pop(place, frozenset()) - owners:
            self._dependents.get(uid, {}).pop(place, None)
        for uid in sorted(owners):
            self._dependents.setdefault(uid, {})[place] = None
        if owners:
            self._owners[place] = owners

    def _ending_owners(self, uids: Iterable[str]) -> list[Place]:
        return [self._by_uid[uid] for uid in sorted(uids) if uid in self._by_uid]

    def reconcile(self, key: Key) -> float | None:
        resource, _, name = key[1].partition("/")
        kind = self._kinds[resource]
        object_ = self._api.find(kind, name, key[0])
        if object_ is None:
            return None
        metadata = object_["metadata"]
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or []
            if ORPHAN in finalizers:
                self._orphan(kind, object_)
            elif FOREGROUND in finalizers:
                self._foreground(kind, object_)
            return None
        self._collect(kind, object_)
        return None

    def _dependents_of(self, object_: Object) -> list[tuple[Kind, Object]]:
        found = []
        for resource, namespace, name in tuple(self._dependents.get(object_["metadata"]["uid"], ())):
            kind = self._kinds[resource]
            dependent = self._api.find(kind, name, namespace)
            if dependent is not None:
                found.append((kind, dependent))
        return found

    def _foreground(self, kind: Kind, owner: Object) -> None:
        """Dependents first; the owner goes when none is left that blocks it."""
        blocking = False
        for dependent_kind, dependent in self._dependents_of(owner):
            reference = _reference(dependent, owner["metadata"]["uid"])
            blocking = blocking or bool(reference.get("blockOwnerDeletion"))
            if not dependent["metadata"].get("deletionTimestamp"):
                further = bool(self._dependents.get(dependent["metadata"]["uid"]))
                self._delete(dependent_kind, dependent, "Foreground" if further else "Background")
        if not blocking:
            self._without_finalizer(kind, owner, FOREGROUND)

    def _orphan(self, kind: Kind, owner: Object) -> None:
        for dependent_kind, dependent in self._dependents_of(owner):
            self._without_owners(dependent_kind, dependent, {owner["metadata"]["uid"]})
        self._without_finalizer(kind, owner, ORPHAN)

    def _collect(self, kind: Kind, object_: Object) -> None:
        """Delete what has owners and none that still exists; cut the references to those that are gone."""
        references = object_["metadata"].get("ownerReferences") or []
        missing = {item.get("uid", "") for item in references if not self._exists(object_, item)}
        if not references or not missing:
            return
        if len(missing) == len({item.get("uid") for item in references}):
            self._delete(kind, object_, "Background")
        else:
            self._without_owners(kind, object_, missing)

    def _exists(self, object_: Object, reference: Mapping[str, Any]) -> bool:
        """An owner is the object of that uid, in the same namespace or cluster-scoped. Unknown kinds count as there."""
        place = self._by_uid.get(reference.get("uid", ""))
        if place is not None:
            return place[1] in ("", object_["metadata"].get("namespace", ""))
        group = reference.get("apiVersion", "").rpartition("/")[0]
        return not any((kind.group, kind.kind) == (group, reference.get("kind")) for kind in self.watches)

    def _delete(self, kind: Kind, object_: Object, policy: str) -> None:
        metadata = object_["metadata"]
        try:
            self._api.delete(
                kind,
                metadata["name"],
                metadata.get("namespace", ""),
                uid=metadata["uid"],
                propagation_policy=policy,
            )
        except (NotFound, Conflict):
            return

    def _without_finalizer(self, kind: Kind, object_: Object, finalizer: str) -> None:
        metadata = object_["metadata"]
        left = [item for item in metadata.get("finalizers") or [] if item != finalizer]
        self._api.update(kind, {**object_, "metadata": {**metadata, "finalizers": left}})

    def _without_owners(self, kind: Kind, object_: Object, uids: set[str]) -> None:
        metadata = object_["metadata"]
        left = [item for item in metadata.get("ownerReferences") or [] if item.get("uid") not in uids]
        self._api.update(kind, {**object_, "metadata": {**metadata, "ownerReferences": left}})


def _key(place: Place) -> Key:
    return place[1], f"{place[0]}/{place[2]}"


def _reference(object_: Object, uid: str) -> Mapping[str, Any]:
    references = object_["metadata"].get("ownerReferences") or []
    return next((item for item in references if item.get("uid") == uid), {})
