"""Printing as kubectl does: columns three blanks apart, nothing cut or wrapped; or names, or documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from regauge.cli.output import Format, plain, print_document

NONE = "<none>"
UNKNOWN = "<unknown>"
_GAP = 3


class ViewFormat(StrEnum):
    """What `-o` takes of a view."""

    table = "table"
    wide = "wide"
    name = "name"
    json = "json"
    yaml = "yaml"

    @property
    def is_table(self) -> bool:
        return self in (ViewFormat.table, ViewFormat.wide)


class TimelineFormat(StrEnum):
    """What `-o` takes of a timeline."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    svg = "svg"
    html = "html"


def print_columns(columns: Sequence[str], rows: Iterable[Sequence[str]], *, headers: bool = True) -> None:
    """A table on stdout."""
    shown = [[plain(cell).replace("\n", " ") for cell in row] for row in rows]
    lines = [list(columns), *shown] if headers else shown
    widths = column_widths(lines)
    for line in lines:
        print(aligned(line, widths))


def column_widths(lines: Iterable[Sequence[str]]) -> list[int]:
    """How wide each column is, with the gap behind it."""
    return [max(map(len, cells)) + _GAP for cells in zip(*lines)]


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line; a cell that is wider than its column pushes the others on."""
    return "".join(f"{cell}{' ' * max(width - len(cell), _GAP)}" for cell, width in zip(cells, widths)).rstrip()


def print_view_document(document: Any, output: ViewFormat | TimelineFormat) -> None:
    """One value as JSON or YAML."""
    print_document(document, Format.yaml if output.value == "yaml" else Format.json)


def shortened(text: str, length: int) -> str:
    """Text of one line, of at most this length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
