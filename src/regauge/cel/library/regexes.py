"""Regular expressions: RE2's syntax, and like RE2 in linear time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

import re2

from regauge.cel.errors import EvaluationError, no_such_overload

MAX_MATCHES = 100_000


class _Match(Protocol):
    def group(self) -> str: ...

    def start(self) -> int: ...

    def end(self) -> int: ...


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> _Match | None: ...

    def finditer(self, text: str) -> list[_Match]: ...


def _options() -> object:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    return options


_OPTIONS = _options()


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """The compiled pattern. Raises `EvaluationError` when it is none."""
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS)
        return compiled
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else error
        raise EvaluationError(f"error parsing regexp: {reason}: `{pattern}`") from None


def _text(value: object) -> str:
    if type(value) is not str:
        raise no_such_overload()
    return value


def _matches(text: object, pattern: object) -> bool:
    return compile_pattern(_text(pattern)).search(_text(text)) is not None


def _find(text: object, pattern: object) -> str:
    match = compile_pattern(_text(pattern)).search(_text(text))
    return match.group() if match else ""


def _find_all(text: object, pattern: object, *limit: object) -> tuple[str, ...]:
    count = limit[0] if limit else -1
    if type(count) is not int:
        raise no_such_overload()
    found: list[str] = []
    previous_end = -1
    for match in compile_pattern(_text(pattern)).finditer(_text(text)):
        if 0 <= count <= len(found) or len(found) >= MAX_MATCHES:
            break
        if match.start() == match.end() == previous_end:
            continue
        found.append(match.group())
        previous_end = match.end()
    return tuple(found)


FUNCTIONS: Mapping[str, Callable[..., object]] = {"matches": _matches, "find": _find, "findAll": _find_all}
