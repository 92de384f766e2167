"""The story of a cluster: every write, who made it, when, and which fields it changed.

The names of fields are those of the recorded stories of real clusters: `+` added, `-` removed, `~` changed; members of
lists are named by what identifies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regauge.model import Kind, Object

Verb = Literal["create", "update", "delete"]

_IDENTITIES = ("type", "name", "key", "uid")
_DEEP = frozenset({"metadata", "spec", "status", "conditions", "finalizers", "taints"})
_QUIET = frozenset(
    {
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.uid",
        "status.observedGeneration",
        "apiVersion",
        "kind",
    }
)


@dataclass(frozen=True, slots=True)
class Write:
    """One write that took effect. `time_s` is the clock's wall time, `fields` is empty for create and delete."""

    revision: int
    time_s: float
    actor: str
    verb: Verb
    kind: Kind
    namespace: str
    name: str
    subresource: str = ""
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f"{self.actor}/{self.subresource}" if self.subresource else self.actor
        what = f"{self.verb} {self.kind.kind}/{self.name} by {by}"
        return f"{what} {' '.join(self.fields)}" if self.fields else what


def changed_fields(old: Object, new: Object) -> tuple[str, ...]:
    """What differs between two states of an object, as deep as sections, conditions, finalizers and taints."""
    return tuple(_differences(old, new, ""))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in sorted({*old, *new}):
        place = f"{path}.{key}" if path else key
        if place in _QUIET or old.get(key) == new.get(key):
            continue
        before, after = old.get(key), new.get(key)
        deep = key in _DEEP
        if deep and _mappings(before, after):
            yield from _differences(before or {}, after or {}, place)
        elif deep and _lists(before, after):
            yield from _member_differences(before or [], after or [], place)
        else:
            yield _sign(key in old, key in new) + place


def _member_differences(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[str]:
    before, after = ({_identity(item): item for item in items} for items in (old, new))
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"{_sign(name in before, name in after)}{path}[{name}]"


def _identity(item: Any) -> str:
    if isinstance(item, Mapping):
        return next((str(item[field]) for field in _IDENTITIES if field in item), "")
    return str(item)


def _sign(was: bool, is_: bool) -> str:
    return "~" if was and is_ else "+" if is_ else "-"


def _mappings(before: Any, after: Any) -> bool:
    return all(value is None or isinstance(value, dict) for value in (before, after))


def _lists(before: Any, after: Any) -> bool:
    return all(value is None or isinstance(value, list) for value in (before, after))
