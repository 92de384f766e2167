"""What the page shows, as tables of rows by name, and what differs between two of them. Pure.

A row is a JSON object. A delta holds the rows that are new or other, and the names of those that went: applied to what a
reader has, it gives exactly what the server has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Row = Mapping[str, Any]
Table = Mapping[str, Row]
Tables = Mapping[str, Table]


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """From one state of the tables to the next."""

    put: dict[str, dict[str, Row]] = {}
    gone: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


def delta_between(old: Tables, new: Tables) -> Delta:
    """What leads from `old` to `new`. A table that `new` does not have has gone with all its rows."""
    put: dict[str, dict[str, Row]] = {}
    gone: dict[str, list[str]] = {}
    for name in old.keys() | new.keys():
        before, after = old.get(name, {}), new.get(name, {})
        if before is after:
            continue
        changed = {key: row for key, row in after.items() if (known := before.get(key)) is not row and known != row}
        removed = sorted(before.keys() - after.keys())
        if changed:
            put[name] = changed
        if removed:
            gone[name] = removed
    return Delta(put, gone)


def applied(tables: Tables, delta: Delta) -> dict[str, dict[str, Row]]:
    """The tables after a delta. Tables without rows are left out, as if they had never been."""
    after = {name: dict(table) for name, table in tables.items()}
    for name, keys in delta.gone.items():
        for key in keys:
            after.get(name, {}).pop(key, None)
    for name, rows in delta.put.items():
        after.setdefault(name, {}).update(rows)
    return {name: table for name, table in after.items() if table}
