"""The error tree. Errors are for invalid input, transient trouble and our own bugs.

"Does not fit" and the like are not errors: they are values with reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Where:
    """The place an error is about. Every part is optional; `line` counts from 1."""

    file: str | None = None
    line: int | None = None
    object: str | None = None
    field: str | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if self.file and self.line is not None:
            place = f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.object or "", self.field or "") if part)


class RegaugeError(Exception):
    """Everything regauge raises on purpose."""

    exit_code = 2


class InputError(RegaugeError):
    """The input is wrong. Says where, what is wrong, and what to do about it."""

    exit_code = 2

    def __init__(self, what: str, *, where: Where | None = None, fix: str | None = None) -> None:
        self.what = what
        self.where = where or Where()
        self.fix = fix
        super().__init__(str(self))

    def __str__(self) -> str:
        place = str(self.where)
        text = f"{place}: {self.what}" if place else self.what
        return f"{text} ({self.fix})" if self.fix else text

    def at(self, *, file: str | None = None, line: int | None = None, object: str | None = None) -> InputError:
        """The same error with the outer parts of its place filled in where they were unknown."""
        where = replace(
            self.where,
            file=self.where.file or file,
            line=self.where.line if self.where.line is not None else line,
            object=self.where.object or object,
        )
        return type(self)(self.what, where=where, fix=self.fix)


class TransientError(RegaugeError):
    """Trouble that may pass: a refused connection, a time-out, a server that is busy. Trying again may help."""

    exit_code = 3


class BugError(RegaugeError):
    """regauge broke a promise to itself. Carries what is needed to report it."""

    exit_code = 3
