"""Reports as one HTML page that needs nothing beside it, or as Markdown, from the same blocks. Pure.

What a block holds is text, never markup: all of it is escaped here and nowhere else, and control characters become
visible. A page loads nothing and runs nothing, and says so to the browser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from regauge.base.drawing import Bars, Lanes, drawn_bars, drawn_lanes

TONES = frozenset(("", "good", "bad", "note"))
STYLE = """
:root{color-scheme:light dark;--line:#8886;--bad:#b91c1c;--good:#15803d;--note:#a16207}
@media(prefers-color-scheme:dark){:root{--bad:#f87171;--good:#4ade80;--note:#facc15}}
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1rem}
td,th{border-bottom:1px solid var(--line);padding:.15rem .7rem .15rem 0;text-align:left;vertical-align:top}
td{overflow-wrap:anywhere;min-width:3.5em}
section{border-top:2px solid var(--line);margin-top:2rem}
svg{display:block;font:11px system-ui,sans-serif}svg text{fill:currentColor}svg .bad{fill:var(--bad)}
.drawn,.wide{overflow-x:auto}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.note{color:var(--note)}
summary{cursor:pointer}.key{margin-right:1.2em;white-space:nowrap}.key svg{display:inline}
@media print{body{margin:0;max-width:none;font-size:11px}.drawn,.wide{overflow:visible}svg{max-width:100%;height:auto}
tr,svg{break-inside:avoid}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&#!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True)
class Word:
    """Text with a tone (`good`, `bad`, `note`), or a link to the block of an anchor on the same page."""

    text: str
    tone: str = ""
    link: str = ""


Line = str | Word | tuple[str | Word, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """A cell of several lines."""

    lines: tuple[Line, ...]


Cell = Line | Lines


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; of level 2 it begins a section that `anchor` names."""

    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    line: Line


@dataclass(frozen=True, slots=True)
class Items:
    """A list of lines."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are shown when somebody asks."""

    summary: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Items | Grid | Bars | Lanes | Folded


def as_html(title: str, blocks: Iterable[Block]) -> str:
    """A whole page: light and dark by what the reader has, fit to print."""
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{safe(title)}</title><style>{STYLE}</style></head><body>"
    )
    parts = [f"<h1>{safe(title)}</h1>"]
    open_ = False
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            parts.append(f"{'</section>' if open_ else ''}<section{_anchor(block.anchor)}>")
            open_ = True
        parts.append(_html(block))
    return head + "\n".join(parts) + ("</section>" if open_ else "") + "</body></html>\n"


def as_markdown(title: str, blocks: Iterable[Block]) -> str:
    """The same as Markdown; what is drawn is told as a table."""
    parts = [f"# {marked(title)}", *(_markdown(block) for block in blocks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def safe(text: str) -> str:
    """Text for HTML, between tags or in a quoted attribute."""
    return escape(visible(text), quote=True)


def marked(text: str) -> str:
    """Text for Markdown: nothing in it makes markup, and it stays on its line."""
    return _SPECIAL.sub(lambda found: _entity(found[0]), re.sub(r"\s+", " ", visible(text)))


def visible(text: str) -> str:
    """Text with its control characters written out, but for the ends of lines."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def _entity(char: str) -> str:
    return escape(char) if char in "<>&" else f"\\{char}"


# -- HTML


def _html(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{safe(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p>{_html_line(block.line)}</p>"
        case Items():
            return f"<ul>{''.join(f'<li>{_html_line(line)}</li>' for line in block.lines)}</ul>"
        case Grid():
            return _html_grid(block)
        case Bars():
            return drawn_bars(block, safe)
        case Lanes():
            return drawn_lanes(block, safe)
        case Folded():
            return f"<details><summary>{safe(block.summary)}</summary>{''.join(map(_html, block.blocks))}</details>"


def _html_grid(grid: Grid) -> str:
    head = "".join(f"<th>{safe(cell)}</th>" for cell in grid.columns)
    body = "".join(f"<tr>{''.join(f'<td>{_html_cell(cell)}</td>' for cell in row)}</tr>\n" for row in grid.rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _html_cell(cell: Cell) -> str:
    return "<br>".join(map(_html_line, cell.lines)) if isinstance(cell, Lines) else _html_line(cell)


def _html_line(line: Line) -> str:
    return "".join(_html_word(word) for word in _words(line))


def _html_word(word: Word) -> str:
    text = safe(word.text)
    if word.tone in TONES and word.tone:
        text = f'<span class="{word.tone}">{text}</span>'
    return f'<a href="#{safe(word.link)}">{text}</a>' if word.link else text


def _anchor(name: str) -> str:
    return f' id="{safe(name)}"' if name else ""


def _words(line: Line) -> Iterable[Word]:
    pieces = line if isinstance(line, tuple) else (line,)
    return (piece if isinstance(piece, Word) else Word(piece) for piece in pieces)


# -- Markdown


def _markdown(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {marked(block.text)}"
        case Paragraph():
            return _marked_line(block.line)
        case Items():
            return "\n".join(f"- {_marked_line(line)}" for line in block.lines)
        case Grid():
            return _marked_grid(block.columns, [[_marked_cell(cell) for cell in row] for row in block.rows])
        case Bars():
            rows = [[marked(bar.label), *(f"{bar.parts.get(name, 0):g}" for name in block.names)] for bar in block.bars]
            return _marked_grid((block.title, *block.names), rows)
        case Lanes():
            return ""
        case Folded():
            return "\n\n".join(map(_markdown, block.blocks))


def _marked_grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = f"| {' | '.join(map(marked, columns))} |\n|{' --- |' * len(columns)}"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])


def _marked_cell(cell: Cell) -> str:
    return "<br>".join(map(_marked_line, cell.lines)) if isinstance(cell, Lines) else _marked_line(cell)


def _marked_line(line: Line) -> str:
    return "".join(f"**{marked(word.text)}**" if word.tone == "bad" else marked(word.text) for word in _words(line))
