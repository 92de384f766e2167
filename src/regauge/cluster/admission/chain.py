"""The way of an object into the store: changes by admission, then validation, then what only admits or refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from regauge.cluster.admission.metadata import metadata_errors, metadata_update_errors
from regauge.cluster.refusals import FieldError, forbidden, invalid_object, not_found
from regauge.cluster.store import Store
from regauge.model import Kind, Object
from regauge.model.kinds import NAMESPACE


class Preparation(Protocol):
    """Changes every object that is to be written before anything else looks at it. `old` is what is stored."""

    def __call__(self, kind: Kind, object_: Object, old: Object | None, /) -> Object: ...


class Mutation(Protocol):
    """Changes a new object before it is validated, or refuses it. `object_` may still lack a name."""

    def __call__(self, store: Store, kind: Kind, object_: Object, /) -> Object: ...


class Check(Protocol):
    """What is wrong with an object. `old` is the stored state for an update, None for a creation."""

    def __call__(
        self, store: Store, kind: Kind, object_: Object, old: Object | None, subresource: str, /
    ) -> list[FieldError]: ...


class Gate(Protocol):
    """Refuses a valid object (quota) by raising `ApiError`."""

    def __call__(self, store: Store, kind: Kind, object_: Object, old: Object | None, subresource: str, /) -> None: ...


@dataclass(frozen=True)
class Admission:
    """The chain. The parts are tried in their order; the first refusal ends it, field errors are gathered."""

    preparations: Sequence[Preparation] = ()
    mutations: Sequence[Mutation] = ()
    checks: Sequence[Check] = ()
    gates: Sequence[Gate] = ()

    def prepared(self, kind: Kind, object_: Object, old: Object | None) -> Object:
        for prepare in self.preparations:
            object_ = prepare(kind, object_, old)
        return object_

    def before_create(self, store: Store, kind: Kind, object_: Object) -> Object:
        check_namespace(store, kind, object_)
        for mutate in self.mutations:
            object_ = mutate(store, kind, object_)
        return object_

    def at_create(self, store: Store, kind: Kind, object_: Object) -> None:
        """Raises `Invalid` or what a gate raises."""
        errors = metadata_errors(kind, object_)
        told = [error for check in self.checks for error in check(store, kind, object_, None, "")]
        errors += [error for error in told if error not in errors]
        self._refuse(kind, object_, errors)
        for gate in self.gates:
            gate(store, kind, object_, None, "")

    def at_update(self, store: Store, kind: Kind, object_: Object, old: Object, subresource: str) -> None:
        errors = metadata_update_errors(old["metadata"], object_["metadata"])
        errors += [error for error in metadata_errors(kind, object_) if error not in errors]
        errors += [error for check in self.checks for error in check(store, kind, object_, old, subresource)]
        self._refuse(kind, object_, errors)
        for gate in self.gates:
            gate(store, kind, object_, old, subresource)

    def _refuse(self, kind: Kind, object_: Object, errors: list[FieldError]) -> None:
        if errors:
            raise invalid_object(kind, object_["metadata"].get("name", ""), errors)


def check_namespace(store: Store, kind: Kind, object_: Object) -> None:
    """Nothing is created in a namespace that is missing or ends."""
    if not kind.namespaced:
        return
    metadata = object_["metadata"]
    namespace = store.find(NAMESPACE, ("", metadata["namespace"]))
    if namespace is None:
        raise not_found(NAMESPACE, metadata["namespace"])
    if (namespace.get("status") or {}).get("phase") == "Terminating" or namespace["metadata"].get("deletionTimestamp"):
        name = metadata["namespace"]
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(kind, metadata.get("name") or metadata.get("generateName") or "Unknown", why, [cause])
