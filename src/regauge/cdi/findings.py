"""What is wrong, or odd, about a CDI spec, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regauge.base import InputError, Where

Severity = Literal["error", "warning", "note"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a spec file. `code` is stable; `line` counts from 1; `path` leads from the top of the file.

    An error means that runtimes refuse the file, a warning that some do or that it will not do what it seems to say,
    a note that it could be better.
    """

    code: str
    what: str
    path: Path = ()
    fix: str | None = None
    severity: Severity = "error"
    file: str | None = None
    line: int | None = None

    @property
    def where(self) -> Where:
        """The place, for people."""
        return Where(file=self.file, line=self.line, field=field_text(self.path) or None)

    def error(self) -> InputError:
        """The finding as an error to raise."""
        return InputError(self.what, where=self.where, fix=self.fix)

    def __str__(self) -> str:
        return str(self.error())


def field_text(path: Path) -> str:
    """`("devices", 0, "name")` as "devices[0].name"."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
