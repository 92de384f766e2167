"""The plot of a forecast: devices used and free of each pool, before and after, in the terminal or as an SVG file."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, NamedTuple

from regauge.cli.output import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table
    from rich.text import Text

    from regauge.scheduler import WhatIf

BAR = 24
WIDTH = 140
MOST_ROWS = 1_000
USED, FREE = "█", "░"
NONE = "-"


class Row(NamedTuple):
    """A pool, several together, or a counted resource. `before` and `after`: used and all devices; None: not there."""

    name: str
    before: tuple[int, int] | None
    after: tuple[int, int] | None
    tainted: int | None

    @property
    def changed(self) -> bool:
        return self.before != self.after


def rows(found: WhatIf) -> list[Row]:
    """A row for each pool and each counted resource, those that change first; with several pools of a driver their sum."""
    old = {(one.driver, one.pool): (one.used, one.devices) for one in found.before.pools}
    new = {(one.driver, one.pool): (one.used, one.devices) for one in found.after.pools}
    tainted = {(one.driver, one.pool): one.tainted for one in found.after.pools}
    pools = [Row("/".join(key), old.get(key), new.get(key), tainted.get(key)) for key in sorted({*old, *new})]
    sums = [
        Row(f"{driver}: {len(keys)} pools", _sum(old, keys), _sum(new, keys), sum(tainted.get(key, 0) for key in keys))
        for driver, keys in _by_driver((*old, *new)).items()
        if len(keys) > 1
    ]
    was = {one.resource: (one.used, one.devices) for one in found.before.counted}
    now = {one.resource: (one.used, one.devices) for one in found.after.counted}
    counted = [Row(f"{name} (counted)", was.get(name), now.get(name), None) for name in sorted({*was, *now})]
    return [*sums, *sorted((*pools, *counted), key=lambda one: not one.changed)]


def _by_driver(keys: Iterable[tuple[str, str]]) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    for key in keys:
        found.setdefault(key[0], set()).add(key)
    return found


def _sum(use: dict[tuple[str, str], tuple[int, int]], keys: set[tuple[str, str]]) -> tuple[int, int]:
    there = [use[key] for key in keys if key in use]
    return sum(used for used, _ in there), sum(total for _, total in there)


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """The row as text."""
    free = NONE if row.after is None else str(row.after[1] - row.after[0])
    after = bar(row.after) if row.changed or row.before is None else "same"
    return row.name, bar(row.before), after, free, NONE if row.tainted is None else str(row.tainted)


def bar(use: tuple[int, int] | None) -> str:
    """A bar of fixed width, and the numbers: what is used of a total."""
    if use is None:
        return "not there"
    used, total = use
    filled = min(BAR, -(-BAR * used // total)) if total > 0 and used > 0 else 0
    return f"{USED * filled}{FREE * (BAR - filled)} {used}/{total}"


def svg(found: WhatIf, title: str) -> bytes:
    """The plot as an SVG file, of at most a thousand rows; it refers to nothing outside of itself."""
    from rich.console import Console

    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    everything = rows(found)
    console.print(_table(everything[:MOST_ROWS]))
    if len(everything) > MOST_ROWS:
        console.print(f"and {len(everything) - MOST_ROWS} more")
    drawn = console.export_svg(title=plain(title), unique_id="plot")
    # Without the fonts that the library would have browsers fetch from elsewhere.
    return re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).encode()


def _table(shown: Iterable[Row]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("POOL", "BEFORE", "AFTER", "FREE", "TAINTED"):
        table.add_column(column, overflow="fold")
    for row in shown:
        name, before, after, free, tainted = cells(row)
        table.add_row(plain(name), _coloured(before), _coloured(after), free, tainted)
    return table


def _coloured(text: str) -> Text:
    from rich.text import Text

    found = Text(text)
    found.highlight_regex(f"{USED}+", "dark_orange")
    found.highlight_regex(f"{FREE}+", "green")
    return found
