"""The check, while running, that values have the types of the one overload that the static check settled on."""

from __future__ import annotations

from collections.abc import Callable

from regauge.cel.errors import no_such_overload
from regauge.cel.types import Type
from regauge.cel.values import TYPES, Map


def guarded(implementation: Callable[..., object], kinds: tuple[Type, ...]) -> Callable[..., object]:
    """The function, for arguments of these types only."""

    def run(*args: object) -> object:
        if all(map(fits, kinds, args)):
            return implementation(*args)
        raise no_such_overload()

    return run


def fits(kind: Type, value: object) -> bool:
    """Whether a value can have the type; of lists and maps the first element decides, as upstream does it."""
    if kind.kind in ("dyn", "any", "param"):
        return True
    if kind.kind == "list":
        return type(value) is tuple and (not value or fits(kind.params[0], value[0]))
    if kind.kind == "map":
        return isinstance(value, Map) and _fits_map(kind, value)
    found = TYPES[type(value)]
    return found.kind == kind.kind and found.name == kind.name


def _fits_map(kind: Type, value: Map) -> bool:
    return all(map(fits, kind.params, next(iter(value.items()), ())))
