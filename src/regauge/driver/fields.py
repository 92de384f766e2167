"""Strict reading of a document: every field is asked for by name, and what nobody asked for is an error with its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regauge.base import InputError, Where

_TYPES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing",
}


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping of the document and where it stands."""

    value: Mapping[str, Any]
    where: Where

    @staticmethod
    def of(value: Any, where: Where) -> Fields:
        """Raises `InputError` when `value` is not a mapping."""
        line = getattr(value, "line", None)
        where = replace(where, line=line) if line is not None else where
        if not isinstance(value, dict):
            raise InputError(f"it is {type_name(value)} where a mapping is expected", where=where)
        return Fields(value, where)

    def at(self, field: str) -> Where:
        """The place of a field."""
        return replace(self.where, field=f"{self.where.field}.{field}" if self.where.field else field)

    def named(self, object_: str) -> Fields:
        """The same as an object of its own: places of fields count from here."""
        return replace(self, where=replace(self.where, object=object_, field=None))

    def only(self, *known: str) -> None:
        """Raises `InputError` for the first field that is not known, with the nearest known name."""
        for name in self.value:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1, 0.6)
                fix = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(known)}"
                raise InputError("there is no such field", where=self.at(name), fix=fix)

    def text(self, name: str, default: str | None = None) -> str:
        """Raises `InputError` when it is missing without a default, or not text."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise InputError(
                f"it is {type_name(value)} ({value}) where text is expected",
                where=self.at(name),
                fix="put it in quotes",
            )
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise InputError(f"it is {type_name(value)} where true or false is expected", where=self.at(name))
        return value

    def number(self, name: str, default: int | None) -> int | None:
        if self.value.get(name) is None:
            return default
        value = self.value[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"it is {type_name(value)} where a whole number is expected", where=self.at(name))
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when it is missing."""
        value = self._get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError("a list of texts is expected", where=self.at(name))
        return tuple(value)

    def numbers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers from 0 to 2^32-1; empty when it is missing."""
        value = self._get(name, [])
        if not isinstance(value, list) or not all(type(item) is int and 0 <= item < 2**32 for item in value):
            raise InputError("a list of whole numbers from 0 is expected", where=self.at(name))
        return tuple(value)

    def mapping(self, name: str) -> Fields:
        """A mapping below; empty when it is missing."""
        return Fields.of(self._get(name, {}), self.at(name))

    def mappings(self, name: str) -> Iterator[Fields]:
        """The mappings of a list below; none when it is missing."""
        value = self._get(name, [])
        if not isinstance(value, list):
            raise InputError(f"it is {type_name(value)} where a list is expected", where=self.at(name))
        for index, item in enumerate(value):
            yield Fields.of(item, self.at(f"{name}[{index}]"))

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        value = self.text(name, default)
        if value not in choices:
            near = difflib.get_close_matches(value, choices, 1, 0.5)
            fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(choices)}"
            raise InputError(f"{value!r} is not known", where=self.at(name), fix=fix)
        return value

    def wrong(self, name: str, what: str, fix: str | None = None) -> InputError:
        """An error about a field, to raise."""
        return InputError(what, where=self.at(name), fix=fix)

    def _get(self, name: str, default: Any) -> Any:
        value = self.value.get(name)
        if value is not None:
            return value
        if default is None:
            raise InputError("it is missing", where=self.at(name), fix=f"add {name}")
        return default


def type_name(value: Any) -> str:
    """The type of a JSON value, for people."""
    return _TYPES.get(type(value)) or next((text for kind, text in _TYPES.items() if isinstance(value, kind)), "odd")
