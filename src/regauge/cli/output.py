"""Printing: tables for people, JSON for programs. Data goes to stdout, everything said beside it to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from regauge.base import pretty_json

if TYPE_CHECKING:
    from regauge.base.pages import Block

PIPE_WIDTH = 240


class Format(StrEnum):
    """What `-o` takes."""

    table = "table"
    json = "json"
    yaml = "yaml"


class ReportFormat(StrEnum):
    """What `-o` takes where there is a report for people to pass on."""

    table = "table"
    json = "json"
    yaml = "yaml"
    html = "html"
    markdown = "markdown"


def print_report(title: str, blocks: Iterable[Block], output: ReportFormat) -> None:
    """A report on stdout: one page of HTML, or Markdown."""
    from regauge.base.pages import as_html, as_markdown

    print((as_html if output is ReportFormat.html else as_markdown)(title, blocks), end="")


def print_document(document: Any, output: Format | ReportFormat) -> None:
    """One JSON value as JSON or YAML."""
    if output.value == Format.yaml.value:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), end="")
    else:
        print(pretty_json(document))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """A table on stdout: as wide as the terminal, or never cut when stdout is a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    table = Table(box=None, pad_edge=False, title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def plain(text: str) -> str:
    """Text from an input made safe for a terminal: control characters become visible."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def say(text: str = "") -> None:
    """A line beside the data, made safe for a terminal."""
    print(plain(text), file=sys.stderr)


def tell(text: str = "") -> None:
    """A line of the data, made safe for a terminal."""
    print(plain(text))


def write_file(path: str, text: str) -> None:
    """Write a file in one step. Raises `InputError` where it cannot be."""
    from pathlib import Path

    from regauge.base import InputError
    from regauge.host import RealFiles

    try:
        RealFiles().write(str(Path(path).absolute()), text.encode())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", fix="choose another place") from None
