"""Text: the standard functions and the strings extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.library.lists import index_of, last_index_of, reverse
from regauge.cel.values import SIZED, bounded_text
from regauge.model.quoting import NAMED_ESCAPES

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTED = str.maketrans(NAMED_ESCAPES)


def _text(value: object) -> str:
    if type(value) is not str:
        raise no_such_overload()
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise no_such_overload()
    return value


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _size(value: object) -> int:
    if isinstance(value, SIZED):
        return len(value)
    raise no_such_overload()


def _starts_with(text: object, prefix: object) -> bool:
    return _text(text).startswith(_text(prefix))


def _ends_with(text: object, suffix: object) -> bool:
    return _text(text).endswith(_text(suffix))


def _contains(text: object, part: object) -> bool:
    return _text(part) in _text(text)


def _char_at(text: object, index: object) -> str:
    string, at = _text(text), _number(index)
    if not 0 <= at <= len(string):
        raise _out_of_range(at)
    return string[at : at + 1]


def _index_of(value: object, part: object, *offset: object) -> int:
    if type(value) is tuple and not offset:
        return index_of(value, part)
    string, wanted = _text(value), _text(part)
    start = _number(offset[0]) if offset else 0
    if start < 0:
        raise _out_of_range(start)
    if not wanted:
        return min(start, len(string))
    return string.find(wanted, start)


def _last_index_of(value: object, part: object, *offset: object) -> int:
    if type(value) is tuple and not offset:
        return last_index_of(value, part)
    string, wanted = _text(value), _text(part)
    if not offset:
        return string.rfind(wanted) if wanted else len(string)
    start = _number(offset[0])
    if start < 0:
        raise _out_of_range(start)
    if not wanted:
        return min(start, len(string))
    if start >= len(string):
        return -1
    return string.rfind(wanted, 0, start + len(wanted))


def _lower(text: object) -> str:
    return _text(text).translate(_LOWER)


def _upper(text: object) -> str:
    return _text(text).translate(_UPPER)


def _replace(text: object, old: object, new: object, *limit: object) -> str:
    count = max(_number(limit[0]) if limit else -1, -1)
    string, before, after = _text(text), _text(old), _text(new)
    found = string.count(before)
    growth = (found if count < 0 else min(count, found)) * (len(after) - len(before))
    bounded_text(len(string) + growth)
    return string.replace(before, after, count)


def _split(text: object, separator: object, *limit: object) -> tuple[str, ...]:
    string, wanted = _text(text), _text(separator)
    count = _number(limit[0]) if limit else -1
    if count == 0:
        return ()
    if not wanted:
        if count < 0 or count >= len(string):
            return tuple(string)
        return (*string[: count - 1], string[count - 1 :])
    return tuple(string.split(wanted, count - 1 if count > 0 else -1))


def _substring(text: object, start: object, *stop: object) -> str:
    string, first = _text(text), _number(start)
    last = _number(stop[0]) if stop else len(string)
    if stop and first > last:
        raise EvaluationError(f"invalid substring range. start: {first}, end: {last}")
    for index in (first, last):
        if not 0 <= index <= len(string):
            raise _out_of_range(index)
    return string[first:last]


def _trim(text: object) -> str:
    return _text(text).strip(_SPACE)


def _join(parts: object, *separator: object) -> str:
    if type(parts) is not tuple:
        raise no_such_overload()
    between = _text(separator[0]) if separator else ""
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {part}")
    bounded_text(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _quote(text: object) -> str:
    return f'"{_text(text).translate(_QUOTED)}"'


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "size": _size,
    "startsWith": _starts_with,
    "endsWith": _ends_with,
    "contains": _contains,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _lower,
    "upperAscii": _upper,
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": _trim,
    "join": _join,
    "strings.quote": _quote,
    "reverse": reverse,
}
