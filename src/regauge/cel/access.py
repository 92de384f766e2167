"""Reading from maps and lists at run time: selection, index, and their optional and testing forms."""

from __future__ import annotations

import math
from typing import Final

from regauge.cel.errors import EvaluationError
from regauge.cel.library.gofloat import shortest
from regauge.cel.values import NONE, TYPES, Map, Optional, Uint

KEY_CLASSES: Final = frozenset({str, int, Uint, bool, float})
_INVALID: Final = "invalid qualifier type"


def shown(key: object) -> str:
    """A key as messages show it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return shortest(key) if isinstance(key, float) else str(key)


def no_such_key(key: object) -> EvaluationError:
    return EvaluationError(f"no such key: {shown(key)}")


def _index(key: object) -> int:
    if type(key) is int or (type(key) is Uint and key < 2**63):
        return int(key)
    if isinstance(key, float) and math.isfinite(key) and key == int(key):
        return int(key)
    if isinstance(key, float | Uint):
        raise EvaluationError(f"unsupported index value {shown(key)} in list")
    raise EvaluationError(f"unsupported index type '{TYPES[type(key)].runtime_name}' in list")


def qualify(value: object, key: object) -> object:
    """`value.key` or `value[key]`. Raises `EvaluationError` when it is not there."""
    if type(key) not in KEY_CLASSES:
        raise EvaluationError(f"{_INVALID}: {TYPES[type(key)].runtime_name}")
    if isinstance(value, Map):
        present, found = value.find(key)
        if present:
            return found
    elif isinstance(value, tuple):
        index = _index(key)
        if 0 <= index < len(value):
            return value[index]
        raise EvaluationError(f"index out of bounds: {shown(key)}")
    raise no_such_key(key)


def qualify_if_present(value: object, key: object) -> tuple[bool, object]:
    """Whether it is there, and what it is."""
    if type(key) not in KEY_CLASSES:
        raise EvaluationError(f"{_INVALID}: {TYPES[type(key)].runtime_name}")
    if isinstance(value, Map):
        return value.find(key)
    if isinstance(value, tuple):
        index = _index(key)
        if 0 <= index < len(value):
            return True, value[index]
    return False, None


def unwrapped(value: object) -> tuple[bool, object]:
    """Whether a chain starts at an optional, and the value inside; an empty one gives (True, NONE)."""
    if type(value) is not Optional:
        return False, value
    return True, (value.value if value.present else NONE)
