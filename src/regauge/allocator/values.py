"""Attribute values as constraints compare them."""

from __future__ import annotations

from typing import NamedTuple

from regauge.allocator.inventory import DeviceEntry
from regauge.model.resource import DeviceAttribute


class Value(NamedTuple):
    """A value for comparing: its type and, for sets, all its members. `kind` is "" for a type that never matches."""

    kind: str
    members: frozenset[int | str | bool]

    def meets(self, other: Value) -> Value | None:
        """What both have in common, None if nothing: types must be the same."""
        if self.kind != other.kind:
            return None
        common = self.members & other.members
        return Value(self.kind, common) if common else None

    def __str__(self) -> str:
        texts = sorted(str(one).lower() if isinstance(one, bool) else str(one) for one in self.members)
        return texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"


UNKNOWN = Value("", frozenset())


def static_value(entry: DeviceEntry, name: str, lists: bool) -> Value | None:
    """The value of the attribute with the qualified `name`; an unqualified one counts if the domain is the driver."""
    attributes = entry.view.attributes
    if name in attributes:
        return value_of(attributes[name], lists)
    domain, slash, short = name.partition("/")
    if not slash or domain != entry.driver or short not in attributes:
        return None
    return value_of(attributes[short], lists)


def value_of(attribute: DeviceAttribute | None, lists: bool) -> Value | None:
    """An attribute for comparing. `lists`: whether lists are known as sets; if not, they match nothing."""
    if attribute is None:
        return None
    if lists:
        return _as_set(attribute)
    if attribute.string_value is not None:
        return Value("string", frozenset((attribute.string_value,)))
    if attribute.int_value is not None:
        return Value("int", frozenset((attribute.int_value,)))
    if attribute.bool_value is not None:
        return Value("bool", frozenset((attribute.bool_value,)))
    if attribute.version_value is not None:
        return Value("version", frozenset((attribute.version_value,)))
    return UNKNOWN


def _as_set(attribute: DeviceAttribute) -> Value:
    for kind, several in (
        ("int", attribute.int_values),
        ("bool", attribute.bool_values),
        ("string", attribute.string_values),
        ("version", attribute.version_values),
    ):
        if several:
            return Value(kind, frozenset(several))
    for kind, single in (
        ("int", attribute.int_value),
        ("bool", attribute.bool_value),
        ("string", attribute.string_value),
        ("version", attribute.version_value),
    ):
        if single is not None:
            return Value(kind, frozenset((single,)))
    return UNKNOWN
